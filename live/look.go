package live

import (
	"context"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// State says how a session's last turn stands. "" is that of a session without a turn.
type State string

// The states of a turn.
const (
	// Running: this process works on it.
	Running State = "running"
	// Waiting: for decisions about calls, or for something that is done elsewhere.
	Waiting State = "waiting"
	// CutOff: it has not ended, and this process does not work on it. Perhaps another one does;
	// else it can be resumed, and is taken up when somebody follows it.
	CutOff State = "cut_off"
	// Done: it was answered.
	Done State = "done"
	// Failed: with an error, or because of a limit.
	Failed State = "failed"
	// Canceled: somebody ended it.
	Canceled State = "canceled"
)

// Status is how a session stands, for a page that was opened anew.
type Status struct {
	State State
	// Seq is where the log ends. Who follows the session from there misses nothing.
	Seq int64
	// Turn is the id of the last turn.
	Turn string
	// Agent is who would answer the next message.
	Agent string
	// Pending are the calls that wait for a decision.
	Pending []*event.Relay
}

// Look returns how a session stands. A session that does not exist has the zero state.
func (t *Turns) Look(ctx context.Context, key session.Key) (Status, error) {
	working := len(t.here(key)) > 0
	var f session.Fold
	if err := t.read(ctx, key, &f); err != nil {
		return Status{}, err
	}
	s := Status{State: stateOf(&f), Seq: f.Seq, Turn: f.Turn.ID}
	if s.State == CutOff && (working || len(t.here(key)) > 0) { // then it has ended, or begun, meanwhile
		s.State = Running
	}
	var err error
	if s.Agent, err = t.Runner().Active(ctx, key); err != nil {
		return Status{}, err
	}
	s.Pending = f.Questions()
	return s, nil
}

// stateOf is what the log says of the last turn.
func stateOf(f *session.Fold) State {
	switch {
	case f.Turn.ID == "":
		return ""
	case f.Unfinished():
		return CutOff
	case f.Paused(), f.Waits():
		return Waiting
	}
	switch f.Scope("").Run.Finish {
	case event.FinishReasonCanceled:
		return Canceled
	case event.FinishReasonError, event.FinishReasonLimit:
		return Failed
	}
	return Done
}
