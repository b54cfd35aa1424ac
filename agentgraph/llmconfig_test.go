package agentgraph

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
)

func TestMergeConfig(t *testing.T) {
	for _, c := range []struct{ own, over, want string }{
		{`null`, `null`, `null`},
		{`{}`, `null`, `{}`},
		{`null`, `{"a": 1}`, `{"a": 1}`},
		{`{"threshold": 0.5, "model": "m"}`, `{"threshold": 0.8}`, `{"threshold": 0.8, "model": "m"}`},
		{`{"a": {"b": {"c": 1, "d": 2}}}`, `{"a": {"b": {"c": 3}, "e": 4}}`, `{"a": {"b": {"c": 3, "d": 2}, "e": 4}}`},
		{`{"list": [1, 2, {"a": 1}]}`, `{"list": [{"b": 2}]}`, `{"list": [{"b": 2}]}`},
		{`{"a": {"b": 1}}`, `{"a": "text"}`, `{"a": "text"}`},
		{`{"a": "text"}`, `{"a": {"b": 1}}`, `{"a": {"b": 1}}`},
		{`{"a": {"b": 1}}`, `{"a": {}}`, `{"a": {"b": 1}}`},
		{`{"a": {"b": 1}, "c": 1}`, `{"a": null}`, `{"a": null, "c": 1}`},
	} {
		require.Equal(t, jsonConfig(t, c.want), MergeConfig(jsonConfig(t, c.own), jsonConfig(t, c.over)), "%s under %s", c.own, c.over)
	}
}

func jsonConfig(t *testing.T, text string) (m map[string]any) {
	require.NoError(t, json.Unmarshal([]byte(text), &m))
	return m
}

// TestMergeConfigSharesNothing changes everything in a result, and finds the two
// configurations as they were.
func TestMergeConfigSharesNothing(t *testing.T) {
	value := rapid.Deferred(func() *rapid.Generator[any] { return anyConfig(3) })
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SampledFrom([]string{"a", "b", "c"})
		own := rapid.MapOfN(key, value, 0, 3).Draw(t, "own")
		over := rapid.MapOfN(key, value, 0, 3).Draw(t, "over")
		before := []string{encoded(own), encoded(over)}
		merged := MergeConfig(own, over)
		for k := range over {
			if m, isMap := over[k].(map[string]any); !isMap {
				require.Equal(t, over[k], merged[k])
			} else if _, both := own[k].(map[string]any); !both {
				require.Equal(t, m, merged[k])
			}
		}
		spoil(merged)
		require.Equal(t, before, []string{encoded(own), encoded(over)})
	})
}

func anyConfig(depth int) *rapid.Generator[any] {
	leaf := rapid.SampledFrom([]any{nil, true, 1.5, "x", int64(3)})
	if depth == 0 {
		return leaf
	}
	return rapid.OneOf(leaf,
		rapid.Map(rapid.SliceOfN(anyConfig(depth-1), 0, 2), func(v []any) any { return v }),
		rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"a", "b"}), anyConfig(depth-1), 0, 2), func(v map[string]any) any { return v }))
}

func encoded(v any) string {
	data, _ := json.Marshal(v)
	return string(data)
}

// spoil overwrites whatever a value holds.
func spoil(v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			spoil(inner)
			v[k] = "spoilt"
		}
		v["new"] = "spoilt"
	case []any:
		for i, inner := range v {
			spoil(inner)
			v[i] = "spoilt"
		}
	}
}

