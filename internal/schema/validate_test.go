package schema_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/schema"
)

// The same mistakes have the same words, in an order that does not depend on chance: what a model is told is
// part of its next request, which recordings and replays compare.
func TestSameWords(t *testing.T) {
	v, err := schema.Compile(json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{
		"a":{"type":"integer"},"b":{"type":"integer"},"c":{"type":"integer"},"d":{"type":"integer"}}}`), schema.Arguments)
	require.NoError(t, err)
	for range 50 {
		err := v.Validate(json.RawMessage(`{"d":"x","c":"x","b":"x","a":"x","z":1,"y":1,"x":1,"w":1}`))
		require.EqualError(t, err, "the arguments do not fit the schema: /a: got string, want integer; /b: got string, want integer; "+
			"/c: got string, want integer; /d: got string, want integer; /: additional properties 'w', 'x', 'y', 'z' not allowed")
	}
}

// An error names what was checked: a model reads it.
func TestSubject(t *testing.T) {
	for subject, want := range map[schema.Subject]string{
		schema.Arguments: `the arguments are not a JSON object: "x"`,
		schema.Input:     `the input is not a JSON object: "x"`,
		schema.Answer:    `the answer is not a JSON object: "x"`,
	} {
		v, err := schema.Compile(json.RawMessage(`{"type":"object"}`), subject)
		require.NoError(t, err)
		require.EqualError(t, v.Validate(json.RawMessage(`{"raw":"x"}`)), want)
		require.ErrorContains(t, v.Validate(json.RawMessage(`{"a":1,"a":2}`)), `ambiguous: one object contains a key twice: "a"`)
	}
}

// A number that the library for schemas cannot read is a mistake of who wrote it, and no panic.
func TestHugeExponents(t *testing.T) {
	form := json.RawMessage(`{"type":"object","properties":{"a":{"type":"number","minimum":0}}}`)
	v, err := schema.Compile(form, schema.Arguments)
	require.NoError(t, err)
	for _, number := range []string{"1e9999999", "1E-9999999"} {
		value := json.RawMessage(`{"a":[0,{"b":` + number + `}],"a2":1}`)
		require.EqualError(t, v.Validate(value), "the arguments are not JSON: the exponent of the number "+number+" has more than three digits")
		require.ErrorContains(t, schema.Fits(form, json.RawMessage(`{"a":`+number+`}`)), "more than three digits")
	}
	require.NoError(t, v.Validate(json.RawMessage(`{"a":1e+0400}`)))
	require.NoError(t, schema.Check(json.RawMessage("{\"description\":\"caf\xe9\"}")))
	for _, keyword := range []string{`"multipleOf":1e-100000000000`, `"minimum":1e10000000000`} {
		require.ErrorContains(t, schema.Check(json.RawMessage(`{"properties":{"a":{`+keyword+`}}}`)), "more than three digits")
	}
}

func TestStripCodeFence(t *testing.T) {
	for text, want := range map[string]string{
		" {\"a\":1}\n":                     `{"a":1}`,
		"```json\n{\"a\":1}\n```":          `{"a":1}`,
		"```\n{\"a\":1}\n```\n":            `{"a":1}`,
		"```json {\"a\":1}```":             `{"a":1}`,
		"```{\"a\":\n1}```":                "{\"a\":\n1}",
		"```json\n{\"a\":1}\n``` as asked": "```json\n{\"a\":1}\n``` as asked",
		"```":                              "```",
	} {
		require.Equal(t, want, schema.StripCodeFence(text), text)
	}
}
