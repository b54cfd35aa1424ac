package sharded

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// scope is what shares state: a user of an app, or an app.
type scope struct {
	app, user string
	prefix    string // of its names
}

func userOf(key session.Key) scope { return scope{key.App, key.User, "user:"} }
func appOf(key session.Key) scope  { return scope{app: key.App, prefix: "app:"} }

// homes is where the state belongs, after where it was before.
func (c scope) homes(s *Store) []*shard {
	if c.prefix == "user:" {
		return s.homes(c.app, c.user)
	}
	return s.homes(c.app)
}

// key returns the key of a note through which the state is written.
func (c scope) key(id string) session.Key {
	key := session.Key{App: c.app, User: c.user, ID: App + " " + c.prefix + id}
	if c.prefix == "app:" {
		key.User = App
	}
	return key
}

// of returns the part of state that is the scope's.
func (c scope) of(state map[string]any) map[string]any {
	own := make(map[string]any)
	for name, value := range state {
		if strings.HasPrefix(name, c.prefix) {
			own[name] = value
		}
	}
	return own
}

// difference returns what makes one state of another.
func difference(is, want map[string]any) map[string]any {
	delta := make(map[string]any)
	for name := range is {
		if _, ok := want[name]; !ok {
			delta[name] = nil
		}
	}
	for name, value := range want {
		if old, ok := is[name]; !ok || !reflect.DeepEqual(old, value) {
			delta[name] = value
		}
	}
	return delta
}

// write changes state on a shard, by a note that is gone at once.
func (c scope) write(ctx context.Context, x *shard, delta map[string]any) error {
	key := c.key(rand.Text())
	err := x.note(ctx, "", key, stateEvent(delta))
	if err == nil {
		err = x.explain(x.Delete(ctx, key))
	}
	return err
}

func stateEvent(delta map[string]any) *event.Event {
	return &event.Event{Seq: 1, ID: "state", Data: &event.State{Delta: delta}}
}

// settle returns where a scope's state is. With the first write it moves to where it belongs, in a
// note that can be made once and stays.
func (s *Store) settle(ctx context.Context, c scope, write bool) (*shard, error) {
	homes := c.homes(s)
	if len(homes) == 1 {
		return homes[0], nil
	}
	from, to := homes[0], homes[1]
	if _, ok := s.settled.Load(c); ok {
		return to, nil
	}
	_, ok, err := to.info(ctx, c.key("state"))
	if err == nil && !ok {
		if !write {
			return from, nil
		}
		var was, is map[string]any
		if was, err = from.SharedState(ctx, c.key("")); err == nil {
			is, err = to.SharedState(ctx, c.key(""))
		}
		if err == nil {
			err = to.note(ctx, "", c.key("state"), stateEvent(difference(c.of(is), c.of(was))))
		}
		if err == nil || errors.Is(err, agent.ErrConflict) {
			err = from.Delete(ctx, c.key("state")) // of an earlier move
		}
	}
	if err == nil {
		s.settled.Store(c, nil)
	}
	return to, err
}

// sharing stores events of a session on a shard, and what they change in the state that is elsewhere.
func (s *Store) sharing(ctx context.Context, x *shard, key session.Key, events []*event.Event, store func() error) error {
	changes := make(map[scope]map[string]any)
	for _, e := range events {
		if e == nil {
			continue // which the shard refuses
		}
		st, ok := e.Data.(*event.State)
		if !ok {
			continue
		}
		for _, c := range []scope{userOf(key), appOf(key)} {
			if part := c.of(st.Delta); len(part) > 0 {
				if changes[c] == nil {
					changes[c] = part
				}
				maps.Copy(changes[c], part)
			}
		}
	}
	elsewhere := make(map[scope]*shard)
	for c := range changes {
		at, err := s.settle(ctx, c, true)
		if err != nil {
			return err
		}
		if at != x {
			elsewhere[c] = at
		}
	}
	if err := store(); err != nil {
		return x.explain(err)
	}
	var errs []error
	for c, at := range elsewhere {
		if err := c.write(context.WithoutCancel(ctx), at, changes[c]); err != nil {
			errs = append(errs, fmt.Errorf("session %s: its events are stored, what they change in the state of %s%s is not: %w", key, c.app, strings.TrimSuffix("/"+c.user, "/"), err))
		}
	}
	return errors.Join(errs...)
}

// SharedState implements [session.Store].
func (s *Store) SharedState(ctx context.Context, key session.Key) (map[string]any, error) {
	ofUser, ofApp := userOf(key), appOf(key)
	x, err := s.settle(ctx, ofUser, false)
	if err != nil {
		return nil, err
	}
	state, err := x.SharedState(ctx, key)
	if err != nil {
		return nil, x.explain(err)
	}
	at, err := s.settle(ctx, ofApp, false)
	if err != nil || at == x {
		return state, err
	}
	var shared map[string]any
	ok, err := at.without(ctx, func(ctx context.Context) (err error) {
		shared, err = at.SharedState(ctx, ofApp.key(""))
		return err
	})
	if err != nil || !ok {
		return state, err // with the app's state as it was when the other shard was up
	}
	is, want := ofApp.of(state), ofApp.of(shared)
	delta := difference(is, want)
	if len(delta) == 0 {
		return state, nil
	}
	for name, value := range delta {
		if state[name] = value; value == nil {
			delete(state, name)
		}
	}
	_ = ofApp.write(ctx, x, delta) // a copy, for when the other shard is down
	return state, nil
}
