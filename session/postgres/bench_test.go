package postgres_test

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/internal/testing/storetest"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// The benchmarks in this file are those of session/sqlite, on a server on the same
// machine: what a network adds comes on top, once for each call.

// durations are reported by their order.
type durations struct {
	mu  sync.Mutex
	all []time.Duration
}

func (d *durations) since(start time.Time) {
	took := time.Since(start)
	d.mu.Lock()
	d.all = append(d.all, took)
	d.mu.Unlock()
}

func (d *durations) report(b *testing.B, of string) {
	slices.Sort(d.all)
	for _, p := range []int{50, 99} {
		b.ReportMetric(float64(d.all[min(len(d.all)*p/100, len(d.all)-1)].Nanoseconds()), fmt.Sprintf("p%d-ns/%s", p, of))
	}
}

// BenchmarkAppend stores five events in one batch: one statement, one commit.
func BenchmarkAppend(b *testing.B) {
	s := open(b, servers.Database(b))
	key := session.ID("s")
	lease := acquire(b, s, key)
	var took durations
	b.ReportAllocs()
	for seq := int64(0); b.Loop(); seq += 5 {
		start := time.Now()
		if err := sessiontest.Append(b.Context(), s, key, seq, lease, storetest.Batch(seq, 5)...); err != nil {
			b.Fatal(err)
		}
		took.since(start)
	}
	took.report(b, "append")
}

// benchTurn makes the calls of a turn to the store: lease, five appends of one to
// three events, lease back.
func benchTurn(b *testing.B, s session.Store, key session.Key, took *durations) error {
	lease, err := sessiontest.Acquire(b.Context(), s, key, session.Self())
	if err != nil {
		return err
	}
	seq := lease.Head.Seq
	for _, n := range []int{2, 3, 1, 3, 2} {
		start := time.Now()
		if err := sessiontest.Append(b.Context(), s, key, seq, lease, storetest.Batch(seq, n)...); err != nil {
			return err
		}
		took.since(start)
		seq += int64(n)
	}
	return sessiontest.Release(b.Context(), s, key, lease)
}

func BenchmarkTurn(b *testing.B) {
	s := open(b, servers.Database(b))
	key := session.ID("s")
	var appends, turns durations
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		if err := benchTurn(b, s, key, &appends); err != nil {
			b.Fatal(err)
		}
		turns.since(start)
	}
	appends.report(b, "append")
	turns.report(b, "turn")
}

// BenchmarkTurns has many sessions write at the same time, and reports by how much a turn lets the
// server's write-ahead log and the database grow.
func BenchmarkTurns(b *testing.B) {
	for _, connections := range []int{4, 10, 30} {
		b.Run(fmt.Sprint("connections=", connections), func(b *testing.B) {
			url := servers.Database(b)
			s := open(b, url+fmt.Sprint("&pool_max_conns=", connections))
			const sizeSQL = "SELECT pg_database_size(current_database())"
			log, size := written(b, url), run(b, url, sizeSQL)
			b.ReportAllocs()
			b.SetParallelism(15) // times the number of processors
			ids := make(chan int, 1000)
			for i := range cap(ids) {
				ids <- i
			}
			var appends durations
			b.RunParallel(func(pb *testing.PB) {
				key := session.ID(fmt.Sprint(<-ids))
				for pb.Next() {
					if err := benchTurn(b, s, key, &appends); err != nil {
						b.Error(err)
						return
					}
				}
			})
			appends.report(b, "append")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "turns/s")
			b.ReportMetric(float64(written(b, url)-log)/float64(b.N), "wal-B/turn")
			before := must.Get(strconv.ParseInt(size, 10, 64))
			after := must.Get(strconv.ParseInt(run(b, url, sizeSQL), 10, 64))
			b.ReportMetric(float64(after-before)/float64(b.N), "database-B/turn")
		})
	}
}

