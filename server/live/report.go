package live

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// ErrNoTurn reports that a session has no turn with the given id, or no turn at all.
var ErrNoTurn = errors.New("the session has no such turn")

// Report is the outcome of a turn so far. The zero value is ready for the first event of a turn. A caller that
// follows a turn updates it with [Report.Apply]. It is not safe for concurrent use.
type Report struct {
	runner.Result
	// ID is the id of the turn.
	ID string
	// First is the position of the user's message, and Seq that of the last event of the turn.
	First, Seq int64
	State      State
	User       *event.User
	// Began is the time at which the message was stored, and Changed the time of the last event.
	Began, Changed time.Time
	// Failure is the error that ended the turn, or nil.
	Failure *event.Failure

	fold    session.Fold // the fold of this turn only
	decided []*event.Event
}

// Questions returns the events of the open questions. The payload of each is an [event.Relay].
func (r *Report) Questions() []*event.Event { return r.Log.Questions }

// Decisions returns the events of the answers to questions. The payload of each is an [event.RelayResolved].
func (r *Report) Decisions() []*event.Event { return r.decided }

// Rests reports whether the turn has ended or waits: no event follows until a user, a person or another system acts.
func (r *Report) Rests() bool { return r.State != Running && r.State != CutOff }

// Apply updates the report with the next event of the turn. The first one is the user's message. Apply ignores
// partial events and events that it has applied.
func (r *Report) Apply(e *event.Event) {
	if e.Partial || e.Seq <= r.Seq {
		return
	}
	if r.Seq, r.Changed = e.Seq, e.Time; r.ID == "" {
		r.ID, r.First, r.Began = e.TurnID, e.Seq, e.Time
	}
	r.Result.Apply(e)
	r.fold.Apply(e)
	switch d := e.Data.(type) {
	case *event.User:
		r.User = d
	case *event.RelayResolved:
		r.decided = append(r.decided, e)
	case *event.Failure:
		if e.Scope == "" {
			r.Failure = d
		}
	case *event.HarnessStart:
		if e.Scope == "" { // the turn continues after the error
			r.Failure = nil
		}
	}
	if r.State = stateOf(&r.fold); r.State == CutOff {
		r.State = Running
	}
}

// logs reads the state of turns from the logs of sessions, and asks the registry which of them run.
type logs struct {
	registry
	store    Store
	deciders Deciders
	resume   func(*event.User) bool // of WithAutoResume
}

// Report returns the outcome of the turn with an id; "" is the last turn. If the session has no such turn, the error
// is [ErrNoTurn]. Report reads the turn, and for an earlier turn the log before it up to the turn.
func (l *logs) Report(ctx context.Context, key session.Key, turn string) (*Report, error) {
	for tries := 1; ; tries++ {
		first, err := l.find(ctx, key, turn)
		if err != nil {
			return nil, err
		}
		r := &Report{}
		last, err := l.report(ctx, key, first, r.Apply)
		switch {
		case err != nil:
			return nil, err
		case r.ID == "": // the session was deleted meanwhile
			return nil, ErrNoTurn
		case !last && (r.State == Running || r.State == Waiting): // a new message ended the turn
			r.State = Canceled
		case r.fold.Stopped(): // its process may not have released the session yet
			r.State = CutOff
		case r.State == Running:
			works, moved, err := l.works(ctx, key, r.Seq)
			switch {
			case err != nil:
				return nil, err
			case !works && moved && tries < 3:
				continue
			case !works:
				r.State = CutOff
			}
		}
		return r, nil
	}
}

// Reports yields the outcomes of the turns of a session that start before a position, newest first. 0 starts at the
// end of the log.
func (l *logs) Reports(ctx context.Context, key session.Key, before int64) iter.Seq2[*Report, error] {
	return func(yield func(*Report, error) bool) {
		var events []*event.Event // the events of one turn, newest first
		for e, err := range session.Backward(ctx, l.store, key, before) {
			r := &Report{}
			if err == nil {
				events = append(events, e)
				if _, begins := e.Data.(*event.User); !begins {
					continue
				}
				for _, e := range slices.Backward(events) {
					r.Apply(e)
				}
				events = events[:0]
				if r.State == Running || r.State == Waiting { // or nobody works on it, or something else was said
					r, err = l.Report(ctx, key, r.ID)
				}
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// report calls apply with the events of the turn that starts at the position first, and reports whether it is the
// last turn.
func (l *logs) report(ctx context.Context, key session.Key, first int64, apply func(*event.Event)) (last bool, err error) {
	id := ""
	for e, err := range l.store.Load(ctx, key, first-1) {
		if err != nil {
			return false, err
		}
		if id == "" {
			id = e.TurnID
		}
		if e.TurnID != id {
			return false, nil
		}
		apply(e)
	}
	return true, nil
}

// find returns the position of the message that started a turn; "" is the last turn.
func (l *logs) find(ctx context.Context, key session.Key, turn string) (first int64, err error) {
	var id string
	err = l.reader(key).ReadFold(ctx, key, func(f *session.Fold) error {
		id, first = f.Turn.ID, f.Turn.First
		return nil
	})
	if err != nil || id != "" && (turn == "" || turn == id) {
		return first, err
	}
	if id != "" {
		for e, err := range session.Backward(ctx, l.store, key, first) {
			if err != nil {
				return 0, err
			}
			if _, begins := e.Data.(*event.User); begins && turn == e.TurnID {
				return e.Seq, nil
			}
		}
	}
	return 0, ErrNoTurn
}
