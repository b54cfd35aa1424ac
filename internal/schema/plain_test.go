package schema_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/internal/schema"
)

func TestPlain(t *testing.T) {
	for name, c := range map[string]struct{ from, to string }{
		"no properties":     {`{"type":"object"}`, `{"type":"object","properties":{}}`},
		"nothing":           {`{}`, `{"properties":{},"type":"object"}`},
		"as it was":         {`{ "type":"object", "properties":{"a":{"type":"array","items":{"type":"string"}}} }`, `{ "type":"object", "properties":{"a":{"type":"array","items":{"type":"string"}}} }`},
		"the order stays":   {`{"type":"object","properties":{"z":{"type":"array"},"a":{"const":1.0}}}`, `{"type":"object","properties":{"z":{"type":"array","items":{}},"a":{"type":"number","description":"(one of 1.0)"}}}`},
		"a property const":  {`{"type":"object","properties":{"const":{"type":"string"},"pattern":{"enum":["(?!a)"]}}}`, `{"type":"object","properties":{"const":{"type":"string"},"pattern":{"enum":["(?!a)"]}}}`},
		"a pattern":         {`{"type":"object","properties":{"a":{"type":"string","pattern":"^(?!a)<b>&"},"b":{"pattern":"^<b>&$"}}}`, `{"type":"object","properties":{"a":{"type":"string"},"b":{"pattern":"^<b>&$"}}}`},
		"types":             {`{"type":["object","null"],"properties":{"a":{"type":["string","null"],"minLength":1,"description":"A"}}}`, `{"type":"object","properties":{"a":{"description":"A","anyOf":[{"type":"string","minLength":1},{"type":"null"}]}}}`},
		"types with values": {`{"type":"object","properties":{"a":{"type":["string","integer","null"],"enum":["x",null]}}}`, `{"type":"object","properties":{"a":{"anyOf":[{"type":"string","enum":["x"]},{"type":"null"}]}}}`},
		"a type and alternatives": {`{"type":"object","properties":{"a":{"type":"string","anyOf":[{"enum":["x"]},{"type":"null"}]},"b":{"type":"object","properties":{"c":{"type":"string"},"d":{"type":"string"}},"anyOf":[{"required":["c"]},{"required":["d"]}]},"e":{"type":"object","oneOf":[{"properties":{"f":{"type":"string"}}}]}}}`,
			`{"type":"object","properties":{"a":{"anyOf":[{"type":"string","enum":["x"]},{"type":"null"}]},"b":{"type":"object","properties":{"c":{"type":"string"},"d":{"type":"string"}}},"e":{"oneOf":[{"type":"object","properties":{"f":{"type":"string"}}}]}}}`}, // MoonshotAI/kimi-code#2661
		"alternatives of alternatives": {`{"type":"object","properties":{"a":{"type":"string","anyOf":[{"anyOf":[{"enum":["x"]},{"minLength":3}]},{"type":"null"}]},"b":{"type":"array","items":{"type":"string"},"anyOf":[{"maxItems":1},{"minItems":3}]},"c":{"type":"object","required":["d"],"anyOf":[{"maxProperties":1},{"minProperties":3}]}}}`,
			`{"type":"object","properties":{"a":{"anyOf":[{"anyOf":[{"type":"string","enum":["x"]},{"type":"string","minLength":3}]},{"type":"null"}]},"b":{"type":"array","anyOf":[{"maxItems":1},{"minItems":3}],"items":{"type":"string"}},"c":{"type":"object","properties":{"d":{}},"required":["d"]}}}`},
		"a tuple":              {`{"type":"object","properties":{"a":{"type":"array","prefixItems":[{"type":"string"},{"type":"number"}],"items":false}}}`, `{"type":"object","properties":{"a":{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"number"}]}}}}`},
		"a reference":          {`{"type":"object","properties":{"a":{"$ref":"#/$defs/x~1y","description":"Mine"}},"$defs":{"x/y":{"type":"string","description":"Its"}}}`, `{"type":"object","properties":{"a":{"type":"string","description":"Mine"}}}`},
		"a reference at top":   {`{"$ref":"#/definitions/A","definitions":{"A":{"type":"object","properties":{"b":{"type":"string"}},"required":["b"]}},"$schema":"http://json-schema.org/draft-07/schema#"}`, `{"type":"object","properties":{"b":{"type":"string"}},"required":["b"]}`},
		"an unknown reference": {`{"type":"object","properties":{"a":{"$ref":"other.json","title":"T"}}}`, `{"type":"object","properties":{"a":{"title":"T"}}}`},
		"a circle":             {`{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"$ref":"#/$defs/B"},"B":{"$ref":"#/$defs/A"}}}`, `{"type":"object","properties":{"a":{"description":"(of the form A)"}}}`},
		"a tree": {`{"type":"object","properties":{"a":{"$ref":"#/$defs/Node"}},"$defs":{"Node":{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#/$defs/Node"}}}}}}`,
			`{"type":"object","properties":{"a":{"type":"object","properties":{"kids":{"type":"array","items":{"type":"object","properties":{},"description":"(of the form Node)"}}}}}}`},
		"alternatives": {`{"type":"object","oneOf":[{"properties":{"kind":{"const":"a"},"x":{"type":"string"}},"required":["kind","x"]},{"properties":{"kind":{"const":"b"},"x":{"type":"integer"}},"required":["kind"]}],"additionalProperties":false}`,
			`{"type":"object","properties":{"kind":{"type":"string","enum":["a","b"]},"x":{"anyOf":[{"type":"string"},{"type":"integer"}]}},"required":["kind"]}`},
		"all of": {`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"allOf":[{"properties":{"b":{"type":"string"}},"required":["b"]},{"anyOf":[{"required":["a"]},{"required":["c"]}]}]}`,
			`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["a","b"]}`},
		"required and unknown":   {`{"type":"object","properties":{},"required":["a"]}`, `{"type":"object","properties":{"a":{}},"required":["a"]}`},
		"an old draft":           {`{"type":"object","properties":{"a":{"type":"any","required":true,"exclusiveMinimum":true,"minimum":1}}}`, `{"type":"object","properties":{"a":{"minimum":1}}}`},
		"unknown types":          {`{"type":"object","properties":{"a":{"type":[{},{},"string"]}}}`, `{"type":"object","properties":{"a":{"type":"string"}}}`},
		"required without names": {`{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"object","required":[{},{}]}}}`, `{"type":"object","properties":{"a":{"type":"object","properties":{}}}}`},
		"a tuple of values": {`{"type":"object","properties":{"a":{"type":"array","maxItems":2,"items":[{"type":["string","null"],"enum":["x"]},{"type":["string","null"],"enum":["y"]}]}}}`,
			`{"type":"object","properties":{"a":{"type":"array","maxItems":2,"items":{"anyOf":[{"type":"string","enum":["x","y"]}]}}}}`},
		"what Gemini refuses": {`{"type":"object","properties":{"a":{"type":"integer","enum":[1,2],"description":"A"},"b":{"type":"string","format":"uri"},` +
			`"c":{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1.5},"d":{"type":"object","propertyNames":{"pattern":"^x"}},"e":{"type":"string","enum":["x",null],"format":"date-time"}}}`,
			`{"type":"object","properties":{"a":{"type":"integer","description":"A (one of 1,2)"},"b":{"type":"string","description":"(format: uri)"},` +
				`"c":{"type":"number","description":"(more than 0) (less than 1.5)"},"d":{"type":"object","properties":{}},"e":{"type":"string","enum":["x"],"format":"date-time"}}}`},
		"items of an object": {`{"type":"object","properties":{"a":{"type":"object","items":{},"anyOf":[{"items":{}}]}}}`, `{"type":"object","properties":{"a":{"items":{},"anyOf":[{"type":"object","properties":{},"items":{}}]}}}`},
		"never or a type":    {`{"type":"object","properties":{"a":false},"anyOf":[{"properties":{"a":{"type":"integer"}}}]}`, `{"type":"object","properties":{"a":{"type":"integer"}}}`},
		"values without a type": {`{"type":"object","properties":{"a":{"enum":[1,2]},"b":{"enum":[1,2.5]},"c":{"enum":["x",true,null]}}}`,
			`{"type":"object","properties":{"a":{"type":"integer","description":"(one of 1,2)"},"b":{"type":"number","description":"(one of 1,2.5)"},"c":{"anyOf":[{"type":"string","enum":["x"]},{"type":"boolean","description":"(one of true)"},{"type":"null"}]}}}`},
		"twice":     {`{"type":"object","properties":{"a":{"type":"string","enum":["x","y","x"]}},"required":["a","a"]}`, `{"type":"object","properties":{"a":{"type":"string","enum":["x","y"]}},"required":["a"]}`},
		"no schema": {`[]`, `[]`},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.to, string(schema.Plain(json.RawMessage(c.from))))
			require.Equal(t, c.to, string(schema.Plain(json.RawMessage(c.to))))
		})
	}
	deep := strings.Repeat(`{"type":"array","items":`, 100) + "{}" + strings.Repeat("}", 100)
	require.Equal(t, 10, strings.Count(string(schema.Plain(json.RawMessage(`{"type":"object","properties":{"a":`+deep+`}}`))), `"array"`))
	var bomb strings.Builder // of 2^40 schemas
	for i := range 40 {
		fmt.Fprintf(&bomb, `"d%d":{"type":"object","properties":{"a":{"$ref":"#/$defs/d%d"},"b":{"$ref":"#/$defs/d%d"}}},`, i, i+1, i+1)
	}
	require.Less(t, len(schema.Plain(json.RawMessage(`{"type":"object","properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{`+bomb.String()+`"d40":{}}}`))), 1<<20)
}

