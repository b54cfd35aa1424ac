package agentgraph_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

// picture is START -> agent -> tools -> agent -> END as a file.
const picture = `
apiVersion: arbor/v1
kind: AgentGraph
metadata: {name: picture, version: 1.0.0}
spec:
  state:
    messages: {initial: []}
    agent_name: {initial: helper}
    metadata: {reducer: merge, initial: {}}
  agents:
    - id: rounds
      loop: {until: last(output.messages).role == 'assistant', max: 3, atMax: fail}
      update: {messages: output.messages, metadata: output.metadata}
      transform: last(output.messages).content
      graph:
        agents:
          - {id: agent, agentRef: helper}
          - {id: tools, toolsOf: agent}
        edges:
          - {from: agent, to: tools, condition: last(output.messages).tool_calls != nil}
        entrypoint: agent
  entrypoint: rounds
`

type lookupInput struct {
	Word string `json:"word"`
}

// lookup makes a tool that returns what it is given, and notes that it was called.
func lookup(t testing.TB, name string, called *[]string, opts ...tools.Option) tools.Tool {
	t.Helper()
	var mu sync.Mutex // calls of one answer run side by side
	tool, err := tools.Func(name, "Looks a word up.", func(_ tools.Context, in lookupInput) (map[string]string, error) {
		mu.Lock()
		defer mu.Unlock()
		if *called = append(*called, name+" "+in.Word); strings.Contains(in.Word, "!") {
			return nil, errors.New("no such word: " + in.Word)
		}
		return map[string]string{"found": in.Word}, nil
	}, opts...)
	require.NoError(t, err)
	return tool
}

// pictureOf makes the graph of the picture with an agent that answers as the script says.
func pictureOf(t testing.TB, s *scripted.Script, opts ...llmagent.Option) *agentgraph.Agent {
	t.Helper()
	g := must.Get(agentgraph.Load([]byte(picture), agentgraph.WithRefs("helper")))
	return must.Get(agentgraph.New(g, func(string, map[string]any) (agent.Agent, error) {
		return llmagent.New("helper", "You help.", s.Model("helper"), opts...)
	}))
}

// TestAgentTools plays the picture: calls that a model makes are run by another node, all
// of one answer, and answered in their order. Wrong calls are answered with what is wrong.
func TestAgentTools(t *testing.T) {
	var called []string
	s := scripted.New(scripted.WithRecording()).Add("helper",
		scripted.Reply(scripted.Text("Let me see."), scripted.CallID("c1", "lookup", `{"word":"one"}`), scripted.CallID("c1", "lookup", `{"word":2}`),
			scripted.CallID("", "lokup", `{}`), scripted.CallID("c4", "lookup", `{"word":"bad!"}`)),
		scripted.Reply(scripted.CallID("c1", "lookup", `{"word":"again"}`)),
		scripted.Reply(scripted.Text("There.")))
	a := pictureOf(t, s, llmagent.WithTools(lookup(t, "lookup", &called)))
	result, events, err := try(t, a, `{"messages":[{"role":"user","content":"Look up."}],"agent_name":"helper","metadata":{"user":"ann"}}`)
	require.NoError(t, err)
	require.Equal(t, agentgraph.Completed, result.Status)
	require.Equal(t, `"There."`, string(result.Terminal["rounds"]))
	require.Equal(t, 3, result.Calls["rounds"])
	slices.Sort(called[:2])
	require.Equal(t, []string{"lookup bad!", "lookup one", "lookup again"}, called)
	require.JSONEq(t, `{"user":"ann"}`, string(result.State["metadata"]))

	var flow []struct {
		Role, Content string
		ToolCallID    string                      `json:"tool_call_id"`
		IsError       bool                        `json:"is_error"`
		ToolCalls     []struct{ ID, Name string } `json:"tool_calls"`
	}
	require.NoError(t, json.Unmarshal(result.State["messages"], &flow))
	require.Len(t, flow, 9)
	calls := flow[1].ToolCalls
	require.Equal(t, "Let me see.", flow[1].Content)
	require.Len(t, calls, 4)
	for i, want := range []string{`{"found":"one"}`, "word", "there is no tool", "no such word: bad!"} {
		require.Equal(t, "tool", flow[2+i].Role)
		require.Equal(t, calls[i].ID, flow[2+i].ToolCallID)
		require.Contains(t, flow[2+i].Content, want)
		require.Equal(t, i > 0, flow[2+i].IsError)
	}
	require.Equal(t, "There.", flow[8].Content)

	// The model is shown what one that runs its tools itself is shown.
	last := s.Requests("helper")[2]
	require.Len(t, last.Messages, 8)
	require.Equal(t, llm.UserText("Look up."), last.Messages[0])
	require.Equal(t, llm.RoleTool, last.Messages[2].Role)
	require.Equal(t, "lookup", last.Tools[0].Name)
	require.Equal(t, llm.Message{Role: llm.RoleAssistant, Content: llm.Content{Parts: []llm.Part{llm.ToolCall{ID: flow[6].ToolCalls[0].ID, Name: "lookup", Arguments: `{"word":"again"}`}}}}, last.Messages[6])

	// Calls and results are in the runs of the node that makes them.
	var places []string
	for _, e := range events {
		switch e.Data.(type) {
		case *event.ToolCall, *event.ToolResult:
			places = append(places, e.Agent)
		}
	}
	require.Equal(t, slices.Repeat([]string{"tools"}, 10), places)
	require.NoError(t, s.Done())
}

