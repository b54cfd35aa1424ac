package runner

import (
	"errors"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/session"
)

// outage cancels the turn if the store could not do what it was asked for, and returns the error as
// [session.ErrUnavailable]. Then the failure is nobody's in the log: no agent is blamed for it, no tool result or error
// handler answers it, and who resumes the turn goes on where the log ends. What the store has refused, because of what it
// was asked or because the session is another's, is no outage.
func (t *turn) outage(err error) error {
	if t.unleased || errors.Is(err, agent.ErrConflict) || errors.Is(err, agent.ErrBadInput) || errors.Is(err, agent.ErrSessionBusy) {
		return err
	}
	err = session.Unavailable(err)
	t.cancel(err)
	return err
}
