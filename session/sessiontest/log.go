package sessiontest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

var logTests = []test{
	{"keys may hold any characters but NUL", func(f *fixture) {
		odd := []string{"", "a", "A", "a ", "app", "/", "a/b", "%", "a%", "_", "'; --", `"`, `\`, "\n", "ä", "a\u0308", "שלום", "👩‍👧", "a b", " ", ".", "..",
			"x\u202ey", "%2F", "null", "0", "\t"}
		var keys []session.Key
		for i, s := range odd {
			keys = append(keys, session.Key{App: f.app, User: s, ID: "id"}, session.Key{App: f.app, User: "ann", ID: s},
				session.Key{App: f.app, User: s, ID: odd[(i+1)%len(odd)]}, session.Key{App: f.app + s, User: "bob", ID: "id"})
		}
		for i, key := range keys {
			f.write(key, &event.Compaction{UpTo: int64(i)}, state("user:me", key.User, "app:me", key.App))
		}
		for i, key := range keys {
			log := f.load(key, 0)
			require.Len(f, log, 2, "%q", key)
			require.EqualValues(f, i, log[0].Data.(*event.Compaction).UpTo, "%q", key)
			f.shared(f.store, key, map[string]any{"user:me": key.User, "app:me": key.App})
		}
		infos, err := f.store.List(f.Context(), session.Key{App: f.app, User: "a%"}, session.Page{})
		require.NoError(f, err)
		require.Len(f, infos, 2)
	}},
	{"a context that has ended stores nothing and is the error", func(f *fixture) {
		lease := f.acquire(f.key)
		f.append(f.key, 0, lease, text("a"))
		late, cancel := context.WithDeadline(f.Context(), time.Now().Add(-time.Second))
		defer cancel()
		require.ErrorIs(f, Append(late, f.store, f.key, 1, lease, entry(2, text("b"))), context.DeadlineExceeded)
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
}
