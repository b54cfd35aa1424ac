package agenttool_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/transcript"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

func newAgent(t testing.TB, s *scripted.Script, name string, opts ...llmagent.Option) *llmagent.Agent {
	t.Helper()
	return must.Get(llmagent.New(name, "You are "+name+".", s.Model(name), append([]llmagent.Option{llmagent.WithDescription("Does " + name)}, opts...)...))
}

func newTool(t testing.TB, a agent.Agent, opts ...agenttool.Option) tools.Tool {
	t.Helper()
	return must.Get(agenttool.New(a, opts...))
}

func newRunner(t testing.TB, root agent.Agent, store session.Store, opts ...runner.Option) *runner.Runner {
	t.Helper()
	return must.Get(runner.New(root, store, opts...))
}

var key = session.ID("s1")

// turn runs one turn, checks that what is delivered is the log without gaps,
// and returns the stored events of the turn and the turn's error.
func turn(t testing.TB, r *runner.Runner, store session.Store, text string) (events []*event.Event, err error) {
	t.Helper()
	seq := int64(len(log(t, store)))
	started := make(map[string]bool)
	for _, e := range log(t, store) {
		started[e.RunID] = true
	}
	for e, turnErr := range sessiontest.Turn(t, r.Run(context.Background(), key, llm.UserText(text))) {
		if turnErr != nil {
			err = turnErr
			break
		}
		if _, ok := e.Data.(*event.HarnessStart); ok {
			started[e.RunID] = true
		}
		if e.Agent != "user" {
			require.True(t, started[e.RunID], "a %s event of the run %s comes before the run's start", e.Type(), e.RunID)
		}
		if e.Partial {
			require.Zero(t, e.Seq)
			continue
		}
		seq++
		require.Equal(t, seq, e.Seq, "events are delivered in the order of the log, without gaps")
		events = append(events, e)
	}
	require.Len(t, log(t, store), int(seq), "what is stored is delivered")
	checkLog(t, log(t, store))
	return events, err
}

func log(t testing.TB, store session.Store) (events []*event.Event) {
	t.Helper()
	return must.All(store.Load(context.Background(), key, 0))
}

// checkLog checks that runs are not mixed: one start and at most one end a run,
// one scope, turn and agent a run, one result a call, in the run that called.
func checkLog(t testing.TB, events []*event.Event) {
	t.Helper()
	runs := make(map[string]*event.Event)
	ended := make(map[string]bool)
	calls := make(map[string]*event.Event)
	settled := make(map[string]bool)
	for _, e := range events {
		if e.Agent == "user" {
			continue
		}
		first := runs[e.RunID]
		if first == nil {
			require.IsType(t, &event.HarnessStart{}, e.Data, "the first event of run %s", e.RunID)
			require.NotEmpty(t, e.ParentID)
			runs[e.RunID], first = e, e
		}
		require.False(t, ended[e.RunID], "an event after the end of run %s", e.RunID)
		require.Equal(t, []string{first.Scope, first.TurnID, first.Agent}, []string{e.Scope, e.TurnID, e.Agent})
		switch e.Data.(type) {
		case *event.ToolCall:
			require.Nil(t, calls[e.ID], "the call %s is there twice", e.ID)
			calls[e.ID] = e
		case *event.ToolResult:
			require.NotNil(t, calls[e.ID], "a result without a call")
			require.Equal(t, calls[e.ID].RunID, e.RunID)
			require.False(t, settled[e.ID], "the call %s has two results", e.ID)
			settled[e.ID] = true
		case *event.HarnessEnd:
			ended[e.RunID] = true
		}
	}
}

// find returns the events with a payload of one type.
func find[T event.Data](events []*event.Event) (found []*event.Event) {
	for _, e := range events {
		if _, ok := e.Data.(T); ok {
			found = append(found, e)
		}
	}
	return found
}

func inScope(events []*event.Event, scope string) (found []*event.Event) {
	for _, e := range events {
		if e.Scope == scope {
			found = append(found, e)
		}
	}
	return found
}

// result returns the only result of the call of that id.
// result returns the result of a call that is named as transcripts name it.
func result(t testing.TB, events []*event.Event, name string) *event.ToolResult {
	t.Helper()
	id := transcript.CallsOf(events).ID(name)
	for _, e := range find[*event.ToolResult](events) {
		if e.ID == id {
			return e.Data.(*event.ToolResult)
		}
	}
	require.Fail(t, "no result", "of call %s", name)
	return nil
}

