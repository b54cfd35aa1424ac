package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// join adds the properties and required names of another schema.
func join(m, other map[string]any) {
	merge(m, other)
	if more, _ := other["required"].([]any); len(more) > 0 {
		all, _ := m["required"].([]any)
		m["required"] = unique(slices.Concat(all, more)) // nothing has checked yet that these are names
	}
}

func merge(m, other map[string]any) {
	more, _ := other["properties"].(map[string]any)
	all, _ := m["properties"].(map[string]any)
	if all = maps.Clone(all); all == nil && more != nil {
		all = map[string]any{}
	}
	for name, s := range more {
		if before, there := all[name]; there {
			s = either(before, s)
		}
		all[name] = s
	}
	if all != nil {
		m["properties"] = all
	}
}

// either returns a schema that allows what one of two schemas allows.
func either(a, b any) any {
	one, _ := a.(map[string]any)
	other, _ := b.(map[string]any)
	switch {
	case b == false, reflect.DeepEqual(a, b):
		return a
	case a == false:
		return b
	}
	first, _ := one["enum"].([]any)
	if more, _ := other["enum"].([]any); first != nil && more != nil && reflect.DeepEqual(one["type"], other["type"]) {
		one = maps.Clone(one)
		one["enum"] = unique(slices.Concat(first, more))
		return one
	}
	var all []any
	for _, s := range []any{a, b} {
		m, _ := s.(map[string]any)
		inner, some := m["anyOf"].([]any)
		if !some || len(m) > 1 {
			inner = []any{s}
		}
		all = append(all, inner...)
	}
	return map[string]any{"anyOf": unique(all)}
}

// unique returns a list of values from JSON without those that come again.
func unique(list []any) []any {
	all, seen := make([]any, 0, len(list)), map[string]bool{}
	for _, v := range list {
		if raw, _ := json.Marshal(v); !seen[string(raw)] {
			seen[string(raw)] = true
			all = append(all, v)
		}
	}
	return all
}

// tuple replaces the schemas of a tuple's items by one schema for all items.
func tuple(m map[string]any) {
	all, old := m["items"].([]any)
	rest := m["additionalItems"]
	if !old {
		all, _ = m["prefixItems"].([]any)
		rest = m["items"]
	}
	delete(m, "prefixItems")
	delete(m, "additionalItems")
	if len(all) == 0 {
		return
	}
	var items any = false
	if limit, err := strconv.Atoi(fmt.Sprint(m["maxItems"])); rest == nil && (err != nil || limit > len(all)) {
		delete(m, "items") // any items may follow
		return
	}
	for _, s := range append(slices.Clip(all), rest) {
		switch {
		case s == nil || s == false:
		case items == false:
			items = s
		default:
			items = either(items, s)
		}
	}
	m["items"] = items
}

// split replaces a list of types by alternatives.
func split(m map[string]any) {
	list, ok := m["type"].([]any)
	if !ok {
		return
	}
	if delete(m, "type"); len(list) == 1 {
		m["type"] = list[0]
		return
	}
	for _, k := range []string{"anyOf", "oneOf", "allOf", "not", "if"} {
		if _, there := m[k]; there {
			return
		}
	}
	enum, some := m["enum"].([]any)
	delete(m, "enum")
	var all []any
	for _, t := range list {
		one := map[string]any{"type": t}
		for k, v := range m {
			if of := about(k); of == t || of == "number" && t == "integer" {
				one[k] = v
			}
		}
		if some {
			one["enum"] = slices.DeleteFunc(slices.Clone(enum), func(v any) bool { return typeOf(v) != t && !(numeric(typeOf(v)) && numeric(t)) })
			if len(one["enum"].([]any)) == 0 {
				continue
			}
		}
		all = append(all, one)
	}
	maps.DeleteFunc(m, func(k string, _ any) bool { return about(k) != nil })
	m["anyOf"] = all
}

// about returns the type to which a keyword applies, nil if it applies to all types.
func about(keyword string) any {
	switch keyword {
	case "minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType", "contentSchema":
		return "string"
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
		return "number"
	case "items", "minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains", "unevaluatedItems":
		return "array"
	case "properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties", "maxProperties", "unevaluatedProperties",
		"dependencies", "dependentRequired", "dependentSchemas":
		return "object"
	}
	return nil
}

func numeric(t any) bool { return t == "integer" || t == "number" }

func typeOf(v any) any {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case json.Number:
		if !strings.ContainsAny(v.String(), ".eE") {
			return "integer"
		}
		return "number"
	}
	return "object"
}