// TestUsable: a tool stays usable, and its arguments are checked as far as they can be.
func TestUsable(t *testing.T) {
	for name, c := range map[string]struct{ schema, fits, not string }{
		"as it is":              {`{"type":"object","properties":{"a":{"type":["integer","null"]}}}`, `{"a":null}`, `{"a":"x"}`},
		"no type":               {`{"properties":{"a":{"type":"integer"}}}`, `{"a":1}`, `{"a":"x"}`},
		"a pattern":             {`{"type":"object","properties":{"a":{"type":"string","pattern":"(?!x)","minLength":2},"b":{"type":"string","pattern":"^b"}}}`, `{"a":"xx"}`, `{"b":"a"}`},
		"names of properties":   {`{"type":"object","patternProperties":{"(?!x)":{"type":"string"},"^n":{"type":"integer"}},"additionalProperties":false}`, `{"x":1,"n":1}`, `{"n":"x"}`},
		"a reference elsewhere": {`{"type":"object","properties":{"a":{"$ref":"other.json"},"b":{"const":1}}}`, `{"a":[],"b":1}`, `{"b":2}`},
		"alternatives":          {`{"type":"object","oneOf":[{"required":["a"]},{"required":["b"]}],"properties":{"a":{"pattern":"(?=x)"}}}`, `{"a":"y"}`, `{"a":"x","b":1}`},
		"an old draft":          {`{"type":"object","properties":{"a":{"type":"number","required":true,"exclusiveMinimum":true,"minimum":1}}}`, `{"a":2}`, `{"a":0}`},
		"unknown types":         {`{"type":"object","properties":{"a":{"type":[{},{}]},"b":{"type":"integer"}}}`, `{"a":1,"b":2}`, `{"b":"x"}`},
		"names twice":           {`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a","a"]}`, `{"a":2}`, `{}`},
		"an unknown draft":      {`{"$schema":"https://example.com/mine","type":"object","properties":{"a":{"type":"integer"}}}`, `{"a":2}`, `{"a":"x"}`},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := schema.Usable(json.RawMessage(c.schema))
			require.NoError(t, err)
			v, err := schema.Compile(s, schema.Arguments)
			require.NoError(t, err)
			require.NoError(t, v.Validate(json.RawMessage(c.fits)))
			require.Error(t, v.Validate(json.RawMessage(c.not)))
		})
	}
	for _, bad := range []string{`{"type":"string"}`, `[]`, `{`, `{"type":"object","properties":{"a":{"minLength":"x"}}}`} {
		_, err := schema.Usable(json.RawMessage(bad))
		require.Error(t, err, bad)
	}
}

