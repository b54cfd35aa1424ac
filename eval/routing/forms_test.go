package routing

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/eval"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/tools/transfer"
)

// routing returns a model that routes messages of the form "NAME NUMBER" to the agent NAME, in each form up to
// some number, and answers others itself. It writes three such messages for each agent.
func routing(t *testing.T, upTo map[Form]int, raw Form) *answering {
	m := &answering{t: t}
	m.answer = func(text string) (string, error) {
		if _, rest, ok := strings.Cut(text, "that are for "); ok {
			name, _, _ := strings.Cut(rest, ",")
			return fmt.Sprintf("%s 1\n%[1]s 2\n%[1]s 3", name), nil
		}
		return "", nil
	}
	m.routes = func(req *llm.Request) *llm.Chunk {
		name, number := "", 0
		said := req.Messages[len(req.Messages)-1].PlainText()
		question := strings.Contains(req.System, "You do not answer yet. You say who answers:")
		if question {
			said = strings.TrimSpace(strings.Trim(said[strings.Index(said, `"`):strings.LastIndex(said, `"`)], `"`))
		}
		if n, _ := fmt.Sscanf(said, "%s %d", &name, &number); n < 2 || req.Agent == "" {
			return nil
		}
		require.NotContains(t, req.System, "never shown")
		form := OneForm
		switch {
		case question:
			form = SmallForm
		case req.Agent != "support" || len(req.Tools) == 0:
			return &llm.Chunk{Text: "Done."}
		case req.Tools[len(req.Tools)-1].Name != agent.TransferTool:
			form = EachForm
		}
		switch right := number <= upTo[form]; {
		case !right && form == raw:
			return &llm.Chunk{Text: "transfer_to_agent"}
		case form == SmallForm && right:
			return &llm.Chunk{Text: name}
		case form == SmallForm:
			return &llm.Chunk{Text: "support"}
		case !right:
			return &llm.Chunk{Text: "I can help you."}
		case form == EachForm:
			return &llm.Chunk{Call: &llm.ToolCall{ID: "c", Name: "transfer_to_" + name, Arguments: "{}"}}
		}
		return &llm.Chunk{Call: &llm.ToolCall{ID: "c", Name: agent.TransferTool, Arguments: `{"agent_name":"` + name + `"}`}}
	}
	return m
}

func formsTree(t *testing.T, m llm.Model, opts ...llmagent.Option) *agent.Tree {
	var kids []agent.Agent
	for _, name := range []string{"billing", "refunds"} {
		k, err := llmagent.New(name, "You are "+name+".", m, llmagent.WithDescription("For "+name))
		require.NoError(t, err)
		kids = append(kids, k)
	}
	far, err := a2a.Remote("tech", "http://127.0.0.1:1", a2a.WithDescription("For networks"))
	require.NoError(t, err)
	support, err := llmagent.New("support", "You help.", m, append(opts, llmagent.WithSubAgents(append(kids, far)...))...)
	require.NoError(t, err)
	tree, err := agent.NewTree(support)
	require.NoError(t, err)
	return tree
}

// TestForms: models of which each does better with another form, and trees that have one or the other. The
// agent that is remote is not asked.
func TestForms(t *testing.T) {
	small, each := llmagent.WithSmallModels(), llmagent.WithTransferTools(transfer.ToolPerTarget)
	for name, c := range map[string]struct {
		upTo map[Form]int
		raw  Form
		has  []llmagent.Option
		take Form
		why  string
	}{
		"a tool for each is better": {map[Form]int{EachForm: 3}, "", nil, EachForm,
			"take transfer: {tools: each}: with transfer: {tools: each} 9 of 9 messages end at the right agent, with transfer: {tools: one} 0, which is hardly chance"},
		"one tool is better": {map[Form]int{OneForm: 3, EachForm: 1, SmallForm: 1}, "", []llmagent.Option{each}, OneForm,
			"take transfer: {tools: one}: with transfer: {tools: one} 9 of 9 messages end at the right agent, with transfer: {tools: each} 3, which is hardly chance"},
		"the profile is better": {map[Form]int{OneForm: 1, EachForm: 1, SmallForm: 3}, "", nil, SmallForm,
			"take transfer: {profile: small}: with transfer: {profile: small} 9 of 9 messages end at the right agent, with transfer: {tools: one} 3, which is hardly chance"},
		"equal": {map[Form]int{OneForm: 2, EachForm: 2, SmallForm: 2}, "", []llmagent.Option{small}, SmallForm,
			"keep transfer: {profile: small}: in no other form more messages end at the right agent"},
		"perhaps better": {map[Form]int{OneForm: 2, EachForm: 3, SmallForm: 3}, "", nil, OneForm,
			"keep transfer: {tools: one}: with transfer: {tools: each} 9 of 9 messages end at the right agent, with transfer: {tools: one} 6, which may be chance (p = 0.25); write more messages to know"},
		"calls as words": {map[Form]int{EachForm: 3}, OneForm, nil, EachForm,
			"take transfer: {tools: each}: with transfer: {tools: each} 9 of 9 messages end at the right agent, with transfer: {tools: one} 0, which is hardly chance"},
	} {
		t.Run(name, func(t *testing.T) {
			m := routing(t, c.upTo, c.raw)
			s := NewSurvey(formsTree(t, m, c.has...), m, 3, func(name string) (string, int) { return name + ".md", 1 })
			got, err := s.Ask(t.Context())
			require.NoError(t, err)
			require.Equal(t, 10*m.asked, got.Used.InputTokens)
			require.Equal(t, c.take, got.Take)
			require.Equal(t, c.why, got.Why)
			require.Len(t, got.Forms, 3)
			for i, form := range []Form{OneForm, EachForm, SmallForm} {
				f := got.Forms[i]
				require.Equal(t, form, f.Form)
				require.Equal(t, eval.Wilson(3*c.upTo[form], 9), f.Right)
				require.InDelta(t, float64(c.upTo[form])/3, f.Transfers, 1e-9)
				require.Equal(t, f.Now && form != c.take, len(got.Findings) > 0 && f.Now)
				if form == c.raw {
					require.Equal(t, 9, f.Leaked)
				} else {
					require.Zero(t, f.Leaked)
				}
			}
			for _, f := range got.Findings {
				require.Equal(t, Finding{Kind: Transfers, Agents: []string{"support"}, File: "support.md", Line: 1, Message: c.why}, f)
			}
			data, err := json.Marshal(got)
			require.NoError(t, err)
			require.Contains(t, string(data), `"take":"`+string(c.take)+`"`)
		})
	}
}

