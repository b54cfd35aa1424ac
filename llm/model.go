package llm

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"time"
)

// Model is a language model. Implementations are safe for concurrent use.
//
// Generate asks for one answer. The sequence yields text and reasoning as they
// arrive, each tool call once and whole, and last one terminal chunk whose
// Finish is set; usage may come with any chunk, the last one counts. An error
// ends the sequence; a sequence that ends with neither error nor terminal chunk
// was cut off, and its caller must execute nothing of it. Breaking out of the
// sequence cancels the request. Errors are [*Error] values, or the context's.
type Model interface {
	// Name is the model's name as the endpoint knows it.
	Name() string
	Generate(ctx context.Context, req *Request) iter.Seq2[Chunk, error]
}

// Request is all that a model sees. It is shared and read-only.
type Request struct {
	// System is the one system message at the front; empty means none.
	System string
	// Messages is the conversation, oldest first.
	Messages []Message
	// Tools are the functions the model may call, in a stable order.
	Tools []ToolSpec
	// Known are tools that exist and are not on offer in this request. They are not sent: an adapter
	// that finds calls among words looks for them too, so that such a call can be refused
	// and is not shown to the user.
	Known []ToolSpec
	// Allowed are the names of the Tools that the model may call now, if it may not call all of them; nil allows all. An
	// adapter sends it only to an endpoint that is known to take it.
	Allowed []string
	// Stream asks for deltas. Without it an adapter may still answer in pieces.
	Stream bool
	// Agent is the path of the agent that asks, its names from the root joined by "/",
	// or empty. No model sees it: it is for adapters that tell the endpoint which
	// prompt cache the request goes with.
	Agent string
	// Once asks an adapter not to repeat a request that failed, because its caller has
	// something better to do, such as to ask another model. No model sees it.
	Once bool
	Settings
}

// Settings tune the generation. The zero value leaves all to the endpoint.
type Settings struct {
	// Temperature and TopP are sent when not nil, zero included.
	Temperature *float64
	TopP        *float64
	// MaxTokens bounds the answer, in tokens; 0 means the endpoint's default.
	MaxTokens int
	// Stop holds strings that end the answer.
	Stop []string
	// ToolChoice steers tool calls; empty means auto.
	ToolChoice ToolChoice
	// ParallelToolCalls, when not nil, allows or forbids several calls in one answer.
	ParallelToolCalls *bool
	// ResponseFormat asks for JSON of a schema; nil means free text.
	ResponseFormat *ResponseFormat
	// TopLogProbs asks for the log probabilities of the answer's tokens, with this many
	// of the likeliest tokens at each place; 0 asks for none. Some endpoints refuse a
	// request that asks for them, some ignore it, and OpenAI's gives at most 20.
	TopLogProbs int
	// Seed asks for answers that repeat themselves, as far as an endpoint can; nil sends none.
	Seed *int64
	// ReasoningEffort says how much a model thinks before it answers, in words that its
	// endpoint knows, such as low; empty sends none.
	ReasoningEffort string
	// Thinking turns the model's thinking before an answer on or off, if the endpoint can; nil leaves it to the endpoint.
	Thinking *bool
	// Echo says whether the model gets its own reasoning back; empty is EchoAuto.
	Echo Echo
	// Endpoint names the endpoint's provider, or its quirks, as the adapter calls them: for llm/openai see
	// openai.Endpoints. Empty leaves it to the adapter. It is never sent.
	Endpoint []string
	// Timeouts bound the wait for an answer, in place of the adapter's own limits. They are never sent.
	Timeouts Timeouts
	// LeakedCalls says whether a whole tool call that the model writes as words is
	// read as a call; empty means what the adapter does otherwise. It is about the
	// answer, and never sent.
	LeakedCalls LeakedCalls
}

// Timeouts bound the wait for one answer. A field of zero leaves the limit to the adapter, a negative one
// means no limit.
type Timeouts struct {
	First   time.Duration // the longest silence before the first word of a streamed answer
	Silence time.Duration // the longest silence after it
	Answer  time.Duration // from the request to the end of the answer
}

