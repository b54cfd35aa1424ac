package schema

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Found is what a schema says about an argument.
type Found int

// The possible results. An object without declared properties is open.
const (
	Absent Found = iota
	Open
	Declared
)

// Find returns what a JSON schema of arguments says about the argument at a path. The steps of the path are separated
// by dots; lists need no step. If the argument is absent, names are the declared ones where the path leaves the schema.
// A schema that cannot be read is open.
func Find(schema json.RawMessage, path string) (found Found, names []string) {
	_, compiled, err := compile(schema)
	if err != nil {
		return Open, nil
	}
	return find(compiled, path)
}

func find(s *jsonschema.Schema, path string) (best Found, names []string) {
	level := map[*jsonschema.Schema]bool{}
	gather(s, level)
	head, rest, deeper := strings.Cut(path, ".")
	declared := map[string]bool{}
	var inner []string
	open := false // to any key, if none is declared
	for t := range level {
		if extra, ok := t.AdditionalProperties.(*jsonschema.Schema); ok && extra != nil || len(t.PatternProperties) > 0 {
			best = max(best, Open)
		}
		open = open || anyKey(t)
		for name, p := range t.Properties {
			declared[name] = true
			switch {
			case name == path:
				return Declared, nil
			case name == head && deeper:
				found, known := find(p, rest)
				best, inner = max(best, found), append(inner, known...)
			}
		}
	}
	if len(declared) == 0 && open {
		best = max(best, Open)
	}
	if names = slices.Sorted(maps.Keys(declared)); declared[head] {
		names = slices.Compact(slices.Sorted(slices.Values(inner)))
	}
	return best, names
}

// anyKey reports whether the schema itself allows objects, or lists of objects, with any keys.
func anyKey(t *jsonschema.Schema) bool {
	allowed, said := t.AdditionalProperties.(bool)
	never := t.Bool != nil && !*t.Bool
	types := []string{"object", "array"}
	if t.Types != nil && !t.Types.IsEmpty() {
		types = t.Types.ToStrings()
	}
	return !never && (slices.Contains(types, "object") && (allowed || !said) ||
		slices.Contains(types, "array") && t.Items == nil && t.Items2020 == nil && t.PrefixItems == nil)
}

// gather adds the schema, those that it refers to and combines, and those of the items if it is a list.
func gather(s *jsonschema.Schema, level map[*jsonschema.Schema]bool) {
	if s == nil || level[s] {
		return
	}
	level[s] = true
	all := slices.Concat(s.AllOf, s.AnyOf, s.OneOf, s.PrefixItems, []*jsonschema.Schema{s.Ref, s.RecursiveRef, s.If, s.Then, s.Else, s.Items2020},
		slices.Collect(maps.Values(s.DependentSchemas)))
	if s.DynamicRef != nil {
		all = append(all, s.DynamicRef.Ref)
	}
	switch items := s.Items.(type) {
	case *jsonschema.Schema:
		all = append(all, items)
	case []*jsonschema.Schema:
		all = append(all, items...)
	}
	for _, t := range all {
		gather(t, level)
	}
}
