package llmagent_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

// changing is a set whose list a test changes.
type changing struct {
	mu   sync.Mutex
	have *tools.Registry
	err  error
}

func (c *changing) Tools(context.Context) (*tools.Registry, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.have, c.err
}

func (c *changing) set(t testing.TB, all ...tools.Tool) {
	r, err := tools.NewRegistry(all...)
	require.NoError(t, err)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.have = r
}

func offered(r *llm.Request) (names []string) {
	for _, t := range r.Tools {
		names = append(names, t.Name)
	}
	return names
}

func notices(events []*event.Event) (texts []string) {
	for _, e := range events {
		if n, ok := e.Data.(*event.Notice); ok {
			texts = append(texts, n.Code+": "+n.Message)
		}
	}
	return texts
}

func results(events []*event.Event) (all []*event.ToolResult) {
	for _, e := range events {
		if r, ok := e.Data.(*event.ToolResult); ok {
			all = append(all, r)
		}
	}
	return all
}

// A list that changes while a tool of it runs counts from the next question on.
func TestAToolsetThatChanges(t *testing.T) {
	set := &changing{}
	word := func(s string) func(tools.Context) (any, error) {
		return func(tools.Context) (any, error) { return s, nil }
	}
	set.set(t, tool(t, "grow", func(tools.Context) (any, error) {
		set.set(t, tool(t, "late", word("here")), tool(t, "alpha", word("first")))
		return "grown", nil
	}))
	s := newSolo(t, replies(
		reply(scripted.Call("grow", "{}")),
		reply(scripted.Call("late", "{}"), scripted.Call("grow", "{}")),
	), []llmagent.Option{llmagent.WithTools(tool(t, "own", word("own"))), llmagent.WithToolset(set)})
	events, err := s.say(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"own", "grow"}, offered(s.script.requests[0]))
	require.Equal(t, []string{"own", "alpha", "late"}, offered(s.script.requests[1]))
	var told []string
	for _, r := range results(events) {
		told = append(told, event.OutputText(r.Output))
	}
	require.ElementsMatch(t, []string{"grown", "here", `there is no tool "grow". The tools: own, alpha, late`}, told)
	require.Empty(t, notices(events))
}

// Neither a name that is taken nor a set that fails ends a turn, and each run says what
// it goes without.
func TestAToolsetThatClashesOrFails(t *testing.T) {
	word := func(name string) tools.Tool {
		return tool(t, name, func(tools.Context) (any, error) { return name, nil })
	}
	set, broken, more := &changing{}, &changing{err: errors.New("the server s is not there")}, &changing{}
	set.set(t, word("own"), word("billing"), word("transfer_to_billing"), word(agent.TransferTool), word("free"))
	more.set(t, word("free"))
	billing, err := llmagent.New("billing", "", scripted.Always("m", scripted.Reply(scripted.Text("x"))))
	require.NoError(t, err)
	s := newSolo(t, nil, []llmagent.Option{llmagent.WithTools(word("own")), llmagent.WithSubAgents(billing),
		llmagent.WithToolset(set, broken, more), llmagent.WithSettings(llm.Settings{ToolChoice: "gone"})})
	for range 2 {
		events, err := s.say(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{
			"toolset: the server s is not there",
			`toolset: the tool "billing" is left out: it is named like an agent that "solo" can transfer to`,
			`toolset: the tool "own" is left out: another tool of agent "solo" has the name`,
			`toolset: the tool "transfer_to_agent" is left out: the name is reserved`,
			`toolset: the tool "transfer_to_billing" is left out: the name is reserved`,
			`toolset: the tool "free" is left out: another tool of agent "solo" has the name`,
		}, notices(events))
	}
	for _, r := range s.script.requests {
		require.Equal(t, []string{"own", "free", "transfer_to_agent"}, offered(r))
		require.Empty(t, r.ToolChoice)
	}
}

// An agent written as a function calls the tools of sets too, and a tool that has gone is
// an error that says so.
func TestAFunctionWithAToolset(t *testing.T) {
	set := &changing{}
	set.set(t, tool(t, "look", func(tools.Context) (any, error) { return "seen", nil }))
	a, err := llmagent.Func("f", "", func(s *llmagent.Step) error {
		var got string
		if err := s.Call("look", nil, &got); err != nil {
			return err
		}
		if err := s.Call("lok", nil, nil); err != nil {
			got += ", " + err.Error()
		}
		return s.Say(got)
	}, llmagent.WithToolset(set))
	require.NoError(t, err)
	r, err := runner.New(a, sessiontest.Memory(t))
	require.NoError(t, err)
	var said string
	for e, err := range sessiontest.Turn(t, r.Run(t.Context(), key, llm.UserText("Hello"))) {
		require.NoError(t, err)
		if d, ok := e.Data.(*event.Text); ok {
			said += d.Content
		}
	}
	require.Equal(t, `seen, agent "f" has no tool "lok"; did you mean "look"?`, said)
}

// A rule of a policy may be about a tool that a set will have.
func TestRulesAboutToolsOfSets(t *testing.T) {
	p, err := tools.NewPolicy(tools.Rule{Tool: "later", Decision: tools.Deny})
	require.NoError(t, err)
	set := &changing{}
	set.set(t, tool(t, "later", func(tools.Context) (any, error) { return "ran", nil }))
	s := newSolo(t, replies(reply(scripted.Call("later", "{}"))), []llmagent.Option{llmagent.WithToolset(set), llmagent.WithToolPolicy(p)})
	events, err := s.say(t.Context())
	require.NoError(t, err)
	require.Contains(t, string(results(events)[0].Output), "denied")
	_, err = llmagent.New("a", "", s.script, llmagent.WithToolset(nil))
	require.ErrorContains(t, err, "set of tools 0 is nil")
}
