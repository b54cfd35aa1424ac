package schema

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Shape is what schemas say about a value that one of them allows, with what their branches say. It follows no
// references.
type Shape struct {
	Types       []string // the types that they name or imply, in their order
	Any         bool     // the value may also have other types
	Texts       []string // the texts that they list
	AnyText     bool     // the value may also be any other text
	Description string   // the first one
	Members     map[string]Schemas
	Required    []string // the members that all objects have
	Open        bool     // a schema says that an object may have other members
	Items       Schemas
}

// Schemas are decoded schemas, of which a value follows at least one.
type Schemas []any

// ReadShape returns the shape of a schema in JSON, or nil if it is not an object.
func ReadShape(schema json.RawMessage) *Shape {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if _, ok := doc.(map[string]any); err != nil || !ok {
		return nil
	}
	return Schemas{doc}.Shape()
}

// Shape returns what the schemas say, or nil if there are none.
func (all Schemas) Shape() *Shape {
	if len(all) == 0 {
		return nil
	}
	s := &Shape{Members: map[string]Schemas{}, Required: all.required()}
	for _, schema := range all {
		s.add(schema, nil, false)
	}
	s.Texts = distinct(s.Texts)
	if s.Types = distinct(s.Types); slices.Contains(s.Types, "number") {
		s.Types = slices.DeleteFunc(s.Types, func(t string) bool { return t == "integer" })
	}
	return s
}

// add adds what a schema and its branches say. If it names no types, its values have the given ones, if there are any.
// listed reports that a schema around it lists all values.
func (s *Shape) add(schema any, types []string, listed bool) {
	m, _ := schema.(map[string]any)
	if text, _ := m["description"].(string); s.Description == "" {
		s.Description = text
	}
	properties, _ := m["properties"].(map[string]any)
	for name, p := range properties {
		s.Members[name] = append(s.Members[name], p)
	}
	if m["items"] != nil {
		s.Items = append(s.Items, m["items"])
	}
	s.Open = s.Open || m["patternProperties"] != nil || m["additionalProperties"] != nil && m["additionalProperties"] != false
	if named := typesOf(m); len(named) > 0 {
		types = named
	}
	values, lists := m["enum"].([]any)
	if value, ok := m["const"]; ok {
		values, lists = []any{value}, true
	}
	listed = listed || lists
	s.Texts = append(s.Texts, stringsOf(values)...)
	if m["nullable"] == true || slices.Contains(values, nil) {
		s.Types = append(s.Types, "null")
	}
	if len(types) == 0 {
		if len(properties) > 0 {
			s.Types = append(s.Types, "object")
		}
		if m["items"] != nil {
			s.Types = append(s.Types, "array")
		}
		if m["default"] != nil {
			values = append(slices.Clip(values), m["default"])
		}
		for _, value := range values {
			s.Types = append(s.Types, typeOf(value).(string))
		}
	}
	branches := slices.Concat(listOf(m["allOf"]), listOf(m["anyOf"]), listOf(m["oneOf"]))
	for _, branch := range branches {
		s.add(branch, types, listed)
	}
	if len(branches) == 0 {
		s.Types = append(s.Types, types...)
		anyType := len(types) == 0 && !listed
		s.Any = s.Any || anyType
		s.AnyText = s.AnyText || anyType || !listed && slices.Contains(types, "string")
	}
}

// required returns the members that all objects have.
func (all Schemas) required() (common []string) {
	objects := 0
	for _, schema := range all {
		m, _ := schema.(map[string]any)
		if types := typesOf(m); len(types) > 0 && !slices.Contains(types, "object") {
			continue
		}
		names := slices.Concat(stringsOf(m["required"]), Schemas(listOf(m["anyOf"])).required(), Schemas(listOf(m["oneOf"])).required())
		for _, branch := range listOf(m["allOf"]) {
			names = append(names, Schemas{branch}.required()...)
		}
		if objects++; objects == 1 {
			common = distinct(names)
		}
		common = slices.DeleteFunc(common, func(name string) bool { return !slices.Contains(names, name) })
	}
	return common
}

func typesOf(m map[string]any) []string {
	if name, ok := m["type"].(string); ok {
		return []string{name}
	}
	return stringsOf(m["type"])
}

func listOf(v any) []any {
	list, _ := v.([]any)
	return list
}

// stringsOf returns the texts in a list from JSON.
func stringsOf(list any) (all []string) {
	for _, v := range listOf(list) {
		if text, ok := v.(string); ok {
			all = append(all, text)
		}
	}
	return all
}

// distinct returns names without those that come again.
func distinct(names []string) (all []string) {
	for _, name := range names {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// Allows reports whether the value may have a type. An integer is a number, too.
func (s *Shape) Allows(kind string) bool {
	return s == nil || s.Any || slices.Contains(s.Types, kind) || kind == "integer" && slices.Contains(s.Types, "number")
}

// AllowsText reports whether the value may be the text.
func (s *Shape) AllowsText(text string) bool {
	return s.AnyText || slices.Contains(s.Texts, text)
}
