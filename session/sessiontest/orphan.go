package sessiontest

import (
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/session"
)

// orphans returns the orphans of the test's app. It requires that one read and a read page by page return the same,
// although leases of other tests in the same database may end in between.
func (f *fixture) orphans() []session.Info {
	f.Helper()
	return f.orphansIn(f.store)
}

func (f *fixture) orphansIn(store session.Store) []session.Info {
	f.Helper()
	whole, err := store.Orphans(f.Context(), session.Page{})
	require.NoError(f, err)
	pages := f.paged(session.Page{Limit: 3}, nil, func(page session.Page) ([]session.Info, error) {
		return store.Orphans(f.Context(), page)
	})
	own := f.own(whole)
	require.Equal(f, own, f.own(pages))
	return own
}

// own selects the orphans of the test's apps.
func (f *fixture) own(all []session.Info) []session.Info {
	f.Helper()
	own := []session.Info{}
	for _, i := range all {
		require.False(f, i.Leased)
		if i.Key.App == f.app || i.Key.App == "other-"+f.app {
			own = append(own, i)
		}
	}
	return own
}

// orphaned requires that these sessions, and no others, are orphans.
func (f *fixture) orphaned(ids ...string) {
	f.Helper()
	require.Equal(f, append([]string{}, ids...), idsOf(f.orphans()))
}

func (f *fixture) abandon(key session.Key, lease session.Lease) {
	f.Helper()
	require.NoError(f, Abandon(f.Context(), f.store, key, lease))
}

// abandoned creates an orphan with one event.
func (f *fixture) abandoned(key session.Key) {
	f.Helper()
	lease := f.acquire(key)
	f.append(key, lease.Head.Seq, lease, text("x"))
	f.abandon(key, lease)
}

