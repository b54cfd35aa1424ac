package sessiontest

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/session"
)

// ids lists the sessions of a filter by id.
func (f *fixture) ids(filter session.Key) []string {
	f.Helper()
	out := []string{}
	for _, i := range f.list(filter) {
		out = append(out, i.Key.ID)
	}
	return out
}

func (f *fixture) list(filter session.Key) []session.Info {
	f.Helper()
	infos, err := f.store.List(f.Context(), filter, session.Page{})
	require.NoError(f, err)
	require.True(f, slices.IsSortedFunc(infos, session.CompareInfo))
	return infos
}

var listTests = []test{
	{"most recently updated first", func(f *fixture) {
		keys := map[string]session.Key{}
		for _, id := range []string{"a", "b", "c", "d"} {
			keys[id] = session.Key{App: f.app, User: "ann", ID: id}
			f.pass(time.Second)
			f.write(keys[id], text("x"))
		}
		require.Equal(f, []string{"d", "c", "b", "a"}, f.ids(session.Key{App: f.app}))
		f.pass(time.Second)
		f.write(keys["b"], text("y"), text("z"))
		require.Equal(f, []string{"b", "d", "c", "a"}, f.ids(session.Key{App: f.app}))
		f.pass(time.Second)
		f.release(keys["a"], f.acquire(keys["a"])) // a lease is no update
		b := f.list(session.Key{App: f.app})[0]
		require.Equal(f, keys["b"], b.Key)
		require.EqualValues(f, 3, b.Seq)
		require.Equal(f, 3*time.Second, b.Updated.Sub(b.Created))
		require.Equal(f, time.UTC, b.Updated.Location())
		require.Equal(f, time.UTC, b.Created.Location())
	}},
	{"created is when the first events came", func(f *fixture) {
		lease := f.acquire(f.key)
		f.pass(time.Second)
		f.append(f.key, 0, lease, text("a"))
		info := f.list(session.Key{App: f.app})[0]
		require.Equal(f, info.Created, info.Updated)
		f.pass(time.Second)
		require.NoError(f, Append(f.Context(), f.store, f.key, 1, lease))
		require.Equal(f, info, f.list(session.Key{App: f.app})[0], "an empty batch is no update")
	}},
	{"filters by app, user and id", func(f *fixture) {
		other := "other-" + f.app
		for _, k := range []session.Key{
			{App: f.app, User: "ann", ID: "1"}, {App: f.app, User: "ann", ID: "2"}, {App: f.app, User: "bob", ID: "1"}, {App: other, User: "ann", ID: "1"},
		} {
			f.write(k, text("x"))
		}
		keys := func(filter session.Key) (out []string) {
			for _, i := range f.list(filter) {
				if i.Key.App == f.app || i.Key.App == other { // the database may hold more
					out = append(out, i.Key.String()[len(i.Key.App):])
				}
			}
			slices.Sort(out)
			return out
		}
		require.Equal(f, []string{"/ann/1", "/ann/1", "/ann/2", "/bob/1"}, keys(session.Key{}))
		require.Equal(f, []string{"/ann/1", "/ann/2", "/bob/1"}, keys(session.Key{App: f.app}))
		require.Equal(f, []string{"/ann/1", "/ann/2"}, keys(session.Key{App: f.app, User: "ann"}))
		require.Equal(f, []string{"/ann/2"}, keys(session.Key{App: f.app, User: "ann", ID: "2"}))
		require.Equal(f, []string{"/ann/1", "/bob/1"}, keys(session.Key{App: f.app, ID: "1"}))
		require.Equal(f, []string{"/ann/1", "/ann/1", "/ann/2"}, keys(session.Key{User: "ann"}))
		require.Empty(f, keys(session.Key{App: f.app, User: "ann", ID: "3"}))
		require.Empty(f, keys(session.Key{App: f.app, User: "a%"}))
	}},
	{"sessions without events are not listed", func(f *fixture) {
		lease := f.acquire(f.key)
		require.Empty(f, f.list(session.Key{App: f.app}))
		f.release(f.key, lease)
		require.Empty(f, f.list(session.Key{App: f.app}))
		require.Empty(f, f.load(session.Key{App: f.app, User: "u", ID: "loaded"}, 0))
		require.Empty(f, f.list(session.Key{App: f.app}))
	}},
	{"who is leased is listed so", func(f *fixture) {
		other := session.Key{App: f.app, User: "bob", ID: "s1"}
		f.write(other, text("x"))
		is := func(want bool) {
			f.Helper()
			for _, filter := range []session.Key{{}, {App: f.app}, {App: f.app, User: f.key.User}, f.key} {
				for _, page := range []session.Page{{}, {After: session.Place{Updated: time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)}, Limit: 1000}} {
					infos, err := f.store.List(f.Context(), filter, page)
					require.NoError(f, err)
					found := false
					for _, i := range infos {
						if i.Key.App == f.app { // the database may hold more
							require.Equal(f, want && i.Key == f.key, i.Leased, "%s", i.Key)
							found = found || i.Key == f.key
						}
					}
					require.True(f, found)
				}
			}
		}
		f.write(f.key, text("x"))
		is(false)
		lease := f.acquire(f.key)
		is(true)
		f.append(f.key, 1, lease, text("y"))
		is(true)
		f.release(f.key, session.Lease{Token: lease.Token + 1})
		is(true)
		f.release(f.key, lease)
		is(false)
		if me := session.Self(); f.deadOwners {
			dead := session.Owner{Host: me.Host, PID: 1 << 30, Started: 1}
			if !session.Alive(dead) {
				_, err := Acquire(f.Context(), f.store, f.key, dead)
				require.NoError(f, err)
				is(false)
			}
		}
		f.pass(session.LeaseTTL)
		lease = f.acquire(f.key)
		f.pass(session.LeaseTTL - time.Millisecond)
		is(true)
		require.NoError(f, Renew(f.Context(), f.store, f.key, lease))
		f.pass(session.LeaseTTL - time.Millisecond)
		is(true)
		f.pass(time.Millisecond)
		is(false)
		require.NoError(f, Renew(f.Context(), f.store, f.key, lease), "nobody has taken it")
		is(true)
		f.pass(-time.Hour)
		defer f.pass(time.Hour)
		is(false)
		f.acquire(f.key)
		is(true)
	}},
	{"delete removes one session", func(f *fixture) {
		other := session.Key{App: f.app, User: "ann", ID: "s2"}
		f.write(f.key, texts(20, "a")...)
		f.write(other, texts(20, "b")...)
		require.NoError(f, f.store.Delete(f.Context(), f.key))
		require.Empty(f, f.load(f.key, 0))
		require.Equal(f, []string{"s2"}, f.ids(session.Key{App: f.app}))
		require.Len(f, f.load(other, 0), 20)
		require.NoError(f, f.store.Delete(f.Context(), f.key))
		require.NoError(f, f.store.Delete(f.Context(), session.Key{App: f.app, User: "never", ID: "was"}))

		lease := f.acquire(f.key)
		require.Zero(f, lease.Head.Seq)
		f.append(f.key, 0, lease, text("anew"))
		require.Equal(f, []string{"anew"}, f.contents(f.key))
	}},
	{"delete takes the lease with it", func(f *fixture) {
		lease := f.acquire(f.key)
		f.append(f.key, 0, lease, text("a"))
		require.NoError(f, f.store.Delete(f.Context(), f.key))
		require.ErrorIs(f, Append(f.Context(), f.store, f.key, 1, lease, entry(2, text("b"))), agent.ErrConflict)
		require.Empty(f, f.load(f.key, 0))
		f.acquire(f.key)
	}},
}
