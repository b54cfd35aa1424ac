package agentgraph

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
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
