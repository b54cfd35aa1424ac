package checkpoint_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/race"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/checkpoint"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
)

// filled makes a session of n events, each a checkpoint.
func filled(t testing.TB, store session.Store, key session.Key, n int) {
	ctx := context.Background()
	lease := must.Get(sessiontest.Acquire(ctx, store, key, session.Self()))
	events := make([]*event.Event, n)
	for i := range events {
		events[i] = &event.Event{Seq: int64(i) + 1, ID: fmt.Sprint("e", i), TurnID: "t1", RunID: "r1", Agent: "billing", Path: "support/billing",
			Time: time.Unix(1_800_000_000, int64(i)).UTC(), Data: &event.Text{Content: "I see two charges of 24.90 on your card."}}
	}
	require.NoError(t, sessiontest.Append(ctx, store, key, 0, lease, events...))
	require.NoError(t, sessiontest.Release(ctx, store, key, lease))
}

// BenchmarkFork forks sessions of 10 and of 10,000 events at their end.
func BenchmarkFork(b *testing.B) {
	file := must.Get(sqlite.Open(filepath.Join(b.TempDir(), "s.db")))
	b.Cleanup(func() { _ = file.Close() })
	for _, kind := range []struct {
		name  string
		store session.Store
	}{{"memory", session.NewMemory()}, {"sqlite", file}} {
		past := must.Get(checkpoint.New(kind.store))
		forks := 0
		for _, n := range []int{10, 10_000} {
			of := session.ID(fmt.Sprint("of ", n))
			filled(b, kind.store, of, n)
			b.Run(fmt.Sprintf("%s/%d", kind.name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					forks++
					if err := past.Fork(context.Background(), of, int64(n), session.ID(fmt.Sprint("fork ", forks))); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// TestForkCostsTheSame: forking allocates the same at any length of the log.
func TestForkCostsTheSame(t *testing.T) {
	store := session.NewMemory()
	past := must.Get(checkpoint.New(store))
	var cost []float64
	for _, n := range []int{10, 10_000} {
		of := session.ID(fmt.Sprint("of ", n))
		filled(t, store, of, n)
		forks := 0
		cost = append(cost, race.Allocations(t, 100, func() {
			forks++
			require.NoError(t, past.Fork(context.Background(), of, int64(n), session.ID(fmt.Sprint(n, " fork ", forks))))
		}))
	}
	require.InDelta(t, cost[0], cost[1], 2)
}
