package live

import (
	"context"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// State is the state of a session's last turn. "" is the state of a session without a turn.
type State string

// The states of a turn. Running and CutOff are the states of an open turn. The others are equal to the [session.Status]
// of the same name.
const (
	// Running: a process works on the turn.
	Running State = "running"
	// Waiting: the turn is paused. It waits for decisions about calls, or for something external.
	Waiting State = "waiting"
	// CutOff: the turn was interrupted. It has not ended, and no process works on it. A caller can resume it, and a
	// process adopts it when a client follows it.
	CutOff State = "cut_off"
	// Done: the turn ended with an answer.
	Done State = "done"
	// Failed: the turn ended with an error or at a limit.
	Failed State = "failed"
	// Canceled: a client or the user canceled the turn.
	Canceled State = "canceled"
)

// Status is the state of a session, for a page that was just opened.
type Status struct {
	State State
	// Seq is the position of the last event of the log. A client that follows the session from there misses no event.
	Seq int64
	// Turn is the id of the last turn.
	Turn string
	// Agent is the agent that would answer the next message. It is "" if the session's part of the tree no longer
	// exists.
	Agent string
	// Pending are the open questions.
	Pending []*event.Relay
}

// Look returns the state of a session. A session that does not exist has the zero state.
func (l *logs) Look(ctx context.Context, key session.Key) (s Status, err error) {
	run, gone := l.RunnerOf(key)
	if gone != nil {
		run = l.Runner()
	}
	for tries := 1; ; tries++ {
		stopped := false
		err := run.ReadFold(ctx, key, func(f *session.Fold) error {
			s = Status{State: stateOf(f), Seq: f.Seq, Turn: f.Turn.ID, Pending: f.Questions()}
			stopped = f.Stopped()
			if gone == nil {
				s.Agent = run.Next(f).Agent.Name()
			}
			return nil
		})
		if err != nil || s.State != CutOff || stopped {
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

// works reports whether a process works on a turn that the log leaves open at a position, and whether the log has
// grown since.
func (l *logs) works(ctx context.Context, key session.Key, seq int64) (works, moved bool, err error) {
	if len(l.runningTurns(key)) > 0 {
		return true, false, nil
	}
	info, _, err := session.Find(ctx, l.store, key)
	return info.Leased, info.Seq != seq, err
}

// stateOf returns the state of the last turn by the log alone. For an open turn it returns CutOff.
func stateOf(f *session.Fold) State {
	if s := f.Status(); s != session.StatusOpen {
		return State(s)
	}
	return CutOff
}
