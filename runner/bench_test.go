package runner_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/race"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

const complaint = "I am charged twice for my subscription"

// chain returns the tree a0 → a1 → … → a(depth): every coordinator's model
// transfers to the next agent, the last one answers with the given text deltas.
func chain(b testing.TB, depth int, words ...string) agent.Agent {
	var below agent.Agent
	for i := depth; i >= 0; i-- {
		name := fmt.Sprintf("a%d", i)
		answer := scripted.Reply(scripted.Text(words...))
		var opts []llmagent.Option
		if below != nil {
			answer = scripted.Reply(scripted.Call(agent.TransferTool, fmt.Sprintf(`{"agent_name":"a%d"}`, i+1)))
			opts = append(opts, llmagent.WithSubAgents(below))
		}
		a := must.Get(llmagent.New(name, "You are "+name+".", scripted.Always(name, answer), opts...))
		below = a
	}
	return below
}

// delegation returns a coordinator whose model calls a specialist as a tool, and then
// answers.
func delegation(b testing.TB) agent.Agent {
	specialist := must.Get(agenttool.New(chain(b, 0, "There are two charges.")))
	call := scripted.Reply(scripted.Call(specialist.Info().Name, `{"input":"`+complaint+`"}`))
	answer := scripted.Reply(scripted.Text("I see two charges and refund one."))
	model := scripted.Func("coordinator", func(req *llm.Request) scripted.Answer {
		if req.Messages[len(req.Messages)-1].Role == llm.RoleTool {
			return answer
		}
		return call
	})
	return must.Get(llmagent.New("coordinator", "You are coordinator.", model, llmagent.WithTools(specialist)))
}

func turn(b testing.TB, r *runner.Runner, key session.Key) (last *event.Event) {
	for e, err := range r.Run(context.Background(), key, llm.UserText(complaint)) {
		if err != nil {
			b.Fatal(err)
		}
		last = e
	}
	return last
}

// BenchmarkTransferTurn measures one turn of a new session: the root hands over
// level by level, the last agent answers one sentence.
func BenchmarkTransferTurn(b *testing.B) {
	for _, depth := range []int{1, 8} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			firstTurns(b, chain(b, depth, "I see two charges and refund one."))
		})
	}
}

// BenchmarkAgentTool measures one turn of a new session: the coordinator calls an agent
// as a tool, and answers when that one has.
func BenchmarkAgentTool(b *testing.B) { firstTurns(b, delegation(b)) }

func firstTurns(b *testing.B, root agent.Agent) {
	store := session.NewMemory()
	r := newRunner(b, root, store, runner.WithCache(1))
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		key := session.ID(fmt.Sprint("s", i))
		i++
		turn(b, r, key)
		if i%100 == 0 { // what earlier sessions left in memory is not this one's cost
			b.StopTimer()
			store = session.NewMemory()
			r = newRunner(b, root, store, runner.WithCache(1))
			b.StartTimer()
		}
	}
}

// past returns the events of a session of so many turns: a transfer to a1 in
// the first, plain answers of a1 then.
func past(b testing.TB, root agent.Agent, turns int) []*event.Event {
	store := session.NewMemory()
	r := newRunner(b, root, store)
	key := session.ID("past")
	for range turns {
		turn(b, r, key)
	}
	return must.All(store.Load(context.Background(), key, 0))
}

// putBack stores a session's past under a new key and runs one more turn of it, after which
// it is warm as any session that is in use.
func putBack(b testing.TB, r *runner.Runner, store session.Store, key session.Key, events []*event.Event) {
	ctx := context.Background()
	lease := must.Get(sessiontest.Acquire(ctx, store, key, session.Owner{}))
	if err := sessiontest.Append(ctx, store, key, 0, lease, events...); err != nil {
		b.Fatal(err)
	}
	if err := sessiontest.Release(ctx, store, key, lease); err != nil {
		b.Fatal(err)
	}
	turn(b, r, key)
}

