package sqlite_test

import (
	"bufio"
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/internal/testing/storetest"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
)

// TestMain lets the test's own program play the other processes of some tests.
func TestMain(m *testing.M) {
	storetest.Main(m, func(role, path, name string, _ *bufio.Reader) error {
		play := map[string]func(path, name string) error{"turns": playTurns, "open": playOpen, "read": playRead, "append": playAppend}[role]
		return play(path, name)
	})
}

// patient lets a store wait for others as long as a busy machine may need.
var patient = sqlite.WithBusyTimeout(2 * time.Minute)

func open(t testing.TB, path string, opts ...sqlite.Option) *sqlite.Store {
	t.Helper()
	s := must.Get(sqlite.Open(path, append([]sqlite.Option{patient}, opts...)...))
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func newFile(t testing.TB) string { return filepath.Join(t.TempDir(), "sessions.db") }

// looked is a store whose file is looked at after each deletion.
type looked struct {
	session.Store
	t    *testing.T
	path string
}

func (s *looked) Delete(ctx context.Context, key session.Key) error {
	err := s.Store.Delete(ctx, key)
	sound(s.t, s.path)
	return err
}

// TestStore runs the suite of stores. Whatever it appends, forks and deletes, the file holds only what something leads to.
func TestStore(t *testing.T) {
	clock := sessiontest.NewClock()
	openAt := func(t *testing.T, path string) session.Store {
		return &looked{open(t, path, sqlite.WithClock(clock.Now)), t, path}
	}
	pathOf := func(s session.Store) string { return s.(*looked).path }
	sessiontest.Run(t, func(t *testing.T) session.Store { return openAt(t, newFile(t)) }, sessiontest.Options{
		Advance:    clock.Advance,
		DeadOwners: true,
		Damage: func(t *testing.T, s session.Store, key session.Key, seq int64, text string) {
			_, err := raw(t, pathOf(s)).Exec(`UPDATE log SET line = ? WHERE seq = ? AND session =
				(SELECT key FROM session WHERE app = ? AND user = ? AND id = ?)`, text, seq, key.App, key.User, key.ID)
			require.NoError(t, err)
		},
		Peer: func(t *testing.T, of session.Store) session.Store { return openAt(t, pathOf(of)) },
		Reopen: func(t *testing.T, old session.Store) session.Store {
			require.NoError(t, old.Close())
			return openAt(t, pathOf(old))
		},
		Restore: func(t *testing.T, of session.Store) func() { return servers.SaveFile(t, pathOf(of)) },
	})
}

// TestZeroBytesInKeys goes beyond the suite, whose stores may refuse them.
func TestZeroBytesInKeys(t *testing.T) {
	for name, s := range map[string]session.Store{"memory": session.NewMemory(), "sqlite": open(t, newFile(t))} {
		keys := []session.Key{{App: "a", User: "b\x00c", ID: "d"}, {App: "a\x00b", User: "c", ID: "d"}, {App: "a", User: "b", ID: "c\x00d"},
			{App: "a", User: "b", ID: "c"}, {App: "a", User: "", ID: "\x00"}, {App: "a", User: "\x00", ID: ""}, {App: "a\xff", User: "b", ID: "c"}}
		for _, key := range keys {
			lease := must.Get(sessiontest.Acquire(t.Context(), s, key, session.Self()))
			events := storetest.Batch(0, 1)
			events[0].Data = &event.State{Delta: map[string]any{"user:k": key.String()}}
			require.NoError(t, sessiontest.Append(t.Context(), s, key, 0, lease, events...))
		}
		for _, key := range keys {
			require.Len(t, storetest.Contents(t, s, key), 1, name)
			shared := must.Get(s.SharedState(t.Context(), key))
			want := key.String()
			if key.App == "a" && key.User == "b" {
				want = keys[3].String() // the last of the two that share the user
			}
			if name == "sqlite" {
				want = string([]rune(want)) // JSON holds no bytes that are no UTF-8
			}
			require.Equal(t, map[string]any{"user:k": want}, shared, name)
		}
	}
}

func TestClose(t *testing.T) {
	path := newFile(t)
	s := must.Get(sqlite.Open(path))
	key := session.ID("s")
	lease := must.Get(sessiontest.Acquire(t.Context(), s, key, session.Self()))
	require.NoError(t, sessiontest.Append(t.Context(), s, key, 0, lease, storetest.Batch(0, 500)...))

	var last error
	count := 0
	for e, err := range s.Load(t.Context(), key, 0) { // closed while it reads
		if last = err; err == nil {
			count++
			if e.Seq == 1 {
				require.NoError(t, s.Close())
			}
		}
	}
	require.ErrorContains(t, last, "the store is closed")
	require.ErrorContains(t, last, path)
	require.NotZero(t, count)

	require.NoError(t, s.Close(), "closing twice")
	closed := func(err error) { t.Helper(); require.ErrorContains(t, err, "the store is closed") }
	closed(sessiontest.Append(t.Context(), s, key, 500, lease, storetest.Batch(500, 1)...))
	_, err := sessiontest.Acquire(t.Context(), s, key, session.Self())
	closed(err)
	closed(sessiontest.Renew(t.Context(), s, key, lease))
	closed(sessiontest.Release(t.Context(), s, key, lease))
	closed(s.Delete(t.Context(), key))
	closed(s.Fork(t.Context(), key, 1, session.ID("fork")))
	_, err = s.List(t.Context(), session.Key{}, session.Page{})
	closed(err)
	_, err = s.SharedState(t.Context(), key)
	closed(err)

	names := must.Get(filepath.Glob(filepath.Join(filepath.Dir(path), "*")))
	require.Equal(t, []string{path}, names, "the last to close leaves one file")
}

func TestCloseWaitsForWriters(t *testing.T) {
	path := newFile(t)
	s := must.Get(sqlite.Open(path))
	key := session.ID("s")
	lease := must.Get(sessiontest.Acquire(t.Context(), s, key, session.Self()))
	stored := int64(0)
	started := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			if sessiontest.Append(t.Context(), s, key, stored, lease, storetest.Batch(stored, 1)...) != nil {
				return
			}
			if stored++; stored == 3 {
				close(started)
			}
		}
	})
	<-started
	require.NoError(t, s.Close())
	wg.Wait()
	require.Len(t, storetest.Contents(t, open(t, path), key), int(stored), "what was stored is there, and nothing else")
}

// TestWithoutJSONForm: what cannot be encoded stores nothing of its batch.
func TestWithoutJSONForm(t *testing.T) {
	s := open(t, newFile(t))
	key := session.ID("s")
	lease := must.Get(sessiontest.Acquire(t.Context(), s, key, session.Self()))
	events := storetest.Batch(0, 2)
	for _, name := range []string{"own", "user:shared"} {
		events[1].Data = &event.State{Delta: map[string]any{name: func() {}}}
		require.ErrorContains(t, sessiontest.Append(t.Context(), s, key, 0, lease, events...), "e2")
	}
	require.Empty(t, storetest.Contents(t, s, key))
	require.NoError(t, sessiontest.Append(t.Context(), s, key, 0, lease, storetest.Batch(0, 2)...))
}