// toolNode is a graph of one tool node.
func toolNode(t testing.TB, tool tools.Tool, opts ...agentgraph.NodeOption) *agentgraph.Agent {
	t.Helper()
	node := must.Get(agentgraph.Tool(tool))
	return must.Get(agentgraph.NewBuilder("one").Node("look", node, opts...).Build(agentgraph.WithBackoff(0, 0)))
}

// TestToolNode: a node calls a tool with its input, and gives the tool's output. A tool that
// fails is called again as an agent is; a call that cannot be made is not.
func TestToolNode(t *testing.T) {
	var called []string
	a := toolNode(t, lookup(t, "lookup", &called), agentgraph.Retries(2, 0))
	require.Equal(t, "lookup", a.Graph().Nodes[0].Tool)
	result, events, err := try(t, a, `{"word":"one"}`)
	require.NoError(t, err)
	require.JSONEq(t, `{"found":"one"}`, string(result.Terminal["look"]))
	for _, e := range events {
		if d, ok := e.Data.(*event.HarnessStart); ok && e.Agent == "look" {
			require.Equal(t, "lookup", d.AgentID)
		}
	}
	require.Equal(t, []string{"lookup one"}, called)

	for input, want := range map[string]struct {
		calls int
		says  string
		code  string
	}{
		`{"word":"bad!"}`: {3, "tool lookup: no such word: bad!", event.CodeToolFailed},
		`{"word":2}`:      {1, "tool lookup: ", event.CodeToolRefused},
		`{"w":"one"}`:     {1, "tool lookup: ", event.CodeToolRefused},
		`one`:             {1, `the input does not fit: "one" is not a JSON object`, event.CodeToolRefused},
	} {
		result, _, err := try(t, a, input)
		require.ErrorContains(t, err, want.says)
		var run *agent.RunError
		require.ErrorAs(t, err, &run)
		require.Equal(t, want.code, run.Code)
		require.Equal(t, want.calls, result.Calls["look"], input)
		require.Equal(t, "look", result.Error.Agent)
	}

	broken, err := tools.Func("broken", "Panics.", func(tools.Context, struct{}) (string, error) { panic("secret") })
	require.NoError(t, err)
	_, _, err = try(t, toolNode(t, broken), `{}`)
	require.ErrorContains(t, err, "tool broken: the tool broken failed with an internal error")
	require.NotContains(t, err.Error(), "secret")
	synctest.Test(t, func(t *testing.T) {
		slow := must.Get(tools.Func("slow", "Waits.", func(c tools.Context, _ struct{}) (string, error) {
			<-c.Done()
			return "", c.Err()
		}, tools.Timeout(time.Hour)))
		_, _, err := try(t, toolNode(t, slow), `{}`)
		require.ErrorContains(t, err, "timed out after 1h0m0s")
		_, _, err = try(t, toolNode(t, slow, agentgraph.Timeout(time.Minute)), `{}`)
		require.ErrorIs(t, err, agent.ErrTimeout)
	})
	_, err = agentgraph.Tool(nil)
	require.ErrorContains(t, err, "the tool is nil")
}

