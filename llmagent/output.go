package llmagent

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/agentarbor/arbor/agent"
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

// OutputStrict asks the endpoint to let nothing else through than what the schema
// allows. OpenAI's takes that only of a struct whose fields are all required, those of
// structs in it too.
func OutputStrict() OutputOption { return func(o *output) { o.format.Strict = true } }

// WithOutput makes the agent end its runs with JSON that is a T, a struct. The endpoint
// is sent the schema, as [llm.ResponseFormat], and the answer is checked. One that does
// not fit is taken back, and the model is asked once more and told what is wrong; if
// that does not fit either, the run ends with an [*OutputError]. The agent may call tools
// and hand the conversation over before it answers: only an answer without calls has to
// fit. It is said in the conversation, and is the output of the run, which
// runner.CollectAs decodes. The answer that asks the user whom they mean, see
// [WithDecision], is no such answer, and neither is what a content filter withheld.
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

// configured reports why the output cannot be.
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

// ask adds to a request what the answer has to be. After an answer that did not fit, the
// words say it as well, for endpoints that pass over a response format.
func (o *output) ask(req *llm.Request, again bool) {
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

// of reads a whole answer without calls as an output, nil if it need be none.
func (o *output) of(ans *answer) (json.RawMessage, error) {
	if o == nil || len(ans.calls) > 0 || ans.finish == llm.FinishContentFilter {
		return nil, nil
	}
	text := json.RawMessage(unfenced(ans.text.String()))
	err := o.check.Validate(text)
	switch {
	case err == nil:
		return text, nil
	case ans.finish == llm.FinishLength:
		return nil, errors.New("it was cut off by its length limit")
	}
	return nil, errors.New(cut(clean(err.Error())))
}

// unfenced returns what is in a block of code that is all of a text, because models that
// are asked for JSON like to write one.
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

// misfit returns the error of an answer that does not fit, and that of the run if it is
// the second in a row.
func (o *output) misfit(inv *agent.Invocation, wrong error, again bool) error {
	if !again {
		return nil
	}
	name := inv.Agent().Name()
	return &agent.RunError{Agent: name, Code: event.CodeBadOutput, Err: &OutputError{name, wrong}}
}
