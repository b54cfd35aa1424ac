package sessiontest

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// ids returns the ids of the sessions that a filter selects.
func (f *fixture) ids(filter session.Key) []string {
	f.Helper()
	return idsOf(f.list(filter))
}

func (f *fixture) list(filter session.Key) []session.Info {
	f.Helper()
	infos, err := f.store.List(f.Context(), filter, session.Page{})
	require.NoError(f, err)
	require.True(f, slices.IsSortedFunc(infos, session.CompareInfo))
	return infos
}

// statusLog is a log with each kind of end of a turn. Some of its events are stored as whole JSON.
func statusLog() []*event.Event {
	log := events(0, text("before any turn"))
	add := func(turn, scope string, data ...event.Data) {
		for _, e := range events(int64(len(log)), data...) {
			e.TurnID, e.Scope = turn, scope
			if len(log)%3 == 0 {
				e.ID += " with a space"
			}
			log = append(log, e)
		}
	}
	for i, reason := range []event.FinishReason{event.FinishReasonStop, event.FinishReasonLength, event.FinishReasonContentFilter, event.FinishReasonInputRequired,
		event.FinishReasonError, event.FinishReasonLimit, event.FinishReasonCanceled, event.FinishReasonTransfer} {
		turn := fmt.Sprint("t", i)
		add(turn, "", &event.User{Content: llm.Content{Text: `{"type":"harness_end","finishReason":"error"}`}}, &event.HarnessStart{})
		add(turn, "inner", &event.HarnessStart{}, &event.HarnessEnd{FinishReason: event.FinishReasonError})
		add(turn, "", text("harness_end"), state("type", "user"), &event.HarnessEnd{FinishReason: reason})
		if reason == event.FinishReasonInputRequired {
			add(turn, "", text("x"), &event.HarnessStart{}, &event.HarnessEnd{FinishReason: event.FinishReasonTransfer, Target: "b"}, &event.HarnessStart{})
			add(turn, "", &event.HarnessEnd{FinishReason: event.FinishReasonStop})
		}
	}
	return log
}

// writeEvents stores events at the end of a session's log.
func (f *fixture) writeEvents(key session.Key, all ...*event.Event) {
	f.Helper()
	lease := f.acquire(key)
	require.NoError(f, Append(f.Context(), f.store, key, lease.Head.Seq, lease, all...))
	f.release(key, lease)
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
	{"a list of the sessions with one status", func(f *fixture) {
		log := statusLog()
		ofAnn := func(id string) session.Key { return session.Key{App: f.app, User: "ann", ID: id} }
		for n := 1; n <= len(log); n++ { // a session that ends at each position, and one of another user
			f.writeEvents(ofAnn(fmt.Sprint("at", n)), log[:n]...)
			f.writeEvents(session.Key{App: f.app, User: "bob", ID: fmt.Sprint("at", n)}, log[:n]...)
		}
		whole := ofAnn(fmt.Sprint("at", len(log)))
		for n := range len(log) + 1 { // a fork at each position, one that continues, and a fork of that one
			fork, more := fmt.Sprint("fork", n), fmt.Sprint("more", n)
			require.NoError(f, f.store.Fork(f.Context(), whole, int64(n), ofAnn(fork)))
			own := events(int64(n), text("x"), &event.HarnessStart{}, text("y"), &event.HarnessEnd{FinishReason: event.FinishReasonCanceled})
			for _, e := range own {
				e.TurnID = log[max(n-1, 0)].TurnID
			}
			require.NoError(f, f.store.Fork(f.Context(), ofAnn(fork), int64(n), ofAnn(more), own[:1+min(n-n%2, n%4)]...))
			require.NoError(f, f.store.Fork(f.Context(), ofAnn(more), int64(n+1), ofAnn(more+"again")))
		}
		require.NoError(f, f.store.Delete(f.Context(), whole)) // which leaves what forks share
		after := events(2, &event.HarnessStart{}, &event.HarnessEnd{FinishReason: event.FinishReasonError})
		after[0].TurnID, after[1].TurnID = log[1].TurnID, log[1].TurnID
		require.NoError(f, f.store.Fork(f.Context(), ofAnn("fork3"), 2, ofAnn("after")))
		f.writeEvents(ofAnn("after"), after...)
		abandoned := map[string]bool{"at1": true, "at4": true, "at5": true}
		for id := range abandoned {
			require.NoError(f, Abandon(f.Context(), f.store, ofAnn(id), f.acquire(ofAnn(id))))
		}

		seen := map[session.Status]int{}
		for _, i := range f.list(session.Key{App: f.app}) {
			var fold session.Fold
			for _, e := range f.load(i.Key, 0) {
				fold.Apply(e)
			}
			require.Equal(f, fold.Status(), i.Status, "%s", i.Key)
			seen[i.Status]++
		}
		require.Len(f, seen, 6, "%v", seen)
		for status := range seen {
			of := func(infos []session.Info) []session.Info {
				return slices.DeleteFunc(infos, func(i session.Info) bool { return status != "" && i.Status != status })
			}
			for _, filter := range []session.Key{{App: f.app}, {App: f.app, User: "ann"}, {App: f.app, ID: "at3"}, ofAnn("at3")} {
				want := of(f.list(filter))
				for _, size := range []int{0, 1, 3, 100} {
					got := f.pagesOf(filter, session.Page{Status: status, Limit: size}, nil)
					require.Equal(f, idsOf(want), idsOf(got), "%v of status %q in pages of %d", filter, status, size)
				}
			}
			orphans, err := f.store.Orphans(f.Context(), session.Page{Status: status})
			require.NoError(f, err)
			want := 0
			for _, i := range f.list(session.Key{App: f.app, User: "ann"}) {
				if abandoned[i.Key.ID] && (status == "" || i.Status == status) {
					want++
				}
			}
			require.Len(f, slices.DeleteFunc(orphans, func(i session.Info) bool { return i.Key.App != f.app }), want)
		}
		_, err := f.store.List(f.Context(), session.Key{App: f.app}, session.Page{Status: "over"})
		require.ErrorIs(f, err, agent.ErrBadInput)
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
}
