package llmagent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
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
	r := must.Get(tools.NewRegistry(all...))
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
	events := must.Get(s.say(t.Context()))
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
	billing := must.Get(llmagent.New("billing", "", scripted.Always("m", scripted.Reply(scripted.Text("x")))))
	s := newSolo(t, nil, []llmagent.Option{llmagent.WithTools(word("own")), llmagent.WithSubAgents(billing),
		llmagent.WithToolset(set, broken, more), llmagent.WithSettings(llm.Settings{ToolChoice: "gone"})})
	for range 2 {
		events := must.Get(s.say(t.Context()))
		require.Equal(t, []string{
			"toolset: the server s is not there",
			`toolset: the tool "billing" is omitted: an agent that "solo" can transfer to has this name`,
			`toolset: the tool "own" is omitted: another tool of agent "solo" has this name`,
			`toolset: the tool "transfer_to_agent" is omitted: the name is reserved`,
			`toolset: the tool "transfer_to_billing" is omitted: the name is reserved`,
			`toolset: the tool "free" is omitted: another tool of agent "solo" has this name`,
		}, notices(events))
	}
	for _, r := range s.script.requests {
		require.Equal(t, []string{"own", "free", "transfer_to_agent"}, offered(r))
		require.Empty(t, r.ToolChoice)
	}
}

// TestASetThatIsAwayKeepsItsNames: while a set is away, a call of its tool does not run a tool of the same name of another set.
func TestASetThatIsAwayKeepsItsNames(t *testing.T) {
	ran := func(where string) tools.Tool {
		return tool(t, "delete", func(tools.Context) (any, error) { return "deleted in " + where, nil })
	}
	staging, production := &changing{}, &changing{}
	staging.set(t, ran("staging"))
	production.set(t, ran("production"))
	s := newSolo(t, replies(reply(scripted.Call("delete", "{}")), reply(scripted.Text("Done.")), reply(scripted.Call("delete", "{}")), reply(scripted.Text("Done.")), reply(scripted.Call("delete", "{}"))),
		[]llmagent.Option{llmagent.WithToolset(staging, production)})
	for _, want := range []string{"deleted in staging", `there is no tool "delete"`, "deleted in staging"} {
		events := must.Get(s.say(t.Context()))
		require.Contains(t, event.OutputText(results(events)[0].Output), want)
		if strings.HasPrefix(want, "there") {
			require.Contains(t, notices(events), `toolset: the tool "delete" is omitted: a toolset of agent "solo" that is away has a tool with this name`)
			staging.set(t, ran("staging"))
		} else {
			staging.have = nil
		}
	}
}

// A client cannot take the name of a tool of a set that is away either.
func TestAClientCannotTakeTheNameOfASetThatIsAway(t *testing.T) {
	set := &changing{}
	set.set(t, tool(t, "delete", func(tools.Context) (any, error) { return "deleted", nil }))
	s := newSolo(t, replies(reply(scripted.Call("delete", "{}")), reply(scripted.Text("Done.")), reply(scripted.Call("delete", "{}")), reply(scripted.Text("Done."))),
		[]llmagent.Option{llmagent.WithToolset(set)})
	must.Get(s.say(t.Context()))
	set.have = nil
	client := tools.ClientTools{Tools: []tools.ClientTool{{Name: "delete", Parameters: json.RawMessage(`{"type":"object"}`)}}}
	events := must.All(sessiontest.Turn(t, s.runner.Run(t.Context(), key, llm.UserText("Delete it"), runner.WithMetadata(map[string]any{tools.ClientKey: client}))))
	require.Contains(t, event.OutputText(results(events)[0].Output), `there is no tool "delete"`)
}

// A set that is required ends the turn before its model is asked, and the start of a program; the
// result of a turn that goes on says what it goes without.
func TestAToolsetThatIsRequired(t *testing.T) {
	gone := &required{changing{err: fmt.Errorf("%w: the server s is not there", tools.ErrRequired)}}
	away := &changing{err: errors.New("the server t is not there")}
	a := func(opts ...llmagent.Option) agent.Agent {
		return must.Get(llmagent.New("a", "", scripted.Always("m", scripted.Reply(scripted.Text("Answered."))), opts...))
	}
	f := must.Get(llmagent.Func("f", "", func(s *llmagent.Step) error { return s.Say("Answered.") }, llmagent.WithToolset(gone)))
	for _, root := range []agent.Agent{a(llmagent.WithToolset(away, gone)), f} {
		r := must.Get(runner.New(root, sessiontest.Memory(t)))
		require.ErrorIs(t, r.Start(t.Context()), tools.ErrRequired)
		res, err := runner.Collect(r.Run(t.Context(), key, llm.UserText("Hello")))
		require.ErrorIs(t, err, tools.ErrRequired)
		require.ErrorContains(t, err, "the server s is not there")
		require.Empty(t, res.Text)
	}
	r := must.Get(runner.New(a(llmagent.WithToolset(away)), sessiontest.Memory(t)))
	require.NoError(t, r.Start(t.Context()))
	res := must.Get(runner.Collect(r.Run(t.Context(), key, llm.UserText("Hello"))))
	require.Equal(t, []*event.Notice{{Code: event.NoticeToolset, Message: "the server t is not there"}}, res.Notices)
}

