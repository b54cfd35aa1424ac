package server_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// unwritable is a store that can be read, and written unless it is full.
type unwritable struct {
	session.Store
	full atomic.Bool
}

func (s *unwritable) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if s.full.Load() {
		return session.Lease{}, session.Unavailable(errors.New("the disk of db.example is full"))
	}
	return s.Store.Write(ctx, key, w)
}

// TestOutage: while nothing can be stored, the server says that it is not ready, clients are told to come back, and read what
// there is. No address reaches them.
func TestOutage(t *testing.T) {
	store := &unwritable{Store: sessiontest.Memory(t)}
	s := serveOn(t, newDesk(t), store)
	for range 2 {
		require.Equal(t, 200, s.health(t, "/readyz"), "it takes a lease, and gives it back")
	}
	s.say(t, "s", "hello")
	store.full.Store(true)
	require.Equal(t, 200, s.health(t, "/healthz"))
	require.Equal(t, 503, s.health(t, "/readyz"))
	for _, path := range []string{"/sessions", "/sessions/s/turns"} {
		a := s.do(t, "ann", "POST", path, `{"content":"hello"}`)
		require.Equal(t, 503, a.status, string(a.body))
		require.Equal(t, "store_unavailable", a.code(t))
		require.NotEmpty(t, a.header.Get("Retry-After"))
		require.NotContains(t, string(a.body), "db.example")
	}
	require.Equal(t, 200, s.get(t, "ann", "/sessions/s/events").status)
	store.full.Store(false)
	require.Equal(t, 200, s.health(t, "/readyz"))
	s.say(t, "s", "hello")
}
