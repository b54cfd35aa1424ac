package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The limits of a plain schema. OpenAI's structured outputs allow ten levels. Resolving references may enlarge a
// schema.
const (
	maxDepth = 10
	maxNodes = 2000
)

// Plain returns a schema of arguments in the form that the strictest endpoints accept. It returns a schema that has
// this form, or cannot be read, unchanged, byte for byte. In this form every object has properties and every array has
// items. The top has no anyOf, oneOf, allOf, not, enum or condition: the properties of its alternatives are merged.
// There is no reference, const, list of types or tuple, no pattern that Go cannot read, and nothing below ten levels.
// Values that are not strings, formats, and limits that are not allowed are in the description. The result allows at
// least what the schema allows.
func Plain(schema json.RawMessage) json.RawMessage {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	top, ok := doc.(map[string]any)
	if err != nil || !ok {
		return schema
	}
	p := plainer{root: doc}
	top = maps.Clone(top)
	top["type"] = "object"
	plain := p.node(top, 0, []string{"#"})
	hoist(plain)
	plain["type"] = "object" // also if alternatives replaced it
	if finish(plain); reflect.DeepEqual(any(plain), doc) {
		return schema
	}
	var b bytes.Buffer
	write(&b, plain, order(schema))
	return b.Bytes()
}

// Usable returns the schema of another program's tool in a form that Compile accepts. It removes what cannot be
// checked, such as a pattern that Go cannot read or a reference to another document. If Compile accepts no part of the
// schema, Usable returns the error of Compile.
func Usable(schema json.RawMessage) (json.RawMessage, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	top, ok := doc.(map[string]any)
	if err != nil || !ok {
		_, err := Compile(schema, Arguments)
		return nil, err
	}
	if kinds, many := top["type"].([]any); top["type"] == nil || many && slices.Contains(kinds, any("object")) {
		top["type"] = "object" // as arguments are
		schema, _ = json.Marshal(top)
	}
	_, failed := Compile(schema, Arguments)
	if failed == nil {
		return schema, nil
	}
	if top["type"] != "object" {
		return nil, failed
	}
	loose, _ := json.Marshal((&plainer{root: doc}).loosen(doc))
	for _, s := range []json.RawMessage{loose, Plain(schema)} {
		if _, err := Compile(s, Arguments); err == nil {
			return s, nil
		}
	}
	return nil, failed
}

// plainer converts schemas to the plain form.
type plainer struct {
	root  any
	nodes int
}

// each replaces the schemas in a schema, in the order of their keywords, by schemas that allow at least as much. A
// keyword that forbids what its schema allows, such as not, is deleted if its schema has changed.
func each(m map[string]any, f func(keyword string, schema any) any) {
	before := maps.Clone(m)
	replace(m, f)
	changed := func(k string) bool { return !reflect.DeepEqual(before[k], m[k]) }
	if changed("oneOf") {
		if m["anyOf"] == nil {
			m["anyOf"] = m["oneOf"]
		}
		delete(m, "oneOf")
	}
	for k, gone := range map[string][]string{"not": {"not"}, "contains": {"maxContains"}, "if": {"if", "then", "else"}} {
		if changed(k) {
			maps.DeleteFunc(m, func(k string, _ any) bool { return slices.Contains(gone, k) })
		}
	}
}

func replace(m map[string]any, f func(keyword string, schema any) any) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		switch k {
		case "$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties":
			members, ok := m[k].(map[string]any)
			if !ok {
				continue
			}
			members = maps.Clone(members)
			for _, name := range slices.Sorted(maps.Keys(members)) {
				if _, names := members[name].([]any); !names { // of dependencies
					members[name] = f(k, members[name])
				}
			}
			m[k] = members
		case "allOf", "anyOf", "oneOf", "prefixItems", "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items",
			"not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties":
			list, ok := m[k].([]any)
			if !ok {
				m[k] = f(k, m[k])
				continue
			}
			list = slices.Clone(list)
			for i, s := range list {
				list[i] = f(k, s)
			}
			m[k] = list
		}
	}
}

// loosen removes what cannot be checked.
func (p *plainer) loosen(schema any) any {
	m, ok := schema.(map[string]any)
	if !ok {
		return schema
	}
	m = maps.Clone(m)
	repair(m)
	if ref, there := m["$ref"]; there && p.find(ref) == nil {
		delete(m, "$ref")
	}
	if of, _ := m["$schema"].(string); !strings.Contains(of, "//json-schema.org/draft") {
		delete(m, "$schema")
	}
	each(m, func(_ string, s any) any { return p.loosen(s) })
	return m
}

var types = []any{"array", "boolean", "integer", "null", "number", "object", "string"}

