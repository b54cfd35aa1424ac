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

// ErrNoTurn says that a session has no such turn.
var ErrNoTurn = errors.New("the session has no such turn")

// Report is the outcome of a turn so far. The zero value has seen no event. A caller that follows a turn
// updates it with [Report.Apply].
type Report struct {
	runner.Result
	// ID is the turn's.
	ID string
	// First is the position of the user's words, and Seq that of the last event of the turn.
	First, Seq int64
	State      State
	User       *event.User
	// Began is when the words were stored, and Changed when the last event was.
	Began, Changed time.Time
	// Failure is what ended the turn, if something did.
	Failure *event.Failure

	fold    session.Fold // of the turn alone
	decided []*event.Event
}

// Questions are the events of the pending questions, the [event.Relay] of each with who asks it.
func (r *Report) Questions() []*event.Event { return r.Log.Questions }

// Decisions are the events of the answers to questions, the [event.RelayResolved] of each.
func (r *Report) Decisions() []*event.Event { return r.decided }

// Rests reports whether the turn is over or waits: no event follows until a user, a person or another system acts.
func (r *Report) Rests() bool { return r.State != Running && r.State != CutOff }

// Apply updates the report with the next event of the turn, the user's message first. Deltas change
// nothing.
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
		if e.Scope == "" { // it goes on after a transfer, or anew
			r.Failure = nil
		}
	}
	if r.State = stateOf(&r.fold); r.State == CutOff {
		r.State = Running
	}
}

// logs reads what the logs of sessions say of their turns, and asks the registry who works on them.
type logs struct {
	registry
	store    Store
	deciders Deciders
}

// Report returns the outcome of a turn; "" is the last one. It returns [ErrNoTurn] if the session has no
// turn of that id. It reads the turn and everything after it, or only the last turn.
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
		case r.ID == "": // it was deleted meanwhile
			return nil, ErrNoTurn
		case !last && (r.State == Running || r.State == Waiting): // something else was said
			r.State = Canceled
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

// Reports yields the outcomes of the turns of a session that start before a position, newest first.
func (l *logs) Reports(ctx context.Context, key session.Key, before int64) iter.Seq2[*Report, error] {
	return func(yield func(*Report, error) bool) {
		var events []*event.Event // of one turn, newest first
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

// report gives the events of a turn to a function, and reports whether it is the last one. The
// turn is named by the position of its first event.
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

// find returns the position of the words that began a turn, "" being the last one.
func (l *logs) find(ctx context.Context, key session.Key, turn string) (first int64, err error) {
	var id string
	err = l.reader(key).Glance(ctx, key, func(f *session.Fold) error {
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