// required is a set that a program must not start without.
type required struct{ changing }

func (r *required) Start(ctx context.Context) error {
	_, err := r.Tools(ctx)
	return err
}

// An agent written as a function calls the tools of sets too, and a tool that has gone is
// an error that says so.
func TestAFunctionWithAToolset(t *testing.T) {
	set := &changing{}
	set.set(t, tool(t, "look", func(tools.Context) (any, error) { return "seen", nil }))
	a := must.Get(llmagent.Func("f", "", func(s *llmagent.Step) error {
		var got string
		if err := s.Call("look", nil, &got); err != nil {
			return err
		}
		if err := s.Call("lok", nil, nil); err != nil {
			got += ", " + err.Error()
		}
		return s.Say(got)
	}, llmagent.WithToolset(set)))
	r := must.Get(runner.New(a, sessiontest.Memory(t)))
	var said string
	for _, e := range must.All(sessiontest.Turn(t, r.Run(t.Context(), key, llm.UserText("Hello")))) {
		if d, ok := e.Data.(*event.Text); ok {
			said += d.Content
		}
	}
	require.Equal(t, `seen, agent "f" has no tool "lok"; did you mean "look"?`, said)
}

// A rule of a policy may be about a tool that a set will have. If no set has it, the tools of sets are
// refused until that is mended, in the policy or in the list.
func TestRulesAboutToolsOfSets(t *testing.T) {
	named := func(names ...string) (all []tools.Tool) {
		for _, name := range names {
			all = append(all, tool(t, name, func(tools.Context) (any, error) { return name + " ran", nil }))
		}
		return all
	}
	set := func(all ...tools.Tool) *changing {
		c := &changing{}
		c.set(t, all...)
		return c
	}
	own := func(name, own string) tools.Tool {
		return must.Get(tools.New(tools.Info{ToolSpec: llm.ToolSpec{Name: name}, Own: own}, func(tools.Context, json.RawMessage) (any, error) { return name + " ran", nil }))
	}
	away := &changing{err: errors.New("the server s is not there")}
	amount := map[string]tools.Arg{"amount": {Above: 5}}
	const mistake = `the tool policy of agent "solo" has a mistake: `
	for name, c := range map[string]struct {
		static []tools.Tool
		sets   []tools.Set
		rule   tools.Rule
		calls  map[string]string // to their results
		notice string
	}{
		"there":           {named("own"), []tools.Set{set(named("later")...)}, tools.Rule{Tool: "later"}, map[string]string{"later": "denied: this call is not allowed", "own": "own ran"}, ""},
		"its own name":    {nil, []tools.Set{set(own("s_pay", "pay"))}, tools.Rule{Tool: "pay"}, map[string]string{"s_pay": "denied: this call is not allowed"}, ""},
		"in no set":       {named("own"), []tools.Set{set(named("a")...), set(named("b")...)}, tools.Rule{Tool: "later"}, map[string]string{"a": `there is no tool "later"`, "b": `there is no tool "later"`, "own": "own ran"}, `there is no tool "later"`},
		"misspelt":        {named("refund"), []tools.Set{set(named("a")...)}, tools.Rule{Tool: "refunds"}, map[string]string{"refund": `there is no tool "refunds"`}, `there is no tool "refunds"; did you mean "refund"?`},
		"no argument":     {nil, []tools.Set{set(named("later")...)}, tools.Rule{Tool: "later", Args: amount}, map[string]string{"later": `the tool later has no argument "amount"`}, `the tool later has no argument "amount"`},
		"two of the name": {nil, []tools.Set{set(own("s_pay", "pay")), set(own("t_pay", "pay"))}, tools.Rule{Tool: "pay"}, map[string]string{"s_pay": `"pay" means 2 tools`}, `"pay" means 2 tools, s_pay and t_pay`},
		"one is away":     {named("own"), []tools.Set{away, set(named("a", "latter")...)}, tools.Rule{Tool: "later"}, map[string]string{"a": "a ran", "own": "own ran", "latter": `there is no tool "later"`}, `there is no tool "later"; did you mean "latter"?`},
		"all are away":    {named("own"), []tools.Set{away}, tools.Rule{Tool: "later"}, map[string]string{"own": "own ran"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.rule.Decision = tools.Deny
			p := must.Get(tools.NewPolicy(c.rule))
			var calls []scripted.Item
			for _, name := range slices.Sorted(maps.Keys(c.calls)) {
				calls = append(calls, scripted.Call(name, "{}"))
			}
			s := newSolo(t, replies(reply(calls...)), []llmagent.Option{llmagent.WithTools(c.static...), llmagent.WithToolset(c.sets...), llmagent.WithToolPolicy(p)})
			events := must.Get(s.say(t.Context()))
			for _, r := range results(events) {
				require.Contains(t, event.OutputText(r.Output), c.calls[r.Name])
				require.Equal(t, !strings.HasSuffix(c.calls[r.Name], " ran"), r.IsError)
			}
			root := s.runner.Tree().Root()
			a, _ := agent.As[*llmagent.Agent](root.Agent)
			for name, want := range c.calls { // of a person who runs a tool by hand
				all := slices.Clone(c.static)
				for _, s := range c.sets {
					if r, _ := s.Tools(t.Context()); r.Get(name) != nil {
						all = append(all, r.Get(name))
					}
				}
				at := slices.IndexFunc(all, func(t tools.Tool) bool { return t.Info().Name == name })
				d, why := a.Decide(t.Context(), root, all[at], json.RawMessage(`{}`))
				require.Equal(t, !strings.HasSuffix(want, " ran"), d == tools.Deny, name)
				require.Equal(t, c.notice != "" && d == tools.Deny, why != "", name)
			}
			told := strings.Join(slices.DeleteFunc(notices(events), func(n string) bool { return strings.Contains(n, "not there") }), "\n")
			require.Equal(t, c.notice != "", strings.HasPrefix(told, "toolset: "+mistake+c.notice), told)
			require.Equal(t, c.notice == "", told == "", told)
		})
	}
	_, err := llmagent.New("a", "", scripted.Always("m", reply()), llmagent.WithToolset(nil))
	require.ErrorContains(t, err, "toolset 0 is nil")
}