// repair removes keywords of a schema with values that no checker accepts.
func repair(m map[string]any) {
	wrong := func(keyword string, bad bool) {
		if bad {
			delete(m, keyword)
		}
	}
	readable := func(pattern string) bool {
		_, err := regexp.Compile(pattern)
		return err == nil
	}
	pattern, ok := m["pattern"].(string)
	wrong("pattern", !ok || !readable(pattern))
	for _, k := range []string{"required", "enum"} {
		if list, ok := m[k].([]any); ok {
			m[k] = unique(list)
		}
	}
	required, ok := m["required"].([]any)
	wrong("required", !ok || slices.ContainsFunc(required, func(v any) bool { _, ok := v.(string); return !ok }))
	enum, _ := m["enum"].([]any)
	wrong("enum", len(enum) == 0)
	for _, k := range []string{"exclusiveMinimum", "exclusiveMaximum"} { // of an old draft
		_, old := m[k].(bool)
		wrong(k, old)
	}
	switch t := m["type"].(type) {
	case []any:
		known := slices.DeleteFunc(slices.Clone(types), func(k any) bool { return !slices.Contains(t, k) })
		if len(known) != len(t) {
			m["type"] = known
		}
		wrong("type", len(known) == 0)
	default:
		wrong("type", !slices.Contains(types, t))
	}
	if of, ok := m["patternProperties"].(map[string]any); ok {
		of = maps.Clone(of)
		maps.DeleteFunc(of, func(p string, _ any) bool { return !readable(p) })
		if len(of) < len(m["patternProperties"].(map[string]any)) {
			m["patternProperties"] = of
			delete(m, "additionalProperties") // it is no longer known which properties these are
			delete(m, "unevaluatedProperties")
		}
	}
}

// find returns the target of a reference within the schema, nil if it does not exist.
func (p *plainer) find(ref any) any {
	text, _ := ref.(string)
	pointer, ok := strings.CutPrefix(text, "#")
	if pointer, err := url.PathUnescape(pointer); !ok || err != nil || pointer != "" && pointer[0] != '/' {
		return nil
	}
	at := p.root
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if m, ok := at.(map[string]any); ok && pointer != "" {
			step, _ = url.PathUnescape(step)
			at = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
		} else if pointer != "" {
			return nil
		}
	}
	return at
}

// node converts a schema. depth is the number of objects and lists around it, and within the references that lead to
// it.
func (p *plainer) node(schema any, depth int, within []string) map[string]any {
	m, _ := schema.(map[string]any)
	m = maps.Clone(m)
	if p.nodes++; m == nil {
		return map[string]any{}
	}
	again, within := p.resolve(m, within)
	tuple(m)
	for _, k := range []string{"$schema", "$id", "$comment", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary", "$defs", "definitions"} {
		delete(m, k)
	}
	if c, ok := m["const"]; ok {
		if delete(m, "const"); m["enum"] == nil {
			m["enum"] = []any{c}
		}
		if m["type"] == nil {
			m["type"] = typeOf(c)
		}
	}
	if values, _ := m["enum"].([]any); m["type"] == nil && slices.ContainsFunc(values, notText) {
		var kinds []any
		for _, v := range values {
			kinds = append(kinds, typeOf(v))
		}
		if slices.Contains(kinds, any("number")) {
			kinds = slices.DeleteFunc(kinds, func(kind any) bool { return kind == "integer" }) // which are numbers, too
		}
		m["type"] = kinds
	}
	if repair(m); again != "" || depth >= maxDepth {
		return cutOff(m, again)
	}
	split(m)
	each(m, func(keyword string, s any) any {
		_, is := s.(bool)
		switch keyword {
		case "properties", "items", "patternProperties", "contains", "additionalProperties", "unevaluatedProperties", "unevaluatedItems":
			if is && (strings.HasSuffix(keyword, "dProperties") || keyword == "additionalProperties" || keyword == "unevaluatedItems" || keyword == "properties" && s == false) {
				return s
			}
			return p.node(s, depth+1, within)
		}
		return p.node(s, depth, within)
	})
	describe(m)
	finish(m)
	return m
}

// resolve adds what the references of a schema refer to. It returns the reference at which it stops, because it is within
// itself or the schema is too large, or "", and the references that lead to the schema's parts.
func (p *plainer) resolve(m map[string]any, within []string) (again string, inner []string) {
	for ref := refer(m); ref != ""; ref = refer(m) {
		target, _ := p.find(ref).(map[string]any)
		if target != nil && (slices.Contains(within, ref) || p.nodes > maxNodes) {
			again = ref
		}
		if slices.Contains(within, ref) {
			target = maps.Clone(target)
			refer(target) // which may be a cycle
		}
		within = append(slices.Clip(within), ref)
		join(m, target)
		_, condition := m["if"]
		_, contains := m["contains"]
		for k, v := range target {
			if _, there := m[k]; !there && !(condition && (k == "then" || k == "else")) && !(contains && k == "maxContains") {
				m[k] = v
			}
		}
	}
	return again, within
}

func notText(v any) bool {
	_, is := v.(string)
	return !is
}

