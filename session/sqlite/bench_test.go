package sqlite_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
)

// batch makes n events of ordinary size that follow the position seq.
func batch(seq int64, n int) []*event.Event {
	events := make([]*event.Event, n)
	for i := range events {
		at := seq + int64(i) + 1
		events[i] = &event.Event{
			Seq: at, ID: fmt.Sprintf("e%d", at), TurnID: "t1", RunID: "r1", Agent: "billing", Path: "support/billing",
			Time: time.Unix(1_800_000_000, at).UTC(),
			Data: &event.Text{Content: "I see two charges of 24.90 on your card, both from the third of March. I have asked for one to be paid back."},
		}
	}
	return events
}

// times are durations that are asked for their order.
type times []time.Duration

func (t times) at(share float64) float64 {
	slices.Sort(t)
	return float64(t[min(int(share*float64(len(t))), len(t)-1)].Nanoseconds())
}

func (t times) report(b *testing.B) {
	b.ReportMetric(t.at(.5), "p50-ns")
	b.ReportMetric(t.at(.99), "p99-ns")
}

// BenchmarkAppend stores five events in one batch: one transaction, one fsync.
func BenchmarkAppend(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "bench.db"))
	key := session.ID("s")
	lease, err := sessiontest.Acquire(b.Context(), s, key, session.Self())
	require.NoError(b, err)
	var took times
	b.ReportAllocs()
	for seq := int64(0); b.Loop(); seq += 5 {
		events := batch(seq, 5)
		start := time.Now()
		if err := sessiontest.Append(b.Context(), s, key, seq, lease, events...); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	took.report(b)
}

// oneTurn makes the appends of a session's turn of a number, as the runner writes them: the user's message and
// the start of the run; the answer and the end. A transfer puts the call, the
// transfer with the end of the run, and the start of the next one in between.
func oneTurn(n, seq int64, transfer bool) [][]*event.Event {
	at := seq
	id := func(name string) string { return fmt.Sprintf("%s%d", name, n) }
	entry := func(run, who, parent string, data event.Data) *event.Event {
		at++
		return &event.Event{Seq: at, ID: fmt.Sprintf("e%d", at), TurnID: id("turn"), RunID: run, ParentID: parent, Agent: who, Path: who,
			Time: time.Unix(1_800_000_000, at).UTC(), Data: data}
	}
	user, a, b := id("user"), id("a"), id("b")
	before := ""
	switch {
	case n > 0 && transfer:
		before = fmt.Sprintf("b%d:harness_end", n-1)
	case n > 0:
		before = fmt.Sprintf("a%d:harness_end", n-1)
	}
	answer := func(run, who string) []*event.Event {
		return []*event.Event{entry(run, who, "", batch(0, 1)[0].Data), entry(run, who, "", &event.Usage{InputTokens: 900, OutputTokens: 40}),
			entry(run, who, "", &event.HarnessEnd{AgentID: who, FinishReason: event.FinishReasonStop})}
	}
	appends := [][]*event.Event{{entry(user, "user", before, &event.User{Content: llm.Content{Text: "I was charged twice for order 7."}}),
		entry(a, "support", user+":user", &event.HarnessStart{AgentID: "support"})}}
	if !transfer {
		return append(appends, answer(a, "support"))
	}
	return append(appends,
		[]*event.Event{entry(a, "support", "", &event.ToolCall{Name: agent.TransferTool, Input: []byte(`{"agent":"billing"}`)}),
			entry(a, "support", "", &event.Usage{InputTokens: 900, OutputTokens: 40})},
		[]*event.Event{entry(a, "support", "", &event.Transfer{From: "support", To: "billing", Outcome: event.TransferCommitted}),
			entry(a, "support", "", &event.HarnessEnd{AgentID: "support", FinishReason: event.FinishReasonTransfer, Target: "billing"})},
		[]*event.Event{entry(b, "billing", a+":harness_end", &event.HarnessStart{AgentID: "billing"})},
		answer(b, "billing"))
}

// BenchmarkTurn makes the calls of a turn to the store: lease, two or five
// appends, lease back.
func BenchmarkTurn(b *testing.B) {
	for name, transfer := range map[string]bool{"plain": false, "transfer": true} {
		b.Run(name, func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "bench.db"))
			key := session.ID("s")
			var took times
			b.ReportAllocs()
			for n, seq := int64(0), int64(0); b.Loop(); n++ {
				appends := oneTurn(n, seq, transfer)
				start := time.Now()
				lease, err := sessiontest.Acquire(b.Context(), s, key, session.Self())
				if err != nil {
					b.Fatal(err)
				}
				for _, events := range appends {
					if err := sessiontest.Append(b.Context(), s, key, seq, lease, events...); err != nil {
						b.Fatal(err)
					}
					seq += int64(len(events))
				}
				if err := sessiontest.Release(b.Context(), s, key, lease); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(start))
			}
			took.report(b)
		})
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
			lease, err := sessiontest.Acquire(b.Context(), s, key, session.Self())
			if err != nil {
				b.Error(err)
				return
			}
			for seq := lease.Head.Seq; seq < lease.Head.Seq+15; seq += 3 {
				if err := sessiontest.Append(b.Context(), s, key, seq, lease, batch(seq, 3)...); err != nil {
					b.Error(err)
					return
				}
			}
			if err := sessiontest.Release(b.Context(), s, key, lease); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkLoad reads the log of 4,000 turns, and in turns with it the bytes of the same rows,
// without making events of them. What a load costs more than that is x-bare.
func BenchmarkLoad(b *testing.B) {
	path := filepath.Join(b.TempDir(), "bench.db")
	s := open(b, path)
	key := session.ID("s")
	seq := logOf(b, s, key, 4000)
	db := raw(b, path)
	defer db.Close()
	stmt, err := db.Prepare("SELECT seq, line FROM log ORDER BY session, seq")
	require.NoError(b, err)
	defer stmt.Close()
	var loads, bare times
	b.ReportAllocs()
	for b.Loop() {
		start, n := time.Now(), int64(0)
		for _, err := range s.Load(b.Context(), key, 0) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		loads = append(loads, time.Since(start))
		if n != seq {
			b.Fatal(n)
		}
		b.StopTimer()
		start = time.Now()
		if rows, size := readBare(b, stmt); rows != seq || size == 0 {
			b.Fatal(rows)
		}
		bare = append(bare, time.Since(start))
		b.StartTimer()
	}
	b.ReportMetric(loads.at(.5)/float64(seq), "p50-ns/event")
	b.ReportMetric(loads.at(.5)/bare.at(.5), "x-bare")
}

func readBare(t testing.TB, stmt *sql.Stmt) (n, size int64) {
	rows, err := stmt.Query()
	require.NoError(t, err)
	defer rows.Close()
	var seq int64
	var line sql.RawBytes
	for rows.Next() {
		if err := rows.Scan(&seq, &line); err != nil {
			t.Fatal(err)
		}
		n, size = n+1, size+int64(len(line))
	}
	require.NoError(t, rows.Err())
	return n, size
}

// logOf makes a log of so many plain turns, and returns its length.
func logOf(t testing.TB, s *sqlite.Store, key session.Key, turns int64) (seq int64) {
	lease, err := sessiontest.Acquire(t.Context(), s, key, session.Self())
	require.NoError(t, err)
	for n := range turns {
		events := slices.Concat(oneTurn(n, seq, false)...)
		require.NoError(t, sessiontest.Append(t.Context(), s, key, seq, lease, events...))
		seq += int64(len(events))
	}
	require.NoError(t, sessiontest.Release(t.Context(), s, key, lease))
	return seq
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
