package conversation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/conversation"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

// improviser is a model that says and does whatever chance wants: words and
// thoughts in any order, several calls at once, transfers, streams that break off
// or fail. It is safe for concurrent use, as agents run side by side.
type improviser struct {
	name    string
	targets []string // it may hand over to
	chance  *chance
}

// chance is a source of random numbers that goroutines share. Which of them comes
// first is not in its hands, so that a run cannot be repeated exactly; what is
// checked has to hold for all.
type chance struct {
	mu    sync.Mutex
	rng   *rand.Rand
	calls int // made so far, if every call shall have an id of its own
}

// callID is an id as endpoints give them: some use the same ones again and again.
func (c *chance) callID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == 0 {
		return fmt.Sprint("k", c.rng.IntN(6))
	}
	c.calls++
	return fmt.Sprint("k", c.calls)
}

func (c *chance) n(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rng.IntN(n)
}

func (m *improviser) Name() string { return m.name }

func (m *improviser) Generate(_ context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		for range m.chance.n(5) {
			chunk := llm.Chunk{Text: fmt.Sprintf("%s says %d. ", m.name, m.chance.n(100))}
			if m.chance.n(2) == 0 {
				chunk = llm.Chunk{Reasoning: "hm "}
			}
			if !yield(chunk, nil) {
				return
			}
			for range m.chance.n(4) {
				runtime.Gosched()
			}
		}
		switch m.chance.n(12) {
		case 0: // cut off
			return
		case 1:
			yield(llm.Chunk{}, &llm.Error{Code: llm.CodeTimeout, Retryable: m.chance.n(2) == 0, Message: "too slow"})
			return
		}
		finish := llm.FinishStop
		if !yield(llm.Chunk{Text: "Well. "}, nil) {
			return
		}
		if m.chance.n(3) > 0 {
			for range m.chance.n(4) {
				finish = llm.FinishToolCalls
				tool := req.Tools[m.chance.n(len(req.Tools))].Name
				args := `{"input":"go on"}`
				if tool == agent.TransferTool {
					args = fmt.Sprintf(`{"agent_name":%q}`, append(m.targets, "nobody")[m.chance.n(len(m.targets)+1)])
				}
				if !yield(llm.Chunk{Call: &llm.ToolCall{ID: m.chance.callID(), Name: tool, Arguments: args}}, nil) {
					return
				}
			}
		}
		yield(llm.Chunk{Finish: finish, Usage: &llm.Usage{InputTokens: 3, OutputTokens: 4}}, nil)
	}
}

// desk is a tree whose agents have tools that run side by side, agents as tools
// two levels deep, tools that report progress and one that waits for an approval.
func desk(t *testing.T, c *chance) agent.Agent {
	type in struct {
		Input string `json:"input"`
	}
	look := must.Get(tools.Func("look", "Looks.", func(ctx tools.Context, _ in) (string, error) {
		ctx.Progress(50)
		runtime.Gosched()
		if c.n(5) == 0 {
			return "", errors.New("nothing to see")
		}
		return "seen", nil
	}))
	pay := must.Get(tools.Func("pay", "Pays.", func(tools.Context, in) (string, error) { return "paid", nil }, tools.NeedsApproval(tools.ByUser())))
	model := func(name string, targets ...string) llm.Model { return &improviser{name, targets, c} }
	clerk := must.Get(llmagent.New("clerk", "You look.", model("clerk"), llmagent.WithTools(look)))
	askClerk := must.Get(agenttool.New(clerk, agenttool.WithName("ask_clerk")))
	expert := must.Get(llmagent.New("expert", "You know.", model("expert"), llmagent.WithTools(look, askClerk)))
	askExpert := must.Get(agenttool.New(expert, agenttool.WithName("ask_expert")))
	billing := must.Get(llmagent.New("billing", "You bill.", model("billing", "support"), llmagent.WithTools(look, askExpert, pay),
		llmagent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToParent: true})))
	return must.Get(llmagent.New("support", "You route.", model("support", "billing"), llmagent.WithTools(look, askExpert, askClerk), llmagent.WithSubAgents(billing)))
}