// holder starts a process that can own leases. end kills it.
func (f *fixture) holder() (owner session.Owner, end func()) {
	f.Helper()
	if !f.deadOwners {
		f.Skip("needs the option WithDeadOwners")
	}
	p := exec.Command("sleep", "600")
	if err := p.Start(); err != nil {
		f.Skip("needs the program sleep, as Unix systems have it")
	}
	end = sync.OnceFunc(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	f.Cleanup(end)
	owner = session.Owner{Host: session.Self().Host, PID: p.Process.Pid}
	require.True(f, session.Alive(owner))
	return owner, end
}

var orphanTests = []test{
	{"who gave the lease back leaves none", func(f *fixture) {
		f.orphaned()
		lease := f.acquire(f.key)
		f.orphaned()
		f.append(f.key, 0, lease, text("a"))
		f.orphaned()
		f.release(f.key, lease)
		f.orphaned()
		f.abandon(f.key, lease) // a lost one
		f.orphaned()
		f.release(f.key, f.acquire(f.key))
		f.orphaned()
	}},
	{"who gave the lease back with the last events leaves none", func(f *fixture) {
		f.abandoned(f.key)
		f.orphaned("s1")
		lease := f.acquire(f.key)
		f.orphaned()
		require.NoError(f, Finish(f.Context(), f.store, f.key, 1, lease, events(1, text("b"))...))
		f.orphaned()
		lease = f.acquire(f.key)
		require.NoError(f, Finish(f.Context(), f.store, f.key, 2, lease))
		f.orphaned()
	}},
	{"an abandoned session is one at once", func(f *fixture) {
		lease := f.acquire(f.key)
		f.append(f.key, 0, lease, text("a"), text("b"))
		require.NoError(f, Abandon(ended(f.T), f.store, f.key, lease), "as the turn's context has")
		require.Equal(f, f.list(session.Key{App: f.app}), f.orphans())
		f.worthless(f.key, lease)
		f.orphaned("s1")
		next := f.acquire(f.key)
		f.orphaned()
		f.worthless(f.key, lease) // the old one again: nothing happens
		f.orphaned()
		f.release(f.key, next)
		f.orphaned()
	}},
	{"abandoning what is not held does nothing", func(f *fixture) {
		f.write(f.key, text("a"))
		f.acquire(f.key)
		for _, lease := range []session.Lease{{}, {Token: 7}} {
			f.abandon(f.key, lease)
			f.orphaned()
		}
	}},
	{"a session without events is none", func(f *fixture) {
		lease := f.acquire(f.key)
		f.abandon(f.key, lease)
		f.orphaned()
		lease = f.acquire(f.key)
		f.append(f.key, 0, lease, text("a"))
		f.orphaned()
		f.abandon(f.key, lease)
		f.orphaned("s1")
	}},
	{"a holder who stores nothing leaves one too", func(f *fixture) {
		f.write(f.key, text("a"))
		f.abandon(f.key, f.acquire(f.key))
		f.orphaned("s1")
		f.acquire(f.key)
		f.orphaned()
	}},
	{"a lease that ended leaves one", func(f *fixture) {
		f.write(f.key, text("a"))
		f.pass(time.Second)
		lease := f.acquire(f.key)
		f.pass(session.LeaseTTL - time.Millisecond)
		f.orphaned()
		f.pass(time.Millisecond)
		f.orphaned("s1")
		require.NoError(f, Renew(f.Context(), f.store, f.key, lease), "nobody has taken it")
		f.orphaned()
		f.pass(session.LeaseTTL)
		f.append(f.key, 1, lease, text("b"))
		f.orphaned()
		f.pass(session.LeaseTTL)
		f.orphaned("s1")
		next := f.acquire(f.key)
		f.orphaned()
		f.release(f.key, lease) // the old one
		f.pass(session.LeaseTTL)
		f.orphaned("s1")
		f.release(f.key, next)
		f.orphaned()
	}},
	{"a clock that was set back leaves one", func(f *fixture) {
		f.write(f.key, text("a"))
		lease := f.acquire(f.key)
		f.pass(-time.Hour)
		defer f.pass(time.Hour) // other tests share the clock
		f.orphaned("s1")
		require.NoError(f, Renew(f.Context(), f.store, f.key, lease))
		f.orphaned()
		f.abandon(f.key, lease)
		f.orphaned("s1")
		f.release(f.key, f.acquire(f.key))
		f.orphaned()
	}},
	{"a holder that was killed leaves one at once", func(f *fixture) {
		owner, kill := f.holder()
		f.write(f.key, text("a"))
		lease, err := Acquire(f.Context(), f.store, f.key, owner)
		require.NoError(f, err)
		mine := f.another("mine")
		f.write(mine, text("a"))
		f.acquire(mine)
		elsewhere := f.another("elsewhere")
		f.write(elsewhere, text("a"))
		_, err = Acquire(f.Context(), f.store, elsewhere, session.Owner{Host: "another.example", PID: 1 << 30, Started: 1})
		require.NoError(f, err)
		f.busy(f.key)
		f.orphaned()
		kill()
		f.orphaned("s1")
		f.append(f.key, 1, lease, text("b")) // what came late
		f.orphaned("s1")
		next := f.acquire(f.key)
		f.orphaned()
		f.release(f.key, next)
		f.orphaned()
		f.pass(session.LeaseTTL)
		require.ElementsMatch(f, []string{"mine", "elsewhere"}, idsOf(f.orphans()))
	}},
	{"who is deleted is none", func(f *fixture) {
		f.abandoned(f.key)
		fork := f.fork(f.key, 1, "fork")
		f.orphaned("s1")
		require.NoError(f, f.store.Delete(f.Context(), f.key))
		f.orphaned()
		f.write(f.key, text("anew"))
		f.orphaned()
		f.abandoned(fork)
		f.orphaned("fork")
		require.NoError(f, f.store.Delete(f.Context(), fork))
		f.orphaned()
		lease := f.acquire(f.another("held"))
		f.append(f.another("held"), 0, lease, text("a"))
		require.NoError(f, f.store.Delete(f.Context(), f.another("held")))
		f.abandon(f.another("held"), lease)
		f.orphaned()
	}},
	{"a fork of one is none", func(f *fixture) {
		f.abandoned(f.key)
		fork := f.fork(f.key, 1, "fork")
		other := f.another("with events")
		require.NoError(f, f.store.Fork(f.Context(), f.key, 1, other, events(1, text("b"))...))
		f.orphaned("s1")
		f.abandoned(fork)
		infos := f.orphans()
		require.Equal(f, f.info(fork), infos[0])
		require.Equal(f, f.key, infos[0].Parent)
		require.Len(f, infos, 2)
	}},
	{"a fork takes the place of one that was only leased", func(f *fixture) {
		f.write(f.key, text("a"))
		only := f.another("only")
		stale := f.acquire(only)
		f.abandon(only, stale)
		require.NoError(f, f.store.Fork(f.Context(), f.key, 1, only))
		f.orphaned()
		f.abandon(only, stale)
		f.orphaned()
		f.abandoned(only)
		f.orphaned("only")
	}},
	{"of some who take one at once one wins", func(f *fixture) {
		f.write(f.key, text("a"))
		last := f.acquire(f.key)
		for range 20 {
			f.abandon(f.key, last)
			f.orphaned("s1")
			leases := make([]session.Lease, 4)
			last = leases[f.race(len(leases), agent.ErrSessionBusy, func(i int) (err error) {
				leases[i], err = Acquire(f.Context(), f.store, f.key, session.Self())
				return err
			})]
			f.orphaned()
		}
		f.release(f.key, last)
		f.orphaned()
	}},
	{"they come in the order of lists", func(f *fixture) {
		for i := range 10 {
			f.pass(time.Second)
			key := session.Key{App: f.app, User: fmt.Sprint("u", i%3), ID: f.of("", i).ID}
			if i == 4 {
				key.App = "other-" + f.app
			}
			f.write(key, text("x"))
			if i%2 == 0 {
				f.abandon(key, f.acquire(key))
			}
		}
		f.orphaned("i", "g", "e", "c", "a")
		f.pass(time.Second)
		c := session.Key{App: f.app, User: "u2", ID: "c"}
		lease := f.acquire(c)
		f.append(c, 1, lease, text("y"))
		f.abandon(c, lease)
		f.orphaned("c", "i", "g", "e", "a")
		_, err := f.store.Orphans(f.Context(), session.Page{Limit: -1})
		require.ErrorIs(f, err, agent.ErrBadInput)
	}},
	{"a thousand, of which some are taken while they are read", func(f *fixture) {
		const n = 1000
		keys := make(map[session.Key]bool)
		var wg sync.WaitGroup
		for i := range n {
			key := session.Key{App: f.app, User: fmt.Sprint("u", i%7), ID: fmt.Sprint(i)}
			keys[key] = true
			wg.Go(func() {
				lease, err := Acquire(f.Context(), f.store, key, session.Self())
				if err == nil {
					err = Append(f.Context(), f.store, key, 0, lease, entry(1, text("x")))
				}
				if err == nil {
					err = Abandon(f.Context(), f.store, key, lease)
				}
				if err != nil {
					f.Error(err)
				}
			})
		}
		wg.Wait()
		taken := 0
		for page := (session.Page{Limit: 100}); ; {
			infos, err := f.store.Orphans(f.Context(), page)
			require.NoError(f, err)
			if len(infos) == 0 {
				break
			}
			for n, i := range infos {
				if i.Key.App == f.app {
					require.True(f, keys[i.Key], "%s comes twice", i.Key)
					delete(keys, i.Key)
					if n%3 == 0 {
						f.release(i.Key, f.acquire(i.Key))
						taken++
					}
				}
			}
			page.After = infos[len(infos)-1].Place()
		}
		require.Empty(f, keys)
		left, err := f.store.Orphans(f.Context(), session.Page{})
		require.NoError(f, err)
		left = slices.DeleteFunc(left, func(i session.Info) bool { return i.Key.App != f.app })
		require.Len(f, left, n-taken)
	}},
}
