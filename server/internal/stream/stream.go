// Package stream sends server-sent events about a session to one client: the session's events, its status at the
// start and at each change, and the reason why the stream ends.
package stream

import (
	"context"
	"errors"
	"iter"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/internal/form"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/internal/logpage"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
)

// retry is how long a client waits before it reconnects after a stream broke.
const retry = time.Second

// StartPosition returns the position after which a client wants a stream: the Last-Event-ID or the parameter after.
// The log ends at end. If the position is after that, the error is a fault with status 412.
func StartPosition(c *front.Call, end int64) (session.Position, error) {
	text := c.R.Header.Get("Last-Event-Id")
	if text == "" {
		text = c.R.URL.Query().Get("after")
	}
	p, err := session.ParsePosition(text)
	if err == nil && p.Seq > end {
		err = &front.Fault{Status: http.StatusPreconditionFailed, Code: "position_moved", Detail: "the session's log ends before the position after which to continue", Seq: end}
	}
	return p, err
}

// Tree reports changes of the tree of agents. OnChange calls a function in a new goroutine whenever the tree was
// replaced, or could not be loaded, until the caller calls leave.
type Tree struct {
	Revision func() string
	OnChange func(func()) (leave func())
}

// status is the data of a frame of the kind state.
type status struct {
	State    live.State `json:"state,omitempty"`
	Turn     string     `json:"turn,omitempty"`
	Active   string     `json:"active"`
	Revision string     `json:"revision"`
}

// sessionStream is the stream of a session to one client.
type sessionStream struct {
	*access.Stream
	turns *live.Turns
	tree  Tree
	key   session.Key

	mu      sync.Mutex // other goroutines report stops and reloads
	sent    status     // the last status that was sent
	checked int64      // the end of the log when the status was last read
	pending bool       // that status is not sent yet
}

// Send sends the entries of a session, its status at the start and at each change, and changes of the tree.
func Send(c *front.Call, turns *live.Turns, tree Tree, key session.Key, as logpage.Shape, entries func(context.Context) iter.Seq2[session.Entry, error]) error {
	out, leave, err := c.Stream()
	if err != nil {
		return err
	}
	defer leave()
	s := &sessionStream{Stream: out, turns: turns, tree: tree, key: key}
	s.mu.Lock() // the first frame comes before those of reloads
	defer tree.OnChange(s.sendTree)()
	err = s.sendStatusLocked(retry, math.MaxInt64)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	defer turns.OnStop(key, func() { _ = s.sendStatus(0, math.MaxInt64) })()
	filter := c.EventFilter()
	for entry, err := range entries(out.Context()) {
		if err != nil {
			return s.end(err)
		}
		e := entry.Event
		if shown := filter(e); shown != nil && as.Includes(shown) {
			data, err := as.Encode(shown)
			if err != nil {
				return err
			}
			if out.Send(access.Frame{ID: entry.ID, Data: data}) != nil {
				return nil // the client has disconnected
			}
			c.ObserveDelta(e)
		}
		if err := s.afterEvent(e); err != nil {
			return err
		}
	}
	return s.end(nil)
}

// afterEvent sends the status after an event if it may have changed. A client that reads old events gets the current
// status only when it has received the events up to it.
func (s *sessionStream) afterEvent(e *event.Event) error {
	s.mu.Lock()
	at, look := e.Seq, e.Seq > s.checked && mayChangeStatus(e) || e.Seq == s.checked && s.pending
	if e.Partial { // the turn is running again, or was interrupted
		at, look = math.MaxInt64, s.sent.State == live.CutOff || e.Type() == event.TypeDiscard
	}
	s.mu.Unlock()
	if !look {
		return nil
	}
	return s.sendStatus(0, at)
}

// mayChangeStatus reports whether an event may change the status of a session.
func mayChangeStatus(e *event.Event) bool {
	switch d := e.Data.(type) {
	case *event.Notice:
		return e.Scope == "" && (d.Code == event.NoticeStopped || d.Code == event.NoticeResumed)
	case *event.User, *event.HarnessStart, *event.HarnessEnd, *event.Transfer, *event.HandoffStatus:
		return e.Scope == ""
	}
	return false
}

// sendStatus sends the status of the session if it has changed. If the log ends after the position at, the status
// becomes pending instead. The first frame has a retry time, which is not 0.
func (s *sessionStream) sendStatus(first time.Duration, at int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sendStatusLocked(first, at)
}

// sendStatusLocked is sendStatus for a caller that holds the mutex.
func (s *sessionStream) sendStatusLocked(first time.Duration, at int64) error {
	now, err := s.turns.Look(s.Context(), s.key)
	if err != nil {
		if s.Context().Err() != nil {
			return nil
		}
		return err
	}
	next := status{now.State, now.Turn, now.Agent, s.tree.Revision()}
	s.checked, s.pending = now.Seq, now.Seq > at
	if s.pending || first == 0 && next == s.sent {
		return nil
	}
	s.sent = next
	data := event.EncodeJSON(struct {
		Seq int64 `json:"seq"`
		status
	}{now.Seq, next})
	_ = s.Send(access.Frame{Event: "state", Data: data, Retry: first}) // the next entry detects a client that has disconnected
	return nil
}

// end sends the reason why a stream ends. It returns an error that has no reason for clients.
func (s *sessionStream) end(err error) error {
	reason := "turn"
	switch {
	case err == nil, errors.Is(err, session.ErrStopped):
		if err := s.sendStatus(0, math.MaxInt64); err != nil {
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

// sendTree sends the revision of the current tree.
func (s *sessionStream) sendTree() {
	s.mu.Lock()
	defer s.mu.Unlock()
	data := event.EncodeJSON(map[string]string{"revision": s.tree.Revision()})
	_ = s.Send(access.Frame{Event: "tree", Data: data}) // the next entry detects a client that has disconnected
}

// Changes sends the state of each session of the key's user whenever it changes, and changes of the tree.
func Changes(c *front.Call, turns *live.Turns, tree Tree, key session.Key) error {
	out, leave, err := c.Stream()
	if err != nil {
		return err
	}
	defer leave()
	s := &sessionStream{Stream: out, tree: tree}
	s.mu.Lock()
	defer tree.OnChange(s.sendTree)()
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
