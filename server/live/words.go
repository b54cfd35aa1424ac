package live

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/phrases"
	"github.com/agentarbor/arbor/internal/visible"
)

// Question describes a question about a call, with its arguments, for people who answer with a text. It shows all
// arguments and marks each line of long ones, because the person sees nothing else. The text ends with a space or a
// line break; the caller adds how to answer.
func Question(d *event.Relay) string {
	var b strings.Builder
	quote := func(lines []string) {
		for _, line := range lines {
			b.WriteString("│ " + line + "\n")
		}
	}
	tool := visible.Line(d.Tool)
	if d.Kind == event.RelayInput {
		fmt.Fprintf(&b, "The tool %s asks:\n", tool)
		quote(strings.Split(visible.Text(d.Message), "\n"))
	} else if line, whole := visible.Inline(d.Params); whole && line == "" {
		fmt.Fprintf(&b, "The tool %s wants to run. ", tool)
	} else if whole {
		fmt.Fprintf(&b, "The tool %s wants to run with %s. ", tool, line)
	} else {
		fmt.Fprintf(&b, "The tool %s wants to run with %d bytes of arguments:\n", tool, len(d.Params))
		quote(visible.Arguments(d.Params))
	}
	return b.String()
}

// YesOrNo reads a text as the answer to whether a call may run, in the languages that router.WantsHuman knows.
// understood is false for any text that is not a clear yes or no: the caller then asks again, because nothing may run
// on a guess. A yes may be accompanied only by courtesy: "yes, but only half" is not a yes.
func YesOrNo(text string) (yes, understood bool) { return phrases.YesOrNo(text) }

// Content converts a text to the answer to a question of the kind [event.RelayInput]: the text itself if the question
// has no schema, otherwise the JSON value that the text contains. If the schema is an object with one member, the
// value of that member is enough. Content does not check the value; the runner refuses an answer that the schema does
// not allow.
func Content(d *event.Relay, text string) json.RawMessage {
	if d.Schema == nil {
		return event.EncodeJSON(text)
	}
	var schema struct {
		Type       string                     `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	_ = json.Unmarshal(d.Schema, &schema) // another schema has no single member
	if schema.Type != "object" || len(schema.Properties) != 1 || strings.HasPrefix(strings.TrimSpace(text), "{") {
		return value(d.Schema, text)
	}
	for name, of := range schema.Properties {
		return event.EncodeJSON(map[string]json.RawMessage{name: value(of, text)})
	}
	return nil
}

// value reads a text as the JSON value that a schema describes.
func value(schema json.RawMessage, text string) json.RawMessage {
	var of struct {
		Type any `json:"type"`
	}
	_ = json.Unmarshal(schema, &of)
	if of.Type != "string" && json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return event.EncodeJSON(text)
}
