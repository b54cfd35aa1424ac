package llm

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"slices"
	"time"
)

// Model is a language model. Implementations must be safe for concurrent use.
//
// Generate requests one answer. The sequence yields text and reasoning as they arrive, each tool call once and
// complete, and at the end one terminal chunk whose Finish is set. Usage may come with any chunk; the last one counts.
// An error ends the sequence. A sequence that ends with neither an error nor a terminal chunk was cut off: the caller
// must not execute any of its calls. Breaking out of the sequence cancels the request. Errors are [*Error] values, or
// the error of the context.
type Model interface {
	// Name returns the model's name at the endpoint.
	Name() string
	Generate(ctx context.Context, req *Request) iter.Seq2[Chunk, error]
}

// Request is everything that a model sees. It is shared and read-only.
type Request struct {
	// System is the one system message at the beginning; empty means none.
	System string
	// Messages is the conversation, oldest first.
	Messages []Message
	// Tools are the functions the model may call, in a stable order.
	Tools []ToolSpec
	// Known are tools that exist but are not offered in this request. They are not sent. An adapter that finds calls in
	// an answer's text looks for their names too, so that such a call can be refused instead of shown to the user.
	Known []ToolSpec
	// Allowed names the Tools that the model may call now, if it may not call all of them; nil allows all. An adapter
	// sends it only to an endpoint that is known to support it.
	Allowed []string
	// Stream requests deltas. Without it an adapter may still return the answer in pieces.
	Stream bool
	// Agent is the path of the agent that asks: the names from the root, joined by "/"; it may be empty. No model sees
	// it. Adapters use it to choose the endpoint's prompt cache.
	Agent string
	// Once stops an adapter from retrying a failed request, because the caller has a better option, such as another
	// model. No model sees it.
	Once bool
	Settings
}

// Settings tune the generation. The zero value leaves everything to the endpoint.
type Settings struct {
	// Temperature and TopP are sent if they are not nil, even if they are zero.
	Temperature *float64
	TopP        *float64
	// MaxTokens limits the answer, in tokens; 0 means the endpoint's default.
	MaxTokens int
	// Stop contains strings that end the answer.
	Stop []string
	// ToolChoice controls tool calls; empty means auto.
	ToolChoice ToolChoice
	// ParallelToolCalls, if not nil, allows or forbids several calls in one answer.
	ParallelToolCalls *bool
	// ResponseFormat requests JSON that follows a schema; nil means free text.
	ResponseFormat *ResponseFormat
	// TopLogProbs requests the log probabilities of the answer's tokens, with this number of the likeliest tokens at
	// each position; 0 requests none. Some endpoints refuse or ignore such a request, and OpenAI's returns at most 20.
	TopLogProbs int
	// Seed asks the endpoint to repeat its answers as far as it can; nil sends no seed.
	Seed *int64
	// ReasoningEffort is how much a model thinks before it answers, in a value of its endpoint, such as low; empty
	// sends none.
	ReasoningEffort string
	// Thinking turns the model's thinking before an answer on or off, if the endpoint can; nil leaves it to the endpoint.
	Thinking *bool
	// Echo controls whether the model gets its own reasoning back; empty means EchoAuto.
	Echo Echo
	// Endpoint names the endpoint's provider, or its quirks, with the adapter's names: for llm/openai see
	// openai.Endpoints. Empty leaves the choice to the adapter. It is never sent.
	Endpoint []string
	// Timeouts limit the wait for an answer instead of the adapter's own limits. They are never sent.
	Timeouts Timeouts
	// LeakedCalls controls whether a complete tool call that the model writes as text is read as a call; empty means
	// the adapter's default. It is never sent.
	LeakedCalls LeakedCalls
}

// Timeouts limit the wait for one answer. Zero in a field leaves the limit to the adapter; a negative value means no
// limit.
type Timeouts struct {
	// Connect is the longest wait for a connection, including name resolution and TLS.
	Connect time.Duration
	// First is the longest wait for the first piece of a streamed answer. A local model may read a long prompt for
	// minutes. It does not apply to answers that are not streamed: their first byte comes when the answer is complete.
	First time.Duration
	// Silence is the longest wait between later pieces of text, reasoning or a call. Keep-alive comments count as
	// pieces. The consumer's time does not count.
	Silence time.Duration
	// Answer is the maximal time from the start of an attempt to the end of the answer, including the consumer's time.
	Answer time.Duration
}

// Or returns the limits, with those of other in place of fields that are zero.
func (t Timeouts) Or(other Timeouts) Timeouts {
	return Timeouts{cmp.Or(t.Connect, other.Connect), cmp.Or(t.First, other.First), cmp.Or(t.Silence, other.Silence), cmp.Or(t.Answer, other.Answer)}
}

