package sessiontest_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/internal/servers"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/postgres"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
)

// BenchmarkPage measures what a page of 500 events costs at the beginning and at the end of a log
// of more than a million. It reports the median, and the ratio of the end to the beginning, which should
// be near 1, because the cost of a page depends only on its events.
func BenchmarkPage(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) {
		store := must.Get(sqlite.Open(filepath.Join(b.TempDir(), "bench.db")))
		benchmarkPage(b, store)
	})
	b.Run("postgres", func(b *testing.B) {
		store := must.Get(postgres.Open(b.Context(), servers.Database(b)))
		benchmarkPage(b, store)
	})
}

func benchmarkPage(b *testing.B, store session.Store) {
	b.Cleanup(func() { _ = store.Close() })
	const far, page = 1_000_000, 500
	ctx, key := b.Context(), session.ID("long")
	lease := must.Get(sessiontest.Acquire(ctx, store, key, session.Self()))
	for seq := int64(0); seq < far+page; seq += 2500 {
		events := make([]*event.Event, 2500)
		for i := range events {
			at := seq + int64(i) + 1
			events[i] = &event.Event{Seq: at, ID: fmt.Sprint("e", at), TurnID: "t", RunID: "r", Agent: "billing", Path: "support/billing", Time: time.Unix(1_800_000_000, at).UTC(),
				Data: &event.Text{Content: "I see two charges of 24.90 on your card, both from the third of March."}}
		}
		require.NoError(b, sessiontest.Append(ctx, store, key, seq, lease, events...))
		if seq%50_000 == 0 {
			require.NoError(b, sessiontest.Renew(ctx, store, key, lease))
		}
	}
	took := make(map[int64][]time.Duration)
	for b.Loop() {
		for _, at := range []int64{10, far} {
			start, n := time.Now(), 0
			for _, err := range store.Load(ctx, key, at) {
				require.NoError(b, err)
				if n++; n == page {
					break
				}
			}
			require.Equal(b, page, n)
			took[at] = append(took[at], time.Since(start))
		}
	}
	median := func(at int64) float64 {
		slices.Sort(took[at])
		return float64(took[at][len(took[at])/2].Microseconds())
	}
	b.ReportMetric(median(10), "us/page")
	b.ReportMetric(median(far)/median(10), "end/beginning")
}