func types(events []*event.Event) (types []string) {
	for _, e := range events {
		types = append(types, e.Agent+" "+e.Type())
	}
	return types
}

func TestInfo(t *testing.T) {
	s := scripted.New()
	research := newAgent(t, s, "research")
	info := newTool(t, research).Info()
	require.Equal(t, "research", info.Name)
	require.Equal(t, "Does research", info.Description)
	require.JSONEq(t, `{"type":"object","properties":{"input":{"type":"string","minLength":1,
		"description":"The task, with everything that is needed to do it: the agent sees nothing of this conversation"}},
		"required":["input"],"additionalProperties":false}`, string(info.Parameters))
	require.Negative(t, info.Timeout, "no timeout: the default of tools is too short for agents")
	require.True(t, info.Resumable)

	info = newTool(t, agent.Via(research), agenttool.WithName("ask_research"), agenttool.WithDescription("Ask."), agenttool.WithMaxOutput(10),
		agenttool.WithTimeout(5)).Info()
	require.Equal(t, "ask_research", info.Name)
	require.Equal(t, "Ask.", info.Description)
	require.Equal(t, 10, info.MaxOutput)
	require.EqualValues(t, 5, info.Timeout)
}

func TestNewErrors(t *testing.T) {
	_, err := agenttool.New(nil)
	require.ErrorContains(t, err, "nil")
	s := scripted.New()
	_, err = agenttool.New(newAgent(t, s, "a"), agenttool.WithName("not a name"))
	require.ErrorContains(t, err, "not a name")
	var tree *agent.TreeError
	_, err = agenttool.New(newAgent(t, s, "a", llmagent.WithSubAgents(newAgent(t, s, "b"), newAgent(t, s, "b"))))
	require.ErrorAs(t, err, &tree)
}

// With an agent tool the inner agent sees its input alone; with a transfer the
// target sees the conversation (redpanda-data/ai-sdk-go issue 95).
func TestToolSeesInputTransferSeesConversation(t *testing.T) {
	s := scripted.New(scripted.WithRecording()).
		Add("support",
			scripted.Reply(scripted.Text("Let me look. "), scripted.CallID("c1", "research", `{"input":"find charge 42"}`)),
			scripted.Reply(scripted.CallID("c2", "transfer_to_agent", `{"agent_name":"billing"}`))).
		Add("research", scripted.Reply(scripted.Text("Charge 42 ", "is a duplicate."))).
		Add("billing", scripted.Reply(scripted.Text("Refunded.")))
	research, billing := newAgent(t, s, "research"), newAgent(t, s, "billing")
	support := newAgent(t, s, "support", llmagent.WithTools(newTool(t, research)), llmagent.WithSubAgents(billing))
	store := sessiontest.Memory(t)
	events := must.Get(turn(t, newRunner(t, support, store, runner.WithStreaming()), store, "My secret word is heron. I was charged twice."))
	require.NoError(t, s.Done())

	require.Equal(t, []llm.Message{llm.UserText("find charge 42")}, s.Requests("research")[0].Messages)
	seen := fmt.Sprint(s.Requests("billing")[0].Messages)
	require.Contains(t, seen, "heron")
	require.Contains(t, seen, "is a duplicate")

	require.Equal(t, "Charge 42 is a duplicate.", event.OutputText(result(t, events, "c1").Output))
	var scope string
	for _, e := range events {
		if e.Agent == "research" {
			scope = e.Scope
			break
		}
	}
	require.NotEmpty(t, scope)
	inner := inScope(events, scope)
	require.Equal(t, []string{"research harness_start", "research text", "research usage", "research harness_end"}, types(inner))
	require.Equal(t, transcript.CallsOf(events).ID("c1"), inner[0].ParentID, "the call caused the run")
	require.JSONEq(t, `"find charge 42"`, string(inner[0].Data.(*event.HarnessStart).Input))
	require.Equal(t, event.FinishReasonStop, inner[3].Data.(*event.HarnessEnd).FinishReason)
	require.Empty(t, find[*event.User](inner), "the input stands in for the user")
	for _, e := range events {
		if e.Scope == "" {
			require.NotEqual(t, "research", e.Agent)
		}
	}
}
