package llmagent

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/schema"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/llm"
)

// output is the required form of an agent's answers. It is immutable; a nil *output allows any text.
type output struct {
	format    llm.ResponseFormat
	validator *schema.Validator
	err       error
}

// OutputOption configures [WithOutput].
type OutputOption func(*output)

// OutputStrict asks the endpoint to enforce the schema. OpenAI accepts that only for a struct whose fields are all
// required, including those of nested structs.
func OutputStrict() OutputOption { return func(o *output) { o.format.Strict = true } }

// WithOutput makes the agent end its runs with JSON that is a T, which must be a struct. The request contains the JSON
// schema of T as [llm.ResponseFormat], and the agent validates the answer. If an answer does not fit, the agent
// discards it and asks the model once more with the validation error. If the second answer does not fit either, the
// run ends with an [*OutputError].
//
// The agent may call tools and transfer before it answers: only an answer without calls must fit. The conversation
// shows the answer, which is also the output of the run; runner.CollectAs decodes it. Two answers need not fit: the
// question of [WithDecision] that asks the user which agent they mean, and an answer that a content filter withheld.
func WithOutput[T any](opts ...OutputOption) Option {
	o := &output{}
	if o.format.Schema, o.err = schema.Of(reflect.TypeFor[T]()); o.err == nil {
		o.validator, o.err = schema.Compile(o.format.Schema, schema.Answer)
	}
	for i, opt := range opts {
		if opt == nil {
			o.err = fmt.Errorf("option %d is nil", i)
			break
		}
		opt(o)
	}
	return func(a *Agent) { a.output = o }
}

// OutputError ends a run whose answers do not fit [WithOutput].
type OutputError struct {
	Agent string
	// Err is the validation error of the last answer.
	Err error
}

func (e *OutputError) Error() string {
	return fmt.Sprintf("two answers of %s do not have the required form; the last: %v", e.Agent, e.Err)
}

func (e *OutputError) Unwrap() error { return e.Err }

// checkSettings returns an error if the settings conflict with the output.
func (o *output) checkSettings(settings llm.Settings) error {
	switch {
	case o == nil:
		return nil
	case o.err != nil:
		return fmt.Errorf("output: %w", o.err)
	case settings.ResponseFormat != nil:
		return errors.New("output: the settings have a response format as well; remove one of them")
	}
	return nil
}

// addTo adds the form to a request. If again is true, it also adds the schema to the system text, for endpoints that
// ignore a response format.
func (o *output) addTo(req *llm.Request, again bool) {
	if o == nil {
		return
	}
	format := o.format
	format.Name = "answer"
	req.ResponseFormat = &format
	if again {
		req.System = paragraphs(req.System, "Your answer has to be JSON of this schema, and nothing else: "+string(format.Schema))
	}
}

// parse returns the JSON in the text of a complete answer without calls, or nil if a content filter withheld the
// answer.
func (o *output) parse(answer string, finish llm.FinishReason) (json.RawMessage, error) {
	if o == nil || finish == llm.FinishContentFilter {
		return nil, nil
	}
	text := json.RawMessage(schema.StripCodeFence(answer))
	err := o.validator.Validate(text)
	switch {
	case err == nil:
		return text, nil
	case finish == llm.FinishLength:
		return nil, errors.New("it was cut off by its length limit")
	}
	return nil, errors.New(visible.CutMiddle(clean(err.Error()), pieceLimit))
}

// ClientOutputKey is the key of a turn's [ClientOutput] in the metadata of the user's message. Clients of the APIs
// cannot set it.
const ClientOutputKey = "arbor.output"

// ClientOutput is the form of answer that a user's client requires for one turn. The agent that answers the user ends
// its run with JSON of this form, also after a transfer, as an agent with [WithOutput] does. It replaces the agent's
// own form for the turn. The zero value allows any JSON object.
type ClientOutput struct {
	// Schema is a JSON schema of at most 256 KiB.
	// Defaults to the schema of any object.
	Schema json.RawMessage `json:"schema,omitempty"`
	// Strict asks the endpoint to enforce the schema; see [OutputStrict].
	Strict bool `json:"strict,omitempty"`
}

// ClientOutputIn returns the ClientOutput in the metadata of a user's message, or nil if the metadata has no
// [ClientOutputKey].
func ClientOutputIn(metadata map[string]any) (*ClientOutput, error) {
	kept, ok := metadata[ClientOutputKey]
	if !ok {
		return nil, nil
	}
	w := &ClientOutput{}
	if err := json.Unmarshal(event.EncodeJSON(kept), w); err != nil {
		return nil, fmt.Errorf("the metadata %s: %w", ClientOutputKey, err)
	}
	return w, nil
}

// Check returns an error if an output does not have the form, or if the schema is invalid.
func (w *ClientOutput) Check(output json.RawMessage) error {
	o := w.output()
	if o.err != nil {
		return o.err
	}
	return o.validator.Validate(output)
}

// CheckSchema returns an error if the schema is too large or is not a JSON schema.
func (w *ClientOutput) CheckSchema() error { return w.output().err }

// maxClientSchema is the maximal length of a client's schema in bytes.
const maxClientSchema = 256 << 10

func (w *ClientOutput) output() *output {
	if len(w.Schema) > maxClientSchema {
		return &output{err: fmt.Errorf("the schema has %d bytes; at most %d are allowed", len(w.Schema), maxClientSchema)}
	}
	o := &output{format: llm.ResponseFormat{Schema: w.Schema, Strict: w.Strict}}
	if len(w.Schema) == 0 {
		o.format.Schema = json.RawMessage(`{"type":"object"}`)
	}
	o.validator, o.err = schema.Compile(o.format.Schema, schema.Answer)
	return o
}
