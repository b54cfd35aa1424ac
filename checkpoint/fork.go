package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// Fork makes a session that has the events of another until a checkpoint, and is
// separate from there on. Both share what they have in common, so that a fork costs
// the same wherever it is taken; the other session is not touched, and may be in the
// middle of a turn.
//
// If the checkpoint is in the middle of a turn, Resume continues that turn, as after a
// crash: what is recorded is not asked for again, and a tool whose outcome is not
// recorded runs again only if it is idempotent. To have a message answered again, fork
// right after it and call Resume. Run says something new.
//
// The error is [agent.ErrBadInput] if the position is no checkpoint of the session,
// and [agent.ErrConflict] if the new session exists.
func (s *Sessions) Fork(ctx context.Context, of session.Key, seq int64, to session.Key) error {
	if err := session.CheckKey(to); err != nil {
		return err
	}
	if err := s.check(ctx, of, seq); err != nil {
		return err
	}
	return s.store.Fork(ctx, of, seq, to)
}

// Edit makes a session in which a user message of another says something else. It
// shares the past before that message, and the message waits for its answer: Resume
// gives it. seq is the message's position. Besides the errors of [Sessions.Fork],
// it is [agent.ErrBadInput] if no user message is there, or if content cannot be
// one: see [llm.CheckUser].
func (s *Sessions) Edit(ctx context.Context, of session.Key, seq int64, content llm.Content, to session.Key) error {
	if err := session.CheckKey(to); err != nil {
		return err
	}
	if err := llm.CheckUser(llm.Message{Role: llm.RoleUser, Content: content}); err != nil {
		return fmt.Errorf("%w: %w", err, agent.ErrBadInput)
	}
	old, err := s.event(ctx, of, seq)
	if err != nil {
		return err
	}
	if _, ok := old.Data.(*event.User); !ok {
		return fmt.Errorf("session %s: no user message stands at %d, but a %s event: %w", of, seq, old.Type(), agent.ErrBadInput)
	}
	last := time.Time{}
	if seq > 1 {
		before, err := s.event(ctx, of, seq-1)
		if err != nil {
			return err
		}
		last = before.Time
	}
	said := &event.Event{TurnID: s.newID(), RunID: s.newID(), ParentID: old.ParentID, Agent: old.Agent, Path: old.Path, Data: &event.User{Content: content.Stored()}}
	return s.store.Fork(ctx, of, seq-1, to, s.date(seq-1, last, said)...)
}

// event returns the event of a position.
func (s *Sessions) event(ctx context.Context, key session.Key, seq int64) (*event.Event, error) {
	if seq > 0 {
		for e, err := range s.store.Load(ctx, key, seq-1) {
			return e, err
		}
	}
	return nil, noPosition(key, seq)
}

// write stores the first events of a session with a lease, as a turn would.
func (s *Sessions) write(ctx context.Context, key session.Key, events ...*event.Event) error {
	lease, err := s.store.Acquire(ctx, key, session.Self())
	if err != nil {
		return err
	}
	events = s.date(0, time.Time{}, events...)
	return errors.Join(
		s.store.Append(ctx, key, 0, lease, events...),
		s.store.Release(context.WithoutCancel(ctx), key, lease))
}

// date gives events that are stored in one write their positions, times and ids, and
// returns them with the notices that they need. Each step in them, which ends with an
// event without More, gets a time of its own.
func (s *Sessions) date(seq int64, last time.Time, events ...*event.Event) []*event.Event {
	now := s.now().UTC()
	if !now.After(last) {
		now = last.Add(1)
	}
	events = event.BoundAll(events)
	for i, e := range events {
		e.Seq, e.Time = seq+int64(i)+1, now
		if !e.More {
			now = now.Add(1)
		}
		e.More = false
		if e.ID == "" {
			e.ID = s.newID()
		}
	}
	return events
}
