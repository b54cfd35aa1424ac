package sharded_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/servers"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/postgres"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sharded"
	"github.com/agentarbor/arbor/session/sqlite"
)

// layout is which of the stores a, b, c … sessions are spread over, and were.
type layout struct{ now, former string }

func (l layout) over(t testing.TB, stores []session.Store) *sharded.Store {
	t.Helper()
	var shards []sharded.Shard
	for i, s := range stores {
		name := string(rune('a' + i))
		shards = append(shards, sharded.Shard{Name: name, Store: s, Leaving: !slices.Contains([]rune(l.now), rune('a'+i))})
	}
	var opts []sharded.Option
	if l.former != "" {
		var names []string
		for _, r := range l.former {
			names = append(names, string(r))
		}
		opts = append(opts, sharded.Former(names...))
	}
	s, err := sharded.New(shards, opts...)
	require.NoError(t, err)
	return s
}

func batch(seq int64, data ...event.Data) (out []*event.Event) {
	for i, d := range data {
		at := seq + int64(i) + 1
		out = append(out, &event.Event{Seq: at, ID: fmt.Sprint("e", at), TurnID: "t", RunID: "r", Agent: "billing", Path: "support/billing", Time: time.Unix(1_800_000_000, at).UTC(), Data: d})
	}
	return out
}

func say(format string, args ...any) event.Data {
	return &event.Text{Content: fmt.Sprintf(format, args...)}
}

func set(name string, value any) event.Data {
	return &event.State{Delta: map[string]any{name: value}}
}

// write stores events in a turn of its own.
func write(ctx context.Context, s session.Store, key session.Key, data ...event.Data) error {
	lease, err := s.Acquire(ctx, key, session.Self())
	if err != nil {
		return err
	}
	return errors.Join(s.Append(ctx, key, lease.Seq, lease, batch(lease.Seq, data...)...), s.Release(ctx, key, lease))
}

func user(i int, id string) session.Key {
	return session.Key{App: "shop", User: fmt.Sprint("user", i), ID: id}
}

// populate stores sessions of so many users: logs, files, state, forks of one's own and of others' sessions.
func populate(t *testing.T, s session.Store, users int) {
	t.Helper()
	for i := range users {
		key := user(i, "s1")
		require.NoError(t, write(t.Context(), s, key, say("a%d", i), set("user:name", fmt.Sprint(i)), set("app:last", float64(i)), set("own", i)))
		lease, err := s.Acquire(t.Context(), key, session.Self())
		require.NoError(t, err)
		_, err = s.PutBlob(t.Context(), key, lease, fmt.Append(nil, "file ", i))
		require.NoError(t, err)
		require.NoError(t, s.Append(t.Context(), key, lease.Seq, lease, batch(lease.Seq, say("with a file"), say("later"))...))
		require.NoError(t, s.Release(t.Context(), key, lease))
		require.NoError(t, s.Fork(t.Context(), key, 5, user(i, "fork")))
		require.NoError(t, write(t.Context(), s, user(i, "fork"), say("fork %d", i)))
		require.NoError(t, s.Fork(t.Context(), user(i, "fork"), 6, user(i, "fork of fork"), batch(6, say("b"))...))
		if i > 0 {
			require.NoError(t, s.Fork(t.Context(), user(i-1, "s1"), 3, user(i, "stray"), batch(3, say("of another's"), set("user:stray", float64(i)))...))
		}
	}
}