// strict returns what a strict endpoint refuses of a schema.
func strict(at string, v any, depth int) (wrong []string) {
	m, ok := v.(map[string]any)
	if !ok {
		return []string{at + ": no object"}
	}
	say := func(bad bool, what string) {
		if bad {
			wrong = append(wrong, at+": "+what)
		}
	}
	has := func(k string) bool { _, ok := m[k]; return ok }
	_, many := m["type"].([]any)
	properties, isObject := m["properties"].(map[string]any)
	say(many, "a list of types")
	say(m["type"] == "object" && !isObject, "no properties")
	say(has("properties") && !isObject, "properties of no form")
	_, hasItems := m["items"].(map[string]any)
	say(m["type"] == "array" && !hasItems, "no items")
	for _, k := range []string{"$ref", "$defs", "const", "prefixItems", "$schema", "propertyNames", "exclusiveMinimum", "exclusiveMaximum"} {
		say(has(k), k)
	}
	if at == "" {
		say(m["type"] != "object", "the type")
		for _, k := range []string{"anyOf", "oneOf", "allOf", "not", "enum", "if"} {
			say(has(k), k)
		}
	}
	values, _ := m["enum"].([]any)
	say(slices.ContainsFunc(values, func(v any) bool { _, is := v.(string); return !is }), "values that are no strings")
	say(has("format") && m["type"] == "string" && m["format"] != "date-time", "a format")
	p, _ := m["pattern"].(string)
	_, err := regexp.Compile(p)
	say(err != nil, "pattern")
	say(depth > 10, "depth")
	required, _ := m["required"].([]any)
	for _, name := range required {
		_, there := properties[name.(string)]
		say(m["type"] == "object" && !there, "required and unknown")
	}
	for name, s := range properties {
		wrong = append(wrong, strict(at+"/"+name, s, depth+1)...)
	}
	for _, k := range []string{"items", "additionalProperties"} {
		if s, ok := m[k].(map[string]any); ok {
			wrong = append(wrong, strict(at+"/"+k, s, depth+1)...)
		}
	}
	for _, k := range []string{"anyOf", "oneOf", "allOf"} {
		list, _ := m[k].([]any)
		for i, s := range list {
			wrong = append(wrong, strict(fmt.Sprint(at, "/", k, i), s, depth)...)
		}
	}
	return wrong
}

