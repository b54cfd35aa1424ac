package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/schema"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// Context is a tool call's context.Context, with what the call may know of its
// session. It is valid until the call returns.
type Context struct {
	context.Context
	call *call
}

// CallInfo is what a Context is made from. An agent fills it in; a test of a
// tool can leave all of it empty.
type CallInfo struct {
	Session session.Key
	Agent   string
	RunID   string
	CallID  string
	Logger  *slog.Logger
	// Metadata is what came with the user's message of this turn.
	Metadata map[string]any
	// State reads the session's state; nil reads nothing. It must be safe for
	// concurrent use.
	State func(key string) (any, bool)
	// Progress takes what the tool reports while it runs; nil drops it.
	Progress func(content json.RawMessage)
	// SaveFile keeps the bytes of a file; nil keeps nothing, and describes it all the same.
	SaveFile func(ctx context.Context, name, mediaType string, data []byte) (*event.File, error)
	// File reads a file of the session; nil finds none.
	File func(ctx context.Context, name string) (*event.File, []byte, error)
	// RunAgent runs an agent in a scope of its own and returns its last words.
	RunAgent func(ctx context.Context, a agent.Agent, input llm.Content) (string, error)
	// Answers are what the questions of this call were answered so far, in order.
	Answers []*event.RelayResolved
	// Ask takes the question that has no answer yet; nil says that nobody can be asked.
	Ask func(message string, schema json.RawMessage)
}

type call struct {
	CallInfo
	mu           sync.Mutex
	delta        map[string]any
	files        []*event.File
	lastProgress time.Time
	asked        int // how many questions
	ended        bool
}

// ProgressInterval is the least time between two reports of one call that are
// kept; others are dropped.
const ProgressInterval = 100 * time.Millisecond

// newContext makes the context of one call.
func newContext(ctx context.Context, info CallInfo) Context {
	if info.Logger == nil {
		info.Logger = slog.New(slog.DiscardHandler)
	}
	return Context{ctx, &call{CallInfo: info}}
}

// Session returns the session's key.
func (c Context) Session() session.Key { return c.call.Session }

// Agent returns the name of the agent whose model called.
func (c Context) Agent() string { return c.call.Agent }

// CallID returns the id of the call.
func (c Context) CallID() string { return c.call.CallID }

// Metadata is what runner.WithMetadata gave with the user's message of this turn, also in
// an agent that a tool or a graph runs; nil if there is nothing. It is shared and must not
// be changed.
func (c Context) Metadata() map[string]any { return c.call.Metadata }

// IdempotencyKey is the same for every execution of this call, also after a
// crash, and differs between calls: runId/callId.
func (c Context) IdempotencyKey() string { return c.call.RunID + "/" + c.call.CallID }

// Logger returns the runner's logger.
func (c Context) Logger() *slog.Logger { return c.call.Logger }

// Get returns a value of the session's state, this call's own changes included. It is
// shared and must not be changed. session.GetAs reads it as a value of a type.
func (c Context) Get(key string) (any, bool) {
	c.call.mu.Lock()
	v, ok := c.call.delta[key]
	c.call.mu.Unlock()
	if raw, deep := v.(json.RawMessage); deep {
		return string(raw), true
	}
	switch {
	case ok:
		return v, v != nil
	case c.call.State == nil:
		return nil, false
	}
	return c.call.State(key)
}

// Set changes the session's state; nil deletes the key. The change is stored
// together with the call's result, also a failed one's. Keys with the prefixes
// "turn:", "user:" and "app:" belong to those scopes.
//
// The value is kept as it is read back from its JSON, so that Get returns the same
// before and after a restart. Every number is a float64, or a json.Number if a float64
// would change its digits. A struct is a map. What is nested deeper than
// [event.MaxDepth] levels is the text of its JSON.
func (c Context) Set(key string, value any) {
	raw := event.EncodeJSON(value)
	var plain any = raw // until it is stored, where a notice tells that it is text
	if !event.TooDeep(raw) {
		plain = event.DecodeValue(raw)
	}
	c.call.mu.Lock()
	defer c.call.mu.Unlock()
	if c.call.delta == nil {
		c.call.delta = make(map[string]any)
	}
	c.call.delta[key] = plain
}

// Progress reports how far the call is. Reports that follow each other within
// ProgressInterval, or come after the call's end, are dropped.
func (c Context) Progress(content any) {
	if c.call.Progress == nil {
		return
	}
	c.call.mu.Lock()
	now := time.Now()
	drop := c.call.ended || !c.call.lastProgress.IsZero() && now.Sub(c.call.lastProgress) < ProgressInterval
	if !drop {
		c.call.lastProgress = now
	}
	c.call.mu.Unlock()
	if !drop {
		c.call.Progress(event.EncodeJSON(content))
	}
}

// RunAgent runs an agent in a scope of its own: it sees input and nothing of
// the conversation, and its last words are returned.
//
// If the agent has to wait for somebody outside, such as for an approval, the error is
// agent.ErrWaits. The tool returns it, the turn pauses, and when it goes on the tool is
// called again from its beginning. Its calls of RunAgent with the same agents and inputs, in
// the same order, then get what they got before, and the one that waited goes on.
func (c Context) RunAgent(a agent.Agent, input string) (string, error) {
	if c.call.RunAgent == nil {
		return "", errors.New("agents cannot be run from here")
	}
	return c.call.RunAgent(c.Context, a, llm.Content{Text: input})
}

// DeclinedError is the error of Ask when the user declines to answer.
type DeclinedError struct {
	Reason string // the user's, for the model
}

func (e *DeclinedError) Error() string {
	if e.Reason == "" {
		return "the user declined to answer"
	}
	return "the user declined to answer: " + e.Reason
}

// Ask asks the user in mid-call, and returns the answer: a value that the JSON schema form
// allows, or a text if that is nil. The first time the error is agent.ErrWaits: the tool
// returns it, and the turn pauses until there is an answer. Then the tool is called again from
// its beginning, and the n-th Ask of a call returns the n-th answer. So whatever comes before an
// Ask is done again, and must bear it. A user who declines is a *DeclinedError.
func (c Context) Ask(message string, form json.RawMessage) (json.RawMessage, error) {
	if len(form) > 0 {
		if err := schema.Check(form); err != nil {
			return nil, fmt.Errorf("the schema of the answer to %q: %w", message, err)
		}
	}
	c.call.mu.Lock()
	defer c.call.mu.Unlock()
	n := c.call.asked
	switch c.call.asked++; {
	case n < len(c.call.Answers):
		if a := c.call.Answers[n]; !a.Approved {
			return nil, &DeclinedError{a.Reason}
		}
		return c.call.Answers[n].Content, nil
	case c.call.CallInfo.Ask == nil:
		return nil, errors.New("questions cannot be asked from here")
	case n == len(c.call.Answers) && !c.call.ended: // one question after the other
		c.call.CallInfo.Ask(message, form)
	}
	return nil, agent.ErrWaits
}

// end makes what the call has left running harmless.
func (c Context) end() {
	c.call.mu.Lock()
	defer c.call.mu.Unlock()
	c.call.ended = true
}

// stateDelta returns the changes the call made, nil if none.
func (c Context) stateDelta() map[string]any {
	c.call.mu.Lock()
	defer c.call.mu.Unlock()
	delta := c.call.delta
	c.call.delta = nil
	return delta
}
