package live

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// ErrStopped is the end of a turn that was stopped, for those who watch it. It is an
// agent.ErrSuspended: the turn can be resumed.
var ErrStopped = fmt.Errorf("the turn was stopped: %w", agent.ErrSuspended)

// Watch yields the entries of one turn after a given one, until the turn is over or waits. The position of
// the message that started the turn names it. "" is the turn's beginning. The sequence ends without an
// error, and is empty if there is nothing more to see; otherwise the last error is that of [Turns.Follow],
// or [ErrStopped].
func (t *Turns) Watch(ctx context.Context, key session.Key, first int64, after string) iter.Seq2[session.Entry, error] {
	return func(yield func(session.Entry, error) bool) {
		from, err := session.ParsePosition(after)
		if err != nil {
			yield(session.Entry{}, err)
			return
		}
		if from.Seq < first {
			from = session.Position{Seq: first - 1}
		}
		following, cancel := context.WithCancelCause(ctx)
		defer t.watching(key, cancel, true)()
		// What is stored now says where the turn stands; those who follow it may be behind.
		var seen, now Report
		last, err := t.report(ctx, key, first, func(e *event.Event) {
			if now.Apply(e); e.Seq <= from.Seq {
				seen.Apply(e)
			}
		})
		rests := func() bool { return seen.Seq >= now.Seq && (!last || seen.State != Running) }
		switch {
		case err == nil && now.ID == "":
			err = ErrNoTurn
		case err == nil && from.Seq >= now.Seq && (!last || now.State != Running):
			return
		}
		if err != nil {
			yield(session.Entry{}, err)
			return
		}
		for entry, err := range t.Follow(following, key, from.String()) {
			switch {
			case errors.Is(err, ErrStopped):
				t.rest(ctx, key, &seen, now.ID, from.Seq, yield)
				return
			case err == nil && entry.Event.TurnID != now.ID && entry.Event.TurnID != "": // "" is of no turn
				return
			case !yield(entry, err) || err != nil:
				return
			}
			if seen.Apply(entry.Event); !entry.Event.Partial {
				from.Seq = entry.Event.Seq
				if rests() {
					return
				}
			}
		}
	}
}

// rest yields what a turn that was stopped has stored after a position, and that it was stopped
// unless it has come to rest.
func (t *Turns) rest(ctx context.Context, key session.Key, seen *Report, turn string, after int64, yield func(session.Entry, error) bool) {
	for e, err := range t.store.Load(ctx, key, after) {
		switch {
		case err != nil:
			yield(session.Entry{}, err)
			return
		case e.TurnID != turn:
			return
		case !yield(session.Entry{ID: session.Position{Seq: e.Seq}.String(), Event: e}, nil):
			return
		}
		seen.Apply(e)
	}
	if seen.State == Running {
		yield(session.Entry{}, ErrStopped)
	}
}

// OnStop registers a function that is called in a goroutine of its own when a turn of the session is
// stopped here, until leave is called. Stopping stores no event, so that followers of the session would not
// see it.
func (t *Turns) OnStop(key session.Key, stopped func()) (leave func()) {
	return t.watching(key, func(cause error) {
		if cause != nil {
			go stopped()
		}
	}, false)
}

// watching notes who is to hear when the session's turn is stopped, until leave is called. If it
// is they hear at once. They count if a turn whose client has gone is left alone for them.
func (t *Turns) watching(key session.Key, cancel context.CancelCauseFunc, counts bool) (leave func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.watchers[key] == nil {
		t.watchers[key] = make(map[*context.CancelCauseFunc]bool)
	}
	t.watchers[key][&cancel] = counts
	if _, stopped := t.stopped[key]; stopped && len(t.running[key]) == 0 {
		cancel(ErrStopped)
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if delete(t.watchers[key], &cancel); len(t.watchers[key]) == 0 {
			delete(t.watchers, key)
		}
		cancel(nil)
	}
}