// Or returns the limits with those of other for fields that are zero.
func (t Timeouts) Or(other Timeouts) Timeouts {
	return Timeouts{cmp.Or(t.First, other.First), cmp.Or(t.Silence, other.Silence), cmp.Or(t.Answer, other.Answer)}
}

// ForEndpoint returns the settings that describe the endpoint and the model's thinking, without those that
// describe the answer. An agent's requests of other kinds, such as for a summary, use them.
func (s Settings) ForEndpoint() Settings {
	return Settings{Thinking: s.Thinking, Echo: s.Echo, Endpoint: s.Endpoint, Timeouts: s.Timeouts}
}

// Echo says whether a model gets its own reasoning back with the conversation. A model never gets the reasoning of
// another model or another endpoint.
type Echo string

// With auto, the reasoning goes back if the endpoint is known to want it, or has refused a request without it. With on, it
// goes back unless the endpoint refuses it. With off, it never goes back.
const (
	EchoAuto Echo = "auto"
	EchoOn   Echo = "on"
	EchoOff  Echo = "off"
)

// Known reports whether the value is one of these.
func (e Echo) Known() bool { return e == EchoAuto || e == EchoOn || e == EchoOff }

// LeakedCalls says what is done with a tool call that a model writes as words.
type LeakedCalls string

// With auto a call of a tool that the request offers or knows is read as a call where it cannot be
// anything else. With any the name does not matter where the call is the whole answer: small models make
// tools up, and a call of one is refused rather than shown. With off all of them stay words.
const (
	LeakedCallsAuto LeakedCalls = "auto"
	LeakedCallsAny  LeakedCalls = "any"
	LeakedCallsOff  LeakedCalls = "off"
)

// Known reports whether the value is one of these.
func (l LeakedCalls) Known() bool {
	return l == LeakedCallsAuto || l == LeakedCallsAny || l == LeakedCallsOff
}

// ToolChoice is auto, none, required, or the name of the one tool to call.
type ToolChoice string

// Mode reports whether the choice names no tool.
func (c ToolChoice) Mode() bool {
	return c == "" || c == ToolChoiceAuto || c == ToolChoiceNone || c == ToolChoiceRequired
}

// The tool choices that are not a tool's name.
const (
	ToolChoiceAuto     ToolChoice = "auto"
	ToolChoiceNone     ToolChoice = "none"
	ToolChoiceRequired ToolChoice = "required"
)

// ResponseFormat asks the model to answer with JSON that follows Schema.
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
	// Aliases are other names by which a model may call the tool and is understood.
	// They are not sent: an adapter that finds calls among words looks for them too.
	Aliases []string
	// Bare are those names of the tool that are a call, without arguments, where a model writes
	// one of them and nothing else as its answer. They are not sent.
	Bare []string
}

// Chunk is one piece of a streamed answer. More than one field may be set.
type Chunk struct {
	// Text and Reasoning are deltas.
	Text      string
	Reasoning string
	// LogProbs are those of the tokens of the text, if the request asks for them and the
	// endpoint has them. They come with the text, or after it.
	LogProbs []LogProb
	// Sealed is the [Reasoning] of the answer as its endpoint wants it back, whole.
	Sealed string
	// Call is a whole tool call.
	Call *ToolCall
	// Usage, when not nil, holds the totals of the answer so far.
	Usage *Usage
	// Model is the name the endpoint gave for the model that answered, if any.
	Model string
	// Finish is set on the terminal chunk only.
	Finish FinishReason
	// Lost and Notice come in chunks that have nothing of an answer, from models that ask
	// others.
	Lost   *Attempt
	Notice *Notice
}

// LogProb is a token of an answer with the natural logarithm of its probability, and
// the likeliest tokens at its place, itself among them as a rule. Endpoints differ in
// whether a schema that the answer must follow has changed the probabilities.
type LogProb struct {
	Token   string
	LogProb float64
	Top     []LogProb
}

// FinishReason says why a model stopped.
type FinishReason string

// The finish reasons of the chat-completions protocol. Endpoints disagree on
// FinishStop and FinishToolCalls; what counts is whether calls are present.
const (
	FinishStop          FinishReason = "stop"
	FinishToolCalls     FinishReason = "tool_calls"
	FinishLength        FinishReason = "length"
	FinishContentFilter FinishReason = "content_filter"
)