// describe removes what Gemini refuses, and adds it to the description: values that are not strings, formats of
// strings, limits that are not allowed, and the form of names.
func describe(m map[string]any) {
	note := func(words string) {
		described, _ := m["description"].(string)
		m["description"] = strings.TrimLeft(described+" ("+words+")", " ")
	}
	if values, _ := m["enum"].([]any); slices.ContainsFunc(values, notText) {
		if m["type"] == "string" {
			values = slices.DeleteFunc(slices.Clone(values), notText)
		} else if values[0] != nil || len(values) > 1 {
			raw, _ := json.Marshal(values) // they came from JSON
			note("one of " + strings.Trim(string(raw), "[]"))
		}
		if m["enum"] = values; m["type"] != "string" || len(values) == 0 {
			delete(m, "enum")
		}
	}
	if format, is := m["format"].(string); is && (m["type"] == "string" || m["type"] == nil) && format != "date-time" {
		note("format: " + format)
		delete(m, "format")
	}
	for _, bound := range [...][2]string{{"exclusiveMinimum", "more than "}, {"exclusiveMaximum", "less than "}} {
		if limit, there := m[bound[0]]; there {
			note(bound[1] + fmt.Sprint(limit))
			delete(m, bound[0])
		}
	}
	delete(m, "propertyNames")
}

// refer removes the reference from a schema and returns it. It returns "" if the schema has no reference.
func refer(m map[string]any) (ref string) {
	for _, k := range []string{"$recursiveRef", "$dynamicRef", "$ref"} {
		if r, ok := m[k].(string); ok {
			ref = r
		}
		delete(m, k)
	}
	return ref
}

// hoist merges the alternatives at the top, and deletes the keywords that are not allowed there.
func hoist(m map[string]any) {
	merged := false
	for _, k := range []string{"allOf", "anyOf", "oneOf", "then", "else", "dependentSchemas"} {
		var all []any
		switch v := m[k].(type) {
		case []any:
			all = v
		case map[string]any:
			if all = []any{v}; k == "dependentSchemas" {
				all = slices.Collect(maps.Values(v))
			}
		}
		var common []any // the names that each alternative requires
		merged = merged || len(all) > 0
		for i, s := range all {
			branch, _ := s.(map[string]any)
			branch = maps.Clone(branch)
			hoist(branch)
			if merge(m, branch); k == "allOf" {
				join(m, branch)
			}
			required, _ := branch["required"].([]any)
			if i == 0 {
				common = required
			}
			common = slices.DeleteFunc(slices.Clone(common), func(name any) bool { return !slices.Contains(required, name) })
		}
		if k == "anyOf" || k == "oneOf" {
			join(m, map[string]any{"required": common})
		}
		delete(m, k)
	}
	for _, k := range []string{"if", "not", "enum"} {
		delete(m, k)
	}
	if merged { // the properties of alternatives are not additional
		delete(m, "additionalProperties")
		delete(m, "unevaluatedProperties")
	}
}

// typeBranches moves the type of a schema with alternatives into them, because Kimi refuses a type next to anyOf. The
// alternatives of an object with properties, or with names that it requires, are merged. An array with items stays as
// it is.
func typeBranches(m map[string]any) {
	switch {
	case m["properties"] != nil || m["required"] != nil:
		hoist(m)
		return
	case m["type"] == "array" && m["items"] != nil:
		return
	}
	for _, k := range []string{"anyOf", "oneOf"} {
		list, ok := m[k].([]any)
		if list = slices.Clone(list); ok {
			m[k] = list
		}
		for i, s := range list {
			if branch, ok := s.(map[string]any); ok && branch["type"] == nil {
				branch = maps.Clone(branch)
				branch["type"] = m["type"]
				finish(branch)
				list[i] = branch
			}
		}
	}
	delete(m, "type")
}

// finish gives an object its properties, and an array its items.
func finish(m map[string]any) {
	for _, k := range []string{"allOf", "anyOf", "oneOf"} {
		if list, _ := m[k].([]any); len(list) == 0 {
			delete(m, k)
		}
	}
	if _, typed := m["type"].(string); typed && (m["anyOf"] != nil || m["oneOf"] != nil) {
		typeBranches(m)
	}
	properties, ok := m["properties"].(map[string]any)
	maps.DeleteFunc(properties, func(_ string, s any) bool { return s == false })
	if !ok {
		delete(m, "properties")
	}
	if _, ok := m["items"].(map[string]any); !ok {
		delete(m, "items")
	}
	switch {
	case m["type"] == "array" && m["items"] == nil:
		m["items"] = map[string]any{}
	case m["type"] == "object":
		if !ok {
			properties = map[string]any{}
		}
		required, _ := m["required"].([]any)
		for _, name := range required {
			if name := name.(string); properties[name] == nil {
				properties[name] = map[string]any{}
			}
		}
		m["properties"] = properties
	}
}

// cutOff returns the remaining part of a schema that is too deep, or that contains itself.
func cutOff(m map[string]any, again string) map[string]any {
	left := map[string]any{}
	for _, k := range []string{"type", "title", "description", "enum"} {
		if v, ok := m[k]; ok {
			left[k] = v
		}
	}
	if _, many := left["type"].([]any); many {
		delete(left, "type")
	}
	describe(left)
	if again != "" {
		described, _ := left["description"].(string)
		left["description"] = strings.TrimLeft(described+" (of the form "+again[strings.LastIndexAny(again, "/#")+1:]+")", " ")
	}
	finish(left)
	return left
}
