package yamldoc

import (
	"encoding/json"
	"maps"
	"strings"
)

// Schema returns the JSON schema of a mapping with the keys that a [Decoder] reads. It refuses only what the decoder
// refuses: other keys, and values of the wrong type or out of range.
func Schema(keys []Key) map[string]any {
	properties := make(map[string]any, len(keys))
	for i := range keys {
		k := &keys[i]
		for _, name := range append([]string{k.Name}, k.Also...) {
			properties[name] = k.schema()
		}
	}
	return map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
}

func (k *Key) schema() map[string]any {
	s := map[string]any{}
	if k.rawSchema != "" {
		_ = json.Unmarshal([]byte(k.rawSchema), &s) // a constant in the source, which the tests parse
	} else {
		s = k.ofType()
	}
	if k.about != "" {
		s["description"] = k.about
	}
	return s
}

// ofType returns the schema that follows from the key's type and limits.
func (k *Key) ofType() map[string]any {
	either := strings.NewReplacer("true or false", "boolean", ", or ", "|", " or ", "|", ", ", "|")
	var types []map[string]any
	for typ := range strings.SplitSeq(either.Replace(k.Type), "|") {
		one := k.typeSchema(typ)
		maps.Copy(one, k.limits)
		types = append(types, one)
	}
	if len(types) == 1 {
		return types[0]
	}
	return map[string]any{"anyOf": types}
}

// typeSchema returns the schema for the name of a type in messages. A word that names no type stands for itself.
func (k *Key) typeSchema(typ string) map[string]any {
	if of, ok := strings.CutPrefix(typ, "a list of "); ok {
		return map[string]any{"type": "array", "items": k.typeSchema("a " + strings.TrimSuffix(of, "s"))}
	}
	of := func(json string) map[string]any { return map[string]any{"type": json} }
	switch name, _, _ := strings.Cut(typ, " of "); name {
	case "", "a value":
		return map[string]any{}
	case "a mapping":
		if len(k.Keys) > 0 {
			return Schema(k.Keys)
		}
		return of("object")
	case "boolean", "true":
		return of("boolean")
	case "a number":
		return of("number")
	case "a whole number":
		return of("integer")
	case "a list":
		return of("array")
	case "a text", "a name", "a right", "a pattern", "a time with its unit", "the name", "user", "staff":
		return of("string")
	case "on", "off":
		return map[string]any{"enum": []any{name, name == "on"}}
	}
	return map[string]any{"const": typ}
}