// look returns all that can be seen of a store, in lines: of lists, sessions and users. The parent of a fork of
// another user's session is not among it: it is lost when that one moves.
func look(t testing.TB, s session.Store) (lines []string) {
	t.Helper()
	infos, err := s.List(t.Context(), session.Key{}, session.Page{})
	require.NoError(t, err)
	users := make(map[string]int)
	for _, info := range infos {
		found, ok, err := session.Find(t.Context(), s, info.Key)
		require.NoError(t, err)
		require.True(t, ok, info.Key)
		require.Equal(t, info, found)
		if info.Incarnation = 0; strings.HasPrefix(info.Key.ID, "stray") {
			info.Parent = session.Key{}
		}
		lines = append(lines, fmt.Sprint(info))
		for e, err := range s.Load(t.Context(), info.Key, 0) {
			require.NoError(t, err)
			data, err := e.MarshalJSON()
			require.NoError(t, err)
			lines = append(lines, string(data))
		}
		for n := range 6 {
			data, err := s.Blob(t.Context(), info.Key, session.Digest(fmt.Append(nil, "file ", n)))
			if !errors.Is(err, agent.ErrNoFile) {
				require.NoError(t, err)
				lines = append(lines, string(data))
			}
		}
		if users[info.Key.User]++; users[info.Key.User] == 1 {
			state, err := s.SharedState(t.Context(), info.Key)
			require.NoError(t, err)
			lines = append(lines, fmt.Sprint(state))
		}
	}
	for name, n := range users {
		of, err := s.List(t.Context(), session.Key{App: "shop", User: name}, session.Page{})
		require.NoError(t, err)
		require.Len(t, of, n)
	}
	return lines
}

// same requires that two looks show the same.
func same(t testing.TB, want, got []string) {
	t.Helper()
	for i, line := range want {
		require.Less(t, i, len(got), line)
		require.Equal(t, line, got[i])
	}
	require.Len(t, got, len(want))
}

func where(t testing.TB, stores []session.Store) map[session.Key]int {
	t.Helper()
	at := make(map[session.Key]int)
	for i, s := range stores {
		infos, err := s.List(t.Context(), session.Key{App: "shop"}, session.Page{})
		require.NoError(t, err)
		for _, info := range infos {
			if info.Parent.App != sharded.App {
				_, twice := at[info.Key]
				require.False(t, twice, "%s is on two shards", info.Key)
				at[info.Key] = i
			}
		}
	}
	return at
}

// kinds open three stores each.
var kinds = map[string]func(t *testing.T) []session.Store{
	"memory": func(*testing.T) []session.Store {
		return []session.Store{session.NewMemory(), session.NewMemory(), session.NewMemory()}
	},
	"sqlite": func(t *testing.T) (stores []session.Store) {
		for range 3 {
			s, err := sqlite.Open(filepath.Join(t.TempDir(), "sessions.db"))
			require.NoError(t, err)
			t.Cleanup(func() { _ = s.Close() })
			stores = append(stores, s)
		}
		return stores
	},
	"mixed": func(t *testing.T) []session.Store {
		now := func() time.Time { return time.Now().Truncate(time.Microsecond) } // as PostgreSQL keeps it
		file, err := sqlite.Open(filepath.Join(t.TempDir(), "sessions.db"), sqlite.WithClock(now))
		require.NoError(t, err)
		t.Cleanup(func() { _ = file.Close() })
		server, err := postgres.Open(t.Context(), servers.Database(t)+"&pool_max_conns=3")
		require.NoError(t, err)
		t.Cleanup(func() { _ = server.Close() })
		return []session.Store{session.NewMemory(session.WithClock(now)), server, file}
	},
	"postgres": func(t *testing.T) (stores []session.Store) {
		for range 3 {
			s, err := postgres.Open(t.Context(), servers.Database(t)+"&pool_max_conns=3")
			require.NoError(t, err)
			t.Cleanup(func() { _ = s.Close() })
			stores = append(stores, s)
		}
		return stores
	},
}

