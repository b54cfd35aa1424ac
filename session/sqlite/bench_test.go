package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/session"
)

// batch makes n events of ordinary size that follow the position seq.
func batch(seq int64, n int) []*agent.Event {
	events := make([]*agent.Event, n)
	for i := range events {
		at := seq + int64(i) + 1
		events[i] = &agent.Event{
			Seq: at, ID: fmt.Sprintf("e%d", at), TurnID: "t1", RunID: "r1", Agent: "billing", Path: "support/billing",
			Time: time.Unix(1_800_000_000, at).UTC(),
			Data: &agent.Text{Content: "I see two charges of 24.90 on your card, both from the third of March. I have asked for one to be paid back."},
		}
	}
	return events
}

// BenchmarkAppend stores five events in one batch: one transaction, one fsync.
func BenchmarkAppend(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "bench.db"))
	key := session.ID("s")
	lease, err := s.Acquire(b.Context(), key, session.Self())
	require.NoError(b, err)
	b.ReportAllocs()
	for seq := int64(0); b.Loop(); seq += 5 {
		if err := s.Append(b.Context(), key, seq, lease, batch(seq, 5)...); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTurn is what a turn asks of the store: lease, five appends of one to
// three events, lease back.
func BenchmarkTurn(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "bench.db"))
	key := session.ID("s")
	b.ReportAllocs()
	for b.Loop() {
		lease, err := s.Acquire(b.Context(), key, session.Self())
		if err != nil {
			b.Fatal(err)
		}
		seq := lease.Seq
		for _, n := range []int{2, 3, 1, 3, 2} {
			if err := s.Append(b.Context(), key, seq, lease, batch(seq, n)...); err != nil {
				b.Fatal(err)
			}
			seq += int64(n)
		}
		if err := s.Release(b.Context(), key, lease); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTurns has many sessions write at the same time.
func BenchmarkTurns(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "bench.db"))
	b.ReportAllocs()
	b.SetParallelism(15) // times the number of processors
	ids := make(chan int, 1000)
	for i := range cap(ids) {
		ids <- i
	}
	b.RunParallel(func(pb *testing.PB) {
		key := session.ID(fmt.Sprint(<-ids))
		for pb.Next() {
			lease, err := s.Acquire(b.Context(), key, session.Self())
			if err != nil {
				b.Error(err)
				return
			}
			for seq := lease.Seq; seq < lease.Seq+15; seq += 3 {
				if err := s.Append(b.Context(), key, seq, lease, batch(seq, 3)...); err != nil {
					b.Error(err)
					return
				}
			}
			if err := s.Release(b.Context(), key, lease); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkLoad reads a log of 1,000 events.
func BenchmarkLoad(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "bench.db"))
	key := session.ID("s")
	lease, err := s.Acquire(b.Context(), key, session.Self())
	require.NoError(b, err)
	require.NoError(b, s.Append(b.Context(), key, 0, lease, batch(0, 1000)...))
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for _, err := range s.Load(b.Context(), key, 0) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 1000 {
			b.Fatal(n)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "bench.db")
	open(b, path) // so that the others are not the last to close
	b.ReportAllocs()
	for b.Loop() {
		s := open(b, path)
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
