package tail_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
	"github.com/agentarbor/arbor/session/tail"
)

func newLive(t testing.TB, store session.Store, opts ...tail.Option) *tail.Tail {
	t.Helper()
	return must.Get(tail.New(store, opts...))
}

func openSQLite(t testing.TB, path string, clock *sessiontest.Clock) *sqlite.Store {
	t.Helper()
	return must.Get(sqlite.Open(path, sqlite.WithClock(clock.Now)))
}

func TestLiveTail(t *testing.T) {
	kept := tail.WithLinger(time.Hour) // on a machine that is busy, too
	clock := sessiontest.NewClock()
	paths := make(map[session.Store]string)
	sessiontest.RunTail(t, func(t *testing.T) sessiontest.Followed {
		path := filepath.Join(t.TempDir(), "sessions.db")
		l := newLive(t, openSQLite(t, path, clock), kept, tail.WithPoll(10*time.Millisecond))
		paths[l] = path
		return l
	}, sessiontest.Options{Advance: clock.Advance, PlainStore: func(t *testing.T, of session.Store) session.Store {
		return openSQLite(t, paths[of], clock)
	}})
}

func TestLiveStore(t *testing.T) {
	clock := sessiontest.NewClock()
	sessiontest.Run(t, func(t *testing.T) session.Store {
		return newLive(t, session.NewMemory(session.WithClock(clock.Now)))
	}, sessiontest.Options{Advance: clock.Advance})
}
