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

// Deliver delivers an event of a desk to its session, as runner.Runner.Deliver does. An event that was delivered
// before changes nothing and returns no error. After [ErrGone] and [ErrTransition], do not try again.
type Deliver func(ctx context.Context, key agent.SessionKey, e Event) error

// Room is a desk in the same process, for tests and for programs in which people answer. A Room is safe for
// concurrent use. It keeps everything in memory: when the process ends, its open handoffs are gone.
type Room struct {
	mu      sync.Mutex
	max     int
	closed  bool
	count   int // of the words said here, and the ID of the last
	deliver Deliver
	legs    map[Leg]*place
}

// place is where one leg is worked on.
type place struct {
	Waiting
	number   int
	messages []Message
	seen     map[string]bool     // the IDs of messages
	talking  *semaphore.Weighted // one word at a time, so that they arrive as they were said
	failed   Event               // the word that may or may not have arrived
}

// RoomOption configures a [Room].
type RoomOption func(*Room)

// WithMaxLegs bounds how many handoffs may be open at a time. Defaults to 1000.
func WithMaxLegs(n int) RoomOption { return func(r *Room) { r.max = n } }

// NewRoom returns a room. It accepts requests at once, and the methods for people work after [Room.Serve]. The error
// reports a limit of [WithMaxLegs] below 1.
func NewRoom(opts ...RoomOption) (*Room, error) {
	r := &Room{max: 1000, legs: map[Leg]*place{}}
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

// RequestTransfer implements [Desk]: it queues a handoff. The error is [ErrUnavailable] if the room is closed or
// full.
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
		return Update{}, fmt.Errorf("%w: %d handoffs are open, which is the most", ErrUnavailable, r.max)
	}
	r.count++
	p := &place{Waiting: Waiting{Request: req, Status: Queued}, number: r.count, seen: map[string]bool{}, talking: semaphore.NewWeighted(1)}
	p.hear(req.Conversation)
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
		p.hear(messages)
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
	places := slices.SortedFunc(maps.Values(r.legs), func(a, b *place) int { return a.number - b.number })
	legs := make([]Waiting, len(places))
	for i, p := range places {
		legs[i] = p.Waiting
	}
	return legs
}

// Messages returns a copy of the messages of an open handoff, those of the person included. It returns nil if the
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
// Accept and the methods for people below return the error of the delivery. After an error the room is as it was
// before the call, and a caller that repeats the call with the same text does not deliver it twice. The error is
// [ErrGone] if the handoff is over, and a [*TransitionError] if its current state does not allow the step.
func (r *Room) Accept(ctx context.Context, leg Leg, person string) error {
	if person == "" {
		return errors.New("human: a person who accepts a handoff needs a name")
	}
	return r.say(ctx, leg, Update{Status: Connected, TargetAgent: person}, "")
}

// Say sends the user a text from the person.
func (r *Room) Say(ctx context.Context, leg Leg, text string) error {
	return r.say(ctx, leg, Update{}, text)
}

// Hold puts the user on hold, until [Room.Unhold].
func (r *Room) Hold(ctx context.Context, leg Leg) error {
	return r.say(ctx, leg, Update{Status: OnHold}, "")
}

// Unhold ends [Room.Hold].
func (r *Room) Unhold(ctx context.Context, leg Leg) error {
	return r.say(ctx, leg, Update{Status: Connected}, "")
}

// Complete ends the handoff because the person is done. The agent named next continues with the user; if next is
// empty, it is the agent that asked for the person.
func (r *Room) Complete(ctx context.Context, leg Leg, next string) error {
	return r.say(ctx, leg, Update{Status: Completed, TargetAgent: next}, "")
}

// End ends the handoff for another reason.
func (r *Room) End(ctx context.Context, leg Leg, reason string) error {
	return r.say(ctx, leg, Update{Status: Ended, Reason: reason}, "")
}

// Refuse reports that no person accepts the handoff, or that none continues it.
func (r *Room) Refuse(ctx context.Context, leg Leg, reason string) error {
	return r.say(ctx, leg, Update{Status: Failed, Reason: reason}, "")
}

// say delivers a word without the lock, because the turn that it leads to may ask the room for
// another handoff, and then takes it over into the room.
func (r *Room) say(ctx context.Context, leg Leg, u Update, text string) error {
	r.mu.Lock()
	p, err := r.at(leg)
	r.mu.Unlock()
	if err != nil {
		return err
	}
	if err := p.talking.Acquire(ctx, 1); err != nil {
		return err
	}
	defer p.talking.Release(1)
	e, deliver, err := r.word(leg, Event{HandoffID: leg.ID, Update: u, Text: text})
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

// word gives a word its ID: that of the last one if it failed and said the same.
func (r *Room) word(leg Leg, e Event) (Event, Deliver, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, err := r.at(leg)
	if err != nil {
		return e, nil, err
	}
	if r.deliver == nil {
		return e, nil, errors.New("human: the room has no function that delivers messages: call Serve first")
	}
	accepted := e.Status == Connected && e.TargetAgent != "" // the steps between are filled in
	if e.Status != "" && e.Status != p.Status && !accepted && !p.Status.leadsTo(e.Status) {
		return e, nil, &TransitionError{From: p.Status, To: e.Status}
	}
	if e.ID = p.failed.ID; e != p.failed {
		r.count++
		e.ID = strconv.Itoa(r.count)
	}
	return e, r.deliver, e.Validate()
}

func (r *Room) at(leg Leg) (*place, error) {
	if p := r.legs[leg]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%w: the room has no handoff %.40q", ErrGone, leg.ID)
}

func (p *place) hear(messages []Message) {
	for _, m := range messages {
		if !p.seen[m.ID] {
			p.seen[m.ID] = true
			p.messages = append(p.messages, m)
		}
	}
}