// client reduces what it is given, and keeps what it needs to compare.
type client struct {
	live, whole *conversation.Graph
	last        int64 // seq
	waiting     []string
	ended       bool // what was delivered is all that was stored
	seen        map[string]int
}

func (c *client) take(e *event.Event) {
	c.live = c.live.Reduce(e)
	if !e.Partial {
		c.whole = c.whole.Reduce(e)
	}
	c.last = max(c.last, e.Seq)
	c.seen[e.Type()]++
	if e.Partial {
		c.seen["partial"]++
	}
	if e.Scope != "" {
		c.seen["scope"]++
	}
	if d, ok := e.Data.(*event.Relay); ok {
		c.waiting = append(c.waiting, d.ToolCallID)
	}
}

// turn consumes a turn, or its beginning: stop says after how many events the
// client goes away.
func (c *client) turn(t *testing.T, turn func(ctx context.Context) iter.Seq2[*event.Event, error], stop int) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c.ended, c.waiting = true, nil
	for e, err := range turn(ctx) {
		if err != nil {
			if !c.ended && errors.Is(err, context.Canceled) {
				return
			}
			var run *agent.RunError
			require.ErrorAs(t, err, &run)
			return
		}
		c.take(e)
		if stop--; stop == 0 {
			c.ended = false
			if e.Seq%2 == 0 {
				c.seen["cut"]++
				return
			}
			c.seen["canceled"]++
			cancel() // and take what still comes
		}
	}
}

// catchUp is a reconnect: the events that were stored and not delivered.
func (c *client) catchUp(t *testing.T, store session.Store, key session.Key) {
	for _, e := range must.All(store.Load(t.Context(), key, c.last)) {
		c.take(e)
	}
}

// TestLiveGraphIsStoredGraph runs random conversations with deltas, calls that run
// side by side, agents in agents, discarded attempts, failures, approvals,
// transfers, and clients that go away in the middle and come back. After every
// turn that was not cut off, the graph of the client is that of the log, byte for
// byte. Goroutines make every run another one, so that this is no rapid test: it
// could not repeat what failed.
func TestLiveGraphIsStoredGraph(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(60) {
		c := &chance{rng: rand.New(rand.NewPCG(seed, 1))}
		store, key := sessiontest.Memory(t), session.ID("s")
		r := must.Get(runner.New(desk(t, c), store, runner.WithStreaming(), runner.WithLimits(runner.Limits{Transfers: 4, ModelCalls: 20, ToolCalls: 30, Steps: 6})))
		resume := func(ctx context.Context) iter.Seq2[*event.Event, error] { return r.Resume(ctx, key) }
		me := &client{live: conversation.New(), whole: conversation.New(), seen: seen}
		for range 1 + c.n(4) {
			stop := -1
			if c.n(4) == 0 {
				stop = 1 + c.n(40)
			}
			me.turn(t, func(ctx context.Context) iter.Seq2[*event.Event, error] {
				return r.Run(ctx, key, llm.UserText("Hello"))
			}, stop)
			for range 3 {
				switch {
				case !me.ended && c.n(2) == 0:
					me.catchUp(t, store, key)
					if c.n(2) == 0 {
						me.turn(t, func(ctx context.Context) iter.Seq2[*event.Event, error] { return r.Adopt(ctx, key) }, -1)
					} else {
						me.turn(t, resume, -1)
					}
				case me.ended && len(me.waiting) > 0 && c.n(3) > 0:
					decisions := []runner.Decision{runner.Approve(me.waiting[0])}
					for _, id := range me.waiting[1:] {
						decisions = append(decisions, runner.Deny(id, "no"))
					}
					me.turn(t, func(ctx context.Context) iter.Seq2[*event.Event, error] {
						return r.Resume(ctx, key, decisions...)
					}, -1)
				}
			}
			me.catchUp(t, store, key)
			if me.ended {
				requireSameAsLog(t, me, store, key)
			}
		}
	}
	for _, what := range []string{"partial", event.TypeDiscard, event.TypeTransfer, event.TypeError, event.TypeRelayResolved, event.TypeToolProgress, "scope", "cut", "canceled"} {
		require.Positive(t, seen[what], what)
	}
}

