// Package stream sends what happens in a session to one client: its events, how it stands, at first
// and at each change, and why the stream ends.
//
// It imports access, agent, event, live, session, and the packages form, front and logpage of the server.
package stream

import (
	"context"
	"errors"
	"iter"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/server/internal/form"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/internal/logpage"
	"github.com/agentarbor/arbor/session"
)

// retry is when a client comes back whose stream broke off.
const retry = time.Second

// Place reads where a client goes on with a stream. The log must reach as far.
func Place(c *front.Call, end int64) (session.Position, error) {
	text := c.R.Header.Get("Last-Event-Id")
	if text == "" {
		text = c.R.URL.Query().Get("after")
	}
	p, err := session.ParsePosition(text)
	if err == nil && p.Seq > end {
		err = &front.Fault{Status: http.StatusPreconditionFailed, Code: "position_moved", Detail: "the session's log ends before the position to continue from", Seq: end}
	}
	return p, err
}

// Tree is what streams tell of the tree of agents: what names it, and when it was replaced or could
// not be. OnChange has a function called then, by a goroutine of its own, until leave is called.
type Tree struct {
	Revision func() string
	OnChange func(func()) (leave func())
}

// standing is the data of a frame that says how the session stands.
type standing struct {
	State    live.State `json:"state,omitempty"`
	Turn     string     `json:"turn,omitempty"`
	Active   string     `json:"active"`
	Revision string     `json:"revision"`
}

// streamed is a stream of one session's events to one client.
type streamed struct {
	*access.Stream
	turns *live.Turns
	tree  Tree
	key   session.Key

	mu     sync.Mutex // a stop and a reload are told by other goroutines
	told   standing
	looked int64 // where the log ended when that was looked up
	owes   bool  // what was looked up is still to be told
}

// Send sends what entries yields of a session, and how the session stands at first and whenever that
// changes, and when the tree does.
func Send(c *front.Call, turns *live.Turns, tree Tree, key session.Key, as logpage.Shape, entries func(context.Context) iter.Seq2[session.Entry, error]) error {
	out, leave, err := c.Stream()
	if err != nil {
		return err
	}
	defer leave()
	s := &streamed{Stream: out, turns: turns, tree: tree, key: key}
	s.mu.Lock() // a reload is told behind the first frame
	defer tree.OnChange(s.reload)()
	err = s.look(retry, math.MaxInt64)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	defer turns.OnStop(key, func() { _ = s.stand(0, math.MaxInt64) })()
	see := c.EventFilter()
	for entry, err := range entries(out.Context()) {
		if err != nil {
			return s.end(err)
		}
		e := entry.Event
		if shown := see(e); shown != nil && as.Wants(shown) {
			data, err := as.Encode(shown)
			if err != nil {
				return err
			}
			if out.Send(access.Frame{ID: entry.ID, Data: data}) != nil {
				return nil // the client has gone
			}
			c.ObserveDelta(e)
		}
		if err := s.passed(e); err != nil {
			return err
		}
	}
	return s.end(nil)
}

// passed tells how the session stands after an event, if that may be new, and all of the log that it
// is read from was passed: who reads what happened long ago hears of it when they are there.
func (s *streamed) passed(e *event.Event) error {
	s.mu.Lock()
	at, look := e.Seq, e.Seq > s.looked && mayChange(e) || e.Seq == s.looked && s.owes
	if e.Partial { // of a turn that goes on, or was cut off
		at, look = math.MaxInt64, s.told.State == live.CutOff || e.Type() == event.TypeDiscard
	}
	s.mu.Unlock()
	if !look {
		return nil
	}
	return s.stand(0, at)
}

// mayChange reports whether a session may stand otherwise after an event.
func mayChange(e *event.Event) bool {
	switch e.Data.(type) {
	case *event.User, *event.HarnessStart, *event.HarnessEnd, *event.Transfer, *event.HandoffStatus:
		return e.Scope == ""
	}
	return false
}

// stand tells how the session stands, if that was not told before, and not yet if the log goes on behind
// a position. The first frame says when to come back.
func (s *streamed) stand(first time.Duration, at int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.look(first, at)
}

// look is stand, with the mutex.
func (s *streamed) look(first time.Duration, at int64) error {
	now, err := s.turns.Look(s.Context(), s.key)
	if err != nil {
		if s.Context().Err() != nil {
			return nil
		}
		return err
	}
	next := standing{now.State, now.Turn, now.Agent, s.tree.Revision()}
	s.looked, s.owes = now.Seq, now.Seq > at
	if s.owes || first == 0 && next == s.told {
		return nil
	}
	s.told = next
	data := event.EncodeJSON(struct {
		Seq int64 `json:"seq"`
		standing
	}{now.Seq, next})
	_ = s.Send(access.Frame{Event: "state", Data: data, Retry: first}) // whoever has gone is noticed soon
	return nil
}

// end sends why a stream ends, if the client can know.
func (s *streamed) end(err error) error {
	reason := "turn"
	switch {
	case err == nil, errors.Is(err, live.ErrStopped):
		if err := s.stand(0, math.MaxInt64); err != nil {
			return err
		}
	case errors.Is(err, live.ErrClosed):
		reason = "stopping"
	case errors.Is(err, agent.ErrConflict), errors.Is(err, live.ErrNoTurn):
		reason = "deleted"
	case errors.Is(err, access.ErrRevoked), errors.Is(context.Cause(s.Context()), access.ErrRevoked):
		reason = "revoked"
	case s.Context().Err() != nil:
		return nil
	default:
		return err
	}
	_ = s.Send(access.Frame{Event: "end", Data: []byte(`{"reason":"` + reason + `"}`)})
	return nil
}

// reload tells that the tree may be another one.
func (s *streamed) reload() {
	s.mu.Lock()
	defer s.mu.Unlock()
	data := event.EncodeJSON(map[string]string{"revision": s.tree.Revision()})
	_ = s.Send(access.Frame{Event: "tree", Data: data}) // whoever has gone is noticed soon
}

// Changes sends how a session of a user stands whenever that changes, and when the tree does.
func Changes(c *front.Call, turns *live.Turns, tree Tree, key session.Key) error {
	out, leave, err := c.Stream()
	if err != nil {
		return err
	}
	defer leave()
	s := &streamed{Stream: out, tree: tree}
	s.mu.Lock()
	defer tree.OnChange(s.reload)()
	err = out.Send(access.Frame{Retry: retry})
	s.mu.Unlock()
	if err != nil {
		return nil
	}
	for info, err := range turns.Changes(out.Context(), key.App, key.User) {
		if err != nil {
			return s.end(err)
		}
		sum, err := form.SessionOf(out.Context(), turns, info)
		if err != nil {
			return s.end(err)
		}
		if out.Send(access.Frame{Data: event.EncodeJSON(sum)}) != nil {
			return nil
		}
	}
	return nil
}
