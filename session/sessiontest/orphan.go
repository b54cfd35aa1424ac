package sessiontest

import (
	"fmt"
	"os/exec"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/session"
)

// orphaned requires that these sessions of the test's app, and no others, are orphans.
func (f *fixture) orphaned(ids ...string) {
	f.Helper()
	all, err := f.store.Orphans(f.Context(), session.Page{})
	require.NoError(f, err)
	require.ElementsMatch(f, ids, idsOf(f.own(all)))
}

func (f *fixture) abandon(key session.Key, lease session.Lease) {
	f.Helper()
	_, err := f.store.Write(f.Context(), key, session.Write{Lease: lease, Abandon: true})
	require.NoError(f, err)
}

// holder starts a process that can own leases. end kills it.
func (f *fixture) holder() (owner session.Owner, end func()) {
	f.Helper()
	if !f.DeadOwners {
		f.Skip("needs the option DeadOwners")
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
		f.orphaned("mine", "elsewhere")
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
					_, err = f.store.Write(f.Context(), key, session.Write{Lease: lease, Abandon: true})
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
		require.Len(f, f.own(left), n-taken)
	}},
}
