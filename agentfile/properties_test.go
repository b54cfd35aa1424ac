package agentfile

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

const guardedFlow = `
-- front.yaml --
kind: Router
default: helper
rules:
  - {when: {keywords: [work]}, to: flow}
guards: [no-cards]
budgets: {session: {tokens: 900}}
-- helper.md --
---
---
-- flow.md --
---
graph: parts/flow.yaml
guards: [polite]
---
-- parts/flow.yaml --
apiVersion: ossa.ai/v0.2.7
kind: AgentGraph
metadata: {name: flow, version: 1.0.0}
spec:
  agents:
    - {id: x, agentRef: worker}
  entrypoint: x
-- parts/worker.md --
---
tools: [refund, cancel]
approve: [cancel]
rules: [{tool: refund, decision: deny}]
budgets: {tokens: 450}
---
`

// What a file says of a router, of a graph and of a node's agent holds when they run.
func TestPropertiesOfAllKinds(t *testing.T) {
	fsys := fstest.MapFS{}
	for _, f := range txtar.Parse([]byte(guardedFlow)).Files {
		fsys[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	refuses := func(word string) func(string) error {
		return func(text string) error {
			if strings.Contains(text, word) {
				return errors.New(word)
			}
			return nil
		}
	}
	cards, fools := refuses("4111"), refuses("fool")
	refund := must.Get(tools.Func("refund", "Refunds.", func(tools.Context, struct{}) (string, error) { return "refunded", nil }))
	cancel := must.Get(tools.Func("cancel", "Cancels.", func(tools.Context, struct{}) (string, error) { return "canceled", nil }))
	script := scripted.New()
	tree, err := LoadFS(fsys, "front.yaml", WithModel(func(string) (llm.Model, error) { return script.Model("m"), nil }), WithTools(refund, cancel), WithGuards(
		agent.Guard{Name: "no-cards", In: func(_ context.Context, _ *agent.Invocation, in agent.Ingress) error {
			return cards(in.Content.PlainText())
		}},
		agent.Guard{Name: "polite", Out: func(_ context.Context, _ *agent.Invocation, text string) error { return fools(text) }}))
	require.NoError(t, err)
	r := must.Get(runner.New(tree.Root(), sessiontest.Memory(t)))
	hear := func(turn iter.Seq2[*event.Event, error]) (log string, failed error) {
		for e, err := range sessiontest.Turn(t, turn) {
			if err != nil {
				failed = err
				continue
			}
			line, err := e.MarshalJSON()
			require.NoError(t, err)
			log += string(line)
		}
		return log, failed
	}
	say := func(id, words string) (string, error) {
		return hear(r.Run(t.Context(), session.ID(id), llm.UserText(words)))
	}
	var trip *agent.TripwireError
	_, err = say("card", "My card is 4111")
	require.ErrorAs(t, err, &trip)
	require.Equal(t, "front no-cards", trip.Agent+" "+trip.Guard)

	script.Add("m", scripted.Reply(scripted.Call("refund", "{}"), scripted.Usage(10, 1, 0)), scripted.Reply(scripted.Text("You fool."), scripted.Usage(10, 1, 0)))
	log, err := say("rude", "work")
	require.Contains(t, log, "this call is not allowed")
	require.ErrorAs(t, err, &trip)
	require.Equal(t, "polite", trip.Guard)

	// What a node's agent asks pauses the turn.
	script.Add("m", scripted.Reply(scripted.CallID("c1", "cancel", "{}"), scripted.Usage(10, 1, 0)), scripted.Reply(scripted.Text("done"), scripted.Usage(10, 1, 0)))
	log, err = say("asks", "work")
	require.NoError(t, err)
	require.Contains(t, log, `"input_required"`)
	require.NotContains(t, log, "canceled")
	pending, err := r.Pending(t.Context(), session.ID("asks"))
	require.NoError(t, err)
	log, err = hear(r.Resume(t.Context(), session.ID("asks"), runner.Approve(pending[0].ToolCallID)))
	require.NoError(t, err)
	require.Contains(t, log, "canceled")
	require.Contains(t, log, "done")

	script.Add("m", scripted.Reply(scripted.Text("fine"), scripted.Usage(449, 2, 0)))
	log, err = say("spent", "work")
	require.NoError(t, err)
	require.Contains(t, log, "fine")
	_, err = say("spent", "work")
	var spent *agent.BudgetError
	require.ErrorAs(t, err, &spent)
	require.Equal(t, "the agent worker", spent.Of)

	script.Add("m", scripted.Reply(scripted.Text("fine"), scripted.Usage(800, 101, 0)))
	_, err = say("all spent", "hello")
	require.NoError(t, err)
	_, err = say("all spent", "hello")
	require.ErrorAs(t, err, &spent)
	require.Equal(t, "the session", spent.Of)
	require.NoError(t, script.Done())
}

// A tree is closed once, the last that was begun first, and whatever fails.
func TestClose(t *testing.T) {
	var closed []int
	tree := &Tree{closers: []func() error{
		func() error { closed = append(closed, 1); return nil },
		func() error { closed = append(closed, 2); return errors.New("it hangs") },
	}}
	require.EqualError(t, tree.Close(), "it hangs")
	require.NoError(t, tree.Close())
	require.Equal(t, []int{2, 1}, closed)
}

// The root's file may say how sure a prediction has to be for a target to be asked ahead.
func TestAnticipate(t *testing.T) {
	load := func(root, child string) (*Tree, error) {
		fsys := fstest.MapFS{"desk.md": {Data: []byte("---\n" + root + "\n---\nYou greet.\n")}, "desk/billing.md": {Data: []byte("---\n" + child + "\n---\nYou refund.\n")}}
		return LoadFS(fsys, ".", WithModel(func(name string) (llm.Model, error) { return scripted.Always(name, scripted.Reply()), nil }))
	}
	tree, err := load("model: m\nanticipate: 0.6", "model: m")
	require.NoError(t, err)
	require.InDelta(t, 0.6, agent.PropertiesOf(tree.Root()).Anticipation, 0)
	_, err = runner.New(tree.Root(), sessiontest.Memory(t))
	require.NoError(t, err)
	for _, wrong := range []string{"0", "-1", "1.1"} {
		_, err = load("model: m\nanticipate: "+wrong, "model: m")
		require.ErrorContains(t, err, "anticipate must be a number over 0 and at most 1, not "+wrong)
	}
	_, err = load("model: m", "model: m\nanticipate: 1")
	require.ErrorContains(t, err, `anticipate is for the root of the tree: "billing" is another agent`)
}
