package human

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/option"
)

// Deliver delivers an event of a desk to its session, as runner.Runner.Deliver does. An event that was delivered before
// changes nothing and returns no error. After [ErrGone] and [ErrTransition], do not try again.
type Deliver func(ctx context.Context, key agent.SessionKey, e Event) error

// Room is a desk in the same process, for tests and for programs in which people answer. A Room is safe for concurrent
// use. It keeps everything in memory: when the process ends, its open handoffs are gone.
type Room struct {
	mu      sync.Mutex
	max     int
	closed  bool
	count   int // the last number of an event or a handoff; the IDs of events are these numbers
	deliver Deliver
	legs    map[Leg]*entry
}

// entry is one open handoff of a room.
type entry struct {
	Waiting
	number     int
	messages   []Message
	seen       map[string]bool     // by message ID
	delivering *semaphore.Weighted // one event at a time, so that events arrive in order
	failed     Event               // the last event whose delivery failed: the session may or may not have it
}

// RoomOption configures a [Room].
type RoomOption func(*Room)

// WithMaxLegs bounds how many handoffs may be open at a time. Defaults to 1000.
func WithMaxLegs(n int) RoomOption { return func(r *Room) { r.max = n } }

// NewRoom returns a room. It accepts requests at once, and the methods for people work after [Room.Serve]. The error
// reports a limit of [WithMaxLegs] below 1.
func NewRoom(opts ...RoomOption) (*Room, error) {
	r := &Room{max: 1000, legs: map[Leg]*entry{}}
	if err := option.Apply(r, opts); err != nil {
		return nil, fmt.Errorf("human: room: %w", err)
	}
	if r.max < 1 {
		return nil, fmt.Errorf("human: room: at most %d legs: it must be at least 1", r.max)
	}
	return r, nil
}

// Serve sets the function that delivers what people do to the sessions. Call it before the methods for people.
func (r *Room) Serve(deliver Deliver) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deliver = deliver
}

// Close makes the room refuse further requests with [ErrUnavailable]. Open handoffs continue.
func (r *Room) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

// RequestTransfer implements [Desk]: it queues a handoff. The error is [ErrUnavailable] if the room is closed or full.
func (r *Room) RequestTransfer(_ context.Context, req Request) (Update, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.legs[req.Leg]; p != nil {
		return Update{Status: p.Status, TargetAgent: p.Person}, nil
	}
	switch {
	case r.closed:
		return Update{}, fmt.Errorf("%w: the room is closed", ErrUnavailable)
	case len(r.legs) >= r.max:
		return Update{}, fmt.Errorf("%w: %d handoffs are open, the maximum of this room", ErrUnavailable, r.max)
	}
	r.count++
	p := &entry{Waiting: Waiting{Request: req, Status: Queued}, number: r.count, seen: map[string]bool{}, delivering: semaphore.NewWeighted(1)}
	p.add(req.Conversation)
	r.legs[req.Leg] = p
	waiting := 0
	for _, other := range r.legs {
		if other.Status == Queued {
			waiting++
		}
	}
	return Update{Status: Queued, QueuePosition: &waiting}, nil
}

// Send implements [Desk]: it keeps the user's messages for [Room.Messages].
func (r *Room) Send(_ context.Context, leg Leg, messages []Message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, err := r.at(leg)
	if err == nil {
		p.add(messages)
	}
	return err
}

// Cancel implements [Desk]: it removes the handoff.
func (r *Room) Cancel(_ context.Context, leg Leg, _ string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err := r.at(leg)
	delete(r.legs, leg)
	return err
}

// Waiting is an open handoff in a [Room].
type Waiting struct {
	Request
	Status Status
	Person string // the person who accepted it; "" before
}

// Legs returns the open handoffs, oldest first.
func (r *Room) Legs() []Waiting {
	r.mu.Lock()
	defer r.mu.Unlock()
	entries := slices.SortedFunc(maps.Values(r.legs), func(a, b *entry) int { return a.number - b.number })
	legs := make([]Waiting, len(entries))
	for i, p := range entries {
		legs[i] = p.Waiting
	}
	return legs
}

// Messages returns a copy of the messages of an open handoff, including those of the person. It returns nil if the
// handoff is gone.
func (r *Room) Messages(leg Leg) []Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.legs[leg]; p != nil {
		return slices.Clone(p.messages)
	}
	return nil
}

