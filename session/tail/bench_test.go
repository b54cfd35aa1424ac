package tail_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

func benchEvent(id string) *event.Event {
	return &event.Event{ID: id, TurnID: "t1", RunID: "r1", Agent: "billing", Path: "support/billing", Time: time.Unix(1_800_000_000, 0).UTC(),
		Data: &event.Text{Content: "I see two charges of 24.90 on your card."}}
}

func benchDelta(id string) *event.Event {
	e := benchEvent(id)
	e.Partial, e.Data = true, &event.Text{Content: " charges"}
	return e
}

func benchAppend(b *testing.B, s session.Store) {
	key := session.ID("s")
	lease, err := sessiontest.Acquire(b.Context(), s, key, session.Self())
	require.NoError(b, err)
	b.ReportAllocs()
	for seq := int64(0); b.Loop(); seq++ {
		e := benchEvent("e")
		e.Seq = seq + 1
		if err := sessiontest.Append(b.Context(), s, key, seq, lease, e); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMemoryAppend(b *testing.B) { benchAppend(b, session.NewMemory()) }
func BenchmarkLiveAppend(b *testing.B)   { benchAppend(b, newLive(b, session.NewMemory())) }

func BenchmarkLivePublish(b *testing.B) {
	for _, followers := range []int{0, 1, 100} {
		b.Run(fmt.Sprint(followers, "followers"), func(b *testing.B) {
			l := newLive(b, session.NewMemory())
			key := session.ID("s")
			_, err := sessiontest.Acquire(b.Context(), l, key, session.Self())
			require.NoError(b, err)
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			for range followers {
				go func() {
					for range l.Follow(ctx, key, "") {
					}
				}()
			}
			e := benchDelta("b")
			b.ReportAllocs()
			for b.Loop() {
				if err := l.Publish(b.Context(), key, e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkLiveLatency is the time from an append until a follower has the event.
func BenchmarkLiveLatency(b *testing.B) {
	l := newLive(b, session.NewMemory())
	key := session.ID("s")
	lease, err := sessiontest.Acquire(b.Context(), l, key, session.Self())
	require.NoError(b, err)
	got := make(chan struct{})
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	go func() {
		for _, err := range l.Follow(ctx, key, "") {
			if err != nil {
				return
			}
			got <- struct{}{}
		}
	}()
	var took []time.Duration
	for seq := int64(0); b.Loop(); seq++ {
		e := benchEvent("e")
		e.Seq = seq + 1
		began := time.Now()
		if err := sessiontest.Append(b.Context(), l, key, seq, lease, e); err != nil {
			b.Fatal(err)
		}
		<-got
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1000, "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1000, "p99-µs")
}
