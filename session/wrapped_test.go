package session_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// plain has what every store has, and keeps no lease that is to be given back if it is told so.
type plain struct {
	session.Store
	keeps *bool
}

func (p plain) Release(ctx context.Context, key session.Key, lease session.Lease) error {
	if *p.keeps {
		return errors.New("the lease stays")
	}
	return p.Store.Release(ctx, key, lease)
}

// several wraps more than one store, of which the last one does the work.
type several struct {
	session.Wrapped
	all []session.Store
}

func (s several) Unwrap() []session.Store { return s.all }

func wrap(stores ...session.Store) session.Store {
	if len(stores) == 1 {
		return session.Wrapped{Store: stores[0]}
	}
	return several{session.Wrapped{Store: stores[len(stores)-1]}, stores}
}

func TestWrapped(t *testing.T) {
	clock := sessiontest.NewClock()
	for name, wrapped := range map[string]func(session.Store) session.Store{
		"once":  func(s session.Store) session.Store { return wrap(s) },
		"twice": func(s session.Store) session.Store { return wrap(wrap(s)) },
		"plain": func(s session.Store) session.Store { return wrap(plain{s, new(bool)}) },
	} {
		t.Run(name, func(t *testing.T) {
			sessiontest.Run(t, func(t *testing.T) session.Store {
				return wrapped(session.NewMemory(session.WithClock(clock.Now), session.KeepSnapshots()))
			}, sessiontest.WithAdvance(clock.Advance))
		})
	}
}

// TestOf: a store is what all that it wraps are.
func TestOf(t *testing.T) {
	whole := session.NewMemory(session.KeepSnapshots())
	var bare session.Store = plain{session.NewMemory(), new(bool)}
	for _, s := range []session.Store{whole, wrap(whole), wrap(wrap(whole)), wrap(whole, whole), wrap(whole, wrap(whole))} {
		require.Equal(t, s, session.AcquirerOf(s))
		require.Equal(t, s, session.ReleaserOf(s))
	}
	for _, s := range []session.Store{nil, bare, wrap(bare), wrap(wrap(bare)), wrap(bare, whole), wrap(whole, wrap(bare))} {
		require.Nil(t, session.AcquirerOf(s))
		require.Nil(t, session.ReleaserOf(s))
	}
	require.Equal(t, whole, session.SnapshotsOf(wrap(wrap(whole))))
	for _, s := range []session.Store{nil, session.NewMemory(), bare, wrap(session.NewMemory()), wrap(wrap(bare))} {
		require.Nil(t, session.SnapshotsOf(s))
	}
}

// TestWrappedPlain: around a store that can do less, a lease is given back by itself and never taken with events. What is
// stored is no error, also if the lease stays.
func TestWrappedPlain(t *testing.T) {
	keeps, key := false, session.ID("s")
	s := session.Wrapped{Store: plain{session.NewMemory(), &keeps}}
	said := func(seq int64) *event.Event {
		return &event.Event{Seq: seq, ID: "e", Data: &event.Text{Content: "a"}}
	}
	lease, err := s.Acquire(t.Context(), key, session.Self())
	require.NoError(t, err)
	require.ErrorIs(t, s.AppendRelease(t.Context(), key, 1, lease, said(2)), agent.ErrConflict)
	require.NoError(t, s.AppendRelease(t.Context(), key, 0, lease, said(1)))
	_, err = s.AcquireAppend(t.Context(), key, session.Self(), session.Lease{Seq: 1, Incarnation: lease.Incarnation}, said(2))
	require.ErrorIs(t, err, agent.ErrConflict)
	lease, err = s.Acquire(t.Context(), key, session.Self())
	require.NoError(t, err)
	require.EqualValues(t, 1, lease.Seq)
	require.NoError(t, s.AppendRelease(t.Context(), key, 1, lease))
	lease, err = s.Acquire(t.Context(), key, session.Self())
	require.NoError(t, err)
	keeps = true
	require.NoError(t, s.AppendRelease(t.Context(), key, 1, lease, said(2)))
	_, err = s.Acquire(t.Context(), key, session.Self())
	require.ErrorIs(t, err, agent.ErrSessionBusy)
	require.NoError(t, s.Renew(t.Context(), key, lease))
}