// BenchmarkRunner runs turns of a tree that hands over, looks things up and answers.
func BenchmarkRunner(b *testing.B) {
	s := open(b, servers.Database(b))
	r := newRunner(b, s)
	var took durations
	events := 0
	for n := 0; b.Loop(); n++ {
		start := time.Now()
		out, err := turn(b.Context(), r, session.ID(fmt.Sprint(n/10)), "I was charged twice")
		if err != nil {
			b.Fatal(err)
		}
		took.since(start)
		events += len(out)
	}
	took.report(b, "turn")
	b.ReportMetric(float64(events)/float64(b.N), "events/turn")
}

// BenchmarkLoad reads the log of 4,000 turns, and in turns with it the bytes of the same rows,
// without making events of them. What a load costs more than that is x-bare.
func BenchmarkLoad(b *testing.B) {
	const events = 20_000
	url := servers.Database(b)
	s := open(b, url)
	key := session.ID("s")
	lease := acquire(b, s, key)
	for seq := int64(0); seq < events; seq += 500 {
		log := storetest.Batch(seq, 500)
		for i, e := range log {
			switch i % 5 {
			case 0:
				e.Agent, e.Path, e.Data = "user", "", &event.User{Content: llm.Content{Text: "I was charged twice for order 7."}}
			case 1:
				e.ParentID, e.Data = "r1:user", &event.HarnessStart{AgentID: e.Agent}
			case 3:
				e.Data = &event.Usage{InputTokens: 900, OutputTokens: 40}
			case 4:
				e.Data = &event.HarnessEnd{AgentID: e.Agent, FinishReason: event.FinishReasonStop}
			}
		}
		require.NoError(b, sessiontest.Append(b.Context(), s, key, seq, lease, log...))
	}
	conn := must.Get(pgx.Connect(b.Context(), url))
	defer conn.Close(b.Context())
	var loads, bare durations
	b.ReportAllocs()
	for b.Loop() {
		start, n := time.Now(), 0
		for _, err := range s.Load(b.Context(), key, 0) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		loads.since(start)
		if n != events {
			b.Fatal(n)
		}
		b.StopTimer()
		start = time.Now()
		rows := must.Get(conn.Query(b.Context(), "SELECT seq, line FROM arbor.log ORDER BY session, seq"))
		for ; rows.Next(); n-- {
			if len(rows.RawValues()[1]) == 0 {
				b.Fatal("an empty row")
			}
		}
		require.NoError(b, rows.Err())
		require.Zero(b, n)
		bare.since(start)
		b.StartTimer()
	}
	bare.report(b, "bare")
	loads.report(b, "load")
	b.ReportMetric(float64(loads.all[len(loads.all)/2])/float64(bare.all[len(bare.all)/2]), "x-bare")
}

// BenchmarkFork forks sessions of different lengths at their ends, and reports what
// the server writes for it.
func BenchmarkFork(b *testing.B) {
	for _, length := range []int64{10, 10_000} {
		b.Run(fmt.Sprint("events=", length), func(b *testing.B) {
			url := servers.Database(b)
			s := open(b, url)
			key := session.ID("s")
			lease := acquire(b, s, key)
			for seq := int64(0); seq < length; seq += min(500, length) {
				require.NoError(b, sessiontest.Append(b.Context(), s, key, seq, lease, storetest.Batch(seq, int(min(500, length)))...))
			}
			require.NoError(b, s.Fork(b.Context(), key, length, session.ID("first")))
			run(b, url, "CHECKPOINT")
			run(b, url, "INSERT INTO arbor.session (app) VALUES (NULL)") // so that the pages are in the log
			require.NoError(b, s.Fork(b.Context(), key, length, session.ID("second")))
			before := written(b, url)
			var took durations
			n := 0
			for ; b.Loop(); n++ {
				start := time.Now()
				if err := s.Fork(b.Context(), key, length, session.ID(fmt.Sprint("fork", n))); err != nil {
					b.Fatal(err)
				}
				took.since(start)
			}
			took.report(b, "fork")
			b.ReportMetric(float64(written(b, url)-before)/float64(n), "wal-B/fork")
		})
	}
}

// BenchmarkOpen opens a database that is there.
func BenchmarkOpen(b *testing.B) {
	url := servers.Database(b)
	open(b, url)
	b.ReportAllocs()
	for b.Loop() {
		if err := open(b, url).Close(); err != nil {
			b.Fatal(err)
		}
	}
}
