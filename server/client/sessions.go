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

// Me describes the caller and the server. APIs are the names of the APIs that the server speaks. Desk reports whether
// the tree can hand conversations off to people.
type Me struct {
	User, App, Version string
	Rights             []string
	APIs               []string `json:"apis"`
	Tree               struct{ Root, Revision string }
	Desk               bool
}

// Session is the state of a session. Active is the agent that answers the next message. State is the state of the last
// turn and Turn its id; both are "" without a turn. Sessions of a list have no Pending.
type Session struct {
	ID, User, Title     string
	Seq                 int64
	Created, Updated    time.Time
	Active, State, Turn string
	Pending             []Call
	// Parent is the session from which a fork was created, and the last position that they share. nil without a parent.
	Parent *struct {
		ID  string
		Seq int64
	}
}

// Call is an open question. Its Kind is permission or input. For input, Message is the question and Schema the schema
// of the answer.
type Call struct {
	CallID, Kind, Tool, Message, Agent, Path string
	Params, Schema                           json.RawMessage
	// By are the people who may decide, as in an event.Relay. Digest identifies the call and its parameters.
	By     []string
	Digest string
}

// Turn is the state of a turn. State is running, waiting (for decisions, or for something external), cut_off (it can be
// resumed), done, failed or canceled. First is the position of the message that started it, and Seq that of its last
// event. Text is the answer of the agent Agent.
type Turn struct {
	ID, Session, State, Agent, Text string
	First, Seq                      int64
	FinishReason                    event.FinishReason
	Output                          json.RawMessage
	Pending                         []Call
	Usage                           llm.Usage
	Error                           *TurnError
}

// Err returns the *[TurnError] of a turn that failed, and nil for other turns.
func (t *Turn) Err() error {
	if t.State != "failed" {
		return nil
	}
	e := *cmp.Or(t.Error, &TurnError{Message: "the turn failed"})
	e.limit = t.FinishReason == event.FinishReasonLimit
	return &e
}

// Message is a message of the user.
type Message struct {
	Content  llm.Content    `json:"content"`
	Metadata map[string]any `json:"metadata,omitempty"`
	// At is the position at which the log must end; otherwise the error is agent.ErrConflict. nil is any position.
	At *int64 `json:"-"`
	// Request is the id of the request; the server executes requests with the same id once. "" generates one.
	Request string `json:"-"`
}

// Decision answers an open question. Content is the answer to a question of kind input. The model receives the Reason.
type Decision struct {
	CallID   string          `json:"callId"`
	Approved bool            `json:"approved"`
	Content  json.RawMessage `json:"content,omitempty"`
	Reason   string          `json:"reason,omitempty"`
	// Digest must be the digest of the call, unless it is "".
	Digest string `json:"digest,omitempty"`
}

// read returns the resource at a path.
func read[T any](ctx context.Context, c *Client, path ...string) (*T, error) {
	v := new(T)
	return v, c.do(ctx, c.get(path...), v)
}

// Me returns the caller and the server.
func (c *Client) Me(ctx context.Context) (*Me, error) { return read[Me](ctx, c, "me") }

// Agents decodes the answer of GET /agents into the value that out points to.
func (c *Client) Agents(ctx context.Context, out any) error { return c.do(ctx, c.get("agents"), out) }

// Session returns the state of a session.
func (c *Client) Session(ctx context.Context, id string) (*Session, error) {
	return read[Session](ctx, c, "sessions", id)
}

// Sessions returns a page of the sessions, last changed first. next is the value of after for the next page, or "" on
// the last page. An empty after returns the first page.
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

// Begin sends a message to the active agent of a session. If the session does not exist, Begin creates it. With the id ""
// it creates a session whose id the server chooses. It returns when the message is stored. The turn continues if the
// client disconnects. The error is agent.ErrSessionBusy while another turn is running.
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

// turn sends a request that answers with a turn, with the Request and the At of a message.
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

// postTurn posts to a path below a turn.
func (c *Client) postTurn(ctx context.Context, id, turn, what string, in any) (*Turn, error) {
	return c.turn(ctx, Message{}, in, "sessions", id, "turns", turn, what)
}

// Turn returns the state of a turn.
func (c *Client) Turn(ctx context.Context, id, turn string) (*Turn, error) {
	return read[Turn](ctx, c, "sessions", id, "turns", turn)
}

// Wait waits until a turn has ended or waits for decisions, and returns its state.
func (c *Client) Wait(ctx context.Context, id, turn string) (*Turn, error) {
	for _, err := range c.Watch(ctx, id, turn, "") {
		if err != nil {
			return nil, err
		}
	}
	return c.Turn(ctx, id, turn)
}

// Decide resumes a turn that waits, with decisions. If the session belongs to another user and the caller may not read
// it, the returned turn has only its ID.
func (c *Client) Decide(ctx context.Context, id, turn string, decisions ...Decision) (*Turn, error) {
	made, err := c.postTurn(ctx, id, turn, "decisions", map[string]any{"decisions": decisions})
	if refused := (*Error)(nil); errors.As(err, &refused) && refused.Status == http.StatusNoContent {
		return &Turn{ID: turn}, nil
	}
	return made, err
}

// Resume resumes a turn that was interrupted, or that waits for something external, which may be available by now.
func (c *Client) Resume(ctx context.Context, id, turn string) (*Turn, error) {
	return c.postTurn(ctx, id, turn, "resume", nil)
}

// Stop interrupts a turn, and returns when it has stopped. The turn can be resumed.
func (c *Client) Stop(ctx context.Context, id, turn string) (*Turn, error) {
	return c.postTurn(ctx, id, turn, "stop", nil)
}

// Cancel ends a turn, which cannot be resumed.
func (c *Client) Cancel(ctx context.Context, id, turn string) (*Turn, error) {
	return c.postTurn(ctx, id, turn, "cancel", nil)
}