// Accept connects a person with the user. Another person's name moves the handoff to that person.
//
// Accept and the methods for people below return the error of the delivery. After an error the room is as it was before
// the call, and a caller that repeats the call with the same text does not deliver it twice. The error is [ErrGone] if
// the handoff is over, and a [*TransitionError] if its current state does not allow the step.
func (r *Room) Accept(ctx context.Context, leg Leg, person string) error {
	if person == "" {
		return errors.New("human: a person who accepts a handoff needs a name")
	}
	return r.send(ctx, leg, Update{Status: Connected, TargetAgent: person}, "")
}

// Say sends the user a text from the person.
func (r *Room) Say(ctx context.Context, leg Leg, text string) error {
	return r.send(ctx, leg, Update{}, text)
}

// Hold puts the user on hold, until [Room.Unhold].
func (r *Room) Hold(ctx context.Context, leg Leg) error {
	return r.send(ctx, leg, Update{Status: OnHold}, "")
}

// Unhold ends [Room.Hold].
func (r *Room) Unhold(ctx context.Context, leg Leg) error {
	return r.send(ctx, leg, Update{Status: Connected}, "")
}

// Complete ends the handoff because the person is done. The agent named next continues with the user; if next is empty,
// it is the agent that asked for the person.
func (r *Room) Complete(ctx context.Context, leg Leg, next string) error {
	return r.send(ctx, leg, Update{Status: Completed, TargetAgent: next}, "")
}

// End ends the handoff for another reason.
func (r *Room) End(ctx context.Context, leg Leg, reason string) error {
	return r.send(ctx, leg, Update{Status: Ended, Reason: reason}, "")
}

// Refuse reports that no person accepts the handoff, or that none continues it.
func (r *Room) Refuse(ctx context.Context, leg Leg, reason string) error {
	return r.send(ctx, leg, Update{Status: Failed, Reason: reason}, "")
}

// send delivers an event, and then applies it to the room. It delivers without the lock, because the turn that follows
// may request another handoff from the room.
func (r *Room) send(ctx context.Context, leg Leg, u Update, text string) error {
	r.mu.Lock()
	p, err := r.at(leg)
	r.mu.Unlock()
	if err != nil {
		return err
	}
	if err := p.delivering.Acquire(ctx, 1); err != nil {
		return err
	}
	defer p.delivering.Release(1)
	e, deliver, err := r.prepare(leg, Event{HandoffID: leg.ID, Update: u, Text: text})
	if err != nil {
		return err
	}
	err = deliver(ctx, leg.Session, e)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		p.failed = e
		if errors.Is(err, ErrGone) {
			delete(r.legs, leg)
		}
		return err
	}
	p.failed = Event{}
	p.Status, p.Person = cmp.Or(u.Status, p.Status), cmp.Or(u.TargetAgent, p.Person)
	if u.Status.Final() {
		delete(r.legs, leg)
	}
	if text != "" {
		p.messages = append(p.messages, Message{ID: "desk-" + e.ID, Author: p.Person, Text: text, Time: time.Now()})
	}
	return nil
}

// prepare checks an event and sets its ID. An event that equals the last failed one gets the same ID, so that the
// session does not apply it twice.
func (r *Room) prepare(leg Leg, e Event) (Event, Deliver, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, err := r.at(leg)
	if err != nil {
		return e, nil, err
	}
	if r.deliver == nil {
		return e, nil, errors.New("human: the room has no function that delivers events: call Serve first")
	}
	accepted := e.Status == Connected && e.TargetAgent != "" // the session adds the steps in between
	if e.Status != "" && e.Status != p.Status && !accepted && !p.Status.leadsTo(e.Status) {
		return e, nil, &TransitionError{From: p.Status, To: e.Status}
	}
	if e.ID = p.failed.ID; e != p.failed {
		r.count++
		e.ID = strconv.Itoa(r.count)
	}
	return e, r.deliver, e.Validate()
}

// at returns an open handoff. The error is ErrGone. The caller holds mu.
func (r *Room) at(leg Leg) (*entry, error) {
	if p := r.legs[leg]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%w: the room has no handoff %.40q", ErrGone, leg.ID)
}

// add adds messages that are new.
func (p *entry) add(messages []Message) {
	for _, m := range messages {
		if !p.seen[m.ID] {
			p.seen[m.ID] = true
			p.messages = append(p.messages, m)
		}
	}
}