// TestToolNodeInterrupted: a call that a crash cut off is not made again, unless its tool is
// idempotent, whatever the strategy is; and a stored result is not computed again.
func TestToolNodeInterrupted(t *testing.T) {
	for _, idempotent := range []bool{false, true} {
		var called []string
		var opts []tools.Option
		if idempotent {
			opts = append(opts, tools.Idempotent())
		}
		a := toolNode(t, lookup(t, "lookup", &called, opts...), agentgraph.Retries(2, 0))
		_, events, err := try(t, a, `{"word":"one"}`)
		require.NoError(t, err)
		for k, e := range events[:len(events)-1] {
			if k == 0 || e.Time.Equal(events[k+1].Time) {
				continue
			}
			store, ctx := sessiontest.Memory(t), context.Background()
			lease := must.Get(sessiontest.Acquire(ctx, store, key, session.Owner{Host: "test"}))
			require.NoError(t, sessiontest.Append(ctx, store, key, 0, lease, events[:k+1]...))
			require.NoError(t, sessiontest.Release(ctx, store, key, lease))
			called = nil
			r := must.Get(runner.New(a, store))
			failed := failure(r.Resume(ctx, key))
			result := resultsOf(t, a, r)[0]
			_, begun := e.Data.(*event.ToolCall)
			begun = begun || slices.ContainsFunc(events[:k+1], func(e *event.Event) bool { return e.Type() == event.TypeToolCall })
			there := slices.ContainsFunc(events[:k+1], func(e *event.Event) bool { return e.Type() == event.TypeToolResult })
			if begun && !there && !idempotent {
				require.Contains(t, failed, "interrupted; outcome unknown")
				require.Empty(t, called)
				require.Equal(t, 1, result.Calls["look"])
				continue
			}
			require.Empty(t, failed)
			require.Equal(t, there, len(called) == 0)
			require.JSONEq(t, `{"found":"one"}`, string(result.Terminal["look"]))
		}
	}
}

// TestToolNodeApproval: a call that a person has to allow pauses the graph, in a node that
// calls a tool and in one that runs a model's calls.
func TestToolNodeApproval(t *testing.T) {
	var called []string
	risky := func(t testing.TB) tools.Tool { return lookup(t, "lookup", &called, tools.NeedsApproval()) }
	s := scripted.New().Add("helper",
		scripted.Reply(scripted.CallID("c1", "lookup", `{"word":"one"}`)), scripted.Reply(scripted.Text("Done.")),
		scripted.Reply(scripted.CallID("c1", "lookup", `{"word":"one"}`)), scripted.Reply(scripted.Text("Denied.")))
	for name, c := range map[string]struct {
		input           string
		make            func() *agentgraph.Agent
		allowed, denied string // what the run ends with
	}{
		"tool":    {`{"word":"one"}`, func() *agentgraph.Agent { return toolNode(t, risky(t), agentgraph.Retries(3, 0)) }, `{"found":"one"}`, "tool lookup: denied: too risky"},
		"toolsOf": {"Look up.", func() *agentgraph.Agent { return pictureOf(t, s, llmagent.WithTools(risky(t))) }, `"Done."`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			called = nil
			asked := begin(t, c.input, c.make)
			require.Equal(t, agentgraph.Waiting, asked.result().Status)
			call := waitingCall(t, asked.log())
			require.Empty(t, called)
			require.Empty(t, asked.resume(runner.Approve(call)))
			require.Equal(t, []string{"lookup one"}, called)
			result := asked.result()
			require.Equal(t, agentgraph.Completed, result.Status)
			require.Contains(t, slices.Collect(maps.Values(asText(result.Terminal))), c.allowed)

			asked = begin(t, c.input, c.make)
			called = nil
			failed := asked.resume(runner.Deny(waitingCall(t, asked.log()), "too risky"))
			require.Empty(t, called)
			if c.denied != "" {
				require.Contains(t, failed, c.denied)
				require.Equal(t, 1, asked.result().Calls["look"], "nobody is asked again")
			} else {
				require.Empty(t, failed)
				require.Contains(t, inJSON(asked.result().State), "denied: too risky")
			}
		})
	}
	require.NoError(t, s.Done())
}

