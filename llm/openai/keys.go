package openai

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/internal/schema"
	"github.com/agentarbor/arbor/llm"
)

// keyNames are other names of a tool's properties, by the names that they have.
type keyNames map[string]string

// plainNames returns names that all endpoints accept for those properties of a schema that need one, at any depth, and
// the reverse. No two properties of the schema have the same name afterwards.
func plainNames(parameters json.RawMessage) (wire, own keyNames) {
	all := map[string]bool{}
	rewrite(string(parameters), inSchema, func(key string) string { all[key] = true; return key })
	wire, own = keyNames{}, keyNames{}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		name := wireName(key)
		if name == key {
			continue
		}
		// The end keeps apart what an object without a schema may have as a key: calls come back with the names at any depth.
		for n := 1; n == 1 || all[name]; n++ {
			end := "__" + strconv.Itoa(n)
			name = wireName(key)[:min(len(wireName(key)), 64-len(end))] + end
		}
		all[name], wire[key], own[name] = true, name, key
	}
	return wire, own
}

// apply returns a schema or arguments with the names.
func (k keyNames) apply(text string, in schemaPlace) string {
	if len(k) == 0 {
		return text
	}
	return rewrite(text, in, func(key string) string {
		if name, renamed := k[key]; renamed {
			return name
		}
		return key
	})
}

// withPlainKeys returns the tools and the messages of a request with names of properties that all endpoints accept.
func withPlainKeys(tools []llm.ToolSpec, messages []llm.Message) ([]llm.ToolSpec, []llm.Message) {
	tools, messages = slices.Clone(tools), slices.Clone(messages)
	for i := range tools {
		wire, _ := plainNames(tools[i].Parameters)
		if len(wire) == 0 {
			continue
		}
		tools[i].Parameters = json.RawMessage(wire.apply(string(tools[i].Parameters), inSchema))
		for m := range messages {
			messages[m].Parts = slices.Clone(messages[m].Parts)
			for j, p := range messages[m].Parts {
				if c, ok := p.(llm.ToolCall); ok && hasName(tools[i], c.Name) {
					c.Arguments = wire.apply(c.Arguments, inValue)
					messages[m].Parts[j] = c
				}
			}
		}
	}
	return tools, messages
}

// placeholder is the name of the property that is sent for a tool that names none.
const placeholder = "none"

// bareSchema returns a schema of arguments with only the keywords that all endpoints know. Every schema in it has one
// type, every object has properties, and every array has items. It allows at least what the schema allows, except that
// a value of several types has the first of them, and that one of any type, or an object of any keys, is a text.
func bareSchema(parameters json.RawMessage) json.RawMessage {
	s := schema.ReadShape(parameters)
	if s == nil {
		return parameters
	}
	s.Types = []string{"object"}
	if len(s.Members) == 0 {
		s.Members[placeholder] = schema.Schemas{map[string]any{"description": "Leave this out."}}
	}
	bare, _ := json.Marshal(bareOf(s)) // maps and texts can always be encoded
	return bare
}

// bareOf returns the schema of a shape with only the keywords that all endpoints know.
func bareOf(s *schema.Shape) map[string]any {
	if s == nil {
		s = &schema.Shape{}
	}
	kind, text := "string", s.Description
	if at := slices.IndexFunc(s.Types, func(kind string) bool { return kind != "null" }); at >= 0 {
		kind = s.Types[at]
	}
	if kind == "object" && len(s.Members) == 0 {
		kind, text = "string", strings.TrimLeft(text+" (a JSON object)", " ")
	}
	bare := map[string]any{"type": kind}
	if text != "" {
		bare["description"] = text
	}
	switch kind {
	case "array":
		bare["items"] = bareOf(s.Items.Shape())
	case "object":
		all := map[string]any{}
		for name, member := range s.Members {
			all[name] = bareOf(member.Shape())
		}
		bare["properties"] = all
		if required := slices.DeleteFunc(s.Required, func(name string) bool { return all[name] == nil }); len(required) > 0 {
			bare["required"] = required
		}
	case "string":
		if len(s.Texts) > 0 && !s.AnyText && !slices.Contains(s.Texts, "") {
			bare["enum"] = s.Texts
		}
	}
	return bare
}

// schemaPlace is the place of a value in a schema, which says what its members are.
type schemaPlace int

const (
	inSchema schemaPlace = iota // keywords, or names of schemas that have none of the keywords below
	inNames                     // names of properties, with their schemas, or with lists of other names
	inList                      // in a list of names, or a schema
	inValue                     // names of properties, at any depth
)

func (p schemaPlace) member(key string) schemaPlace {
	switch {
	case p == inValue:
		return inValue
	case p == inNames:
		return inList
	}
	switch key {
	case "properties", "dependentSchemas", "dependentRequired", "dependencies":
		return inNames
	case "required", "propertyOrdering":
		return inList
	case "const", "default", "enum", "example", "examples":
		return inValue
	}
	return inSchema
}

// pointerKey turns a step of a JSON pointer into a key.
var pointerKey = strings.NewReplacer("~1", "/", "~0", "~")

// rewrite returns JSON with the names of properties that name returns. Other text stays as it is.
func rewrite(text string, in schemaPlace, name func(key string) string) string {
	var walk func(v any, in schemaPlace) any
	walk = func(v any, in schemaPlace) any {
		switch v := v.(type) {
		case []any:
			for i := range v {
				v[i] = walk(v[i], in)
			}
		case map[string]any:
			out := make(map[string]any, len(v))
			for key, m := range v {
				to := key
				if in == inNames || in == inValue {
					if _, both := v[name(key)]; !both {
						to = name(key)
					}
				}
				out[to] = walk(m, in.member(key))
			}
			return out
		case string:
			if in == inList {
				return name(v)
			}
			steps := strings.Split(v, "/") // of a reference
			for i := range steps {
				if in != inSchema || i == 0 || steps[0] != "#" || steps[i-1] != "properties" {
					continue
				}
				if key, err := url.PathUnescape(pointerKey.Replace(steps[i])); err == nil && name(key) != key {
					steps[i] = name(key) // which needs no escapes
				}
			}
			return strings.Join(steps, "/")
		}
		return v
	}
	var v any
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if !json.Valid([]byte(text)) || dec.Decode(&v) != nil {
		return text
	}
	out, _ := json.Marshal(walk(v, in)) // what was JSON is JSON
	return string(out)
}