func TestLLMConfig(t *testing.T) {
	c := must.Get(LLMConfig{}.Read(
		jsonConfig(t, `{"llm": {"model": "own", "temperature": 0.2, "max_tokens": 100}, "threshold": 0.5, "limits": {"a": 1, "b": 2}}`),
		nil,
		jsonConfig(t, `{"temperature": 0, "topP": 1, "maxTokens": 50, "stop": "END", "tool_choice": "none", "parallelToolCalls": false, "leaked_calls": "off", "timeouts": {"first": "20m"},
			"limits": {"b": 3}, "role": "You are other.", "responseFormat": {"type": "object"}}`),
	))
	zero, one, no := 0.0, 1.0, false
	require.Equal(t, LLMConfig{
		Model: "own", Instructions: "You are other.",
		Settings: llm.Settings{Temperature: &zero, TopP: &one, MaxTokens: 50, Stop: []string{"END"}, ToolChoice: llm.ToolChoiceNone,
			ParallelToolCalls: &no, LeakedCalls: llm.LeakedCallsOff, Timeouts: llm.Timeouts{First: 20 * time.Minute}, ResponseFormat: &llm.ResponseFormat{Schema: json.RawMessage(`{"type":"object"}`)}},
		Other: map[string]any{"threshold": 0.5, "limits": map[string]any{"a": 1.0, "b": 3.0}},
	}, c)

	c = must.Get(LLMConfig{}.Read())
	require.Equal(t, LLMConfig{}, c)

	// null takes back what the agent's own configuration says, and so does an empty list.
	c = must.Get(LLMConfig{}.Read(map[string]any{"temperature": 1, "instructions": "I", "role": "R", "stop": "s", "endpoint": "openai"},
		map[string]any{"temperature": nil, "instructions": nil, "stop": []any{}, "endpoint": []string{}}))
	require.Equal(t, llm.Settings{}, c.Settings)
	require.Equal(t, "R", c.Instructions)

	// Numbers of a graph's file are int64, uint64 and float64.
	for _, n := range []any{1, int64(1), uint64(1), 1.0, json.Number("1")} {
		c = must.Get(LLMConfig{}.Read(map[string]any{"maxTokens": n, "temperature": n}))
		require.Equal(t, 1, c.Settings.MaxTokens)
		require.Equal(t, 1.0, *c.Settings.Temperature)
	}
}

// TestConfigTexts: a text stays as it is, whatever it contains.
func TestConfigTexts(t *testing.T) {
	texts := []string{"a: b #c", "- x", " \t a\r\nb\n\n", "\u2028\u2029\u0085\ufeff", "\x00\x07\x1b\x7f", `\"\u0041\/'`, "😀", "1e9", "null", "*a", "a\U0010ffff", strings.Repeat("x: y\n", 20_000)}
	for r := range rune(0x300) {
		texts = append(texts, "a"+string(r))
	}
	for _, text := range texts {
		c := must.Get(LLMConfig{}.Read(map[string]any{"instructions": text, "stop": []any{text}}))
		require.Equal(t, text, c.Instructions)
		require.Equal(t, []string{text}, c.Settings.Stop)
	}
	for _, text := range []string{"\n", " ", " x ", "1e9"} {
		c := must.Get(LLMConfig{}.Read(map[string]any{"stop": text}))
		require.Equal(t, []string{text}, c.Settings.Stop)
	}
	for _, none := range []any{func() {}, math.NaN(), []any{func() {}}, 1e21} {
		_, err := LLMConfig{}.Read(map[string]any{"model": none})
		require.ErrorContains(t, err, "config.model ")
	}
	for _, n := range []any{1e-7, 0.1, 5e-324, json.Number("1e-2"), 1e-1} {
		_, err := LLMConfig{}.Read(map[string]any{"temperature": n})
		require.NoError(t, err)
	}
}

