package sqlite_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/storetest"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
)

// commits counts the transactions in the write-ahead log, which must not have
// begun anew. (Nothing locks that file, so that reading it drops no locks.)
func commits(t *testing.T, path string) (n int) {
	t.Helper()
	wal := must.Get(os.ReadFile(path + "-wal"))
	pageSize := int(binary.BigEndian.Uint32(wal[8:]))
	for at := 32; at+24 <= len(wal); at += 24 + pageSize {
		if binary.BigEndian.Uint32(wal[at+4:]) != 0 { // the last frame of a transaction
			n++
		}
	}
	return n
}

// waiting are appends that all wait for another program, which holds the file.
type waiting struct {
	s  *sqlite.Store
	wg sync.WaitGroup
}

func (w *waiting) append(ctx context.Context, key session.Key, seq int64, lease session.Lease, events ...*event.Event) *error {
	err := new(error)
	w.wg.Go(func() { *err = sessiontest.Append(ctx, w.s, key, seq, lease, events...) })
	return err
}

// wait waits until n changes wait.
func (w *waiting) wait(n int) {
	for sqlite.Waiting(w.s) < n {
		runtime.Gosched()
	}
}

// TestGroupsOfAppends: appends that wait are stored together, and what is wrong
// with one of them is not the others' loss.
func TestGroupsOfAppends(t *testing.T) {
	const sessions = 40
	path := newFile(t)
	s := open(t, path)
	acquire := func(name string) (session.Key, session.Lease) {
		key := session.ID(name)
		lease := must.Get(sessiontest.Acquire(t.Context(), s, key, session.Self()))
		return key, lease
	}
	other := raw(t, path)
	for _, broken := range []bool{false, true} {
		name := func(what any) string { return fmt.Sprint(what, broken) }
		var keys []session.Key
		var leases []session.Lease
		for i := range sessions {
			key, lease := acquire(name(i))
			keys, leases = append(keys, key), append(leases, lease)
		}
		staleKey, stale := acquire(name("stale"))
		leftKey, left := acquire(name("left"))
		lostKey, lost := acquire(name("lost"))
		require.NoError(t, sessiontest.Release(t.Context(), s, lostKey, lost))
		damagedKey, damaged := acquire(name("damaged"))
		if broken {
			_, err := other.Exec("INSERT INTO log (session, seq, line) SELECT key, 2, '{}' FROM session WHERE id = ?", damagedKey.ID)
			require.NoError(t, err)
		}
		before := commits(t, path)

		_, err := other.Exec("BEGIN IMMEDIATE")
		require.NoError(t, err)
		w := &waiting{s: s}
		var errs []*error
		for i, key := range keys {
			events := storetest.Batch(0, 2)
			events[1].Data = &event.State{Delta: map[string]any{"user:" + key.ID: i}}
			errs = append(errs, w.append(t.Context(), key, 0, leases[i], events...))
		}
		twice := w.append(t.Context(), staleKey, 7, stale, storetest.Batch(7, 1)...)
		late := w.append(t.Context(), lostKey, 0, lost, storetest.Batch(0, 1)...)
		bad := w.append(t.Context(), damagedKey, 0, damaged, storetest.Batch(0, 3)...)
		w.wait(len(errs) + 3)
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() { gone <- sessiontest.Append(ctx, s, leftKey, 0, left, storetest.Batch(0, 1)...) }()
		cancel()
		require.ErrorIs(t, <-gone, context.Canceled, "who waits may leave while the file is held")
		_, err = other.Exec("ROLLBACK")
		require.NoError(t, err)
		w.wg.Wait()

		for i, key := range keys {
			require.NoError(t, *errs[i])
			require.Len(t, storetest.Contents(t, s, key), 2)
			require.NoError(t, sessiontest.Append(t.Context(), s, key, 2, leases[i], storetest.Batch(2, 1)...), "and the log goes on")
		}
		shared := must.Get(s.SharedState(t.Context(), keys[0]))
		for i, key := range keys {
			require.EqualValues(t, i, shared["user:"+key.ID])
		}
		require.ErrorIs(t, *twice, agent.ErrConflict)
		require.ErrorIs(t, *late, agent.ErrConflict)
		require.Empty(t, storetest.Contents(t, s, staleKey))
		require.Empty(t, storetest.Contents(t, s, lostKey))
		require.Empty(t, storetest.Contents(t, s, leftKey))
		if broken {
			require.ErrorContains(t, *bad, path)
			require.NotErrorIs(t, *bad, agent.ErrConflict)
			require.Equal(t, "0", scalar(t, other, "SELECT seq FROM session WHERE id = '"+damagedKey.ID+"'"), "nothing of it is stored")
			continue
		}
		require.NoError(t, *bad)
		after := commits(t, path) - sessions // the appends that went on were alone
		require.Less(t, after-before, sessions/2, "so many transactions for %d appends", sessions+1)
	}
}