// TestRebalance adds a shard, and takes it away again: everything is seen as it was, before, in between
// and afterwards, and only its share moves.
func TestRebalance(t *testing.T) {
	for name, open := range kinds {
		t.Run(name, func(t *testing.T) {
			const users = 24
			stores := open(t)
			populate(t, layout{now: "ab"}.over(t, stores), users)
			want := look(t, layout{now: "ab"}.over(t, stores))
			before := where(t, stores)

			growing := layout{now: "abc", former: "ab"}.over(t, stores)
			same(t, want, look(t, growing))
			busy := user(1, "s1")
			var lease session.Lease
			for i := range users { // somebody whose sessions move
				lease, _ = growing.Acquire(t.Context(), user(i, "s1"), session.Self())
				require.NoError(t, growing.Release(t.Context(), user(i, "s1"), lease))
			}
			lease, err := growing.Acquire(t.Context(), busy, session.Self())
			require.NoError(t, err)
			report, err := growing.Rebalance(t.Context())
			require.NoError(t, err)
			t.Logf("%+v", report)
			require.NoError(t, growing.Release(t.Context(), busy, lease))
			same(t, want, look(t, growing))
			again, err := growing.Rebalance(t.Context())
			require.NoError(t, err)
			require.Zero(t, again.Left)
			require.Equal(t, report.Left, again.Moved)
			require.Zero(t, again.Stay)
			same(t, want, look(t, growing))
			grown := layout{now: "abc"}.over(t, stores)
			same(t, want, look(t, grown))
			moved := 0
			for key, at := range where(t, stores) {
				if at != before[key] {
					require.Equal(t, 2, at, "%s went to another of the old shards", key)
					moved++
				}
			}
			require.Equal(t, report.Moved+again.Moved, moved)
			require.NotZero(t, moved)
			require.Less(t, moved, 4*users*2/3)

			for i := range users { // and life goes on
				require.NoError(t, write(t.Context(), grown, user(i, "s1"), say("after"), set("user:name", "renamed")))
				require.NoError(t, grown.Fork(t.Context(), user(i, "s1"), 3, user((i+1)%users, "stray, later")))
			}
			want = look(t, grown)
			shrinking := layout{now: "ab", former: "abc"}.over(t, stores)
			same(t, want, look(t, shrinking))
			report, err = shrinking.Rebalance(t.Context())
			require.NoError(t, err)
			require.Zero(t, report.Left)
			same(t, want, look(t, layout{now: "ab"}.over(t, stores[:3])))
			// Forks of others' sessions stay with those until they move, and so some are left behind on c.
			stay := 0
			for key, at := range where(t, stores) {
				require.True(t, at != 2 || key.ID == "stray, later", key)
				if at == 2 {
					stay++
				}
			}
			require.NotZero(t, stay)
			require.Equal(t, stay, report.Stay)

			// Without a word of where sessions were, those on a shard that leaves do not move, and are counted.
			report, err = layout{now: "a"}.over(t, stores[:2]).Rebalance(t.Context())
			require.NoError(t, err)
			onB := 0
			for _, at := range where(t, stores[:2]) {
				onB += at
			}
			require.Equal(t, sharded.Report{Stay: onB}, report)
		})
	}
}

// mortal is a store in memory that answers for so many calls, and is not heard of any more
// from then on. The first call that gets no answer may have been made.
type mortal struct {
	*session.Memory
	calls *int
	made  bool
}

var errDead = errors.New("the process is dead")

func (m mortal) call(make func() error) error {
	*m.calls--
	switch {
	case *m.calls > 0:
		return make()
	case *m.calls == 0 && m.made:
		_ = make()
	}
	return errDead
}

func (m mortal) Acquire(ctx context.Context, key session.Key, owner session.Owner) (lease session.Lease, err error) {
	err = m.call(func() (err error) { lease, err = m.Memory.Acquire(ctx, key, owner); return err })
	return lease, err
}

func (m mortal) Release(ctx context.Context, key session.Key, lease session.Lease) error {
	return m.call(func() error { return m.Memory.Release(ctx, key, lease) })
}

func (m mortal) Abandon(ctx context.Context, key session.Key, lease session.Lease) error {
	return m.call(func() error { return m.Memory.Abandon(ctx, key, lease) })
}

func (m mortal) Append(ctx context.Context, key session.Key, seq int64, lease session.Lease, events ...*event.Event) error {
	return m.call(func() error { return m.Memory.Append(ctx, key, seq, lease, events...) })
}

func (m mortal) Fork(ctx context.Context, of session.Key, seq int64, to session.Key, events ...*event.Event) error {
	return m.call(func() error { return m.Memory.Fork(ctx, of, seq, to, events...) })
}

func (m mortal) Delete(ctx context.Context, key session.Key) error {
	return m.call(func() error { return m.Memory.Delete(ctx, key) })
}