var (
	someName = rapid.SampledFrom([]string{"a", "b", "const", "type", "items"})
	someType = rapid.SampledFrom([]any{"object", "array", "string", "integer", "number", "boolean", "null"})
	scalar   = rapid.SampledFrom([]any{nil, true, 1, 2.5, "a", "bb"})
)

func someSchema(t *rapid.T, depth int) any {
	if depth == 0 || rapid.IntRange(0, 19).Draw(t, "bool") == 0 {
		return rapid.SampledFrom([]any{true, false, map[string]any{}, map[string]any{"type": "string"}, map[string]any{"type": "array"}}).Draw(t, "leaf")
	}
	m := map[string]any{}
	inner := func() any { return someSchema(t, depth-1) }
	list := func() []any {
		return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) any { return someSchema(t, depth-1) }), 1, 3).Draw(t, "list")
	}
	members := func() map[string]any {
		return rapid.MapOfN(someName, rapid.Custom(func(t *rapid.T) any { return someSchema(t, depth-1) }), 0, 3).Draw(t, "members")
	}
	for _, k := range rapid.SliceOfN(rapid.SampledFrom(strings.Fields(`type type type types properties properties required items items prefixItems anyOf oneOf allOf not
		const enum $ref $ref pattern additionalProperties patternProperties if description minLength minimum propertyNames dependentSchemas`)), 1, 5).Draw(t, "keywords") {
		switch k {
		case "type":
			m[k] = someType.Draw(t, k)
		case "types":
			m["type"] = rapid.SliceOfNDistinct(someType, 1, 3, rapid.ID).Draw(t, k)
		case "properties", "dependentSchemas":
			m[k] = members()
		case "patternProperties":
			m[k] = map[string]any{rapid.SampledFrom([]string{"^a", "(?!b)"}).Draw(t, k): inner()}
		case "required":
			m[k] = rapid.SliceOfNDistinct(someName, 0, 2, rapid.ID).Draw(t, k)
		case "items", "not", "propertyNames", "additionalProperties":
			m[k] = inner()
		case "if":
			m["if"], m["then"], m["else"] = inner(), inner(), inner()
		case "prefixItems", "anyOf", "oneOf", "allOf":
			m[k] = list()
		case "const":
			m[k] = scalar.Draw(t, k)
		case "enum":
			m[k] = rapid.SliceOfN(scalar, 1, 3).Draw(t, k)
		case "$ref":
			m[k] = rapid.SampledFrom([]string{"#", "#/$defs/a", "#/$defs/b", "other.json"}).Draw(t, k)
		case "pattern":
			m[k] = rapid.SampledFrom([]string{"^a", "(?!b)"}).Draw(t, k)
		case "description":
			m[k] = "Words"
		case "minLength", "minimum":
			m[k] = 1
		}
	}
	return m
}