// BenchmarkResumeTurn measures one more turn on a warm session of exactly so
// many turns. A turn leaves one more behind, so each measured turn gets a
// session of its own; they are put back outside the timer, some at a time, and
// the garbage of doing so is collected there too.
func BenchmarkResumeTurn(b *testing.B) {
	const batch = 50
	for _, history := range []int{10, 100, 1000, 4000} {
		b.Run(fmt.Sprintf("history=%d", history), func(b *testing.B) {
			root := chain(b, 1, "I see two charges and refund one.")
			events := past(b, root, history-1)
			store := session.NewMemory()
			r := newRunner(b, root, store, runner.WithCache(batch))
			keys := make([]session.Key, batch)
			b.ReportAllocs()
			b.ResetTimer()
			for done := 0; done < b.N; done += batch {
				b.StopTimer()
				todo := keys[:min(batch, b.N-done)]
				for i := range todo {
					if err := store.Delete(context.Background(), keys[i]); err != nil {
						b.Fatal(err)
					}
					keys[i] = session.ID(fmt.Sprint("s", done+i))
					putBack(b, r, store, keys[i], events)
				}
				runtime.GC()
				b.StartTimer()
				for _, key := range todo {
					turn(b, r, key)
				}
			}
		})
	}
}

// BenchmarkNextTurn measures the turns of one session that goes on, behind a past of so many.
func BenchmarkNextTurn(b *testing.B) {
	for _, history := range []int{10, 1000, 4000} {
		b.Run(fmt.Sprintf("history=%d", history), func(b *testing.B) {
			root := chain(b, 1, "I see two charges and refund one.")
			store, key := session.NewMemory(), session.ID("one")
			r := newRunner(b, root, store)
			putBack(b, r, store, key, past(b, root, history-1))
			b.ReportAllocs()
			for b.Loop() {
				turn(b, r, key)
			}
		})
	}
}

// BenchmarkStream1000 measures a transfer and a streamed answer of 1,000 deltas.
func BenchmarkStream1000(b *testing.B) {
	words := make([]string, 1000)
	for i := range words {
		words[i] = "word "
	}
	root := chain(b, 1, words...)
	b.ReportAllocs()
	i := 0
	store := session.NewMemory()
	r := newRunner(b, root, store, runner.WithStreaming(), runner.WithCache(1))
	for b.Loop() {
		key := session.ID(fmt.Sprint("s", i))
		i++
		partial := 0
		for e, err := range r.Run(context.Background(), key, llm.UserText(complaint)) {
			if err != nil {
				b.Fatal(err)
			}
			if e.Partial {
				partial++
			}
		}
		if partial != 1000 {
			b.Fatalf("%d deltas", partial)
		}
		if i%100 == 0 { // what earlier sessions left in memory is not this one's cost
			b.StopTimer()
			store = session.NewMemory()
			r = newRunner(b, root, store, runner.WithStreaming(), runner.WithCache(1))
			b.StartTimer()
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/chunk")
}

// BenchmarkPingPong measures one turn in which two agents transfer the conversation to each other so many times, without
// limits. They say a word first: only one transfer a turn can go to a parent without one.
func BenchmarkPingPong(b *testing.B) {
	for _, hops := range []int{200, 1600} {
		b.Run(fmt.Sprintf("hops=%d", hops), func(b *testing.B) {
			left := 0
			model := func(name, other string) llm.Model {
				hand := scripted.Reply(scripted.Text("Yours."), scripted.Call(agent.TransferTool, fmt.Sprintf(`{"agent_name":%q}`, other)))
				done := scripted.Reply(scripted.Text("Enough."))
				return scripted.Func(name, func(*llm.Request) scripted.Answer {
					if left--; left < 0 {
						return done
					}
					return hand
				})
			}
			pong := must.Get(llmagent.New("pong", "Pong.", model("pong", "ping"), llmagent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToParent: true})))
			ping := must.Get(llmagent.New("ping", "Ping.", model("ping", "pong"), llmagent.WithSubAgents(pong),
				llmagent.WithTransferPolicy(agent.TransferPolicy{})))
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				left = hops
				store := session.NewMemory()
				r := newRunner(b, ping, store, runner.WithLimits(runner.Limits{Transfers: runner.NoLimit, ModelCalls: runner.NoLimit, ToolCalls: runner.NoLimit}), runner.WithCache(1))
				i++
				last := turn(b, r, session.ID("s"))
				if _, ok := last.Data.(*event.HarnessEnd); !ok || left != -1 {
					b.Fatalf("%d hops are left", left)
				}
			}
		})
	}
}

