package sessiontest

import (
	"encoding/json"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
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
	{"user and app state are shared", func(f *fixture) {
		f.write(f.key, text("a"), state("user:lang", "de", "app:motd", "hi", "own", 1, "turn:step", 2))
		f.shared(f.key, `{"user:lang":"de","app:motd":"hi"}`)
		f.shared(session.Key{App: f.app, User: "ann", ID: "s2"}, `{"user:lang":"de","app:motd":"hi"}`)
		f.shared(session.Key{App: f.app, User: "bob", ID: "s1"}, `{"app:motd":"hi"}`)
		f.shared(session.Key{App: "other-" + f.app, User: "ann", ID: "s1"}, `{}`)

		bob := session.Key{App: f.app, User: "bob", ID: "s1"}
		f.write(bob, state("user:lang", "fr", "app:motd", "salut"))
		f.shared(bob, `{"user:lang":"fr","app:motd":"salut"}`)
		f.shared(f.key, `{"user:lang":"de","app:motd":"salut"}`)
	}},
	{"null deletes", func(f *fixture) {
		f.write(f.key, state("user:a", 1, "user:b", 2, "app:c", 3))
		f.write(f.key, state("user:a", nil, "app:c", nil, "app:never", nil))
		f.shared(f.key, `{"user:b":2}`)
		f.write(f.key, state("user:a", "back"))
		f.shared(f.key, `{"user:a":"back","user:b":2}`)
		require.JSONEq(f, `{"user:a":null,"app:c":null,"app:never":null}`, deltaOf(f, f.load(f.key, 1)[0]))
	}},
	{"a batch applies in order", func(f *fixture) {
		f.write(f.key, state("user:a", 1, "user:b", 1), state("user:a", nil), state("user:b", nil), text("x"), state("user:b", 2), state("app:c", 1))
		f.shared(f.key, `{"user:b":2,"app:c":1}`)
	}},
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
	{"a refused batch changes no state", func(f *fixture) {
		lease := f.acquire(f.key)
		f.append(f.key, 0, lease, state("user:a", 1))
		require.ErrorIs(f, Append(f.Context(), f.store, f.key, 0, lease, entry(1, state("user:a", 2))), agent.ErrConflict)
		f.shared(f.key, `{"user:a":1}`)
	}},
	{"the state outlives the session", func(f *fixture) {
		f.write(f.key, state("user:a", 1, "app:b", 2, "own", 3))
		require.NoError(f, f.store.Delete(f.Context(), f.key))
		f.shared(f.key, `{"user:a":1,"app:b":2}`)
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

func deltaOf(f *fixture, e *event.Event) string {
	f.Helper()
	require.IsType(f, &event.State{}, e.Data)
	b, err := json.Marshal(e.Data.(*event.State).Delta)
	require.NoError(f, err)
	return string(b)
}
