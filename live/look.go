package live

import (
	"context"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// State is the state of a session's last turn. "" is the state of a session without a turn.
type State string

// The states of a turn. Each is the [session.Status] of the same name, but for the two of an open turn.
const (
	// Running: somebody works on it, here or in another process.
	Running State = "running"
	// Waiting: for decisions about calls, or for something that is done elsewhere.
	Waiting State = "waiting"
	// CutOff: it has not ended, and nobody works on it. It can be resumed, and is taken up when
	// somebody follows it.
	CutOff State = "cut_off"
	// Done: it was answered.
	Done State = "done"
	// Failed: with an error, or because of a limit.
	Failed State = "failed"
	// Canceled: somebody ended it.
	Canceled State = "canceled"
)

// Status is the state of a session, for a page that was just opened.
type Status struct {
	State State
	// Seq is where the log ends. Who follows the session from there misses nothing.
	Seq int64
	// Turn is the id of the last turn.
	Turn string
	// Agent is who would answer the next message, "" if the session's part of the tree is gone.
	Agent string
	// Pending are the calls that wait for a decision.
	Pending []*event.Relay
}

// Look returns the state of a session. A session that does not exist has the zero state.
func (l *logs) Look(ctx context.Context, key session.Key) (s Status, err error) {
	run, gone := l.RunnerOf(key)
	if gone != nil {
		run = l.Runner()
	}
	for tries := 1; ; tries++ {
		err := run.Glance(ctx, key, func(f *session.Fold) error {
			s = Status{State: stateOf(f), Seq: f.Seq, Turn: f.Turn.ID, Pending: f.Questions()}
			if gone == nil {
				s.Agent = run.Next(f).Agent.Name()
			}
			return nil
		})
		if err != nil || s.State != CutOff {
			return s, err
		}
		works, moved, err := l.works(ctx, key, s.Seq)
		if works {
			s.State = Running
		}
		if err != nil || works || !moved || tries == 3 {
			return s, err
		}
	}
}

// works reports whether somebody works on a turn that the log leaves open at a position, here or
// in another process, and whether the log has gone on since.
func (l *logs) works(ctx context.Context, key session.Key, seq int64) (works, moved bool, err error) {
	if len(l.here(key)) > 0 {
		return true, false, nil
	}
	info, _, err := session.Find(ctx, l.store, key)
	return info.Leased, info.Seq != seq, err
}

// stateOf is what the log says of the last turn.
func stateOf(f *session.Fold) State {
	if s := f.Status(); s != session.StatusOpen {
		return State(s)
	}
	return CutOff
}
