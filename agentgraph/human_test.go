package agentgraph_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// asked is a session in which a graph runs that asks for approvals.
type asked struct {
	t     *testing.T
	make  func() *agentgraph.Agent
	store session.Store
	key   session.Key
}

// process is a runner as another process would make it.
func (s *asked) process() *runner.Runner {
	return must.Get(runner.New(s.make(), s.store))
}

func (s *asked) resume(decisions ...runner.Decision) string {
	return failure(s.process().Resume(context.Background(), s.key, decisions...))
}

func (s *asked) log() []*event.Event {
	return must.All(s.process().History(context.Background(), s.key))
}

func (s *asked) result() agentgraph.Result {
	results := must.Get(s.make().Runs(s.process().History(context.Background(), s.key)))
	require.NotEmpty(s.t, results)
	return results[len(results)-1].Result
}

// waits returns the ids of the calls that wait for an approval.
func (s *asked) waits() (ids []string) {
	var f session.Fold
	for _, e := range s.log() {
		f.Apply(e)
	}
	for _, c := range f.Scope("").Run.Pending {
		require.Equal(s.t, agentgraph.ApprovalTool, c.Name)
		require.NotEmpty(s.t, c.Relay)
		if f.Paused() {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

func begin(t *testing.T, input string, make func() *agentgraph.Agent) *asked {
	t.Helper()
	s := &asked{t, make, sessiontest.Memory(t), session.ID("s")}
	require.Empty(t, failure(s.process().Run(context.Background(), s.key, llm.UserText(input))))
	return s
}

func human(t *testing.T, strategy string) func() *agentgraph.Agent {
	return func() *agentgraph.Agent {
		return build(t, fmt.Sprintf(`
	entrypoint: a
	agents:
	  - {id: a, agentRef: x}
	  - {id: b, agentRef: x, when: human, ask: Shall b see it?}
	  - {id: c, agentRef: x, when: human}
	  - {id: d, agentRef: x}
	  - {id: e, agentRef: x}
	  - {id: f, agentRef: echo}
	edges:
	  - {from: a, to: b}
	  - {from: a, to: c}
	  - {from: a, to: d}
	  - {from: d, to: e}
	  - {from: b, to: e}
	  - {from: c, to: e}
	errorHandling: {strategy: %s, fallbackAgent: f}
`, strategy), map[string]agent.Agent{"echo": does(t, "echo", func(_ context.Context, in any) (any, error) { return in, nil }),
			"x": does(t, "x", func(_ context.Context, in any) (any, error) {
				if n, ok := in.(float64); ok {
					return n + 1, nil
				}
				return in, nil
			})})
	}
}

func TestHuman(t *testing.T) {
	s := begin(t, "1", human(t, "fail-fast"))
	result := s.result()
	require.Equal(t, agentgraph.Waiting, result.Status)
	require.Equal(t, []string{"a", "d"}, result.Order, "what needs no approval goes on")
	require.Equal(t, []string{"b", "c", "e"}, result.NotRun)
	var asks []string
	for _, e := range s.log() {
		if d, ok := e.Data.(*event.Relay); ok {
			require.Equal(t, "extended", e.Agent)
			require.Equal(t, "permission", d.Kind)
			asks = append(asks, string(d.Params))
		}
	}
	require.Equal(t, []string{`{"agent":"b","question":"Shall b see it?","input":2}`, `{"agent":"c","input":2}`}, asks)
	ids := s.waits()
	require.Len(t, ids, 2)

	require.Empty(t, s.resume(), "without a decision it waits on")
	require.Equal(t, ids, s.waits())

	require.Empty(t, s.resume(runner.Approve(ids[1])))
	result = s.result()
	require.Equal(t, agentgraph.Waiting, result.Status)
	require.Equal(t, []string{"a", "c", "d"}, result.Order)
	require.Equal(t, ids[:1], s.waits(), "the same question waits on")

	require.Empty(t, s.resume(runner.Approve(ids[0])))
	result = s.result()
	require.Equal(t, agentgraph.Completed, result.Status)
	require.Equal(t, []string{"a", "b", "c", "d", "e"}, result.Order)
	require.JSONEq(t, `{"b": 3, "c": 3, "d": 3}`, string(result.Terminal["e"]))
	require.Empty(t, s.waits())
	answers := map[string]string{}
	for _, e := range s.log() {
		if d, ok := e.Data.(*event.ToolResult); ok {
			answers[e.ID] = string(d.Output)
		}
	}
	require.Equal(t, map[string]string{ids[0]: `"approved"`, ids[1]: `"approved"`}, answers)

	// Nothing is left to be decided, and the session goes on.
	require.Empty(t, s.resume(runner.Approve(ids[0])))
	require.Empty(t, failure(s.process().Run(context.Background(), s.key, llm.UserText("5"))))
	require.Len(t, s.waits(), 2)
}

// TestHumanWithdrawn: a user who goes on instead of deciding begins anew.
func TestHumanWithdrawn(t *testing.T) {
	s := begin(t, "1", human(t, "fail-fast"))
	ids := s.waits()
	require.Empty(t, failure(s.process().Run(context.Background(), s.key, llm.UserText("7"))))
	again := s.waits()
	require.Len(t, again, 2)
	require.NotEqual(t, ids, again)
	require.Empty(t, s.resume(runner.Approve(again[0]), runner.Approve(again[1])))
	require.JSONEq(t, `{"b": 9, "c": 9, "d": 9}`, string(s.result().Terminal["e"]))
}

// TestApprovedIsWhatRuns: a node runs with the question and the input that were approved, however its JSON is
// written, and not at all if the graph has changed since.
func TestApprovedIsWhatRuns(t *testing.T) {
	const odd = `{ "a": "\u003cb\u003e <i> & \u00e9 é \u2028 \ud83d\ude00", "n": 5.00, "m": 1e3, "big": 12345678901234567890123, "a": "twice" }`
	for change, to := range map[string][2]string{
		"": {}, "the input": {"transform: output", "transform: output.n"}, "the question": {"Shall it?", "Shall it not?"}, "who decides": {"by: user", "by: staff"},
		"another node": {"agentRef: x}]", "agentRef: x, timeout: 5s}]"},
	} {
		var paid atomic.Int64
		spec := "  entrypoint: a\n  agents: [{id: a, agentRef: x}, {id: b, agentRef: pay, when: human, ask: 'Shall it?', by: user}, {id: c, agentRef: x}]\n" +
			"  edges: [{from: a, to: b, transform: output}, {from: b, to: c}]\n"
		now := spec
		s := begin(t, "1", func() *agentgraph.Agent {
			x := must.Get(agent.New("x", "", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
				return func(yield func(*event.Event, error) bool) {
					yield(&event.Event{Data: &event.Finish{Output: json.RawMessage(odd)}}, nil)
				}
			}))
			return build(t, now, map[string]agent.Agent{"x": x, "pay": does(t, "pay", func(context.Context, any) (any, error) { return paid.Add(1), nil })})
		})
		call := s.waits()[0]
		now = strings.ReplaceAll(spec, to[0], to[1])
		if to[0] == "" {
			now = spec
		}
		failed := s.resume(runner.Approve(call))
		if change == "" || change == "another node" {
			require.Empty(t, failed, change)
			require.EqualValues(t, 1, paid.Load(), change)
			continue
		}
		require.Contains(t, failed, "the agent b of the graph is not run: its input or its question is not what was approved", change)
		require.Zero(t, paid.Load(), change)
		require.Empty(t, failure(s.process().Run(t.Context(), s.key, llm.UserText("2"))), "the session goes on, and asks anew")
		require.Len(t, s.waits(), 1)
	}
}

// approvedAndOpen reports whether a log ends after the approval of a node and before its last call ends, which rest tells.
func approvedAndOpen(log, rest []*event.Event) bool {
	nodes, asked, open := make(map[string]string), make(map[string]string), make(map[string]bool)
	goesOn := func(node string) bool {
		return slices.ContainsFunc(rest, func(e *event.Event) bool { return strings.HasSuffix(e.Scope, "/"+node) })
	}
	for _, e := range log {
		switch d := e.Data.(type) {
		case *event.ToolCall:
			if d.Name == agentgraph.ApprovalTool {
				var input struct{ Agent string }
				_ = json.Unmarshal(d.Input, &input) // the graph's own
				nodes[e.ID] = input.Agent
			}
		case *event.Relay:
			asked[e.ID] = nodes[d.ToolCallID]
		case *event.RelayResolved:
			open[asked[d.RelayID]] = d.Approved
		case *event.HarnessEnd:
			if _, node, ok := strings.Cut(e.Scope, "/"); ok && d.FinishReason != event.FinishReasonInputRequired {
				open[node] = open[node] && goesOn(node) // by a retry or a loop
			}
		}
	}
	return slices.Contains(slices.Collect(maps.Values(open)), true)
}

// TestApprovedOnce: a node that was approved runs in one session, wherever forks are taken, and forks of these forks
// agree with their logs.
func TestApprovedOnce(t *testing.T) {
	for _, strategy := range []string{"fail-fast", "continue", "retry, maxRetries: 2"} {
		var paid atomic.Int64
		pay := does(t, "pay", func(context.Context, any) (any, error) { return paid.Add(1), nil })
		whole := begin(t, "1", func() *agentgraph.Agent {
			return build(t, fmt.Sprintf("  entrypoint: a\n  agents: [{id: a, agentRef: x}, {id: b, agentRef: pay, when: human}, {id: c, agentRef: x}]\n"+
				"  edges: [{from: a, to: b}, {from: b, to: c}]\n  errorHandling: {strategy: %s}\n", strategy), map[string]agent.Agent{"x": gives(t, 1), "pay": pay})
		})
		require.Empty(t, whole.resume(runner.Approve(whole.waits()[0])))
		require.EqualValues(t, 1, paid.Load())
		behind := 0
		events := whole.log()
		for i, e := range events[:len(events)-1] {
			if e.Time.Equal(events[i+1].Time) { // in the middle of a write
				continue
			}
			fork, again := session.ID(fmt.Sprintf("fork-%d", e.Seq)), session.ID(fmt.Sprintf("again-%d", e.Seq))
			require.NoError(t, whole.store.Fork(t.Context(), whole.key, e.Seq, fork))
			s := &asked{t, whole.make, whole.store, fork}
			_ = s.resume()
			log := s.log()
			require.NoError(t, whole.store.Fork(t.Context(), fork, log[len(log)-1].Seq, again))
			s = &asked{t, whole.make, whole.store, again}
			want := (&asked{t, whole.make, whole.store, fork}).result()
			require.Equal(t, want, s.result())
			if strings.Contains(string(event.EncodeJSON(want)), agent.NotInFork) {
				behind++
			}
		}
		require.Positive(t, behind, strategy)
		require.EqualValues(t, 1, paid.Load(), "%s: one approval is for one run", strategy)
	}
}

// TestHumanInside: a graph inside of another one asks as well, in whichever process, and what
// stands beside it has finished and stays so.
func TestHumanInside(t *testing.T) {
	for strategy, status := range map[string]agentgraph.Status{"fail-fast": agentgraph.Failed, "continue": agentgraph.Completed} {
		var calls atomic.Int64
		once := does(t, "once", func(context.Context, any) (any, error) { return calls.Add(1), nil })
		s := begin(t, "go", func() *agentgraph.Agent {
			inner := build(t, fmt.Sprintf(`
	entrypoint: a
	agents: [{id: a, agentRef: x}, {id: b, agentRef: x, when: human}, {id: c, agentRef: x}]
	edges: [{from: a, to: b}, {from: a, to: c}, {from: b, to: c}]
	errorHandling: {strategy: %s}
`, strategy), map[string]agent.Agent{"x": gives(t, 1)})
			outer := must.Get(agentgraph.NewBuilder("outer").Node("start", gives(t, 0)).Node("in", inner).Node("beside", once).
				Edge("start", "in").Edge("start", "beside").Build())
			return outer
		})
		waits := func() []*event.Relay {
			return must.Get(s.process().Pending(t.Context(), s.key))
		}
		require.Equal(t, agentgraph.Waiting, s.result().Status)
		require.Len(t, waits(), 1)
		require.Equal(t, []string{"outer", "in"}[:1], waits()[0].Within)
		require.Empty(t, s.resume(), "nothing was decided")
		require.Len(t, waits(), 1)
		failed := s.resume(runner.Deny(waits()[0].ToolCallID, "no"))
		result := s.result()
		require.Equal(t, status, result.Status)
		if strategy == "fail-fast" {
			require.Contains(t, failed, "denied: no")
		} else {
			require.Empty(t, failed)
			require.Equal(t, "1", string(result.Terminal["in"]))
		}
		require.EqualValues(t, 1, calls.Load())
	}
	// As the first node already, and approved.
	s := begin(t, "go", func() *agentgraph.Agent {
		inner := build(t, "  entrypoint: a\n  agents: [{id: a, agentRef: x, when: human}, {id: f, agentRef: x}]\n  errorHandling: {fallbackAgent: f}\n", map[string]agent.Agent{"x": gives(t, "f")})
		return must.Get(agentgraph.NewBuilder("outer").Node("in", inner).Build())
	})
	pending := must.Get(s.process().Pending(t.Context(), s.key))
	require.Empty(t, s.resume(runner.Approve(pending[0].ToolCallID)))
	require.Equal(t, `"f"`, string(s.result().Terminal["in"]))
}

// TestHumanInConversation: a graph that was handed a conversation asks, and the agent that
// has the conversation afterwards sees a valid history.
func TestHumanInConversation(t *testing.T) {
	script := scripted.New(scripted.WithRecording()).
		Add("support", scripted.Reply(scripted.CallID("c1", agent.TransferTool, `{"agent_name":"refund"}`)), scripted.Reply(scripted.Text("You are welcome."))).
		Add("payer", scripted.Reply(scripted.Text("Paid.")))
	refund := must.Get(agentgraph.NewBuilder("refund").Node("check", does(t, "check", func(_ context.Context, in any) (any, error) { return in, nil })).
		Node("pay", llmAgent(t, script, "payer"), agentgraph.AskFirst("Shall it be paid?")).Edge("check", "pay").Build(agentgraph.WithDescription("Pays")))
	store, ctx, key := sessiontest.Memory(t), context.Background(), session.ID("s")
	process := func() *runner.Runner {
		return must.Get(runner.New(llmAgent(t, script, "support", llmagent.WithSubAgents(refund)), store))
	}
	call, reason := "", event.FinishReason("")
	for e, err := range process().Run(ctx, key, llm.UserText("Money back")) {
		require.NoError(t, err)
		switch d := e.Data.(type) {
		case *event.Relay:
			call = d.ToolCallID
		case *event.HarnessEnd:
			reason = d.FinishReason
		}
	}
	require.Equal(t, event.FinishReasonInputRequired, reason)
	require.Empty(t, failure(process().Resume(ctx, key, runner.Approve(call))))
	active := must.Get(process().Active(ctx, key))
	require.Equal(t, "support", active)
	require.Empty(t, failure(process().Run(ctx, key, llm.UserText("Thanks"))))
	require.NoError(t, script.Done())
	said := ""
	open := map[string]bool{}
	for _, m := range script.Requests("support")[1].Messages {
		for _, p := range m.Parts {
			switch p := p.(type) {
			case llm.ToolCall:
				open[p.ID] = true
			case llm.ToolResult:
				delete(open, p.CallID)
			}
		}
		said += m.Content.PlainText() + "\n"
	}
	require.Empty(t, open)
	require.Contains(t, said, "Paid.")
	require.Contains(t, said, "Thanks")
}

// TestHumanBy: a file says who may answer, in the words that approve has in Markdown.
func TestHumanBy(t *testing.T) {
	agents := map[string]agent.Agent{"x": gives(t, 1)}
	for by, want := range map[string][]string{"user": {"user"}, "staff": {"approve"}, "refunds": {"refunds"}, "[refunds, audit]": {"audit", "refunds"}} {
		s := begin(t, "1", func() *agentgraph.Agent {
			return build(t, "  entrypoint: a\n  agents: [{id: a, agentRef: x, when: human, by: "+by+"}]\n", agents)
		})
		asked := must.Get(s.process().Pending(t.Context(), s.key))
		require.Len(t, asked, 1)
		require.Equal(t, want, asked[0].By, by)
	}
	for wrong, says := range map[string]string{
		"when: human, by: Staff": `by: "Staff" does not say who decides`, "when: human, by: [staff, refunds]": "does not say who decides",
		"when: human, by: [user, refunds]": "does not say who decides", "when: human, by: []": "does not say who decides",
		"when: human, by: [1]": "one of them is the number 1", "by: staff": "when is missing",
	} {
		_, err := agentgraph.Load([]byte("apiVersion: arbor/v1\nkind: AgentGraph\nmetadata: {name: g, version: 1.0.0}\nspec:\n  entrypoint: a\n  agents: [{id: a, agentRef: x, " + wrong + "}]\n"))
		require.ErrorContains(t, err, says, wrong)
	}
}