func asText(values map[string]json.RawMessage) map[string]string {
	texts := make(map[string]string, len(values))
	for k, v := range values {
		texts[k] = string(v)
	}
	return texts
}

// TestLoopLimit: the loop of a model that calls tools again and again ends with an error
// that says so, or with a notice.
func TestLoopLimit(t *testing.T) {
	var called []string
	s := scripted.New()
	for range 6 {
		s.Add("helper", scripted.Reply(scripted.CallID("c", "lookup", `{"word":"one"}`)))
	}
	a := pictureOf(t, s, llmagent.WithTools(lookup(t, "lookup", &called)))
	result, _, err := try(t, a, "Look up.")
	require.ErrorContains(t, err, `the loop of the agent rounds has not ended after 3 calls: "last(output.messages).role == 'assistant'" does not hold`)
	var run *agent.RunError
	require.ErrorAs(t, err, &run)
	require.Equal(t, "loop_limit", run.Code)
	require.Equal(t, agentgraph.Failed, result.Status)
	require.Len(t, called, 3)

	g, err := agentgraph.Load([]byte(strings.Replace(picture, ", atMax: fail", "", 1)), agentgraph.WithRefs("helper"))
	require.NoError(t, err)
	a = must.Get(agentgraph.New(g, func(string, map[string]any) (agent.Agent, error) {
		return llmagent.New("helper", "", s.Model("helper"), llmagent.WithTools(lookup(t, "lookup", &called)))
	}))
	result, events, err := try(t, a, "Look up.")
	require.NoError(t, err)
	require.Equal(t, `{"found":"one"}`, event.OutputText(result.Terminal["rounds"]))
	require.True(t, slices.ContainsFunc(events, func(e *event.Event) bool {
		n, ok := e.Data.(*event.Notice)
		return ok && n.Code == "loop_limit"
	}))
}

// TestSplitIsForcedOnce: the tools that a choice forced are part of the model's input, not of its run.
func TestSplitIsForcedOnce(t *testing.T) {
	var called []string
	s := scripted.New(scripted.WithRecording()).Add("helper", scripted.Reply(scripted.CallID("c", "lookup", `{"word":"one"}`)), scripted.Reply(scripted.Text("There.")))
	a := pictureOf(t, s, llmagent.WithTools(lookup(t, "lookup", &called)), llmagent.WithSettings(llm.Settings{ToolChoice: llm.ToolChoiceRequired}))
	_, _, err := try(t, a, "Look up.")
	require.NoError(t, err)
	asked := s.Requests("helper")
	require.Len(t, asked, 2)
	require.Equal(t, llm.ToolChoiceRequired, asked[0].ToolChoice)
	require.Empty(t, asked[1].ToolChoice)
}

