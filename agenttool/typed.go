package agenttool

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/schema"
	"github.com/agentarbor/arbor/tools"
)

// NewTyped returns a tool of an agent as [New] does, with types for its input and output. In is a struct. The calling
// model sees its JSON schema; invalid arguments are an error result, and valid ones are the agent's input, as JSON.
// The agent must answer with the JSON of an Out, which may be in a code block. That JSON is the tool's output; any
// other answer is an error result with the reasons. If Out is a string, any answer is valid.
func NewTyped[In, Out any](a agent.Agent, opts ...Option) (tools.Tool, error) {
	toOutput := func(answer string) (any, error) { return answer, nil }
	if out := reflect.TypeFor[Out](); out.Kind() != reflect.String {
		check, err := checkOf(out)
		if err != nil {
			return nil, fmt.Errorf("agent tool: the output: %w", err)
		}
		toOutput = func(answer string) (any, error) {
			raw := json.RawMessage(schema.StripCodeFence(answer))
			var value Out
			if err := check(raw); err != nil { // lists all mistakes with their places
				return nil, fmt.Errorf("the answer of the agent %s is not what was asked for: %w", a.Name(), err)
			}
			if err := json.Unmarshal(raw, &value); err != nil {
				return nil, fmt.Errorf("the answer of the agent %s is not what was asked for: %w", a.Name(), err)
			}
			return event.CompactJSON(raw), nil
		}
	}
	return newTool(a, opts, func(*config) (json.RawMessage, error) { return tools.SchemaOf[In]() },
		func(input json.RawMessage) (string, error) { return string(event.CompactJSON(input)), nil }, toOutput)
}

// checkOf returns a function that validates JSON against the schema of a struct. For other types the function accepts
// anything.
func checkOf(t reflect.Type) (func(json.RawMessage) error, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return func(json.RawMessage) error { return nil }, nil
	}
	text, err := schema.Of(t)
	if err != nil {
		return nil, err
	}
	return func(raw json.RawMessage) error { return schema.Fits(text, raw) }, nil
}
