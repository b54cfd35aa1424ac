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

// placeholder is the name of the property that is sent for a tool that names none.
const placeholder = "none"

// bareSchema returns a schema of arguments with only the keywords that all endpoints know. Every schema in it has one
// type, every object has properties, and every array has items. It allows at least what the schema allows, except that
// a value of several types has the first of them, and that one of any type, or an object of any keys, is a text.
func bareSchema(schema json.RawMessage) json.RawMessage {
	var m map[string]any
	if json.Unmarshal(schema, &m) != nil || m == nil {
		return schema
	}
	m["type"] = "object"
	m = settled(m)
	if properties, _ := m["properties"].(map[string]any); len(properties) == 0 {
		m["properties"] = map[string]any{placeholder: map[string]any{"description": "Leave this out."}}
	}
	bare, _ := json.Marshal(bareOf(m)) // it was decoded from JSON
	return bare
}

// bareOf returns a settled schema with only the keywords that all endpoints know.
func bareOf(m map[string]any) map[string]any {
	kind, _ := m["type"].(string)
	properties, _ := m["properties"].(map[string]any)
	bare := map[string]any{}
	text, described := m["description"].(string)
	if kind == "object" && len(properties) == 0 {
		kind, text, described = "string", strings.TrimLeft(text+" (a JSON object)", " "), true
	}
	bare["type"] = cmp.Or(kind, "string")
	if described {
		bare["description"] = text
	}
	switch bare["type"] {
	case "array":
		bare["items"] = bareOf(settled(m["items"]))
	case "object":
		all := map[string]any{}
		for name, s := range properties {
			all[name] = bareOf(settled(s))
		}
		bare["properties"] = all
		if required := slices.DeleteFunc(m["required"].([]string), func(name string) bool { return all[name] == nil }); len(required) > 0 {
			bare["required"] = required
		}
	case "string":
		enum, _ := m["enum"].([]any)
		if len(enum) > 0 && !slices.ContainsFunc(enum, func(v any) bool { s, is := v.(string); return !is || s == "" }) {
			bare["enum"] = enum
		}
	}
	return bare
}

// settled returns a schema without branches. It has the one type that values get, "" if any type is allowed, and all
// that the branches for this type say about properties, items and values.
func settled(schema any) map[string]any {
	own, _ := schema.(map[string]any)
	m := map[string]any{}
	maps.Copy(m, own) // nothing, if it was true or is missing
	if value, is := m["const"]; is {
		m["enum"] = []any{value}
	}
	required := []string{}
	names, _ := m["required"].([]any)
	for _, name := range names {
		if text, is := name.(string); is {
			required = append(required, text)
		}
	}
	m["required"], m["type"] = required, typeIn(m)
	for _, k := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := m[k].([]any)
		var branches []map[string]any
		for _, s := range list {
			branch := settled(s)
			if branches = append(branches, branch); m["type"] == "" && branch["type"] != "null" {
				m["type"] = branch["type"]
			}
		}
		var all map[string]any
		for _, branch := range branches {
			switch kind := branch["type"]; {
			case kind != "" && kind != m["type"]:
			case all == nil:
				all = branch
			default:
				all = combined(k, all, branch)
			}
		}
		if all != nil {
			m = combined("allOf", m, all)
		}
	}
	return m
}

// combined returns a settled schema for values that two of them allow, or for the other keywords, that one of them
// allows.
func combined(keyword string, a, b map[string]any) map[string]any {
	m := maps.Clone(b)
	maps.Copy(m, a)
	both := func(s, more any) any {
		if s == nil || more == nil {
			return cmp.Or(s, more)
		}
		return map[string]any{keyword: []any{s, more}}
	}
	properties := map[string]any{}
	one, _ := a["properties"].(map[string]any)
	other, _ := b["properties"].(map[string]any)
	maps.Copy(properties, other)
	for name, s := range one {
		properties[name] = both(s, other[name])
	}
	m["properties"], m["items"] = properties, both(a["items"], b["items"])
	in := func(name string) bool { return slices.Contains(a["required"].([]string), name) }
	if keyword == "allOf" {
		m["required"] = append(slices.Clone(a["required"].([]string)), slices.DeleteFunc(slices.Clone(b["required"].([]string)), in)...)
		return m
	}
	m["required"] = slices.DeleteFunc(slices.Clone(b["required"].([]string)), func(name string) bool { return !in(name) })
	values, _ := a["enum"].([]any)
	more, _ := b["enum"].([]any)
	if m["enum"] = slices.Concat(values, more); values == nil || more == nil {
		delete(m, "enum") // one of them allows other values
	}
	return m
}

// typeIn returns the type that a schema gives to its values: the first that it names, or that of what it says of them.
// It returns "" if only its branches may name one.
func typeIn(m map[string]any) string {
	kinds, several := m["type"].([]any)
	if !several {
		kinds = []any{m["type"]}
	}
	for _, kind := range kinds {
		if name, is := kind.(string); is && (name != "null" || !several) {
			return name
		}
	}
	properties, _ := m["properties"].(map[string]any)
	values, _ := m["enum"].([]any)
	first := ""
	switch {
	case len(properties) > 0:
		return "object"
	case m["items"] != nil:
		return "array"
	}
	for _, value := range append(slices.Clip(values), m["default"]) {
		raw, _ := json.Marshal(value) // it was decoded from JSON
		if kind := kindOf(string(raw)).(string); value != nil && (first == "" || first == "integer" && kind == "number") {
			first = kind
		}
	}
	return first
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
