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

// Sessions gives access to the past of a store's sessions. It is safe for
// concurrent use, also while turns run.
type Sessions struct {
	store session.Store
	now   func() time.Time
	newID func() string

	repeatable bool
}

// Option configures [Sessions].
type Option func(*Sessions)

// WithClock sets the clock that dates new events; the default is time.Now.
func WithClock(now func() time.Time) Option { return func(s *Sessions) { s.now = now } }

// WithIDs sets where the ids of new events come from; the default is random ones.
func WithIDs(newID func() string) Option { return func(s *Sessions) { s.newID = newID } }

// New returns the sessions of a store.
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

// Checkpoint is a position at which a write of a session's log ended, or one
// right before or after a user message.
type Checkpoint struct {
	// Seq is the position of its last event.
	Seq int64
	// Time is when that was stored.
	Time time.Time
	// Active is the agent that had the conversation then: the target of the last
	// transfer, or "" before the first, when it was the root.
	Active string
	// Events are those since the checkpoint before.
	Events []*event.Event
}

// History yields the checkpoints of a session, oldest first. A session that does
// not exist has none.
func (s *Sessions) History(ctx context.Context, key session.Key) iter.Seq2[Checkpoint, error] {
	return func(yield func(Checkpoint, error) bool) {
		var c Checkpoint
		var active string
		for e, err := range s.store.Load(ctx, key, 0) {
			if err != nil {
				yield(Checkpoint{}, err)
				return
			}
			if n := len(c.Events); n > 0 && between(c.Events[n-1], e) {
				c.Active = active
				if !yield(c, nil) {
					return
				}
				c.Events = nil
			}
			if t, ok := e.Data.(*event.Transfer); ok && t.Outcome == event.TransferCommitted && e.Scope == "" {
				active = t.To
			}
			c.Seq, c.Time, c.Events = e.Seq, e.Time, append(c.Events, e)
		}
		if len(c.Events) > 0 {
			c.Active = active
			yield(c, nil)
		}
	}
}

// between reports whether there is a checkpoint between two events of a log.
func between(e, next *event.Event) bool {
	return e.Type() == event.TypeUser || next.Type() == event.TypeUser || !e.Time.Equal(next.Time)
}

// check reports whether a session has a checkpoint at a position. It reads two
// events, whatever the length of the log.
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
			return s.noCheckpoint(ctx, key, seq)
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

// MiddleError is the error of a position in the middle of a step, or for [Sessions.Edit] of one at
// which no words of the user stand. It is agent.ErrBadInput.
type MiddleError struct {
	Session session.Key
	Seq     int64
	// Type is that of the event there, if it should be words of the user.
	Type string
	// Before and After are the checkpoints, or the words of the user, around the position. Of
	// words, 0 is none.
	Before, After int64
}

func (e *MiddleError) Error() string {
	return fmt.Sprintf("session %s: %s: %s", e.Session, e.Detail(), agent.ErrBadInput)
}

// Detail tells the error without the session's name.
func (e *MiddleError) Detail() string {
	if e.Type != "" {
		return fmt.Sprintf("no user message stands at %d, but a %s event; such messages stand before it at %d and behind it at %d, where 0 is none", e.Seq, e.Type, e.Before, e.After)
	}
	return fmt.Sprintf("position %d is in the middle of a step, which begins after %d and ends at %d", e.Seq, e.Before, e.After)
}

// Is reports whether the target is agent.ErrBadInput.
func (e *MiddleError) Is(target error) bool { return target == agent.ErrBadInput }

// noCheckpoint is the error of a position inside of a step; it names those around it.
func (s *Sessions) noCheckpoint(ctx context.Context, key session.Key, seq int64) error {
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
