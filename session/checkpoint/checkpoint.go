package checkpoint

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/session"
)

// Sessions gives access to the past of a store's sessions. It is safe for concurrent use, also while turns run.
type Sessions struct {
	store session.Store
	now   func() time.Time
	newID func() string

	repeatable bool
}

// Option configures [Sessions].
type Option func(*Sessions)

// WithClock sets the clock for the times of new events.
// Defaults to time.Now.
func WithClock(now func() time.Time) Option { return func(s *Sessions) { s.now = now } }

// WithIDs sets the source of ids for new events. It must be safe for concurrent use.
// Defaults to random ids.
func WithIDs(newID func() string) Option { return func(s *Sessions) { s.newID = newID } }

// New returns the sessions of a store. The error is a nil argument.
func New(store session.Store, opts ...Option) (*Sessions, error) {
	s := &Sessions{store: store, now: time.Now, newID: func() string { return strings.ToLower(rand.Text()[:12]) }}
	if err := option.Apply(s, opts); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	if store == nil || s.now == nil || s.newID == nil {
		return nil, errors.New("checkpoint: the store, the clock or the source of ids is nil")
	}
	return s, nil
}

// Checkpoint is a position at which a write of a session's log ended, or one right before or after a user message.
type Checkpoint struct {
	// Seq is the position of the checkpoint's last event.
	Seq int64
	// Time is the time of the last event.
	Time time.Time
	// Active is the active agent at the checkpoint: the target of the last transfer or handoff, or "" for the root
	// before the first.
	Active string
	// Events are the events since the previous checkpoint.
	Events []*event.Event
}

// History yields the checkpoints of a session, oldest first. A session that does not exist has none.
func (s *Sessions) History(ctx context.Context, key session.Key) iter.Seq2[Checkpoint, error] {
	return func(yield func(Checkpoint, error) bool) {
		var c Checkpoint
		var fold session.Fold
		for e, err := range s.store.Load(ctx, key, 0) {
			if err != nil {
				yield(Checkpoint{}, err)
				return
			}
			if n := len(c.Events); n > 0 && between(c.Events[n-1], e) {
				c.Active = fold.Scope("").Active
				if !yield(c, nil) {
					return
				}
				c.Events = nil
			}
			fold.Apply(e)
			c.Seq, c.Time, c.Events = e.Seq, e.Time, append(c.Events, e)
		}
		if len(c.Events) > 0 {
			c.Active = fold.Scope("").Active
			yield(c, nil)
		}
	}
}

// between reports whether there is a checkpoint between two events of a log.
func between(e, next *event.Event) bool {
	return e.Type() == event.TypeUser || next.Type() == event.TypeUser || !e.Time.Equal(next.Time)
}

// check returns an error if a session has no checkpoint at a position. It reads two events, regardless of the length
// of the log.
func (s *Sessions) check(ctx context.Context, key session.Key, seq int64) error {
	if seq == 0 {
		return nil
	}
	var at *event.Event
	for e, err := range s.store.Load(ctx, key, seq-1) {
		switch {
		case err != nil:
			return err
		case at == nil:
			at = e
			continue
		case !between(at, e):
			return s.insideStep(ctx, key, seq)
		}
		return nil
	}
	if at == nil || seq < 0 {
		return noPosition(key, seq)
	}
	return nil
}

func noPosition(key session.Key, seq int64) error {
	return fmt.Errorf("session %s has no position %d: %w", key, seq, agent.ErrBadInput)
}

// MiddleError is the error of a position in the middle of a step or, from [Sessions.Edit], of a position without a
// user message. It is an agent.ErrBadInput.
type MiddleError struct {
	Session session.Key
	Seq     int64
	// Type is the type of the event at the position, if the event should be a user message.
	Type string
	// Before and After are the nearest checkpoints, or user messages, around the position. For user messages, 0 is
	// none.
	Before, After int64
}

func (e *MiddleError) Error() string {
	return fmt.Sprintf("session %s: %s: %s", e.Session, e.Detail(), agent.ErrBadInput)
}

// Detail returns the error without the session's name.
func (e *MiddleError) Detail() string {
	if e.Type != "" {
		return fmt.Sprintf("the event at %d is a %s, not a user message; the nearest user messages are at %d before it and %d after it (0: none)", e.Seq, e.Type, e.Before, e.After)
	}
	return fmt.Sprintf("position %d is in the middle of a step, which begins after %d and ends at %d", e.Seq, e.Before, e.After)
}

// Is reports whether the target is agent.ErrBadInput.
func (e *MiddleError) Is(target error) bool { return target == agent.ErrBadInput }

// insideStep returns the error of a position inside a step, with the checkpoints around it.
func (s *Sessions) insideStep(ctx context.Context, key session.Key, seq int64) error {
	before := int64(0)
	for c, err := range s.History(ctx, key) {
		if err != nil {
			return err
		}
		if c.Seq > seq {
			return &MiddleError{Session: key, Seq: seq, Before: before, After: c.Seq}
		}
		before = c.Seq
	}
	return noPosition(key, seq)
}
