package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// Me is who calls, and what the server is. Desk says whether conversations can go to a person.
type Me struct {
	User, App, Version string
	Rights, Doors      []string
	Tree               struct{ Root, Revision string }
	Desk               bool
}

// Session is how a session stands. Active is who would answer the next message; State and Turn,
// which is an id, are those of the last turn, "" without one. Lists are without Pending.
type Session struct {
	ID, User, Title     string
	Seq                 int64
	Created, Updated    time.Time
	Active, State, Turn string
	Pending             []Call
	// Parent is the session that a fork comes from, with which it shares all until Seq; nil of others.
	Parent *struct {
		ID  string
		Seq int64
	}
}

// Call waits for a permission, or for an answer: its Kind is permission or input. What one of
// kind input asks is in Message and Schema.
type Call struct {
	CallID, Kind, Tool, Message, Agent, Path string
	Params, Schema                           json.RawMessage
	// By says who may decide, as in an event.Relay, and Digest identifies what is decided.
	By     []string
	Digest string
}

// Turn is what a turn has come to. Its State is running, waiting (for decisions, or for something
// done elsewhere), cut_off (it can be resumed), done, failed or canceled. First is the position of
// the words that began it, and Seq that of its last event. Agent has said Text, the answer.
type Turn struct {
	ID, Session, State, Agent, Text string
	First, Seq                      int64
	FinishReason                    event.FinishReason
	Output                          json.RawMessage
	Pending                         []Call
	Usage                           llm.Usage
	Error                           *TurnError
}

// Err returns why the turn failed, as a *[TurnError], and nil for all others.
func (t *Turn) Err() error {
	if t.State != "failed" {
		return nil
	}
	e := *cmp.Or(t.Error, &TurnError{Message: "the turn has failed"})
	e.limit = t.FinishReason == event.FinishReasonLimit
	return &e
}

// Message is what the user says.
type Message struct {
	Content  llm.Content    `json:"content"`
	Metadata map[string]any `json:"metadata,omitempty"`
	// At is where the log must end, else the error is agent.ErrConflict; nil is anywhere.
	At *int64 `json:"-"`
	// Request names the request, so that it is done once; "" has a name made.
	Request string `json:"-"`
}

// Decision says what becomes of a call that waits. Content answers what it asks, and Reason is for
// the model.
type Decision struct {
	CallID   string          `json:"callId"`
	Approved bool            `json:"approved"`
	Content  json.RawMessage `json:"content,omitempty"`
	Reason   string          `json:"reason,omitempty"`
	// Digest, if it is not "", must be that of the call.
	Digest string `json:"digest,omitempty"`
}

// read reads what is at a path.
func read[T any](ctx context.Context, c *Client, path ...string) (*T, error) {
	v := new(T)
	return v, c.do(ctx, c.get(path...), v)
}

// Me asks who calls.
func (c *Client) Me(ctx context.Context) (*Me, error) { return read[Me](ctx, c, "me") }

// Agents reads the tree, as GET /agents has it, into what out points to.
func (c *Client) Agents(ctx context.Context, out any) error { return c.do(ctx, c.get("agents"), out) }

// Session returns how a session stands.
func (c *Client) Session(ctx context.Context, id string) (*Session, error) {
	return read[Session](ctx, c, "sessions", id)
}

// Sessions returns a page of the sessions, those first that changed last, and what stands for the
// next page; "" is the first one, and behind the last.
func (c *Client) Sessions(ctx context.Context, after string) (page []*Session, next string, err error) {
	var got struct {
		Sessions []*Session
		Next     string
	}
	err = c.do(ctx, query(c.get("sessions"), "after", after), &got)
	return got.Sessions, got.Next, err
}

// Events yields the stored events of a session after a position.
func (c *Client) Events(ctx context.Context, id string, after int64) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		for next := strconv.FormatInt(after, 10); next != ""; {
			var page struct {
				Events []*event.Event
				Next   string
			}
			if err := c.do(ctx, query(c.get("sessions", id, "events"), "after", next), &page); err != nil {
				yield(nil, err)
				return
			}
			for _, e := range page.Events {
				if !yield(e, nil) {
					return
				}
			}
			next = page.Next
		}
	}
}

// File returns the bytes of a file of a session.
func (c *Client) File(ctx context.Context, id, digest string) (data []byte, err error) {
	err = c.do(ctx, c.get("sessions", id, "files", digest), &data)
	return data, err
}

// Begin gives a message to the active agent of a session, which begins with it if it does not
// exist; "" begins a new one with an id of the server's. It returns when the words are stored; the
// turn goes on whatever becomes of the client. The error is agent.ErrSessionBusy while another turn
// is under way.
func (c *Client) Begin(ctx context.Context, id string, m Message) (*Turn, error) {
	if id != "" {
		turn, err := c.turn(ctx, m, m, "sessions", id, "turns")
		var refused *Error
		if !errors.As(err, &refused) || refused.Status != http.StatusNotFound || m.At != nil && *m.At > 0 {
			return turn, err
		}
	}
	return c.turn(ctx, Message{Request: m.Request}, struct {
		ID string `json:"id,omitempty"`
		Message
	}{id, m}, "sessions")
}

// turn makes a request that answers with a turn, as a message says.
func (c *Client) turn(ctx context.Context, m Message, in any, path ...string) (*Turn, error) {
	r, err := c.post(m.Request, in, path...)
	if err != nil {
		return nil, err
	}
	if m.At != nil {
		r.Header.Set("If-Match", strconv.Quote(strconv.FormatInt(*m.At, 10)))
	}
	turn := &Turn{}
	return turn, c.do(ctx, r, turn)
}

// act does something about a turn.
func (c *Client) act(ctx context.Context, id, turn, what string, in any) (*Turn, error) {
	return c.turn(ctx, Message{}, in, "sessions", id, "turns", turn, what)
}

// Turn returns what a turn has come to.
func (c *Client) Turn(ctx context.Context, id, turn string) (*Turn, error) {
	return read[Turn](ctx, c, "sessions", id, "turns", turn)
}

// Wait returns what a turn has come to when it is over or waits for decisions. Its events are those of [Client.Watch].
func (c *Client) Wait(ctx context.Context, id, turn string) (*Turn, error) {
	for _, err := range c.Watch(ctx, id, turn, "") {
		if err != nil {
			return nil, err
		}
	}
	return c.Turn(ctx, id, turn)
}

// Decide continues a turn that waits. In the session of another user whose text the caller may not read, the
// returned turn has its ID only.
func (c *Client) Decide(ctx context.Context, id, turn string, decisions ...Decision) (*Turn, error) {
	made, err := c.act(ctx, id, turn, "decisions", map[string]any{"decisions": decisions})
	if refused := (*Error)(nil); errors.As(err, &refused) && refused.Status == http.StatusNoContent {
		return &Turn{ID: turn}, nil
	}
	return made, err
}

// Resume goes on with a turn that was cut off, or looks whether that is done which it waits for.
func (c *Client) Resume(ctx context.Context, id, turn string) (*Turn, error) {
	return c.act(ctx, id, turn, "resume", nil)
}

// Stop cuts a turn off, which can then be resumed, and returns when it has stopped.
func (c *Client) Stop(ctx context.Context, id, turn string) (*Turn, error) {
	return c.act(ctx, id, turn, "stop", nil)
}

// Cancel ends a turn for good.
func (c *Client) Cancel(ctx context.Context, id, turn string) (*Turn, error) {
	return c.act(ctx, id, turn, "cancel", nil)
}
