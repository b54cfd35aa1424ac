package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/internal/testing/storetest"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/postgres"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// TestBrokenAppend breaks the connection of an append at every moment that there
// is. Each time it is stored exactly once, also if a request that was given up gets
// to the server later.
func TestBrokenAppend(t *testing.T) {
	url := servers.Database(t)
	w := newWire(t, url)
	s := open(t, w.url)
	run(t, url, `CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF NEW.line LIKE '%break me%' THEN PERFORM pg_sleep(0.2); END IF; RETURN NEW; END $$`)
	run(t, url, `CREATE TRIGGER slow BEFORE INSERT ON arbor.log FOR EACH ROW EXECUTE FUNCTION slow()`)
	for f, name := range []string{"lost request", "lost answer", "hung up", "delayed request"} {
		t.Run(name, func(t *testing.T) {
			key := session.ID(name)
			lease := acquire(t, s, key)
			require.NoError(t, sessiontest.Append(t.Context(), s, key, 0, lease, storetest.Text(1, "first")))
			struck := w.strike(t, fate(f), "break me")
			require.NoError(t, sessiontest.Append(t.Context(), s, key, 1, lease, storetest.Text(2, "break me"), storetest.Text(3, "and me")))
			struck()
			want := []string{"first", "break me", "and me"}
			require.Equal(t, want, storetest.Contents(t, s, key))
			if fate(f) == delayRequest {
				w.release()
				require.Equal(t, want, storetest.Contents(t, s, key))
			}
			require.NoError(t, sessiontest.Append(t.Context(), s, key, 3, lease, storetest.Text(4, "goes on")))

			// What another has stored at the position is a conflict, not one's own.
			struck = w.strike(t, fate(f), "break me")
			require.ErrorIs(t, sessiontest.Append(t.Context(), s, key, 1, lease, storetest.Text(2, "break me"), storetest.Text(3, "not me")), agent.ErrConflict)
			struck()
			want = append(want, "goes on")
			require.Equal(t, want, storetest.Contents(t, s, key))
			if fate(f) == delayRequest {
				w.release()
			}

			// The lease that is given back with them is free, and whoever takes it is not disturbed.
			struck = w.strike(t, fate(f), "break me")
			require.NoError(t, sessiontest.Finish(t.Context(), s, key, 4, lease, storetest.Text(5, "break me"), storetest.Text(6, "the last")))
			struck()
			lease = acquire(t, s, key)
			if fate(f) == delayRequest {
				w.release()
			}
			require.NoError(t, sessiontest.Append(t.Context(), s, key, 6, lease, storetest.Text(7, "another's")))
			want = append(want, "break me", "the last", "another's")
			require.Equal(t, want, storetest.Contents(t, s, key))

			// A lease that is taken with them is the caller's, and nobody's if it cannot be.
			require.NoError(t, sessiontest.Release(t.Context(), s, key, lease))
			for _, seq := range []int64{7, 6} {
				struck = w.strike(t, fate(f), "break me")
				taken, err := sessiontest.Begin(t.Context(), s, key, seq, storetest.Text(seq+1, "break me"))
				struck()
				if fate(f) == delayRequest {
					w.release()
				}
				if seq == 6 {
					require.ErrorIs(t, err, agent.ErrConflict)
					break
				}
				require.NoError(t, err)
				_, err = sessiontest.Acquire(t.Context(), s, key, session.Self())
				require.ErrorIs(t, err, agent.ErrSessionBusy)
				require.NoError(t, sessiontest.Append(t.Context(), s, key, 8, taken, storetest.Text(9, "goes on")))
				require.NoError(t, sessiontest.Release(t.Context(), s, key, taken))
			}
			require.Equal(t, append(want, "break me", "goes on"), storetest.Contents(t, s, key))
			require.EqualValues(t, 9, acquire(t, s, key).Head.Seq)
		})
	}
}

