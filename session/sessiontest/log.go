package sessiontest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

var logTests = []test{
	{"a batch with one bad event stores nothing", func(f *fixture) {
		lease := f.acquire(f.key)
		seq := f.append(f.key, 0, lease, text("a"))
		good := func() []*event.Event { return events(seq, text("b"), state("app:b", 1), text("c")) }
		for name, spoil := range map[string]func([]*event.Event) []*event.Event{
			"gap":        func(b []*event.Event) []*event.Event { b[2].Seq++; return b },
			"repetition": func(b []*event.Event) []*event.Event { b[2].Seq--; return b },
			"zero":       func(b []*event.Event) []*event.Event { b[0].Seq = 0; return b },
			"no payload": func(b []*event.Event) []*event.Event { b[2].Data = nil; return b },
			"nil":        func(b []*event.Event) []*event.Event { b[2] = nil; return b },
			"partial":    func(b []*event.Event) []*event.Event { b[2].Partial = true; return b },
			"continue":   func(b []*event.Event) []*event.Event { b[2].Data = &event.Continue{}; return b },
			"finish":     func(b []*event.Event) []*event.Event { b[2].Data = &event.Finish{}; return b },
		} {
			err := Append(f.Context(), f.store, f.key, seq, lease, spoil(good())...)
			require.Error(f, err, name)
			require.NotErrorIs(f, err, agent.ErrConflict, name)
			require.Equal(f, []string{"a"}, f.contents(f.key), name)
			f.shared(f.key, `{}`)
		}
		f.append(f.key, seq, lease, text("b")) // the session is still usable
	}},
	{"keys differ in app, user and id", func(f *fixture) {
		other := "other-" + f.app
		keys := []session.Key{
			{App: f.app, User: "u", ID: "i"}, {App: other, User: "u", ID: "i"}, {App: f.app, User: "v", ID: "i"}, {App: f.app, User: "u", ID: "j"},
			{App: f.app, User: "i", ID: "u"}, {App: f.app}, {App: f.app, User: "u"}, {App: f.app, ID: "i"},
			{App: f.app, User: "U", ID: "i"}, {App: f.app, User: "u", ID: "I"}, {App: f.app, User: "u", ID: "i "},
		}
		for _, k := range keys {
			f.write(k, text(k.String()), text("end"))
		}
		for _, k := range keys {
			require.Equal(f, []string{k.String(), "end"}, f.contents(k))
		}
	}},
	{"keys may hold any characters but NUL", func(f *fixture) {
		odd := []string{"", "a", "/", "a/b", "%", "a%", "_", "'; --", `"`, `\`, "\n", "ä", "a\u0308", "שלום", "👩‍👧", "a b", " ", ".", "..",
			"x\u202ey", "%2F", "null", "0", "\t"}
		var keys []session.Key
		for i, s := range odd {
			keys = append(keys, session.Key{App: f.app, User: s, ID: "id"}, session.Key{App: f.app, User: "user", ID: s},
				session.Key{App: f.app, User: s, ID: odd[(i+1)%len(odd)]}, session.Key{App: f.app + s, User: "app", ID: "id"})
		}
		for i, key := range keys {
			f.write(key, &event.Compaction{UpTo: int64(i)})
		}
		for i, key := range keys {
			log := f.load(key, 0)
			require.Len(f, log, 1, "%q", key)
			require.EqualValues(f, i, log[0].Data.(*event.Compaction).UpTo, "%q", key)
		}
		infos, err := f.store.List(f.Context(), session.Key{App: f.app, User: "a%"}, session.Page{})
		require.NoError(f, err)
		require.Len(f, infos, 2)
	}},
	{"a canceled context stores nothing and is the error", func(f *fixture) {
		lease := f.acquire(f.key)
		f.append(f.key, 0, lease, text("a"))
		ctx := ended(f.T)
		require.ErrorIs(f, Append(ctx, f.store, f.key, 1, lease, entry(2, text("b"))), context.Canceled)
		_, err := Acquire(ctx, f.store, session.Key{App: f.app, User: "x", ID: "y"}, session.Self())
		require.ErrorIs(f, err, context.Canceled)
		require.ErrorIs(f, Renew(ctx, f.store, f.key, lease), context.Canceled)
		require.ErrorIs(f, f.store.Delete(ctx, f.key), context.Canceled)
		require.ErrorIs(f, f.store.Fork(ctx, f.key, 1, f.another("to")), context.Canceled)
		require.Empty(f, f.list(f.another("to")))
		_, err = f.store.List(ctx, session.Key{App: f.app}, session.Page{})
		require.ErrorIs(f, err, context.Canceled)
		_, err = f.store.SharedState(ctx, f.key)
		require.ErrorIs(f, err, context.Canceled)
		count := 0
		for e, err := range f.store.Load(ctx, f.key, 0) {
			require.Nil(f, e)
			require.ErrorIs(f, err, context.Canceled)
			count++
		}
		require.Equal(f, 1, count)
		require.Equal(f, []string{"a"}, f.contents(f.key))
		f.append(f.key, 1, lease, text("goes on"))
	}},
	{"a deadline that has passed is the error", func(f *fixture) {
		lease := f.acquire(f.key)
		ctx, cancel := context.WithDeadline(f.Context(), time.Now().Add(-time.Second))
		defer cancel()
		require.ErrorIs(f, Append(ctx, f.store, f.key, 0, lease, entry(1, text("a"))), context.DeadlineExceeded)
		require.Empty(f, f.load(f.key, 0))
	}},
}
