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

// Context is the context.Context of a tool call, with access to the session. It is valid until the call returns. Its
// methods are safe for concurrent use.
type Context struct {
	context.Context
	call *call
}

// CallInfo describes a call to [Execute]. Agents fill it in. The zero value is enough to test a tool.
type CallInfo struct {
	Session session.Key
	Agent   string
	RunID   string
	CallID  string
	Logger  *slog.Logger
	// Metadata is the metadata of the user's message of this turn.
	Metadata map[string]any
	// State returns a value of the session's state. It must be safe for concurrent use. nil means an empty state.
	State func(key string) (any, bool)
	// Progress receives the tool's reports while it runs; nil drops them.
	Progress func(content json.RawMessage)
	// SaveFile stores the bytes of a file. If it is nil, no bytes are stored, but the file is still described.
	SaveFile func(ctx context.Context, name, mediaType string, data []byte) (*event.File, error)
	// File reads a file of the session; nil means a session without files.
	File func(ctx context.Context, name string) (*event.File, []byte, error)
	// RunAgent runs an agent in an inner scope and returns its last text; see [Context.RunAgent].
	RunAgent func(ctx context.Context, a agent.Agent, input llm.Content) (string, error)
	// Answers are the answers so far to the questions of this call, in the order of the questions.
	Answers []*event.RelayResolved
	// Digest returns the digest of a question, as its answer has it. If it is nil, the n-th answer is that to the n-th
	// question.
	Digest func(message string, schema json.RawMessage) string
	// Ask receives the first question without an answer. If it is nil, questions are an error.
	Ask func(message string, schema json.RawMessage)
}

type call struct {
	CallInfo
	mu           sync.Mutex
	delta        map[string]any
	files        []*event.File
	lastProgress time.Time
	used         int  // the number of answers that questions have got or passed over
	asks         bool // a question waits for its answer
	ended        bool
}

// progressInterval is the minimum time between two progress reports of a call. Reports in between are dropped.
const progressInterval = 100 * time.Millisecond

// newContext returns the context of one call.
func newContext(ctx context.Context, info CallInfo) Context {
	if info.Logger == nil {
		info.Logger = slog.New(slog.DiscardHandler)
	}
	return Context{ctx, &call{CallInfo: info}}
}

// Session returns the session's key.
func (c Context) Session() session.Key { return c.call.Session }

// Agent returns the name of the agent whose model made the call.
func (c Context) Agent() string { return c.call.Agent }

// CallID returns the id of the call.
func (c Context) CallID() string { return c.call.CallID }

// Metadata returns the metadata of the user's message of this turn (see runner.WithMetadata), also in an agent that a
// tool or a graph runs. It returns nil without metadata. The map is shared and must not be changed.
func (c Context) Metadata() map[string]any { return c.call.Metadata }

// IdempotencyKey returns a key that is the same for every execution of this call, also after a crash, and differs
// between calls: "runId/callId".
func (c Context) IdempotencyKey() string { return c.call.RunID + "/" + c.call.CallID }

// Logger returns the runner's logger.
func (c Context) Logger() *slog.Logger { return c.call.Logger }

// Get returns a value of the session's state, including this call's changes, and whether the key exists. The value is
// shared and must not be changed. session.GetAs converts it to a type.
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