// TestLateAppend: an append that its caller gave up may be stored later, but never
// beside what came instead of it.
func TestLateAppend(t *testing.T) {
	w := newWire(t, servers.Database(t))
	s := open(t, w.url, postgres.WithRetryTime(0))
	for _, instead := range []bool{false, true} {
		key := session.ID(fmt.Sprint(instead))
		lease := acquire(t, s, key)
		struck := w.strike(t, delayRequest, "late")
		err := sessiontest.Append(t.Context(), s, key, 0, lease, storetest.Text(1, "late"))
		struck()
		require.ErrorContains(t, err, "it is not known whether the change was made")
		require.NotErrorIs(t, err, agent.ErrConflict)
		if instead {
			require.NoError(t, sessiontest.Append(t.Context(), s, key, 0, lease, storetest.Text(1, "instead")))
		}
		w.release()
		if log := storetest.Contents(t, s, key); instead {
			require.Equal(t, []string{"instead"}, log)
		} else if len(log) > 0 { // the driver has the server cancel what it gives up, if it still can
			require.Equal(t, []string{"late"}, log)
		}
	}
}

// TestBrokenCalls breaks the connections of the other calls.
func TestBrokenCalls(t *testing.T) {
	url := servers.Database(t)
	w := newWire(t, url)
	s := open(t, w.url)
	of := session.ID("of")
	lease := acquire(t, s, of)
	require.NoError(t, sessiontest.Append(t.Context(), s, of, 0, lease, storetest.Batch(0, 5)...))
	for f, name := range []string{"lost request", "lost answer", "hung up", "delayed request"} {
		t.Run(name, func(t *testing.T) {
			late := func(struck func()) {
				struck()
				if fate(f) == delayRequest {
					w.release()
				}
			}
			key := session.ID("leased " + name)
			for range 2 { // made, then taken
				struck := w.strike(t, fate(f), key.ID)
				lease := acquire(t, s, key)
				_, err := sessiontest.Acquire(t.Context(), s, key, session.Self())
				require.ErrorIs(t, err, agent.ErrSessionBusy)
				late(struck)
				require.NoError(t, sessiontest.Append(t.Context(), s, key, lease.Head.Seq, lease, storetest.Text(lease.Head.Seq+1, "mine")))
				struck = w.strike(t, fate(f), key.ID)
				require.NoError(t, sessiontest.Renew(t.Context(), s, key, lease))
				late(struck)
				struck = w.strike(t, fate(f), key.ID)
				require.NoError(t, sessiontest.Release(t.Context(), s, key, lease))
				late(struck)
			}
			struck := w.strike(t, fate(f), key.ID)
			require.Equal(t, []string{"mine", "mine"}, storetest.Contents(t, s, key))
			late(struck)

			fork := session.ID("forked " + name)
			// The second statement of the transaction that names the fork makes it; the
			// commit, which names nothing, is cut below.
			struck = w.strike(t, fate(f), fork.ID)
			require.NoError(t, s.Fork(t.Context(), of, 3, fork))
			late(struck)
			require.Len(t, storetest.Load(t, s, fork), 3)
			require.ErrorIs(t, s.Fork(t.Context(), of, 3, fork), agent.ErrConflict)
			for _, commit := range []session.Key{session.ID("committed " + name)} {
				struck = w.strike(t, fate(f), "commit\x00")
				require.NoError(t, s.Fork(t.Context(), of, 4, commit))
				late(struck)
				require.Len(t, storetest.Load(t, s, commit), 4)
				struck = w.strike(t, fate(f), "commit\x00")
				require.NoError(t, s.Delete(t.Context(), commit))
				late(struck)
				require.Empty(t, storetest.Load(t, s, commit))
			}
			require.Len(t, storetest.Load(t, s, of), 5)
		})
	}
}

