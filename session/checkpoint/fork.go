package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// Fork creates the session to with the events of another session up to a checkpoint. The two sessions are independent
// after that. They share the common events, so that a fork costs the same at every position. The other session does
// not change, and may be in the middle of a turn.
//
// If the checkpoint is in the middle of a turn, Resume continues that turn as after a crash: recorded answers are not
// requested again, and a tool without a recorded result runs again only if it is idempotent. To have a message
// answered again, fork right after it and call Resume. Run sends a new message.
//
// If the position is not a checkpoint of the session, the error is an [agent.ErrBadInput]. If the new session exists,
// it is an [agent.ErrConflict]; see also [Sessions.Repeatable].
func (s *Sessions) Fork(ctx context.Context, of session.Key, seq int64, to session.Key) error {
	if err := session.CheckKey(to); err != nil {
		return err
	}
	if err := s.check(ctx, of, seq); err != nil {
		return err
	}
	return s.resolveConflict(ctx, of, seq, to, nil, s.store.Fork(ctx, of, seq, to))
}

// Edit creates a session in which a user message of another session has a different content. seq is the position of
// the message. The new session shares the events before it. Resume answers the new message. In addition to the errors
// of [Sessions.Fork], the error is an [agent.ErrBadInput] if there is no user message at seq, or if content is not
// valid for one; see [llm.CheckUser].
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
	if old.Type() != event.TypeUser {
		return s.notUserMessage(ctx, of, old)
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
	own := s.date(seq-1, last, said)
	return s.resolveConflict(ctx, of, seq-1, to, own, s.store.Fork(ctx, of, seq-1, to, own...))
}

// Repeatable returns Sessions for requests that may be sent twice: if the session to create exists and begins with the
// same events, creating it does nothing and returns no error.
func (s *Sessions) Repeatable() *Sessions {
	again := *s
	again.repeatable = true
	return &again
}

// resolveConflict returns err, the result of creating a session. If err is a conflict and s is repeatable, it returns
// nil if the existing session has the same parent, position seq and first events. A seq of 0 means no shared events.
func (s *Sessions) resolveConflict(ctx context.Context, of session.Key, seq int64, to session.Key, own []*event.Event, err error) error {
	if !s.repeatable || !errors.Is(err, agent.ErrConflict) {
		return err
	}
	info, ok, failed := session.Find(ctx, s.store, to)
	if failed != nil || !ok || info.ParentSeq != seq || (of == session.Key{}) != (info.Parent == session.Key{}) {
		return cmp.Or(failed, err)
	}
	if seq > 0 {
		theirs, failed := s.event(ctx, of, seq)
		shared, failing := s.event(ctx, to, seq)
		if failed != nil || failing != nil || !sameEvent(theirs, shared) {
			return cmp.Or(failed, failing, err)
		}
	}
	for e, failed := range s.store.Load(ctx, to, seq) {
		switch {
		case failed != nil:
			return failed
		case len(own) == 0:
			return nil
		case !sameContent(e, own[0]):
			return err
		}
		own = own[1:]
	}
	if len(own) > 0 {
		return err
	}
	return nil
}

// notUserMessage returns the error of an event that is not a user message, with the positions of the user messages
// around it.
func (s *Sessions) notUserMessage(ctx context.Context, key session.Key, there *event.Event) error {
	wrong := &MiddleError{Session: key, Seq: there.Seq, Type: there.Type()}
	for e, err := range s.store.Load(ctx, key, 0) {
		switch {
		case err != nil:
			return err
		case e.Type() != event.TypeUser:
		case e.Seq < there.Seq:
			wrong.Before = e.Seq
		default:
			wrong.After = e.Seq
			return wrong
		}
	}
	return wrong
}

// event returns the event at a position.
func (s *Sessions) event(ctx context.Context, key session.Key, seq int64) (*event.Event, error) {
	if seq > 0 {
		for e, err := range s.store.Load(ctx, key, seq-1) {
			return e, err
		}
	}
	return nil, noPosition(key, seq)
}

// write stores the first events of a session.
func (s *Sessions) write(ctx context.Context, key session.Key, events ...*event.Event) error {
	_, err := s.store.Write(ctx, key, session.Write{Acquire: session.Self(), Events: s.date(0, time.Time{}, events...), Release: true})
	return err
}

// date sets the positions, times and ids of events that are stored in one write, and returns them with the notices
// that they need. Each step in them, which ends with an event without More, gets a different time.
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