// BenchmarkSessionBytes measures what stays in memory of a session of 5 turns:
// in the store alone, and with the runner's cache.
func BenchmarkSessionBytes(b *testing.B) {
	const sessions = 2000
	measure := func(cached int) float64 {
		root := chain(b, 1, "I see two charges and refund one.")
		store := session.NewMemory()
		r := newRunner(b, root, store, runner.WithCache(cached))
		before := heap()
		for i := range sessions {
			key := session.ID(fmt.Sprint("s", i))
			for range 5 {
				turn(b, r, key)
			}
		}
		after := heap()
		runtime.KeepAlive(store)
		runtime.KeepAlive(r)
		return float64(after-before) / sessions
	}
	var store, both float64
	for range b.N {
		store = measure(0)
		both = measure(sessions)
	}
	b.ReportMetric(store, "store-B/session")
	b.ReportMetric(both, "cached-B/session")
}

func heap() int64 {
	for range 3 { // what pools keep goes with the second one
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestAllocationBudget holds the hot paths to their budgets; allocations, unlike
// times, are the same on every machine.
func TestAllocationBudget(t *testing.T) {
	words := strings.SplitAfter(strings.Repeat("word ", 1000), " ")[:1000]
	for _, c := range []struct {
		name   string
		root   agent.Agent
		opts   []runner.Option
		budget float64
	}{
		{"transfer turn", chain(t, 1, "I see two charges."), nil, 140},
		{"routed turn", ruled(t), nil, 140},
		{"eight levels deep", chain(t, 8, "I see two charges."), nil, 560},
		{"agent tool", delegation(t), nil, 310},
		{"1,000 chunks", chain(t, 1, words...), []runner.Option{runner.WithStreaming()}, 1300},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := session.NewMemory()
			r := newRunner(t, c.root, store, append(c.opts, runner.WithCache(1))...)
			i := 0
			allocs := race.Allocations(t, 200, func() {
				i++
				turn(t, r, session.ID(fmt.Sprint("s", i)))
			})
			t.Logf("%.0f allocations", allocs)
			if allocs > c.budget {
				t.Errorf("%.0f allocations, the budget is %.0f", allocs, c.budget)
			}
		})
	}
}

// TestCostDoesNotGrowWithHistory compares the allocations of one more turn on a
// short and on a long session.
func TestCostDoesNotGrowWithHistory(t *testing.T) {
	root := chain(t, 1, "I see two charges and refund one.")
	cost := func(history int) float64 {
		events := past(t, root, history-1)
		store := session.NewMemory()
		r := newRunner(t, root, store)
		var keys []session.Key
		for i := range 21 { // one for the call that AllocsPerRun does not count
			keys = append(keys, session.ID(fmt.Sprint("s", i)))
			putBack(t, r, store, keys[i], events)
		}
		return race.Allocations(t, 20, func() {
			turn(t, r, keys[0])
			keys = keys[1:]
		})
	}
	short, long := cost(10), cost(1000)
	t.Logf("%.0f allocations behind 10 turns, %.0f behind 1,000", short, long)
	require.InDelta(t, short, long, 2)
	require.LessOrEqual(t, long, 60.0)
}