func (m mortal) Adopt(ctx context.Context, key session.Key, lease session.Lease, moved session.Moved) error {
	return m.call(func() error { return m.Memory.Adopt(ctx, key, lease, moved) })
}

func (m mortal) Leave(ctx context.Context, key session.Key, lease session.Lease) error {
	return m.call(func() error { return m.Memory.Leave(ctx, key, lease) })
}

// TestCrash ends a rebalancing at each of its changes, before and after it: all sessions can be
// seen and go on, and another call finishes the work.
func TestCrash(t *testing.T) {
	for _, made := range []bool{false, true} {
		for n := 1; ; n++ {
			clock := sessiontest.NewClock()
			var stores, mortals []session.Store
			calls := n
			for range 3 {
				m := session.NewMemory(session.WithClock(clock.Now))
				stores, mortals = append(stores, m), append(mortals, mortal{m, &calls, made})
			}
			old := layout{now: "ab"}.over(t, stores)
			populate(t, old, 5)
			orphan, err := old.Acquire(t.Context(), user(0, "fork"), session.Self())
			require.NoError(t, err)
			require.NoError(t, old.Abandon(t.Context(), user(0, "fork"), orphan))
			want := look(t, old)
			growing := layout{now: "abc", former: "ab"}
			report, err := growing.over(t, mortals).Rebalance(t.Context())
			if calls > 0 {
				require.NoError(t, err)
				require.NotZero(t, report.Moved)
				t.Logf("%d changes", n-calls)
				break
			}
			clock.Advance(session.LeaseTTL)
			s := growing.over(t, stores)
			same(t, want, look(t, s))
			for i := range 5 {
				require.NoError(t, write(t.Context(), s, user(i, "fork of fork"), say("after the crash"), set("user:name", "renamed"), set("app:last", "renamed")))
			}
			want = look(t, s)
			report, err = s.Rebalance(t.Context())
			require.NoError(t, err)
			require.Zero(t, report.Left)
			same(t, want, look(t, s))
			s = layout{now: "abc"}.over(t, stores)
			same(t, want, look(t, s))
			where(t, stores)
			orphans, err := s.Orphans(t.Context(), session.Page{})
			require.NoError(t, err)
			require.True(t, slices.ContainsFunc(orphans, func(i session.Info) bool { return i.Key == user(0, "fork") }), "call %d", n)
		}
	}
}

// sticky is a store in memory that no session leaves.
type sticky struct{ *session.Memory }

func (sticky) Leave(context.Context, session.Key, session.Lease) error { return errDead }

// TestOldCopy: a copy that a rebalancing has left behind is not taken for a session that was made anew since, without a word to the
// shard with the copy.
func TestOldCopy(t *testing.T) {
	var stores, stuck []session.Store
	for range 3 {
		m := session.NewMemory()
		stores, stuck = append(stores, m), append(stuck, sticky{m})
	}
	old, growing := layout{now: "ab"}.over(t, stores[:2]), layout{now: "abc", former: "ab"}
	for i := range 12 {
		require.NoError(t, write(t.Context(), old, user(i, "s1"), say("deleted")))
	}
	for range 12 { // each fails at the first user whose sessions are to move
		_, err := growing.over(t, stuck).Rebalance(t.Context())
		require.ErrorIs(t, err, errDead)
	}
	copies, err := stores[2].List(t.Context(), session.Key{App: "shop"}, session.Page{})
	require.NoError(t, err)
	require.NotEmpty(t, copies)
	for i := range 12 {
		require.NoError(t, old.Delete(t.Context(), user(i, "s1")))
		require.NoError(t, write(t.Context(), old, user(i, "s1"), say("anew")))
	}
	want := look(t, old)
	report, err := growing.over(t, stores).Rebalance(t.Context())
	require.NoError(t, err)
	require.NotZero(t, report.Moved)
	same(t, want, look(t, layout{now: "abc"}.over(t, stores)))
}