func someValue(t *rapid.T, depth int) any {
	switch kind := rapid.IntRange(0, 3).Draw(t, "kind"); {
	case depth > 0 && kind == 0:
		return rapid.MapOfN(someName, rapid.Custom(func(t *rapid.T) any { return someValue(t, depth-1) }), 0, 3).Draw(t, "object")
	case depth > 0 && kind == 1:
		return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) any { return someValue(t, depth-1) }), 0, 3).Draw(t, "list")
	}
	return scalar.Draw(t, "scalar")
}

// TestPlainProperties: whatever a schema says, its plain form is what a strict endpoint takes, is its own plain form, can
// be checked, and allows all arguments that the schema allows. One that was plain is not changed.
func TestPlainProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		top, _ := someSchema(t, 4).(map[string]any)
		if top == nil {
			return
		}
		if rapid.Bool().Draw(t, "typed") {
			top["type"] = "object"
		}
		top["$defs"] = map[string]any{"a": someSchema(t, 3), "b": someSchema(t, 2)}
		from, err := json.Marshal(top)
		require.NoError(t, err)
		plain := schema.Plain(from)
		var doc any
		require.NoError(t, json.Unmarshal(plain, &doc))
		require.Empty(t, strict("", doc, 0), "%s of %s", plain, from)
		require.Equal(t, string(plain), string(schema.Plain(plain)), "again, of %s", from)
		check, err := schema.Compile(plain, schema.Arguments)
		require.NoError(t, err, "%s of %s", plain, from)
		for _, k := range []string{"anyOf", "oneOf", "then", "else", "dependentSchemas"} {
			if strings.Contains(string(from), k) {
				return // of which the properties are merged, as if each alternative had them
			}
		}
		usable, err := schema.Usable(from)
		if err != nil {
			return // its type is another
		}
		original, err := schema.Compile(usable, schema.Arguments)
		require.NoError(t, err)
		for range 5 {
			value, err := json.Marshal(rapid.MapOfN(someName, rapid.Custom(func(t *rapid.T) any { return someValue(t, 2) }), 0, 4).Draw(t, "value"))
			require.NoError(t, err)
			if original.Validate(value) == nil {
				require.NoError(t, check.Validate(value), "%s fits %s, and not %s", value, usable, plain)
			}
		}
	})
}
