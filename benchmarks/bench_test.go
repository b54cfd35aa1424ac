package benchmarks

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/agentarbor/arbor/benchmarks/internal/cputime"
)

// perFramework runs a benchmark on each framework.
func perFramework(b *testing.B, run func(*testing.B, Framework)) {
	for _, f := range All() {
		b.Run("framework="+f.Name, func(b *testing.B) { run(b, f) })
	}
}

func build(b *testing.B, f Framework, s *Scenario) System {
	system, err := f.build(s)
	must(b, err)
	return system
}

func must(b *testing.B, err error) {
	if err != nil {
		b.Fatal(err)
	}
}

// turn runs a turn and fails if anything but the expected reply comes out.
func turn(b *testing.B, system System, session string, want Reply) {
	got, err := system.Turn(context.Background(), session, Message)
	must(b, err)
	if got != want {
		b.Fatalf("%+v, want %+v", got, want)
	}
}

// newSessions measures a turn that is the first of its session. The store is
// emptied every 1,000 sessions, outside the measurement.
func newSessions(b *testing.B, f Framework, s *Scenario, want Reply, calls int) {
	sessions(b, f, s, calls, func(system System, session string) { turn(b, system, session, want) })
}

// sessions measures do, for each of many sessions.
func sessions(b *testing.B, f Framework, s *Scenario, calls int, do func(System, string)) {
	system := build(b, f, s)
	b.ReportAllocs()
	i, used := 0, cputime.Used()
	for b.Loop() {
		do(system, fmt.Sprint("s", i))
		i++
		if i%1000 == 0 {
			b.StopTimer()
			must(b, system.Forget())
			b.StartTimer()
		}
	}
	b.ReportMetric(float64(cputime.Used()-used)/float64(i), "cpu-ns/op")
	if s.Calls != i*calls {
		b.Fatalf("models were asked %d times in %d turns, want %d a turn", s.Calls, i, calls)
	}
}

// BenchmarkTransferTurn: the root hands over level by level, and the last agent
// answers one sentence.
func BenchmarkTransferTurn(b *testing.B) {
	perFramework(b, func(b *testing.B, f Framework) {
		for _, depth := range []int{1, 8} {
			b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
				newSessions(b, f, Chain(depth, Sentence), Reply{Agent: fmt.Sprintf("a%d", depth), Text: Sentence}, depth+1)
			})
		}
	})
}

// BenchmarkStream: after a transfer, the specialist answers in 1,000 pieces,
// each of which reaches the user.
func BenchmarkStream(b *testing.B) {
	perFramework(b, func(b *testing.B, f Framework) {
		b.Run("chunks=1000", func(b *testing.B) {
			s := Streamed(1000)
			newSessions(b, f, s, Reply{Agent: "a1", Text: s.answer("a1").Text, Pieces: 1000}, 2)
		})
	})
}

// hops are the lengths of ping-pong that a framework runs in bearable time.
var hops = map[string][]int{"arbor": {200, 1600}, "adk": {200}, "eino": {200}, "trpc": {200}}

// BenchmarkPingPong: two agents hand the conversation to and fro in one turn.
func BenchmarkPingPong(b *testing.B) {
	perFramework(b, func(b *testing.B, f Framework) {
		for _, n := range hops[f.Name] {
			b.Run(fmt.Sprintf("hops=%d", n), func(b *testing.B) {
				newSessions(b, f, PingPong(n), Reply{Agent: "ping", Text: Sentence}, n+1)
			})
		}
	})
}

// histories are the lengths of session that a framework builds in bearable time.
var histories = map[string][]int{"arbor": {10, 100, 1000, 4000}, "adk": {10, 100, 1000, 4000}, "eino": {10, 100, 1000, 4000}, "trpc": {10, 100, 1000}}

// BenchmarkNextTurn: the specialist answers in a session that has so many turns
// already, and whatever a framework keeps of a session in memory is there.
func BenchmarkNextTurn(b *testing.B) {
	perFramework(b, func(b *testing.B, f Framework) { nextTurn(b, f, true) })
}

// BenchmarkNextTurnCold: the same, in a process that has not seen the session.
// Only Arbor makes a difference; the others do the same work in every turn.
func BenchmarkNextTurnCold(b *testing.B) {
	b.Run("framework=arbor", func(b *testing.B) { nextTurn(b, All()[0], false) })
}

// nextTurn gives each measured turn a session of its own, because a turn leaves
// one more behind. They are put back some at a time, and the garbage of doing so
// is collected, outside the measurement.
func nextTurn(b *testing.B, f Framework, warm bool) {
	const batch = 20
	clear(pasts) // those of another framework would only burden the garbage collector
	for _, history := range histories[f.Name] {
		b.Run(fmt.Sprintf("history=%d", history), func(b *testing.B) {
			ctx := context.Background()
			s := Chain(1, Sentence)
			system := build(b, f, s)
			want := Reply{Agent: "a1", Text: Sentence}
			past := past(b, system, history, want)
			b.ReportAllocs()
			b.ResetTimer()
			for done := 0; done < b.N; done += batch {
				b.StopTimer()
				todo := min(batch, b.N-done)
				must(b, system.Forget())
				for i := range todo {
					must(b, system.PutBack(ctx, fmt.Sprint("s", i), past))
					if warm {
						must(b, system.Warm(ctx, fmt.Sprint("s", i)))
					}
				}
				s.Calls = 0
				runtime.GC()
				b.StartTimer()
				for i := range todo {
					turn(b, system, fmt.Sprint("s", i), want)
					if s.Seen < 2*history+1 {
						b.Fatalf("the model saw %d messages of %d turns", s.Seen, history)
					}
				}
				if s.Calls != todo {
					b.Fatalf("models were asked %d times in %d turns", s.Calls, todo)
				}
			}
		})
	}
}

// pasts keeps what a session of so many turns holds, because making it takes
// longer than measuring it, and b.Run calls its function several times.
var pasts = map[string]Past{}

// past runs so many turns: a transfer and an answer in the first, then plain
// answers of the specialist.
func past(b *testing.B, system System, turns int, want Reply) Past {
	name := fmt.Sprintf("%T %d", system, turns)
	if p, ok := pasts[name]; ok {
		return p
	}
	for range turns {
		turn(b, system, "past", want)
	}
	p, err := system.Past(context.Background(), "past")
	must(b, err)
	pasts[name] = p
	return p
}