// TestTurnedBack: a shard is taken away while copies of sessions are there that have not left their old shard. What the old shard has
// and the copy has not is never removed.
func TestTurnedBack(t *testing.T) {
	var stores, stuck []session.Store
	for range 3 {
		m := session.NewMemory()
		stores, stuck = append(stores, m), append(stuck, sticky{m})
	}
	growing, back := layout{now: "abc", former: "ab"}, layout{now: "ab", former: "abc"}
	for i := range 12 {
		require.NoError(t, write(t.Context(), layout{now: "ab"}.over(t, stores), user(i, "s1"), say("before")))
	}
	_, err := growing.over(t, stuck).Rebalance(t.Context())
	require.ErrorIs(t, err, errDead)
	copies := where(t, stores[2:])
	require.Len(t, copies, 1)
	var key session.Key
	for key = range copies {
	}
	require.NoError(t, write(t.Context(), growing.over(t, stores), key, say("after"), say("more")))
	at := where(t, stores[:2])
	for range 2 {
		_, err = back.over(t, stores).Rebalance(t.Context())
		require.ErrorContains(t, err, "session "+key.String()+" has other events on shard ")
		require.NoError(t, write(t.Context(), back.over(t, stores), key, say("on the copy"), say("and more"), say("than there")))
	}
	infos, err := stores[at[key]].List(t.Context(), key, session.Page{})
	require.NoError(t, err)
	require.EqualValues(t, 3, infos[0].Seq)
}

// TestBusy moves sessions to and fro while others read and write them.
func TestBusy(t *testing.T) {
	for name, open := range kinds {
		t.Run(name, func(t *testing.T) {
			const users, turns = 8, 12
			stores := open(t)
			s := layout{now: "ab"}.over(t, stores)
			for i := range users {
				require.NoError(t, write(t.Context(), s, user(i, "s1"), say("0")))
			}
			s = layout{now: "abc", former: "ab"}.over(t, stores)
			var writers, others sync.WaitGroup
			var first atomic.Int64 // leases that were taken with events
			done := make(chan struct{})
			for i := range users {
				key := user(i, "s1")
				writers.Go(func() {
					var known session.Lease
					for n := 1; n <= turns; n++ {
						foreseen, lease, err := again(t.Context(), s, key, known, say("%d", n), set("user:n", float64(n)))
						if known = lease; foreseen {
							first.Add(1)
						}
						if errors.Is(err, agent.ErrSessionBusy) {
							n--
						} else if err != nil {
							t.Errorf("%s: %v", key, err)
							return
						}
					}
				})
				others.Go(func() {
					for seen := 1; ; {
						n := 0
						for e, err := range s.Load(t.Context(), key, 0) {
							if n++; err != nil || e.Seq != int64(n) {
								t.Errorf("%s: event %d: %v %v", key, n, e, err)
								return
							}
						}
						if n < seen {
							t.Errorf("%s has %d events after %d", key, n, seen)
							return
						}
						seen = n
						if _, ok, err := session.Find(t.Context(), s, key); err != nil || !ok {
							t.Errorf("%s is nowhere: %v", key, err)
							return
						}
						select {
						case <-done:
							return
						default:
						}
					}
				})
			}
			others.Go(func() {
				for {
					report, err := s.Rebalance(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					select {
					case <-done:
						if report.Left == 0 {
							return
						}
					default:
					}
				}
			})
			writers.Wait()
			t.Logf("%d of %d leases were taken with events", first.Load(), users*turns)
			close(done)
			others.Wait()
			s = layout{now: "abc"}.over(t, stores)
			for i := range users {
				var said []string
				for e, err := range s.Load(t.Context(), user(i, "s1"), 0) {
					require.NoError(t, err)
					if text := e.Text(); text != "" {
						said = append(said, text)
					}
				}
				require.Len(t, said, turns+1)
				for n, text := range said {
					require.Equal(t, fmt.Sprint(n), text)
				}
				state, err := s.SharedState(t.Context(), user(i, "s1"))
				require.NoError(t, err)
				require.EqualValues(t, turns, state["user:n"])
			}
			require.Contains(t, slices.Collect(maps.Values(where(t, stores))), 2)
		})
	}
}
