package sharded_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"sync"
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
		if info.Incarnation = 0; info.Key.ID == "stray" {
			info.Parent = session.Key{}
		}
		lines = append(lines, fmt.Sprint(info))
		for e, err := range s.Load(t.Context(), info.Key, 0) {
			require.NoError(t, err)
			data, err := e.MarshalJSON()
			require.NoError(t, err)
			lines = append(lines, string(data))
		}
		for n := range 30 {
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
			}
			want = look(t, grown)
			shrinking := layout{now: "ab", former: "abc"}.over(t, stores)
			same(t, want, look(t, shrinking))
			report, err = shrinking.Rebalance(t.Context())
			require.NoError(t, err)
			require.Zero(t, report.Left)
			same(t, want, look(t, layout{now: "ab"}.over(t, stores[:3])))
			// Forks of others' sessions stay with those until they move, and so some are left behind on c.
			for key, at := range where(t, stores) {
				require.True(t, at != 2 || key.ID == "stray", key)
			}
		})
	}
}

var _ = []any{maps.Keys[map[int]int], sync.OnceFunc, iter.Pull[int], sessiontest.NewClock, context.Background}