// TestFormsThatDoNotFit: a tool for each target is not measured where its name is not legal, an endpoint that
// cannot be reached ends the survey, and a tree without a model that has a choice has no forms.
func TestFormsThatDoNotFit(t *testing.T) {
	m := routing(t, map[Form]int{OneForm: 3, SmallForm: 3}, "")
	long := strings.Repeat("x", 60)
	tree, err := agent.NewTree((&plan{name: "support", kids: []*plan{{name: long, description: "Invoices"}, {name: "tech", description: "Networks"}}}).make(t))
	require.NoError(t, err)
	got, err := NewSurvey(tree, m, 1, nil).Ask(t.Context())
	require.NoError(t, err)
	require.Len(t, got.Forms, 2)
	require.Equal(t, []Form{OneForm, SmallForm}, []Form{got.Forms[0].Form, got.Forms[1].Form})
	require.Equal(t, 2, got.Forms[0].Right.Right)

	routes, gone := m.routes, &llm.Error{Code: llm.CodeUnreachable, Message: "gone"}
	m.routes = func(req *llm.Request) *llm.Chunk {
		if routes(req) != nil {
			m.answer = func(string) (string, error) { return "", gone }
		}
		return nil
	}
	got, err = NewSurvey(tree, m, 1, nil).Ask(t.Context())
	require.True(t, errors.Is(err, gone), "%v", err)
	require.Empty(t, got.Forms)

	tree, err = agent.NewTree((&plan{name: "front", router: true, fallback: "a", kids: []*plan{{name: "a"}, {name: "b"}}}).make(t))
	require.NoError(t, err)
	got, err = NewSurvey(tree, m, 3, nil).Ask(t.Context())
	require.NoError(t, err)
	require.Empty(t, got.Forms)
	require.Empty(t, got.Why)
}

// TestBelowAndAbove: what is right for a message depends on who was offered when it was written.
func TestBelowAndAbove(t *testing.T) {
	tree, err := agent.NewTree((&plan{name: "support", kids: []*plan{
		{name: "billing"}, {name: "tech", policy: agent.TransferPolicy{AllowTransferToParent: true}, kids: []*plan{{name: "auth"}, {name: "network"}}},
	}}).make(t))
	require.NoError(t, err)
	s := NewSurvey(tree, routing(t, nil, ""), 1, nil)
	require.Len(t, s.groups, 2)
	for _, g := range s.groups {
		for _, target := range g.targets {
			s.written(g, target, []string{target.Agent.Name()})
		}
	}
	right := map[string][]string{}
	for _, m := range s.samples {
		right[m.text] = m.right
	}
	require.Equal(t, map[string][]string{"billing": {"billing"}, "tech": {"tech", "auth", "network"},
		"support": {"support", "billing", "tech"}, "auth": {"auth"}, "network": {"network"}}, right)
}

func TestChance(t *testing.T) {
	for _, c := range []struct {
		better, worse int
		want          float64
	}{{0, 0, 1}, {1, 0, 1}, {5, 0, 0.0625}, {6, 0, 0.03125}, {3, 3, 1}, {9, 1, 0.021484375}, {1, 9, 0.021484375}} {
		require.InDelta(t, c.want, chance(c.better, c.worse), 1e-9, "%v", c)
	}
}