func requireSameAsLog(t *testing.T, me *client, store session.Store, key session.Key) {
	stored, parsed := conversation.New(), conversation.New()
	for _, e := range must.All(store.Load(t.Context(), key, 0)) {
		stored = stored.Reduce(e)
		line := must.Get(json.Marshal(e))
		parsed = must.Get(parsed.ReduceJSON(line))
	}
	want := marshal(t, stored)
	require.Equal(t, want, marshal(t, me.whole), "without deltas")
	require.Equal(t, want, marshal(t, me.live), "with deltas")
	require.JSONEq(t, want, marshal(t, parsed), "read from JSON")
	thread := func(g *conversation.Graph) string {
		return marshal(t, conversation.Thread(g, conversation.Active{}, conversation.ThreadOptions{}))
	}
	require.Equal(t, thread(stored), thread(me.live))
	require.Equal(t, conversation.DAG(stored, conversation.Active{}), conversation.DAG(me.live, conversation.Active{}))
	require.Equal(t, stored.Hypergraph(), me.live.Hypergraph())
	requireTurns(t, store, key, stored)
	require.Equal(t, conversation.HypergraphOf(stored, conversation.Active{}), conversation.HypergraphOf(me.live, conversation.Active{}))
	nodes := slices.Collect(stored.Nodes())
	for i := 0; i < len(nodes); i += 1 + len(nodes)/5 {
		requirePathTravels(t, me.live, stored, nodes[i].ID)
	}
	messages := conversation.Messages(me.live, conversation.Active{})
	require.Equal(t, conversation.Messages(stored, conversation.Active{}), messages)
	require.NoError(t, view.Check(&llm.Request{Messages: append(slices.Clip(messages), llm.UserText("And?"))}))
}

// requirePathTravels makes a path on the graph of the client and takes it, as JSON,
// to that of the log.
func requirePathTravels(t *testing.T, live, stored *conversation.Graph, id string) {
	path := must.Get(conversation.Active{}.Branch(live, id))
	path = must.Get(path.Summarize(live, live.PathToRoot(id)[len(live.PathToRoot(id))-1].ID, "They greeted each other."))
	var there conversation.Active
	require.NoError(t, json.Unmarshal([]byte(marshal(t, path)), &there))
	require.Equal(t, conversation.Messages(live, path), conversation.Messages(stored, there))
	require.Equal(t, conversation.DAG(live, path), conversation.DAG(stored, there))
	require.Equal(t, path.Tip(live), there.Tip(stored))
	next := &event.Event{RunID: "next", ParentID: there.Tip(stored), Data: &event.User{Content: llm.Content{Text: "What else?"}}}
	require.Equal(t, conversation.DAG(live.Reduce(next), path), conversation.DAG(stored.Reduce(next), there), "what comes later")
}

func marshal(t *testing.T, v any) string {
	return string(must.Get(json.Marshal(v)))
}

// requireTurns requires that the messages of a log are its turns: what the user said,
// and the answer to it with the runs of all agents.
func requireTurns(t *testing.T, store session.Store, key session.Key, g *conversation.Graph) {
	turns := make(map[string]string) // by run
	for _, e := range must.All(store.Load(t.Context(), key, 0)) {
		if turns[e.RunID] == "" {
			turns[e.RunID] = "the answer in " + e.TurnID
		}
		if e.Type() == event.TypeUser {
			turns[e.RunID] = "the question in " + e.TurnID
		}
	}
	messages := make(map[string]string) // by turn
	for _, edge := range g.Hypergraph().Edges {
		if edge.Kind != conversation.BlockToMessage {
			continue
		}
		turn := turns[strings.TrimPrefix(edge.From[0], "block:")]
		require.NotContains(t, messages, turn, "%s is two messages", turn)
		messages[turn] = edge.To
		for _, block := range edge.From {
			require.Equal(t, turn, turns[strings.TrimPrefix(block, "block:")], "%s of %s", block, edge.To)
		}
	}
}
