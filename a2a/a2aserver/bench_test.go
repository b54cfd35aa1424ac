package a2aserver_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/internal/race"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// answers is an agent that gives the same answer every time.
func answers(t testing.TB, words ...string) agent.Agent {
	t.Helper()
	return must.Get(llmagent.New("billing", "You refund.", scripted.Always("billing", scripted.Reply(scripted.Text(words...)))))
}

// peer is a server on loopback whose store and server can be changed for fresh ones, so
// that what earlier calls left in memory is no later call's cost.
type peer struct {
	*httptest.Server
	root    agent.Agent
	now     atomic.Pointer[a2aserver.Server]
	cards   atomic.Int64
	streams bool
}

func newPeer(t testing.TB, root agent.Agent, streams bool) *peer {
	t.Helper()
	p := &peer{root: root, streams: streams}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "agent-card.json") {
			p.cards.Add(1)
			if !p.streams {
				rec := httptest.NewRecorder()
				p.now.Load().ServeHTTP(rec, r)
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(strings.Replace(rec.Body.String(), `"streaming":true`, `"streaming":false`, 1)))
				return
			}
		}
		p.now.Load().ServeHTTP(w, r)
	}))
	p.fresh(t)
	t.Cleanup(func() {
		p.Server.CloseClientConnections()
		p.Server.Close()
		require.NoError(t, p.now.Load().Close(context.Background()))
	})
	return p
}

func (p *peer) fresh(t testing.TB) {
	t.Helper()
	s := must.Get(a2aserver.New(p.root, session.NewMemory(), a2aserver.WithoutPush()))
	if old := p.now.Swap(s); old != nil {
		require.NoError(t, old.Close(context.Background()))
	}
}

// client is the SDK's own client of a peer's JSON-RPC.
func (p *peer) client(t testing.TB) *a2aclient.Client {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 1000}
	t.Cleanup(transport.CloseIdleConnections)
	return must.Get(a2aclient.NewFromEndpoints(context.Background(), []*sdk.AgentInterface{{URL: p.URL + "/rpc", ProtocolBinding: sdk.TransportProtocolJSONRPC, ProtocolVersion: sdk.Version}},
		a2aclient.WithJSONRPCTransport(&http.Client{Transport: transport})))
}

func (p *peer) node(t testing.TB) agent.Agent {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 1000}
	t.Cleanup(transport.CloseIdleConnections)
	return must.Get(a2a.Remote("billing", p.URL, a2a.WithHTTPClient(&http.Client{Transport: transport})))
}

func newRunner(t testing.TB, root agent.Agent, streams bool) *runner.Runner {
	t.Helper()
	opts := []runner.Option{runner.WithCache(1)}
	if streams {
		opts = append(opts, runner.WithStreaming())
	}
	return must.Get(runner.New(root, session.NewMemory(), opts...))
}

const complaint = "I am charged twice for my subscription"

func askParts() *sdk.SendMessageRequest {
	return &sdk.SendMessageRequest{Message: sdk.NewMessage(sdk.MessageRoleUser, sdk.NewTextPart(complaint))}
}

// turn runs a turn of a runner and requires an answer.
func turn(t testing.TB, r *runner.Runner, key session.Key) {
	answered := false
	for e, err := range r.Run(context.Background(), key, llm.UserText(complaint)) {
		if err != nil {
			t.Fatal(err)
		}
		answered = answered || e.Type() == event.TypeText && !e.Partial
	}
	if !answered {
		t.Fatal("no answer")
	}
}

