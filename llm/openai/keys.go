package openai

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/llm"
)

// keyNames are other names of a tool's properties, by the names that they have.
type keyNames map[string]string

// plainNames returns names that all endpoints accept for those properties of a schema that need one, at any depth, and
// the reverse. No two properties of the schema have the same name afterwards.
func plainNames(schema json.RawMessage) (wire, own keyNames) {
	all := map[string]bool{}
	rewrite(string(schema), inSchema, func(key string) string { all[key] = true; return key })
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

// bareSchema returns a schema of arguments with only the keywords that all endpoints know. Every schema in it has one
// type, every object has properties, and every array has items. It allows at least what the schema allows, except that
// a value of several types has the first of them, and that one of any type, or an object of any keys, is a text.
func bareSchema(schema json.RawMessage) json.RawMessage {
	var m map[string]any
	if json.Unmarshal(schema, &m) != nil || m == nil {
		return schema
	}
	if properties, _ := m["properties"].(map[string]any); len(properties) == 0 {
		m["properties"] = map[string]any{"none": map[string]any{"description": "Leave this out."}}
	}
	m["type"] = "object"
	bare, _ := json.Marshal(bareOf(m)) // it was decoded from JSON
	return bare
}

func bareOf(schema any) map[string]any {
	m, _ := schema.(map[string]any)
	if m == nil { // it was true, or is missing
		m = map[string]any{}
	}
	for _, k := range []string{"allOf", "anyOf", "oneOf"} {
		branches, _ := m[k].([]any)
		for _, s := range branches {
			if branch := bareOf(s); m["type"] == nil && branch["type"] != "null" {
				maps.Copy(branch, m) // which has the description
				m = branch
			}
		}
	}
	kind, _ := m["type"].(string)
	several, _ := m["type"].([]any)
	for _, one := range several {
		if kind == "" && one != "null" {
			kind, _ = one.(string)
		}
	}
	properties, _ := m["properties"].(map[string]any)
	described, _ := m["description"].(string)
	switch {
	case kind == "" && len(properties) > 0:
		kind = "object"
	case kind == "" && m["items"] != nil:
		kind = "array"
	case kind == "" && m["default"] != nil:
		raw, _ := json.Marshal(m["default"]) // it was decoded from JSON
		kind = kindOf(string(raw)).(string)
	}
	if kind == "object" && len(properties) == 0 {
		kind, m["description"] = "string", strings.TrimLeft(described+" (a JSON object)", " ")
	}
	bare := map[string]any{"type": cmp.Or(kind, "string")}
	if text, is := m["description"].(string); is {
		bare["description"] = text
	}
	switch bare["type"] {
	case "array":
		bare["items"] = bareOf(m["items"])
	case "object":
		for name, s := range properties {
			properties[name] = bareOf(s)
		}
		bare["properties"] = properties
		required, _ := m["required"].([]any)
		required = slices.DeleteFunc(required, func(name any) bool { text, _ := name.(string); return properties[text] == nil })
		if len(required) > 0 {
			bare["required"] = required
		}
	case "string":
		enum, _ := m["enum"].([]any)
		text := func(v any) bool { s, is := v.(string); return is && s != "" }
		if len(enum) > 0 && !slices.ContainsFunc(enum, func(v any) bool { return !text(v) }) {
			bare["enum"] = enum
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
