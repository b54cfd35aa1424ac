package llmagent

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/schema"
	"github.com/agentarbor/arbor/llm"
)

// output is the form of an agent's answers. It is not changed.
type output struct {
	format llm.ResponseFormat
	check  *schema.Validator
	err    error
}

// OutputOption configures WithOutput.
type OutputOption func(*output)

// OutputStrict asks the endpoint to enforce the schema. OpenAI accepts that only for a struct
// whose fields are all required, including those of the structs in it.
func OutputStrict() OutputOption { return func(o *output) { o.format.Strict = true } }

// WithOutput makes the agent end its runs with JSON that is a T, a struct. The request
// contains the schema, as [llm.ResponseFormat], and the agent checks the answer. It discards
// an answer that does not fit, and asks the model once more with what is wrong; if
// that answer does not fit either, the run ends with an [*OutputError].
//
// The agent may call tools and transfer before it answers: only an answer without calls has to
// fit. The answer is shown in the conversation, and is the output of the run, which
// runner.CollectAs decodes. The question to the user which agent they mean, see
// [WithDecision], need not fit, and neither need an answer that a content filter withheld.
func WithOutput[T any](opts ...OutputOption) Option {
	o := &output{}
	if o.format.Schema, o.err = schema.Of(reflect.TypeFor[T]()); o.err == nil {
		o.check, o.err = schema.Compile(o.format.Schema)
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
	// Err says what is wrong with the last answer.
	Err error
}

func (e *OutputError) Error() string {
	return fmt.Sprintf("the answer of %s does not have the form that was asked for, twice: %v", e.Agent, e.Err)
}

func (e *OutputError) Unwrap() error { return e.Err }

// configured returns an error if the output cannot be used with the settings.
func (o *output) configured(settings llm.Settings) error {
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

// addTo adds the form to a request. After an answer that did not fit, the system text says
// it as well, for endpoints that ignore a response format.
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

// read returns the output in the text of a whole answer without calls, nil if a content filter has withheld that.
func (o *output) read(answer string, finish llm.FinishReason) (json.RawMessage, error) {
	if o == nil || finish == llm.FinishContentFilter {
		return nil, nil
	}
	text := json.RawMessage(unfenced(answer))
	err := o.check.Validate(text)
	switch {
	case err == nil:
		return text, nil
	case finish == llm.FinishLength:
		return nil, errors.New("it was cut off by its length limit")
	}
	return nil, errors.New(cut(clean(err.Error())))
}

// unfenced returns the content of a code block if the whole text is one, because models often write
// JSON in one.
func unfenced(text string) string {
	text = strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(text, "```"); ok {
		if inner, ok = strings.CutSuffix(inner, "```"); ok {
			if _, body, ok := strings.Cut(inner, "\n"); ok {
				return strings.TrimSpace(body)
			}
		}
	}
	return text
}

// WantedKey is the key of a turn's [Wanted] in the metadata of the user's message. Clients of the APIs cannot set it.
const WantedKey = "arbor.output"

// Wanted is the form of answer that a user's client wants for one turn. The agent that answers the user ends its run
// with JSON of this form, also after a transfer, as an agent with [WithOutput] does. Wanted replaces the agent's own
// form for the turn. The zero value stands for any JSON object.
type Wanted struct {
	// Schema is a JSON schema of at most 256 KiB. Defaults to the schema of any object.
	Schema json.RawMessage `json:"schema,omitempty"`
	// Strict asks the endpoint to enforce the schema; see [OutputStrict].
	Strict bool `json:"strict,omitempty"`
}

// WantedIn returns the Wanted in the metadata of a user's message, or nil if the metadata has no [WantedKey].
func WantedIn(metadata map[string]any) (*Wanted, error) {
	kept, ok := metadata[WantedKey]
	if !ok {
		return nil, nil
	}
	w := &Wanted{}
	if err := json.Unmarshal(event.EncodeJSON(kept), w); err != nil {
		return nil, fmt.Errorf("the metadata %s: %w", WantedKey, err)
	}
	return w, nil
}

// Check returns an error if an output does not have the form, or if the schema cannot be used.
func (w *Wanted) Check(output json.RawMessage) error {
	o := w.output()
	if o.err != nil {
		return o.err
	}
	return o.check.Validate(output)
}

// Usable returns an error if the schema is too large or is not a JSON schema.
func (w *Wanted) Usable() error { return w.output().err }

// maxWanted is the limit of a schema in bytes.
const maxWanted = 256 << 10

func (w *Wanted) output() *output {
	if len(w.Schema) > maxWanted {
		return &output{err: fmt.Errorf("the schema has %d bytes; at most %d are allowed", len(w.Schema), maxWanted)}
	}
	o := &output{format: llm.ResponseFormat{Schema: w.Schema, Strict: w.Strict}}
	if len(w.Schema) == 0 {
		o.format.Schema = json.RawMessage(`{"type":"object"}`)
	}
	o.check, o.err = schema.Compile(o.format.Schema)
	return o
}