func TestConfigErrors(t *testing.T) {
	for text, want := range map[string]string{
		`{"temperature": "hot"}`:                       `config.temperature must be a number from 0 to 2, not "hot"`,
		`{"temperature": 2.1}`:                         `config.temperature must be a number from 0 to 2, not 2.1`,
		`{"top_p": -1}`:                                `config.topP must be a number from 0 to 1, not -1`,
		`{"topP": true}`:                               `config.topP must be a number from 0 to 1, not true`,
		`{"maxTokens": 1e21}`:                          `config.maxTokens must be a whole number from 1, not the number 1e+21`,
		`{"seed": 1e21}`:                               `config.seed must be a whole number, not the number 1e+21`,
		`{"model": 1e21}`:                              `config.model must be a text, not the number 1e+21: put it in quotes, "1e+21"`,
		`{"stop": [1e21]}`:                             `config.stop must be a text or a list of texts, but one of them is the number 1e+21: put it in quotes, "1e+21"`,
		`{"stop": ""}`:                                 `config.stop is empty`,
		`{"maxTokens": 0}`:                             `config.maxTokens must be a whole number from 1, not 0`,
		`{"maxTokens": 1.5}`:                           `config.maxTokens must be a whole number from 1, not the number 1.5`,
		`{"maxTokens": [1]}`:                           `config.maxTokens must be a whole number from 1, not a list`,
		`{"leakedCalls": "maybe"}`:                     `config.leakedCalls must be auto, any or off, not "maybe"`,
		`{"timeouts": 5}`:                              `config.timeouts must be a mapping such as {first: 20m, silence: 2m, answer: 30m}, not the number 5`,
		`{"timeouts": {"frist": "1m"}}`:                `config.timeouts has an unknown key "timeouts.frist"; did you mean "first"?`,
		`{"timeouts": {"first": "-1m"}}`:               `config.timeouts.first must be a time with its unit such as 20m, not "-1m"`,
		`{"leakedCalls": false}`:                       `config.leakedCalls must be auto, any or off, not false`,
		`{"model": 4}`:                                 `config.model must be a text, not the number 4: put it in quotes, "4"`,
		`{"model": " "}`:                               `config.model is empty`,
		`{"instructions": {}}`:                         `config.instructions must be a text, not a mapping`,
		`{"role": 1}`:                                  `config.role must be a text, not the number 1`,
		`{"stop": ["a", 1]}`:                           `config.stop must be a text or a list of texts, but one of them is the number 1`,
		`{"stop": [""]}`:                               `config.stop holds an empty text`,
		`{"stop": 1}`:                                  `config.stop must be a text or a list of texts, not the number 1`,
		`{"endpoint": ["mistal"]}`:                     `config.endpoint names no endpoint: "mistal"; did you mean "mistral"?`,
		`{"toolChoice": []}`:                           `config.toolChoice must be a text, not a list`,
		`{"parallelToolCalls": "no"}`:                  `config.parallelToolCalls must be true or false, not "no"`,
		`{"responseFormat": "json"}`:                   `config.responseFormat must be a JSON schema, which is a mapping, not "json"`,
		`{"responseFormat": {"type": 1}}`:              `config.responseFormat must be a JSON schema: /type: `,
		`{"responseFormat": {"$ref": "file:///etc"}}`:  `config.responseFormat must be a JSON schema: `,
		`{"maxTokens": 1, "max_tokens": 2}`:            `config.max_tokens is given a second time: maxTokens is the same`,
		`{"temperature": 1, "llm": {"temperature":1}}`: `config.llm.temperature is given a second time: temperature is the same`,
		`{"stop": 1, "top_p": 2, "timeouts": {"first": 5, "x": 1}}`: `config.topP must be a number from 0 to 1, not 2; stop must be a text or a list of texts, not the number 1: put it in quotes, "1"; ` +
			`timeouts has an unknown key "timeouts.x"; the keys here are first, silence, answer; timeouts.first must be a time with its unit such as 20m, not the number 5`,
		`{"llm": "gpt-4o"}`: `config.llm must be a mapping such as {model: gpt-4o-mini}, not the text "gpt-4o"`,
	} {
		_, err := LLMConfig{}.Read(nil, jsonConfig(t, text))
		var bad *ConfigError
		require.True(t, errors.As(err, &bad), text)
		require.Contains(t, err.Error(), want, text)
	}
}

func TestPrompt(t *testing.T) {
	for _, c := range []struct {
		config    LLMConfig
		own, want string
	}{
		{LLMConfig{}, "Own.\n", "Own.\n"},
		{LLMConfig{Instructions: "Other."}, "Own.", "Other."},
		{LLMConfig{Other: map[string]any{"b": "<&>", "a": []any{int64(1), nil}}}, "Own.\n", "Own.\n\nConfiguration: {\"a\":[1,null],\"b\":\"<&>\"}"},
		{LLMConfig{Other: map[string]any{"a": 1}}, " ", "Configuration: {\"a\":1}"},
		{LLMConfig{Other: map[string]any{"a": func() {}}}, "Own.", ""},
	} {
		got := c.config.Prompt(c.own)
		if c.want != "" {
			require.Equal(t, c.want, got)
		}
		require.NotContains(t, got[len(c.own):], "\n\n\n")
	}
	// What is left of llm is for the model too.
	c := must.Get(LLMConfig{}.Read(map[string]any{"llm": map[string]any{"grain": 7, "model": "m"}}))
	require.Equal(t, `Configuration: {"llm":{"grain":7}}`, c.Prompt(""))
}