// TestSplitSees: the model of a split agent sees its instructions, the conversation around
// the graph if the nodes say so, its own reasoning, and nothing that it redacts.
func TestSplitSees(t *testing.T) {
	var called []string
	script := func() *scripted.Script {
		return scripted.New(scripted.WithRecording()).Add("helper",
			scripted.Reply(scripted.Think("I need 4242."), scripted.CallID("c1", "lookup", `{"word":"4242"}`)),
			scripted.Reply(scripted.Text("There.")), scripted.Reply(scripted.Text("Yes.")))
	}
	hide := view.Full().Redact(func(text string) string { return strings.ReplaceAll(text, "4242", "…") })
	for word, policy := range map[string]view.Policy{"4242": view.Full(), "…": hide} {
		s := script()
		text := strings.Replace(strings.Replace(picture, "- id: rounds\n", "- id: rounds\n      history: full\n", 1), "agentRef: helper}", "agentRef: helper, history: full}", 1)
		g := must.Get(agentgraph.Load([]byte(text), agentgraph.WithRefs("helper")))
		a := must.Get(agentgraph.New(g, func(string, map[string]any) (agent.Agent, error) {
			return llmagent.New("helper", "You help.", s.Model("helper"), llmagent.WithTools(lookup(t, "lookup", &called)), llmagent.WithHistory(policy))
		}))
		store := sessiontest.Memory(t)
		r := must.Get(runner.New(a, store, runner.WithStreaming()))
		for _, text := range []string{"Look 4242 up.", "Is it so?"} {
			require.Empty(t, failure(r.Run(context.Background(), key, llm.UserText(text))))
		}
		asked := s.Requests("helper")
		require.Len(t, asked, 3)
		require.Equal(t, "You help.", asked[1].System)
		call := asked[1].Messages[2].Parts[0].(llm.ToolResult).CallID
		want := []llm.Message{llm.UserText("Look " + word + " up."),
			{Role: llm.RoleAssistant, Content: llm.Content{Parts: []llm.Part{llm.Reasoning{Text: "I need " + word + "."}, llm.ToolCall{ID: call, Name: "lookup", Arguments: `{"word":"` + word + `"}`}}}},
			{Role: llm.RoleTool, Content: llm.Content{Parts: []llm.Part{llm.ToolResult{CallID: call, Name: "lookup", Output: `{"found":"` + word + `"}`}}}}}
		require.Equal(t, want, asked[1].Messages)
		require.Equal(t, []llm.Message{want[0], llm.UserText("[picture] There."), llm.UserText("Is it so?")}, asked[2].Messages)
	}
}

// changing is a set of tools that may have none.
type changing struct{ registry *tools.Registry }

func (c *changing) Tools(context.Context) (*tools.Registry, error) {
	if c.registry == nil {
		return nil, errors.New("the server is away")
	}
	return c.registry, nil
}

// TestToolOfAnAgent: a node calls a tool of an agent by its name, also one of a set that is
// asked when the node runs; and an agent's rules hold for its tools in a node of their own.
func TestToolOfAnAgent(t *testing.T) {
	var called []string
	denies := must.Get(tools.NewPolicy(tools.Rule{Tool: "own", Args: map[string]tools.Arg{"word": {Matches: "secret"}}, Decision: tools.Deny}))
	registry := must.Get(tools.NewRegistry(lookup(t, "remote", &called)))
	set := &changing{registry}
	resolve := func(ref string, _ map[string]any) (agent.Agent, error) {
		switch ref {
		case "helper":
			return llmagent.New("helper", "", scripted.New().Model("m"), llmagent.WithTools(lookup(t, "own", &called)), llmagent.WithToolset(set), llmagent.WithToolPolicy(denies))
		case "plain":
			return llmagent.New("plain", "", scripted.New().Model("m"), llmagent.WithTools(lookup(t, "own", &called)))
		case "front":
			return llmagent.New("front", "", scripted.New().Model("m"), llmagent.WithSubAgents(llmAgent(t, scripted.New(), "below")))
		case "function":
			return gives(t, 1), nil
		}
		return agentgraph.ResolveTools(lookup(t, "own", &called))(ref, nil)
	}
	load := func(agents string) (*agentgraph.Agent, error) {
		g := must.Get(agentgraph.Load([]byte("apiVersion: arbor/v1\nkind: AgentGraph\nmetadata: {name: g, version: 1.0.0}\nspec:\n  entrypoint: a\n  agents: ["+agents+"]\n  edges: "+
			map[bool]string{true: "[{from: a, to: b}]", false: "[]"}[strings.Contains(agents, "id: b")]+"\n"), agentgraph.WithAnyRef()))
		return agentgraph.New(g, resolve)
	}
	for agents, want := range map[string]string{"{id: a, agentRef: helper, tool: own}": "own one", "{id: a, agentRef: helper, tool: remote}": "remote one", "{id: a, tool: own}": "own one"} {
		a := must.Get(load(agents))
		called = nil
		result, _, err := try(t, a, `{"word":"one"}`)
		require.NoError(t, err)
		require.JSONEq(t, `{"found":"one"}`, string(result.Terminal["a"]))
		require.Equal(t, []string{want}, called)
	}
	a := must.Get(load("{id: a, agentRef: helper, tool: own}"))
	_, _, err := try(t, a, `{"word":"secret"}`)
	require.ErrorContains(t, err, "tool own: denied: this call is not allowed")
	set.registry = nil
	a = must.Get(load("{id: a, agentRef: helper, tool: remote}"))
	_, events, err := try(t, a, `{"word":"one"}`)
	require.ErrorContains(t, err, `tool remote: there is no tool "remote"`)
	require.Contains(t, lines(events), "the server is away")

	for agents, want := range map[string]string{
		"{id: a, agentRef: plain, tool: owm}":              `node "a": agent "plain" has no tool "owm"; did you mean "own"?`,
		"{id: a, agentRef: function, tool: own}":           `node "a": the agent "function" has no tools of its own, and so no "own"`,
		"{id: a, tool: other}":                             `node "a": unknown agent "tool:other"`,
		"{id: a, agentRef: function}, {id: b, toolsOf: a}": `node "b": the agent "function" has no tools of its own to run`,
		"{id: a, agentRef: front}, {id: b, toolsOf: a}":    `agent "front": its tools cannot run in a node of their own, because it has sub-agents or a compaction`,
		"{id: a, agentRef: none}, {id: b, toolsOf: a}":     `node "a": unknown agent "none"`,
	} {
		_, err := load(agents)
		require.ErrorContains(t, err, want)
	}
}

