package endpoint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// tools checks the names of the tools, the choice of one, and the schemas that are strict. In the Responses API, those
// of tools are strict unless they say otherwise.
func (c *checker) tools(w *wireRequest) {
	names := map[string]bool{}
	for i, t := range w.Tools {
		at, f := fmt.Sprintf("tools[%d]", i), t.function()
		if t.Function != nil {
			at += ".function"
		}
		if names[f.Name] {
			c.addf(at+".name", "%q is the name of two tools", f.Name)
		}
		names[f.Name] = true
		if f.Strict != nil && *f.Strict || f.Strict == nil && w.Messages == nil {
			c.strict(at+".parameters", decoded(f.Parameters))
		}
	}
	if req, err := w.base(wireFormat{}); err != nil {
		c.addf("tool_choice", "%v", err)
	} else {
		if choice := string(req.ToolChoice); !req.ToolChoice.Mode() && !names[choice] {
			c.addf("tool_choice", "the request has no tool %q", choice)
		}
		for _, name := range req.Allowed {
			if !names[name] {
				c.addf("tool_choice", "the request has no tool %q", name)
			}
		}
	}
	if f := w.ResponseFormat.JSONSchema; f.Strict {
		c.strict("response_format.json_schema.schema", decoded(f.Schema))
	}
	if f := w.Text.Format; f.Strict {
		c.strict("text.format.schema", decoded(f.Schema))
	}
	// OpenAI and DeepSeek both refuse this if no message tells the model to write JSON, because the model may then write
	// white space without end.
	messages, _ := json.Marshal(w.Messages) // they were decoded from JSON
	if w.ResponseFormat.Type == "json_object" && !bytes.Contains(bytes.ToLower(messages), []byte("json")) {
		c.addf("response_format", `json_object needs the word "json" in a message`)
	}
}

func decoded(raw json.RawMessage) (v any) {
	_ = json.Unmarshal(raw, &v) // it was decoded from JSON, or is missing
	return v
}

// strict checks that the objects of a schema have all their properties and no others.
func (c *checker) strict(at string, v any) {
	if list, ok := v.([]any); ok {
		for i, inner := range list {
			c.strict(fmt.Sprintf("%s[%d]", at, i), inner)
		}
	}
	s, ok := v.(map[string]any)
	if !ok {
		return
	}
	properties, _ := s["properties"].(map[string]any)
	required, _ := s["required"].([]any)
	kinds, _ := s["type"].([]any)
	if s["type"] == "object" || slices.Contains(kinds, any("object")) {
		if s["additionalProperties"] != false {
			c.addf(at+".additionalProperties", "must be false in a strict schema")
		}
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if !slices.Contains(required, any(name)) {
				c.addf(at+".required", "must hold %q in a strict schema", name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		c.strict(at+".properties."+name, properties[name])
	}
	for _, key := range []string{"items", "additionalProperties", "not", "anyOf", "oneOf", "allOf"} {
		c.strict(at+"."+key, s[key])
	}
}
