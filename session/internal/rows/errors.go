package rows

import (
	"context"
	"errors"
	"fmt"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/session"
)

// Passes reports whether callers see an error as it is, because it says nothing about the database. nil is one of them.
func Passes(err error) bool {
	for _, as := range [...]error{nil, agent.ErrConflict, agent.ErrSessionBusy, agent.ErrBadInput, agent.ErrNoFile, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, as) {
			return true
		}
	}
	return false
}

// Explain makes the one error that callers see of what went wrong with a database: where and at what, and what to do. It is
// [session.ErrUnavailable].
func Explain(where, advice string, err error) error {
	if advice != "" {
		where += ": " + advice
	}
	return session.Unavailable(fmt.Errorf("%s: %w", where, err))
}