// TestTerminatedConnections ends the server's side of all connections again and again,
// while four sessions are written. Each of them has stored something between two ends, or a machine that is slower than the ends come would give up rightly.
func TestTerminatedConnections(t *testing.T) {
	url := servers.Database(t)
	s := open(t, url)
	const sessions, appends = 4, 50
	const over = 1000
	var mu sync.Mutex
	moved := sync.NewCond(&mu)
	var stored [sessions]int
	store := func(i, n int) {
		mu.Lock()
		defer mu.Unlock()
		stored[i] += n
		moved.Broadcast()
	}
	goOn := func() bool { // waits until all have stored something, and reports whether somebody has more to store
		mu.Lock()
		defer mu.Unlock()
		for before := stored; ; moved.Wait() {
			working, waiting := false, false
			for i := range stored {
				working = working || stored[i] < over
				waiting = waiting || stored[i] < over && stored[i] == before[i]
			}
			if !working || !waiting {
				return working
			}
		}
	}
	var killer, writers sync.WaitGroup
	killed := 0
	killer.Go(func() {
		conn, err := pgx.Connect(context.Background(), url)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close(context.Background())
		for goOn() {
			var n int
			err := conn.QueryRow(context.Background(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
				WHERE datname = current_database() AND pid <> pg_backend_pid()`).Scan(&n)
			if err != nil {
				t.Error(err)
				return
			}
			killed += n
		}
	})
	for i := range sessions {
		writers.Go(func() {
			key := session.ID(fmt.Sprint(i))
			lease, err := sessiontest.Acquire(t.Context(), s, key, session.Self())
			for seq := int64(0); err == nil && seq < 2*appends; seq += 2 {
				state := storetest.Text(seq+2, "")
				state.Data = &event.State{Delta: map[string]any{"app:last": i, "user:last": seq}}
				err = sessiontest.Append(t.Context(), s, key, seq, lease, storetest.Text(seq+1, fmt.Sprint(seq/2)), state)
				store(i, 1)
			}
			store(i, over)
			if err != nil {
				t.Error(i, err)
			}
		})
	}
	writers.Wait()
	killer.Wait()
	t.Logf("%d connections were ended during %d appends", killed, sessions*appends)
	require.Greater(t, killed, 3)
	for i := range sessions {
		log := storetest.Contents(t, s, session.ID(fmt.Sprint(i)))
		require.Len(t, log, 2*appends)
		for n := range appends {
			require.Equal(t, fmt.Sprint(n), log[2*n])
		}
	}
}

// TestSerializable: a database whose transactions are serializable by default
// refuses many, which are then repeated.
func TestSerializable(t *testing.T) {
	url := servers.Database(t)
	run(t, url, `DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || ' SET default_transaction_isolation = serializable'; END $$`)
	s := open(t, url)
	require.Equal(t, "serializable", run(t, url, "SHOW default_transaction_isolation"))
	var wg sync.WaitGroup
	const sessions, appends = 8, 20
	for i := range sessions {
		wg.Go(func() {
			key := session.ID(fmt.Sprint(i))
			lease, err := sessiontest.Acquire(t.Context(), s, key, session.Self())
			for seq := int64(0); err == nil && seq < appends; seq++ {
				e := storetest.Text(seq+1, "")
				e.Data = &event.State{Delta: map[string]any{"app:n": i, "app:m": i, "user:k": seq}}
				if err = sessiontest.Append(t.Context(), s, key, seq, lease, e); err == nil && seq == 10 {
					err = s.Fork(t.Context(), key, seq, session.ID(fmt.Sprint("fork", i)))
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i := range sessions {
		require.Len(t, storetest.Load(t, s, session.ID(fmt.Sprint(i))), appends)
		require.Len(t, storetest.Load(t, s, session.ID(fmt.Sprint("fork", i))), 10)
	}
	require.NoError(t, s.Close())
	waitFor(t, url, "SELECT xact_rollback > 0 FROM pg_stat_database WHERE datname = current_database()") // or the test tests nothing
}

// blocker holds locks beside the store.
type blocker struct {
	*testing.T
	pgx.Tx
}

func block(t *testing.T, url, sql string, args ...any) *blocker {
	t.Helper()
	conn := must.Get(pgx.Connect(context.Background(), url))
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	tx, err := conn.Begin(context.Background())
	require.NoError(t, err)
	_, err = tx.Exec(context.Background(), sql, args...)
	require.NoError(t, err)
	return &blocker{t, tx}
}

// blocks waits until somebody waits for the locks.
func (b *blocker) blocks(url string) {
	b.Helper()
	waitFor(b, url, "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
}

// TestDeadlock: the server ends one of two that wait for each other; if it is the
// append, that is made again.
func TestDeadlock(t *testing.T) {
	url := servers.Database(t)
	// Who looks for a deadlock first is ended. The append looks when both have long waited, and the other one later.
	run(t, url, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET deadlock_timeout = 3000', current_database()); END $$")
	s, key := open(t, url), session.ID("s")
	lease := acquire(t, s, key)
	change := func(seq int64) *event.Event {
		e := storetest.Text(seq, "")
		e.Data = &event.State{Delta: map[string]any{"app:a": seq, "app:b": seq}}
		return e
	}
	require.NoError(t, sessiontest.Append(t.Context(), s, key, 0, lease, change(1)))
	other := block(t, url, "UPDATE arbor.state SET value = '0' WHERE name = 'app:b'")
	done := make(chan error, 1)
	go func() { done <- sessiontest.Append(t.Context(), s, key, 1, lease, change(2)) }()
	other.blocks(url)
	_, err := other.Exec(t.Context(), "SET LOCAL deadlock_timeout = '1min'")
	require.NoError(t, err)
	_, err = other.Exec(t.Context(), "UPDATE arbor.state SET value = '0' WHERE name = 'app:a'")
	require.NoError(t, err, "the append is the one that is ended")
	require.NoError(t, other.Commit(t.Context()))
	require.NoError(t, <-done)
	require.Len(t, storetest.Load(t, s, key), 2)
	require.Equal(t, map[string]any{"app:a": 2.0, "app:b": 2.0}, must.Get(s.SharedState(t.Context(), key)))
	require.NoError(t, s.Close()) // a connection that ends reports what it has counted
	// The append may take the first row again before the other transaction wakes up, and then there is another deadlock.
	waitFor(t, url, "SELECT deadlocks >= 1 FROM pg_stat_database WHERE datname = current_database()")
}

// TestLocked: who waits for a lock is woken by the context, or gives up in time.
func TestLocked(t *testing.T) {
	url := servers.Database(t)
	s, hasty := open(t, url), open(t, url)
	postgres.WithRetryTime(200 * time.Millisecond)(hasty)
	key := session.ID("s")
	lease := acquire(t, s, key)
	require.NoError(t, sessiontest.Append(t.Context(), s, key, 0, lease, storetest.Text(1, "a")))
	calls := map[string]func(context.Context, session.Store) error{
		"append": func(ctx context.Context, s session.Store) error {
			return sessiontest.Append(ctx, s, key, 1, lease, storetest.Text(2, "b"))
		},
		"acquire": func(ctx context.Context, s session.Store) error {
			_, err := sessiontest.Acquire(ctx, s, key, session.Self())
			return err
		},
		"renew":  func(ctx context.Context, s session.Store) error { return sessiontest.Renew(ctx, s, key, lease) },
		"delete": func(ctx context.Context, s session.Store) error { return s.Delete(ctx, key) },
		"fork":   func(ctx context.Context, s session.Store) error { return s.Fork(ctx, key, 1, session.ID("fork")) },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			other := block(t, url, "SELECT FROM arbor.session WHERE id = 's' FOR UPDATE")
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- call(ctx, s) }()
			if name == "acquire" {
				require.ErrorIs(t, <-done, agent.ErrSessionBusy, "to see who holds it needs no lock")
				require.NoError(t, other.Rollback(t.Context()))
				cancel()
				return
			}
			other.blocks(url)
			cancel()
			require.ErrorIs(t, <-done, context.Canceled)

			must.Wait(t, func() bool {
				err := call(t.Context(), hasty)
				require.ErrorContains(t, err, "did not answer for 200ms")
				require.ErrorContains(t, err, "gave up after 200ms")
				return !strings.Contains(err.Error(), "not known") // the server has confirmed the cancellation, in time
			})
			require.NoError(t, other.Rollback(t.Context()))
		})
	}
	require.NoError(t, sessiontest.Append(t.Context(), s, key, 1, lease, storetest.Text(2, "c")))
	require.Equal(t, []string{"a", "c"}, storetest.Contents(t, s, key))
}

// TestRefusedConnections: a server that is out of connections for a moment.
func TestRefusedConnections(t *testing.T) {
	p := servers.NewPostgres(t, "max_connections=8", "superuser_reserved_connections=2")
	url := p.Database(t)
	run(t, url, "CREATE ROLE bob LOGIN")
	run(t, url, `DO $$ BEGIN EXECUTE 'GRANT CREATE ON DATABASE ' || current_database() || ' TO bob'; END $$`)
	bob := strings.Replace(url, "postgres@", "bob@", 1)
	s := open(t, bob+"&pool_max_conns=2")
	key := session.ID("s")
	lease := acquire(t, s, key)
	var others []*pgx.Conn
	for {
		conn, err := pgx.Connect(t.Context(), bob)
		if err != nil {
			require.ErrorContains(t, err, "53300")
			break
		}
		others = append(others, conn)
	}
	_, err := postgres.Open(t.Context(), bob, postgres.WithRetryTime(100*time.Millisecond))
	require.ErrorContains(t, err, "raise its max_connections, or lower pool_max_conns")

	run(t, url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'arbor'")
	require.Eventually(t, func() bool { // the place of the store's
		conn, err := pgx.Connect(t.Context(), bob)
		if err == nil {
			others = append(others, conn)
		}
		return err == nil
	}, 10*time.Second, 5*time.Millisecond)
	time.AfterFunc(300*time.Millisecond, func() {
		for _, c := range others {
			_ = c.Close(context.Background())
		}
	})
	require.NoError(t, sessiontest.Append(t.Context(), s, key, 0, lease, storetest.Text(1, "a")))
	require.Len(t, storetest.Load(t, s, key), 1)
}

// TestNoAnswerAtAll: without a server, calls fail when the time is over, and say so, but not the password.
func TestNoAnswerAtAll(t *testing.T) {
	p := servers.NewPostgres(t)
	s := open(t, change(t, p.Database(t), func(u *url.URL) { u.User = url.UserPassword("postgres", "s3cr3t") }))
	key := session.ID("s")
	lease := acquire(t, s, key)
	require.NoError(t, p.Stop())
	postgres.WithRetryTime(300 * time.Millisecond)(s)
	for name, err := range map[string]error{
		"append": sessiontest.Append(t.Context(), s, key, 0, lease, storetest.Text(1, "a")),
		"renew":  sessiontest.Renew(t.Context(), s, key, lease),
		"fork":   s.Fork(t.Context(), key, 0, session.ID("f")),
		"delete": s.Delete(t.Context(), key),
		"list":   func() error { _, err := s.List(t.Context(), session.Key{}, session.Page{}); return err }(),
	} {
		require.ErrorContains(t, err, "the server cannot be reached", name)
		require.ErrorContains(t, err, "gave up after 300ms", name)
		require.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, err), "s3cr3t", name)
		require.False(t, errors.Is(err, agent.ErrConflict) || errors.Is(err, agent.ErrSessionBusy), name)
	}
	require.NoError(t, p.Start())
	patient(s)
	require.NoError(t, sessiontest.Append(t.Context(), s, key, 0, lease, storetest.Text(1, "a")))
}