// ForEndpoint returns only the settings that describe the endpoint and the model's thinking, not those that describe
// the answer. They apply to an agent's other requests, such as for a summary.
func (s Settings) ForEndpoint() Settings {
	return Settings{Thinking: s.Thinking, Echo: s.Echo, Endpoint: s.Endpoint, Timeouts: s.Timeouts}
}

// Echo controls whether a model gets its own reasoning back with the conversation. A model never gets the reasoning of
// another model or another endpoint.
type Echo string

// With auto, the reasoning goes back if the endpoint is known to require it, or has refused a request without it. With
// on, it goes back unless the endpoint refuses it. With off, it never goes back.
const (
	EchoAuto Echo = "auto"
	EchoOn   Echo = "on"
	EchoOff  Echo = "off"
)

// Known reports whether e is one of the values above.
func (e Echo) Known() bool { return e == EchoAuto || e == EchoOn || e == EchoOff }

// LeakedCalls controls how a tool call is handled that a model writes as text.
type LeakedCalls string

// With auto, the call of a tool in [Request.Tools] or [Request.Known] is read as a call if it cannot be anything else.
// With any, the tool's name does not matter if the call is the whole answer: small models invent tools, and refusing
// such a call is better than showing it. With off, all calls in text remain text.
const (
	LeakedCallsAuto LeakedCalls = "auto"
	LeakedCallsAny  LeakedCalls = "any"
	LeakedCallsOff  LeakedCalls = "off"
)

// Known reports whether l is one of the values above.
func (l LeakedCalls) Known() bool {
	return l == LeakedCallsAuto || l == LeakedCallsAny || l == LeakedCallsOff
}

// ToolChoice is auto, none, required, or the name of the one tool to call.
type ToolChoice string

// Mode reports whether the choice does not name a tool.
func (c ToolChoice) Mode() bool {
	return c == "" || c == ToolChoiceAuto || c == ToolChoiceNone || c == ToolChoiceRequired
}

// The tool choices that are not a tool's name.
const (
	ToolChoiceAuto     ToolChoice = "auto"
	ToolChoiceNone     ToolChoice = "none"
	ToolChoiceRequired ToolChoice = "required"
)

// ResponseFormat requires the model to answer with JSON that follows Schema.
type ResponseFormat struct {
	Name   string
	Schema json.RawMessage
	Strict bool
}

// ToolSpec describes a tool to a model. Parameters is a JSON schema of type
// object; empty means no parameters.
type ToolSpec struct {
	Name        string
	Description string
	Parameters  json.RawMessage
	// Aliases are other names that are accepted for the tool in a model's call. They are not sent: an adapter that
	// finds calls in an answer's text looks for them too.
	Aliases []string
	// Bare contains the tool's names and aliases that are read as a call without arguments if one of them is the
	// model's whole answer. They are not sent.
	Bare []string
}

// Chunk is one piece of a streamed answer. More than one field may be set.
type Chunk struct {
	// Text and Reasoning are deltas.
	Text      string
	Reasoning string
	// LogProbs are the log probabilities of the text's tokens, if the request asks for them and the endpoint returns
	// them. They come with the text, or after it.
	LogProbs []LogProb
	// Sealed is [Reasoning.Sealed] of the answer, complete.
	Sealed string
	// Call is a complete tool call.
	Call *ToolCall
	// Usage, if not nil, is the total of the answer up to this chunk.
	Usage *Usage
	// Model is the name that the endpoint returned for the model that answered; it may be empty.
	Model string
	// Finish is set on the terminal chunk only.
	Finish FinishReason
	// Lost and Notice come from a [Composite], in chunks without any part of an answer.
	Lost   *Attempt
	Notice *Notice
}

// Clone returns a copy of a chunk whose call, usage and log probabilities the consumer may change.
func (c Chunk) Clone() Chunk {
	if c.Call != nil {
		call := *c.Call
		c.Call = &call
	}
	if c.Usage != nil {
		u := *c.Usage
		c.Usage = &u
	}
	c.LogProbs = slices.Clone(c.LogProbs)
	for i := range c.LogProbs {
		c.LogProbs[i].Top = slices.Clone(c.LogProbs[i].Top)
	}
	return c
}

// LogProb is a token of an answer with the natural logarithm of its probability, and the likeliest tokens at its
// position, which usually include the token itself. Endpoints differ in whether a schema that the answer must follow
// has changed the probabilities.
type LogProb struct {
	Token   string
	LogProb float64
	Top     []LogProb
}

// FinishReason is the reason why a model stopped.
type FinishReason string

// The finish reasons of the chat-completions protocol. Endpoints differ in when they return FinishStop and
// FinishToolCalls; check whether the answer has calls instead.
const (
	FinishStop          FinishReason = "stop"
	FinishToolCalls     FinishReason = "tool_calls"
	FinishLength        FinishReason = "length"
	FinishContentFilter FinishReason = "content_filter"
)