// TestCloseEndsWaitingAppends: what waits when the store is closed is stored or
// fails, and its goroutine does not hang.
func TestCloseEndsWaitingAppends(t *testing.T) {
	path := newFile(t)
	s := must.Get(sqlite.Open(path))
	var keys []session.Key
	var errs []*error
	w := &waiting{s: s}
	for i := range 20 {
		key := session.ID(fmt.Sprint(i))
		lease := must.Get(sessiontest.Acquire(t.Context(), s, key, session.Self()))
		keys, errs = append(keys, key), append(errs, w.append(t.Context(), key, 0, lease, storetest.Batch(0, 1)...))
	}
	require.NoError(t, s.Close())
	w.wg.Wait()
	again := open(t, path)
	for i, key := range keys {
		if *errs[i] == nil {
			require.Len(t, storetest.Contents(t, again, key), 1)
		} else {
			require.ErrorContains(t, *errs[i], "the store is closed")
			require.Empty(t, storetest.Contents(t, again, key))
		}
	}
}

// TestGroupsOfLeases: leases that wait are taken, renewed and given back together, with the
// appends that wait; whom somebody else is in the way of is told so, and stops nobody.
func TestGroupsOfLeases(t *testing.T) {
	const sessions = 20
	path := newFile(t)
	s := open(t, path)
	key := func(what string, i int) session.Key { return session.ID(fmt.Sprint(what, i)) }
	acquire := func(key session.Key) session.Lease {
		return must.Get(sessiontest.Acquire(t.Context(), s, key, session.Self()))
	}
	for _, appends := range []bool{false, true} {
		var free, held, back [sessions]session.Lease
		for i := range sessions {
			free[i], held[i], back[i] = acquire(key(fmt.Sprint(appends, "free"), i)), acquire(key(fmt.Sprint(appends, "held"), i)), acquire(key(fmt.Sprint(appends, "back"), i))
			require.NoError(t, sessiontest.Release(t.Context(), s, key(fmt.Sprint(appends, "free"), i), free[i]))
		}
		before := commits(t, path)
		other := raw(t, path)
		_, err := other.Exec("BEGIN IMMEDIATE")
		require.NoError(t, err)
		w := &waiting{s: s}
		errs := make(map[string]*error)
		start := func(name string, call func() error) {
			err := new(error)
			errs[name] = err
			w.wg.Go(func() { *err = call() })
		}
		for i := range sessions {
			k := func(what string) session.Key { return key(fmt.Sprint(appends, what), i) }
			start(fmt.Sprint("free", i), func() (err error) {
				free[i], err = sessiontest.Acquire(t.Context(), s, k("free"), session.Self())
				return err
			})
			start(fmt.Sprint("new", i), func() error { _, err := sessiontest.Acquire(t.Context(), s, k("new"), session.Self()); return err })
			start(fmt.Sprint("busy", i), func() error { _, err := sessiontest.Acquire(t.Context(), s, k("held"), session.Self()); return err })
			start(fmt.Sprint("lost", i), func() error {
				return sessiontest.Renew(t.Context(), s, k("held"), session.Lease{Token: held[i].Token + 1})
			})
			start(fmt.Sprint("renew", i), func() error { return sessiontest.Renew(t.Context(), s, k("held"), held[i]) })
			start(fmt.Sprint("back", i), func() error { return sessiontest.Release(t.Context(), s, k("back"), back[i]) })
			if appends {
				start(fmt.Sprint("append", i), func() error {
					return sessiontest.Append(t.Context(), s, k("held"), 0, held[i], storetest.Batch(0, 2)...)
				})
			}
		}
		w.wait(len(errs))
		_, err = other.Exec("ROLLBACK")
		require.NoError(t, err)
		w.wg.Wait()
		for name, err := range errs {
			switch name[:4] {
			case "busy":
				require.ErrorIs(t, *err, agent.ErrSessionBusy, name)
			case "lost":
				require.ErrorIs(t, *err, agent.ErrConflict, name)
			default:
				require.NoError(t, *err, name)
			}
		}
		require.LessOrEqual(t, commits(t, path)-before, 3, "so many transactions for %d changes", len(errs))
		for i := range sessions {
			k := func(what string) session.Key { return key(fmt.Sprint(appends, what), i) }
			require.NoError(t, sessiontest.Append(t.Context(), s, k("free"), 0, free[i], storetest.Batch(0, 1)...), "the lease is a lease")
			_, err := sessiontest.Acquire(t.Context(), s, k("new"), session.Self())
			require.ErrorIs(t, err, agent.ErrSessionBusy)
			acquire(k("back"))
			if appends {
				require.Len(t, storetest.Contents(t, s, k("held")), 2)
			}
		}
	}
}
