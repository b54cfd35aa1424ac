package agenttool

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/schema"
	"github.com/agentarbor/arbor/tools"
)

// NewTyped makes a tool of an agent as [New] does, with types for what goes in and what comes out. In is a
// struct: the calling model is shown its JSON schema, what does not fit goes back to it, and
// what fits is the agent's input, as JSON. The agent's answer has to be the JSON of an Out, also
// between the marks of a code block, and is the tool's output; another answer is an error
// result that says what is wrong with it. With a string as Out any answer is right.
func NewTyped[In, Out any](a agent.Agent, opts ...Option) (tools.Tool, error) {
	give := func(answer string) (any, error) { return answer, nil }
	if out := reflect.TypeFor[Out](); out.Kind() != reflect.String {
		check, err := checkOf(out)
		if err != nil {
			return nil, fmt.Errorf("agent tool: the output: %w", err)
		}
		give = func(answer string) (any, error) {
			raw := unfenced(answer)
			var value Out
			if err := check(raw); err != nil { // with the places of all that is wrong
				return nil, fmt.Errorf("the answer of the agent %s is not what was asked for: %w", a.Name(), err)
			}
			if err := json.Unmarshal(raw, &value); err != nil {
				return nil, fmt.Errorf("the answer of the agent %s is not what was asked for: %w", a.Name(), err)
			}
			return event.CompactJSON(raw), nil
		}
	}
	return newTool(a, opts, func(*config) (json.RawMessage, error) { return tools.SchemaOf[In]() },
		func(input json.RawMessage) (string, error) { return string(event.CompactJSON(input)), nil }, give)
}

// checkOf returns what holds JSON against the schema of a struct; other types have none.
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

// unfenced returns what an answer has between the marks of a code block, or all of it.
func unfenced(answer string) json.RawMessage {
	text := strings.TrimSpace(answer)
	if inner, ok := strings.CutPrefix(text, "```"); ok && strings.HasSuffix(inner, "```") {
		text = strings.TrimPrefix(strings.TrimSuffix(inner, "```"), "json")
	}
	return json.RawMessage(strings.TrimSpace(text))
}