// TestPassedMessages: what the parts of an agent are given is checked, and what calls nothing
// is passed on as it is.
func TestPassedMessages(t *testing.T) {
	var called []string
	s := scripted.New(scripted.WithRecording()).Always("helper", scripted.Reply(scripted.Text("Yes.")))
	helper := llmAgent(t, s, "helper", llmagent.WithTools(lookup(t, "lookup", &called)))
	a := must.Get(agentgraph.NewBuilder("line").Node("agent", helper).Node("tools", helper, agentgraph.ToolsOf("agent")).Edge("agent", "tools").Build())
	result, _, err := try(t, a, `{"question":1}`)
	require.NoError(t, err)
	require.JSONEq(t, `{"messages":[{"role":"user","content":"{\"question\":1}"},{"role":"assistant","content":"Yes."}]}`, string(result.Terminal["tools"]))
	require.JSONEq(t, string(result.Outputs["agent"]), string(result.Outputs["tools"]))
	for input, want := range map[string]string{
		`{"messages":[]}`: "the input's messages must be a list of at least one message",
		`{"messages":1}`:  "the input's messages must be a list of at least one message",
		`{"messages":[{"role":"user","content":"a"},{"role":"system","content":"b"}]}`: "message 2 of the input's messages must have a role (user, assistant or tool)",
		`{"messages":[{"role":"user","content":["a"]}]}`:                               "message 1 of the input's messages must have",
		`{"messages":[{"role":"assistant","tool_calls":[{"id":"1","name":"a b"}]}]}`:   "message 1 of the input's messages must have",
	} {
		_, _, err := try(t, a, input)
		require.ErrorContains(t, err, want)
	}
	require.Empty(t, called)

	split, runs, err := helper.(*llmagent.Agent).Split()
	require.NoError(t, err)
	_, _, err = try(t, must.Get(agentgraph.NewBuilder("own").Node("agent", split).Node("tools", runs).Edge("agent", "tools").Build()), "Hello.")
	require.NoError(t, err, "the parts themselves can be nodes")
	r := must.Get(runner.New(split, session.NewMemory()))
	require.Contains(t, failure(r.Run(context.Background(), key, llm.UserText("Hello."))), "it runs in a graph only")
}

// TestToolNodeRunsAnAgent: a tool of a tool node can be an agent.
func TestToolNodeRunsAnAgent(t *testing.T) {
	s := scripted.New().Add("expert", scripted.Reply(scripted.Text("It is so.")))
	expert := must.Get(agenttool.New(llmAgent(t, s, "expert", llmagent.WithDescription("Knows."))))
	result, events, err := try(t, toolNode(t, expert), `{"input":"Is it so?"}`)
	require.NoError(t, err)
	require.Equal(t, `"It is so."`, string(result.Terminal["look"]))
	require.NoError(t, s.Done())
	requireClosed(t, events, "")
}
