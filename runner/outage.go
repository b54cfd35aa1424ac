package runner

import (
	"errors"

	"github.com/agentarbor/arbor/agent"
)

// outage is an error of the store. It cancels the turn, so that it is nobody's failure in the log: no agent is blamed for
// it, no tool result or error handler answers it, and who resumes the turn goes on where the log ends.
type outage struct{ error }

func (o *outage) Unwrap() error { return o.error }

// outage ends the turn if the store could not do what it was asked for. What it has refused, because of what it was asked
// or because the session is another's, is no outage.
func (t *turn) outage(err error) error {
	switch {
	case t.unleased, errors.Is(err, agent.ErrConflict), errors.Is(err, agent.ErrBadInput), errors.Is(err, agent.ErrSessionBusy):
		return err
	}
	err = &outage{err}
	t.cancel(err)
	return err
}