// BenchmarkHop measures one turn of a new session whose agent stands behind a server on
// loopback, beside a bare call of the same server with the client of the protocol's SDK,
// and beside the same turn without a server in between. Streamed answers have 50 pieces.
func BenchmarkHop(b *testing.B) {
	fifty := strings.SplitAfter(strings.Repeat("word ", 50), " ")[:50]
	for _, mode := range []struct {
		name    string
		streams bool
		words   []string
	}{{"unary", false, []string{"I see two charges and refund one."}}, {"stream", true, fifty}} {
		p := newPeer(b, answers(b, mode.words...), mode.streams)
		// every runs f with fresh stores every so often.
		every := func(b *testing.B, fresh func(), f func(i int)) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				f(i)
				if i++; i%200 == 0 {
					b.StopTimer()
					fresh()
					p.fresh(b)
					b.StartTimer()
				}
			}
		}
		b.Run(mode.name+"/client", func(b *testing.B) {
			c := p.client(b)
			every(b, func() {}, func(int) {
				if !mode.streams {
					if _, err := c.SendMessage(context.Background(), askParts()); err != nil {
						b.Fatal(err)
					}
					return
				}
				for _, err := range c.SendStreamingMessage(context.Background(), askParts()) {
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		})
		b.Run(mode.name+"/node", func(b *testing.B) {
			root := p.node(b)
			r := newRunner(b, root, mode.streams)
			every(b, func() { r = newRunner(b, root, mode.streams) }, func(i int) { turn(b, r, session.ID("s"+strconv.Itoa(i))) })
		})
		b.Run(mode.name+"/local", func(b *testing.B) {
			r := newRunner(b, p.root, mode.streams)
			every(b, func() { r = newRunner(b, p.root, mode.streams) }, func(i int) { turn(b, r, session.ID("s"+strconv.Itoa(i))) })
		})
	}
}

// past makes a session of so many turns, and returns a server of it and the ids of its
// first and its last task.
func past(t testing.TB, turns int) (s *a2aserver.Server, first, last *sdk.Task) {
	t.Helper()
	s = must.Get(a2aserver.New(answers(t, "I see two charges."), session.NewMemory(), a2aserver.WithoutPush()))
	t.Cleanup(func() { require.NoError(t, s.Close(context.Background())) })
	for i := range turns {
		req := askParts()
		if i > 0 {
			req.Message.ContextID = first.ContextID
		}
		last = send(t, s, req)
		if i == 0 {
			first = last
		}
	}
	return s, first, last
}

func send(t testing.TB, s *a2aserver.Server, req *sdk.SendMessageRequest) *sdk.Task {
	res, err := s.RequestHandler().SendMessage(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	task := res.(*sdk.Task)
	if task.Status.State != sdk.TaskStateCompleted {
		t.Fatalf("the task is %s", task.Status.State)
	}
	return task
}

// operations are what is done with a session that has a past.
var operations = []struct {
	name string
	do   func(t testing.TB, s *a2aserver.Server, first, last *sdk.Task)
}{
	{"GetTask/first", func(t testing.TB, s *a2aserver.Server, first, _ *sdk.Task) { get(t, s, first) }},
	{"GetTask/last", func(t testing.TB, s *a2aserver.Server, _, last *sdk.Task) { get(t, s, last) }},
	{"SendMessage", func(t testing.TB, s *a2aserver.Server, first, _ *sdk.Task) {
		req := askParts()
		req.Message.ContextID = first.ContextID
		send(t, s, req)
	}},
	{"ListTasks/warm", func(t testing.TB, s *a2aserver.Server, _, _ *sdk.Task) { listTasks(t, s) }},
}

func get(t testing.TB, s *a2aserver.Server, task *sdk.Task) {
	if _, err := s.RequestHandler().GetTask(context.Background(), &sdk.GetTaskRequest{ID: task.ID}); err != nil {
		t.Fatal(err)
	}
}

func listTasks(t testing.TB, s *a2aserver.Server) {
	if _, err := s.RequestHandler().ListTasks(context.Background(), &sdk.ListTasksRequest{PageSize: 20}); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkTaskAfterManyTurns measures what is done with one task of a session that has
// a past of so many turns.
func BenchmarkTaskAfterManyTurns(b *testing.B) {
	for _, turns := range []int{10, 1000, 10000} {
		s, first, last := past(b, turns)
		for _, op := range operations {
			b.Run(fmt.Sprintf("%s/turns=%d", op.name, turns), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					op.do(b, s, first, last)
				}
			})
		}
	}
}

// cost is what something allocates, in objects and in bytes.
func cost(do func()) (objects, bytes float64) {
	do()
	const runs = 50
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		do()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / runs, float64(after.TotalAlloc-before.TotalAlloc) / runs
}

// TestCostDoesNotGrowWithTheSession compares the allocations of the same operations on a
// short and on a long session.
func TestCostDoesNotGrowWithTheSession(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates on its own")
	}
	short, shortFirst, shortLast := past(t, 10)
	long, longFirst, longLast := past(t, 1000)
	for _, op := range operations {
		t.Run(op.name, func(t *testing.T) {
			few, small := cost(func() { op.do(t, short, shortFirst, shortLast) })
			many, large := cost(func() { op.do(t, long, longFirst, longLast) })
			t.Logf("%.0f allocations of %.0f bytes after 10 turns, %.0f of %.0f after 1,000", few, small, many, large)
			require.InDelta(t, few, many, 0.05*few+3)
			require.Less(t, large, 1.5*small+2000)
		})
	}
}

// TestAllocationBudget holds the hot paths to their budgets; allocations, unlike times,
// are the same on every machine.
func TestAllocationBudget(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates on its own")
	}
	words := strings.SplitAfter(strings.Repeat("word ", 100), " ")[:100]
	one, many := newPeer(t, answers(t, "I see two charges."), true), newPeer(t, answers(t, words...), true)
	s, first, last := past(t, 10)
	shortTurn, longTurn := conversation(t, one), conversation(t, many)
	for _, c := range []struct {
		name   string
		budget float64
		do     func()
	}{
		{"GetTask", 70, func() { get(t, s, last) }},
		{"SendMessage", 360, func() {
			req := askParts()
			req.Message.ContextID = first.ContextID
			send(t, s, req)
		}},
		{"a turn of a node, streamed", 1700, shortTurn},
		{"100 pieces through a node", 15000, longTurn},
	} {
		t.Run(c.name, func(t *testing.T) {
			allocs := race.Allocations(t, 50, c.do)
			t.Logf("%.0f allocations", allocs)
			if allocs > c.budget {
				t.Errorf("%.0f allocations, the budget is %.0f", allocs, c.budget)
			}
		})
	}
}

// conversation returns what runs a turn of a new session of a node that has its card.
func conversation(t testing.TB, p *peer) func() {
	r := newRunner(t, p.node(t), true)
	i := 0
	return func() {
		i++
		turn(t, r, session.ID("s"+strconv.Itoa(i)))
	}
}
