package session_test

import (
	"context"
	"errors"
	"iter"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// longLog makes a session of n events.
func longLog(t testing.TB, store session.Store, key session.Key, n int) {
	t.Helper()
	lease := must.Get(sessiontest.Acquire(t.Context(), store, key, session.Self()))
	events := make([]*event.Event, n)
	for i := range events {
		events[i] = &event.Event{Seq: int64(i + 1), ID: "e", TurnID: "t", RunID: "r", Data: &event.Text{Content: "x"}}
	}
	require.NoError(t, sessiontest.Append(t.Context(), store, key, 0, lease, events...))
	require.NoError(t, sessiontest.Release(t.Context(), store, key, lease))
}

// readCount counts what is read from a store, and may fail.
type readCount struct {
	session.Store
	events int
	fail   error
}

func (s *readCount) Load(ctx context.Context, key session.Key, after int64) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		if s.fail != nil {
			yield(nil, s.fail)
			return
		}
		for e, err := range s.Store.Load(ctx, key, after) {
			s.events++
			if !yield(e, err) {
				return
			}
		}
	}
}

func TestBackward(t *testing.T) {
	ctx := t.Context()
	for _, n := range []int{0, 1, 2, 63, 64, 65, 200, 20000} {
		store := &readCount{Store: session.NewMemory()}
		key := session.ID("s")
		if n > 0 {
			longLog(t, store, key, n)
		}
		for _, before := range []int64{0, 1, 2, int64(n), int64(n) + 1, int64(n) + 2, math.MaxInt64} {
			want := min(before-1, int64(n))
			if before == 0 {
				want = int64(n)
			}
			for e, err := range session.Backward(ctx, store, key, before) {
				require.NoError(t, err)
				require.Equal(t, want, e.Seq)
				want--
			}
			require.LessOrEqual(t, want, int64(0), "%d events before %d", n, before)
		}
		store.events = 0
		for range session.Backward(ctx, store, key, 0) {
			break
		}
		require.LessOrEqual(t, store.events, 2*64)
		store.fail = errors.New("no disk")
		for _, err := range session.Backward(ctx, store, key, 9) {
			require.ErrorIs(t, err, store.fail)
		}
	}
}

func TestFind(t *testing.T) {
	ctx, store, key := t.Context(), session.NewMemory(), session.ID("s")
	_, ok, err := session.Find(ctx, store, key)
	require.NoError(t, err)
	require.False(t, ok)
	longLog(t, store, key, 3)
	info, ok, err := session.Find(ctx, store, key)
	require.NoError(t, err)
	require.True(t, ok)
	require.EqualValues(t, 3, info.Seq)
	for _, part := range []session.Key{{}, {App: key.App, User: key.User}, {App: key.App, ID: key.ID}} {
		_, ok, err = session.Find(ctx, store, part)
		require.NoError(t, err)
		require.False(t, ok, "a part of a key is none")
	}
}

func TestSince(t *testing.T) {
	ctx, store, key := t.Context(), session.NewMemory(), session.ID("s")
	since := func(head session.Head) (seqs []int64, err error) {
		for e, err := range session.Since(ctx, store, key, head) {
			if err != nil {
				return seqs, err
			}
			seqs = append(seqs, e.Seq)
		}
		return seqs, nil
	}
	none, err := since(session.Head{})
	require.NoError(t, err)
	require.Empty(t, none)
	_, err = since(session.Head{Seq: 1, ID: "e"})
	require.ErrorIs(t, err, agent.ErrConflict)
	longLog(t, store, key, 3)
	for n := range int64(4) {
		head := session.Head{Seq: n, ID: "e"}
		if n == 0 {
			head = session.Head{}
		}
		seqs, err := since(head)
		require.NoError(t, err)
		require.Len(t, seqs, 3-int(n))
	}
	for _, head := range []session.Head{{Seq: 4, ID: "e"}, {Seq: 9, ID: "e"}, {Seq: 3, ID: "x"}, {Seq: 3}} {
		seqs, err := since(head)
		require.ErrorIs(t, err, agent.ErrConflict)
		require.ErrorContains(t, err, "the database was restored")
		require.Empty(t, seqs)
	}
	failing := &readCount{Store: store, fail: errors.New("no disk")}
	for _, err := range session.Since(ctx, failing, key, session.Head{Seq: 1, ID: "e"}) {
		require.ErrorIs(t, err, failing.fail)
	}
}
