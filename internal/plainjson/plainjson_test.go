package plainjson_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/plainjson"
)

func TestMarshalAndUnmarshalChangeNothing(t *testing.T) {
	for _, text := range []string{`"<b> & \u2028"`, `{"n":12345678901234567890.10,"z":[1e3,-0]}`, `null`} {
		var v any
		require.NoError(t, plainjson.Unmarshal([]byte(text), &v))
		out, err := plainjson.Marshal(v)
		require.NoError(t, err)
		require.Equal(t, text, string(out))
	}
	_, err := plainjson.Marshal(func() {})
	require.Error(t, err)
}

func TestUnmarshalErrsLikeThePackageJSON(t *testing.T) {
	for _, text := range []string{``, `{`, `{"a":1} {}`, `[1]x`, `{"a":"text"}`, `"text"`} {
		var ours, theirs struct{ A int }
		want := json.Unmarshal([]byte(text), &theirs)
		require.Error(t, want)
		require.Equal(t, want, plainjson.Unmarshal([]byte(text), &ours), "%q", text)
	}
}

// A key that one object has twice is named, however it is written; objects next to and inside of each other may share one.
func TestKeysThatAreThereTwice(t *testing.T) {
	for text, key := range map[string]string{
		`{"a":1,"a":2}`: `"a"`,
		`[{"n":1e999,"x":[]},{"n":{"x":[{"n":""}],"n":null},"x":[{"y":1,"z":"y","\u0079":2}]}]`: `"y"`,
	} {
		_, err := plainjson.Strict([]byte(text), 9)
		require.ErrorIs(t, err, plainjson.ErrTwice)
		require.EqualError(t, err, "one object contains a key twice: "+key)
	}
	_, err := plainjson.Strict([]byte(`[{"n":1e999,"x":{"x":1}},{"x":2}]`), 9)
	require.NoError(t, err)
}

func TestMembers(t *testing.T) {
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	all, err := plainjson.Members([]byte(` { "b" : [1, 2] , "a\u0062":1e999, "b":{"b":null}} `))
	require.NoError(t, err)
	require.Equal(t, []plainjson.Member{{Name: "b", Value: raw("[1, 2]")}, {Name: "ab", Value: raw("1e999")}, {Name: "b", Value: raw(`{"b":null}`)}}, all)
	for text, n := range map[string]int{``: 0, `[]`: 0, `7`: 0, `{`: 0, `{"a":1`: 1, `{"a":1,}`: 1, `{"a":1,2:3}`: 1, `{"a":1 "b":2}`: 1, `{"a":1,"b":x}`: 1, `{"a":1}{}`: 1} {
		all, err := plainjson.Members([]byte(text))
		require.Error(t, err, "%q", text)
		require.Len(t, all, n, "%q", text)
	}
}
