package replay

import (
	"crypto/sha256"
	"encoding/json"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/chatform"
	"github.com/agentarbor/arbor/llm"
)

// place identifies a request: the position of the recorded answer, and the number of the request at it.
type place struct {
	seq int64
	n   int
}

func (a *ask) place() place { return place{a.seq, a.n} }

// Request is a request to a model, in the form of chat completions.
type Request struct {
	Model    string             `json:"model"`
	Messages []chatform.Message `json:"messages"`
	Tools    []chatform.Tool    `json:"tools"`
	Settings map[string]any     `json:"settings,omitempty"`
}

// head returns the request without the messages of the conversation.
func (a *ask) head() *Request {
	r := chatform.RequestOf(&llm.Request{System: a.request.System, Tools: a.request.Tools})
	return &Request{a.model, r.Messages, r.Tools, chatform.Settings(a.request.Settings)}
}

// body returns the whole request.
func (a *ask) body() *Request {
	r := a.head()
	for i := range a.request.Messages {
		r.Messages = append(r.Messages, a.message(&a.request.Messages[i]))
	}
	return r
}

// message returns a message of the conversation, with the recorded ids of its calls.
func (a *ask) message(m *llm.Message) chatform.Message {
	out := chatform.Messages([]llm.Message{*m})[0]
	id := func(id string) string {
		if was := a.p.recorded[id]; was != "" {
			return was
		}
		return id
	}
	out.ToolCallID = id(out.ToolCallID)
	for i := range out.ToolCalls {
		out.ToolCalls[i].ID = id(out.ToolCalls[i].ID)
	}
	return out
}

type sum [sha256.Size]byte

// sums caches the sums of the agents' conversations, which grow: each message is summed once.
type sums map[string]*chain

type chain struct {
	messages []llm.Message
	sums     []sum // the n-th is that of the first n+1 messages
}

// of returns the sum of a request.
func (s sums) of(a *ask) sum {
	key := a.scope + "\x00" + a.path
	c := s[key]
	if c == nil {
		c = &chain{}
		s[key] = c
	}
	messages, n := a.request.Messages, 0
	for n < min(len(messages), len(c.messages)) && sameMessage(&messages[n], &c.messages[n]) {
		n++
	}
	c.messages, c.sums = messages, c.sums[:n]
	last := sum{}
	if n > 0 {
		last = c.sums[n-1]
	}
	for i := n; i < len(messages); i++ {
		last = last.with(a.message(&messages[i]))
		c.sums = append(c.sums, last)
	}
	return last.with(a.head())
}

func (s sum) with(v any) sum { return sha256.Sum256(append(s[:], event.EncodeJSON(v)...)) }

// sameMessage reports whether two messages are the same value, and not only equal.
func sameMessage(a, b *llm.Message) bool {
	return a.Role == b.Role && a.Text == b.Text && len(a.Parts) == len(b.Parts) && (len(a.Parts) == 0 || &a.Parts[0] == &b.Parts[0])
}

func indented(v any) string {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return string(event.EncodeJSON(v))
	}
	return string(b)
}