// A list that changes asks anew: the mistake is there as long as the tool is missing.
func TestAListThatMendsAMistake(t *testing.T) {
	p := must.Get(tools.NewPolicy(tools.Rule{Tool: "later", Decision: tools.Deny}))
	ran := func(tools.Context) (any, error) { return "ran", nil }
	set := &changing{}
	set.set(t, tool(t, "other", ran))
	s := newSolo(t, replies(reply(scripted.Call("other", "{}")), reply(scripted.Text("Done.")), reply(scripted.Call("other", "{}")), reply(scripted.Text("Done.")), reply(scripted.Call("other", "{}"))),
		[]llmagent.Option{llmagent.WithToolset(set), llmagent.WithToolPolicy(p)})
	for _, want := range []string{"refused: ", "ran", "refused: "} {
		events := must.Get(s.say(t.Context()))
		require.Contains(t, event.OutputText(results(events)[0].Output), want)
		if want == "ran" {
			set.set(t, tool(t, "other", ran))
		} else {
			set.set(t, tool(t, "other", ran), tool(t, "later", ran))
		}
	}
}

// late is a set that has tools from the second time on.
type late struct {
	changing
	asked int
	waits chan struct{} // until another set is asked too
}

func (l *late) String() string { return "mcp late" }

func (l *late) Tools(ctx context.Context) (*tools.Registry, error) {
	if l.asked++; l.asked == 1 {
		<-l.waits
		return nil, errors.New("the server has not answered yet")
	}
	return l.changing.Tools(ctx)
}

// second is a set that lets late continue.
type second struct {
	changing
	once sync.Once
	of   *late
}

func (s *second) Tools(ctx context.Context) (*tools.Registry, error) {
	s.once.Do(func() { close(s.of.waits) })
	return s.changing.Tools(ctx)
}

// Sets are asked at the same time, and one whose tools come in the middle of a run is offered from the
// next question on, with a notice.
func TestAToolsetThatComesLate(t *testing.T) {
	set := &late{waits: make(chan struct{})}
	set.set(t, tool(t, "look", func(tools.Context) (any, error) { return "seen", nil }))
	own := tool(t, "own", func(tools.Context) (any, error) { return "own", nil })
	s := newSolo(t, replies(reply(scripted.Call("own", "{}")), reply(scripted.Call("look", "{}"))),
		[]llmagent.Option{llmagent.WithTools(own), llmagent.WithToolset(set, &second{of: set})})
	events := must.Get(s.say(t.Context()))
	require.Equal(t, []string{"toolset: the server has not answered yet", "toolset: the tools of mcp late are available again"}, notices(events))
	require.Equal(t, []string{"own"}, offered(s.script.requests[0]))
	require.Equal(t, []string{"own", "look"}, offered(s.script.requests[1]))
	events = must.Get(s.say(t.Context()))
	require.Empty(t, notices(events))
}