// Set sets a value of the session's state. The value nil deletes the key. The change is stored together with the result
// of the call, even if the call fails. A key with the prefix "turn:", "user:" or "app:" belongs to that scope.
//
// The value is encoded to JSON and decoded again, so that Get returns the same before and after a restart. A number
// becomes a float64, or a json.Number if a float64 would change its digits. A struct becomes a map. A value that is
// nested deeper than [event.MaxDepth] levels becomes the text of its JSON.
func (c Context) Set(key string, value any) {
	raw := event.EncodeJSON(value)
	var plain any = raw // when it is stored it becomes text, and a notice reports that
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

// Progress reports the progress of the call. It drops a report within 100 ms of the last one, and after the
// end of the call.
func (c Context) Progress(content any) {
	if c.call.Progress == nil {
		return
	}
	c.call.mu.Lock()
	now := time.Now()
	drop := c.call.ended || !c.call.lastProgress.IsZero() && now.Sub(c.call.lastProgress) < progressInterval
	if !drop {
		c.call.lastProgress = now
	}
	c.call.mu.Unlock()
	if !drop {
		c.call.Progress(event.EncodeJSON(content))
	}
}

// RunAgent runs an agent in an inner scope and returns its last text. The agent sees the input, and nothing of the
// conversation. If the model has reached its length limit, the text ends with a line that says so. If a content filter
// has withheld the answer, the result is an error.
//
// If the agent has to wait, for example for an approval, the error is agent.ErrWaits. The tool must return it; then the
// turn pauses. When the turn is resumed, the tool is called again from its beginning. Calls of RunAgent with the same
// agents and inputs, in the same order, then return their earlier results, and the agent that waited continues.
func (c Context) RunAgent(a agent.Agent, input string) (string, error) {
	if c.call.RunAgent == nil {
		return "", errors.New("this call cannot run agents")
	}
	return c.call.RunAgent(c.Context, a, llm.Content{Text: input})
}

// DeclinedError is the error of [Context.Ask] if the user declines to answer.
type DeclinedError struct {
	Reason string // the user's reason, which the model reads; "" if the user gave none
}

func (e *DeclinedError) Error() string {
	if e.Reason == "" {
		return "the user declined to answer"
	}
	return "the user declined to answer: " + e.Reason
}

// maxPassed is the number of answers to earlier questions in a row that an Ask can pass over.
const maxPassed = 5

// Ask asks the user a question during the call, and returns the answer: a value of the JSON schema form, or a text if
// form is nil. If the question has no answer yet, the error is agent.ErrWaits. The tool must return it; then the turn
// pauses until the user answers. Then the tool is called again from its beginning, and an Ask with the same question
// returns the answer. Another question in its place is asked anew, because it has no answer; after five
// answers to earlier questions, Ask returns an error. So a question must not contain what changes by itself, such as the
// time. Code before an Ask runs several times, and must allow that. If the user declines, the error is a [*DeclinedError].
func (c Context) Ask(message string, form json.RawMessage) (json.RawMessage, error) {
	if len(form) > 0 {
		if err := schema.Check(form); err != nil {
			return nil, fmt.Errorf("the schema of the answer to %q: %w", message, err)
		}
	}
	c.call.mu.Lock()
	defer c.call.mu.Unlock()
	digest := ""
	if c.call.Digest != nil && c.call.used < len(c.call.Answers) {
		digest = c.call.Digest(message, form)
	}
	for passed := 1; c.call.used < len(c.call.Answers); passed++ {
		a := c.call.Answers[c.call.used]
		switch c.call.used++; {
		case a.Digest != digest && a.Digest != "" && digest != "": // of a question that is not asked any more
			if passed == maxPassed {
				return nil, fmt.Errorf("the question %q was another one at each of %d calls: it must stay the same", message, maxPassed)
			}
		case !a.Approved:
			return nil, &DeclinedError{a.Reason}
		default:
			return a.Content, nil
		}
	}
	if c.call.Ask == nil {
		return nil, errors.New("this call cannot ask questions")
	}
	if !c.call.asks && !c.call.ended { // one question at a time
		c.call.asks = true
		c.call.Ask(message, form)
	}
	return nil, agent.ErrWaits
}

// end ends the call: what the tool does in goroutines after that has no effect.
func (c Context) end() {
	c.call.mu.Lock()
	defer c.call.mu.Unlock()
	c.call.ended = true
}

// stateDelta returns the changes of the state that the call has made, or nil.
func (c Context) stateDelta() map[string]any {
	c.call.mu.Lock()
	defer c.call.mu.Unlock()
	delta := c.call.delta
	c.call.delta = nil
	return delta
}
