package redis_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/postgres"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// eachStore runs a benchmark on stores with the tail around them and without it.
func eachStore(b *testing.B, run func(b *testing.B, store session.Store)) {
	for _, kind := range []string{"memory", "postgres"} {
		open := func(b *testing.B) session.Store {
			if kind == "memory" {
				return session.NewMemory()
			}
			return must.Get(postgres.Open(b.Context(), servers.Database(b)))
		}
		b.Run(kind, func(b *testing.B) {
			s := open(b)
			defer s.Close()
			run(b, s)
		})
		b.Run(kind+"+redis", func(b *testing.B) { run(b, newTail(b, servers.NewRedis(b).URL(), open(b))) })
	}
}

func benchEvent(id string, seq int64) *event.Event {
	return &event.Event{Seq: seq, ID: id, TurnID: "t1", RunID: "r1", Agent: "billing", Path: "support/billing", Time: time.Now().UTC(),
		Data: &event.Text{Content: "I see two charges of 24.90 on your card, both from the third of March."}}
}

func percentiles(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1000, "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1000, "p99-µs")
}

// BenchmarkAppend stores one event at a time.
func BenchmarkAppend(b *testing.B) {
	eachStore(b, func(b *testing.B, s session.Store) {
		key := session.ID("s")
		lease := must.Get(sessiontest.Acquire(b.Context(), s, key, session.Self()))
		var took []time.Duration
		b.ReportAllocs()
		for seq := int64(0); b.Loop(); seq++ {
			e := benchEvent(fmt.Sprint("e", seq), seq+1)
			began := time.Now()
			if err := sessiontest.Append(b.Context(), s, key, seq, lease, e); err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(began))
		}
		percentiles(b, took)
	})
}

// BenchmarkPublish is what a turn pays for a delta while Redis is fast enough, with
// the publisher and a follower at work beside it.
func BenchmarkPublish(b *testing.B) {
	tail := newTail(b, servers.NewRedis(b).URL(), session.NewMemory())
	key := session.ID("s")
	lease := must.Get(sessiontest.Acquire(b.Context(), tail, key, session.Self()))
	caughtUp := make(chan struct{})
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	go func() {
		for e, err := range tail.Follow(ctx, key, "") {
			if err != nil {
				return
			}
			if !e.Event.Partial {
				caughtUp <- struct{}{}
			}
		}
	}()
	e := benchEvent("b", 0)
	e.Partial, e.Data = true, &event.Text{Content: " charges"}
	const most = 8000 // that wait
	n, seq := 0, int64(0)
	b.ReportAllocs()
	for b.Loop() {
		if err := tail.Publish(b.Context(), key, e); err != nil {
			b.Fatal(err)
		}
		if n++; n%most == 0 {
			b.StopTimer()
			require.NoError(b, sessiontest.Append(b.Context(), tail, key, seq, lease, benchEvent("e", seq+1)))
			seq++
			<-caughtUp
			b.StartTimer()
		}
	}
}

// BenchmarkLatency is the time from a publication, or an append, until a follower on
// another machine has it.
func BenchmarkLatency(b *testing.B) {
	for _, kind := range []string{"delta", "event"} {
		b.Run(kind, func(b *testing.B) {
			url, store, key := servers.NewRedis(b).URL(), shared{session.NewMemory()}, session.ID("s")
			here, there := newTail(b, url, store), newTail(b, url, store)
			lease := must.Get(sessiontest.Acquire(b.Context(), here, key, session.Self()))
			got := make(chan struct{})
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			go func() {
				for _, err := range there.Follow(ctx, key, "") {
					if err != nil {
						return
					}
					got <- struct{}{}
				}
			}()
			require.NoError(b, sessiontest.Append(b.Context(), here, key, 0, lease, benchEvent("e", 1)))
			<-got
			var took []time.Duration
			for seq := int64(1); b.Loop(); seq++ {
				began := time.Now()
				var err error
				if kind == "event" {
					err = sessiontest.Append(b.Context(), here, key, seq, lease, benchEvent("e", seq+1))
				} else {
					e := benchEvent("b", 0)
					e.Partial = true
					err = here.Publish(b.Context(), key, e)
				}
				if err != nil {
					b.Fatal(err)
				}
				<-got
				took = append(took, time.Since(began))
			}
			percentiles(b, took)
		})
	}
}
