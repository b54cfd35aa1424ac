package sessiontest

import (
	"encoding/json"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// shared requires that a session's shared state is this JSON object.
func (f *fixture) shared(key session.Key, want string) {
	f.Helper()
	got, err := f.store.SharedState(f.Context(), key)
	require.NoError(f, err)
	require.NotNil(f, got)
	b, err := json.Marshal(got)
	require.NoError(f, err)
	require.JSONEq(f, want, string(b))
}

var stateTests = []test{
	{"all kinds of values", func(f *fixture) {
		f.write(f.key, state("user:list", []any{1, "two", nil, map[string]any{"k": 2.5}}, "user:false", false, "user:empty", "", "user:zero", 0,
			"user:obj", map[string]any{}, "user:html", "<&>", "user:", "no name", "app:", "none either", "user:a\x00b/ü", "odd", "User:x", "not shared", "user", "not shared"))
		f.shared(f.key, `{"user:list":[1,"two",null,{"k":2.5}],"user:false":false,"user:empty":"","user:zero":0,
			"user:obj":{},"user:html":"<&>","user:":"no name","app:":"none either","user:a\u0000b/ü":"odd"}`)
	}},
	{"scopes do not leak into each other", func(f *fixture) {
		nobody := session.Key{App: f.app, ID: "s1"} // an empty user is a user like any other
		f.write(nobody, state("user:x", "nobody's", "app:x", "all"))
		f.shared(f.key, `{"app:x":"all"}`)
		f.shared(nobody, `{"user:x":"nobody's","app:x":"all"}`)
		for _, user := range []string{"a", "a%", "A", "a/", "app"} {
			f.write(session.Key{App: f.app, User: user}, state("user:me", user))
		}
		for _, user := range []string{"a", "a%", "A", "a/", "app"} {
			want, err := json.Marshal(map[string]any{"user:me": user, "app:x": "all"})
			require.NoError(f, err)
			f.shared(session.Key{App: f.app, User: user}, string(want))
		}
	}},
	{"an empty delta", func(f *fixture) {
		f.write(f.key, &event.State{}, &event.State{Delta: map[string]any{}})
		f.shared(f.key, `{}`)
		require.Len(f, f.load(f.key, 0), 2)
	}},
	{"the returned map is the caller's", func(f *fixture) {
		f.write(f.key, state("user:a", 1))
		got, err := f.store.SharedState(f.Context(), f.key)
		require.NoError(f, err)
		got["user:a"], got["user:b"] = 2, 3
		f.shared(f.key, `{"user:a":1}`)
	}},
}
