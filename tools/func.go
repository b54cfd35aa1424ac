package tools

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/internal/schema"
	"github.com/agentarbor/arbor/llm"
)

// Option configures a tool that [Func] returns.
type Option func(*Info)

// Idempotent marks a tool whose calls may run again after a crash.
func Idempotent() Option { return func(i *Info) { i.Idempotent = true } }

// Resumable marks a tool whose only effect is to run agents, by [Context.RunAgent]. After a crash the tool is called
// again: agents that have answered do not run again, and agents that were cut off continue.
func Resumable() Option { return func(i *Info) { i.Resumable = true } }

// Destructive marks a tool whose calls can do harm that cannot be undone.
func Destructive() Option { return func(i *Info) { i.Destructive = true } }

// Timeout limits the time of one call; see [Info.Timeout].
func Timeout(d time.Duration) Option { return func(i *Info) { i.Timeout = d } }

// MaxOutput limits the output in bytes; see [Info.MaxOutput].
func MaxOutput(n int) Option { return func(i *Info) { i.MaxOutput = n } }

// Func returns a tool that calls a Go function. In must be a struct. The model sees its JSON schema, with descriptions,
// enums and limits from `jsonschema` tags; fields without omitempty are required. fn is only called with an input that
// fits the schema. Func returns an error if the name, In or a tag is invalid.
//
// A tag is either the field's description, as a plain text that may contain commas, or a list of parts with commas
// between them, as in `jsonschema:"minimum=1,description=Red\\, or blue"`. Two backslashes come before a comma within a
// part. A part that has no effect on the type of the field is an error.
func Func[In, Out any](name, description string, fn func(ctx Context, in In) (Out, error), opts ...Option) (Tool, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if fn == nil {
		return nil, fmt.Errorf("tool %q: the function is nil", name)
	}
	parameters, err := SchemaOf[In]()
	if err != nil {
		return nil, fmt.Errorf("tool %q: %w", name, err)
	}
	t := &funcTool[In, Out]{fn: fn}
	t.info = Info{ToolSpec: llm.ToolSpec{Name: name, Description: description, Parameters: parameters}}
	if err := option.Apply(&t.info, opts); err != nil {
		return nil, fmt.Errorf("tool %q: %w", name, err)
	}
	return New(t.info, func(ctx Context, input json.RawMessage) (any, error) { return t.call(ctx, input) })
}

type funcTool[In, Out any] struct {
	info Info
	fn   func(Context, In) (Out, error)
}

func (t *funcTool[In, Out]) call(ctx Context, input json.RawMessage) (any, error) {
	var in In
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	out, err := t.fn(ctx, in)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// SchemaOf returns the JSON schema of a struct type, without references.
func SchemaOf[T any]() (json.RawMessage, error) { return schema.Of(reflect.TypeFor[T]()) }

// New returns a tool of a schema and a function that takes raw JSON, for tools whose parameters are known only at run
// time. The schema must be that of an object. An empty schema allows no parameters.
func New(info Info, call func(ctx Context, input json.RawMessage) (any, error)) (Tool, error) {
	if err := CheckName(info.Name); err != nil {
		return nil, err
	}
	if len(info.Parameters) == 0 {
		info.Parameters = json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)
	}
	if call == nil {
		return nil, fmt.Errorf("tool %q: the function is nil", info.Name)
	}
	if info.MaxOutput < 0 {
		return nil, fmt.Errorf("tool %q: the output limit %d is negative", info.Name, info.MaxOutput)
	}
	if err := info.By.Check(); err != nil {
		return nil, fmt.Errorf("tool %q: %w", info.Name, err)
	}
	check, err := schema.Compile(info.Parameters, schema.Arguments)
	if err != nil {
		return nil, fmt.Errorf("tool %q: %w", info.Name, err)
	}
	return &rawTool{info, call, check}, nil
}

type rawTool struct {
	info  Info
	fn    func(Context, json.RawMessage) (any, error)
	check *schema.Validator
}

func (t *rawTool) Info() Info { return t.info }
func (t *rawTool) Call(ctx Context, input json.RawMessage) (any, error) {
	return t.fn(ctx, input)
}
func (t *rawTool) validate(input json.RawMessage) error { return t.check.Validate(input) }
