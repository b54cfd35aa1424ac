package endpoint

import (
	"fmt"
	"maps"
	"slices"
)

// objectSchema checks a schema that must be of type object, such as that of a tool or of a response format.
func (c *checker) objectSchema(at string, v any, strict bool) {
	s, ok := v.(map[string]any)
	if !ok {
		c.addf(at, "must be a JSON schema")
		return
	}
	if s["type"] != "object" {
		c.addf(at+".type", `must be "object"`)
	}
	c.schema(at, s, strict, 0)
}

// maxSchemaDepth prevents a deeply nested schema from exhausting the stack.
const maxSchemaDepth = 64

// schema checks the keywords whose misuse the endpoints refuse. It does not follow references.
func (c *checker) schema(at string, v any, strict bool, depth int) {
	if _, ok := v.(bool); ok {
		return
	}
	s, ok := v.(map[string]any)
	if !ok {
		c.addf(at, "must be a JSON schema")
		return
	}
	if depth > maxSchemaDepth {
		c.addf(at, "is nested more than %d levels deep", maxSchemaDepth)
		return
	}
	types := c.schemaTypes(at, s)
	props, _ := s["properties"].(map[string]any)
	if _, present := s["properties"]; present && props == nil {
		c.addf(at+".properties", "must be an object")
	}
	for _, name := range slices.Sorted(maps.Keys(props)) {
		c.schema(at+".properties."+name, props[name], strict, depth+1)
	}
	required := map[string]bool{}
	if r, present := s["required"]; present {
		list, ok := r.([]any)
		for _, n := range list {
			name, isString := n.(string)
			ok = ok && isString
			required[name] = true
		}
		if !ok {
			c.addf(at+".required", "must be a list of strings")
		}
	}
	if strict && slices.Contains(types, any("object")) {
		if s["additionalProperties"] != false {
			c.addf(at+".additionalProperties", "must be false in a strict schema")
		}
		for _, name := range slices.Sorted(maps.Keys(props)) {
			if !required[name] {
				c.addf(at+".required", "must hold %q in a strict schema", name)
			}
		}
	}
	if e, present := s["enum"]; present {
		if list, ok := e.([]any); !ok || len(list) == 0 {
			c.addf(at+".enum", "must be a non-empty list")
		}
	}
	for _, k := range []string{"items", "additionalProperties", "not"} {
		if sub, present := s[k]; present {
			c.schema(at+"."+k, sub, strict, depth+1)
		}
	}
	for _, k := range []string{"anyOf", "oneOf", "allOf"} {
		v, present := s[k]
		if !present {
			continue
		}
		list, ok := v.([]any)
		if !ok || len(list) == 0 {
			c.addf(at+"."+k, "must be a non-empty list of schemas")
		}
		for i, sub := range list {
			c.schema(fmt.Sprintf("%s.%s[%d]", at, k, i), sub, strict, depth+1)
		}
	}
}

// schemaTypes checks and returns the types that a schema allows.
func (c *checker) schemaTypes(at string, s map[string]any) (types []any) {
	switch t := s["type"].(type) {
	case nil:
	case []any:
		types = t
	default:
		types = []any{t}
	}
	for _, t := range types {
		switch t {
		case "array":
			_, items := s["items"]
			_, prefix := s["prefixItems"]
			if !items && !prefix {
				c.addf(at, "an array needs items")
			}
		case "object", "string", "number", "integer", "boolean", "null":
		default:
			c.addf(at+".type", "%v is no type of JSON schema", t)
		}
	}
	return types
}
