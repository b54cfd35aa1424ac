package rows

import (
	"context"
	"errors"
	"fmt"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/session"
)

// Passes reports whether a store returns an error to callers unchanged, because it does not concern the database. It
// returns true for nil.
func Passes(err error) bool {
	for _, as := range [...]error{nil, agent.ErrConflict, agent.ErrSessionBusy, agent.ErrBadInput, agent.ErrNoFile, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, as) {
			return true
		}
	}
	return false
}

// Explain returns the error that callers get when a database fails. It says where the store failed, what to do, and
// the cause. It is [session.ErrUnavailable].
func Explain(where, advice string, err error) error {
	if advice != "" {
		where += ": " + advice
	}
	return session.Unavailable(fmt.Errorf("%s: %w", where, err))
}
