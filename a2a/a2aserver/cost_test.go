package a2aserver_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/race"
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

// newPeer serves a tree on loopback.
func newPeer(t testing.TB, root agent.Agent) *httptest.Server {
	t.Helper()
	s := must.Get(a2aserver.New(root, session.NewMemory(), a2aserver.WithoutPush()))
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		require.NoError(t, s.Close(context.Background()))
	})
	return server
}

// newRunner returns a runner for a remote agent.
func newRunner(t testing.TB, url string, transport *http.Transport) *runner.Runner {
	t.Helper()
	t.Cleanup(transport.CloseIdleConnections)
	root := must.Get(a2a.Remote("billing", url, a2a.WithHTTPClient(&http.Client{Transport: transport})))
	return must.Get(runner.New(root, session.NewMemory(), runner.WithCache(1), runner.WithStreaming()))
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
	one, many := newPeer(t, answers(t, "I see two charges.")), newPeer(t, answers(t, words...))
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
func conversation(t testing.TB, p *httptest.Server) func() {
	r := newRunner(t, p.URL, &http.Transport{})
	i := 0
	return func() {
		i++
		turn(t, r, session.ID("s"+strconv.Itoa(i)))
	}
}
