package llmagent_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/tools"
)

// A rule that is about no tool would hold up nothing: that is a problem of the tree.
func TestRulesNameTools(t *testing.T) {
	tool := func(name string) tools.Tool {
		return must.Get(tools.Func(name, "", func(tools.Context, struct {
			Amount int `json:"amount"`
		}) (string, error) {
			return "", nil
		}))
	}
	rules := func(names ...string) *tools.Policy {
		var all []tools.Rule
		for _, name := range names {
			all = append(all, tools.Rule{Tool: name, Decision: tools.Ask, Args: map[string]tools.Arg{"amount": {Matches: "^9"}}})
		}
		return must.Get(tools.NewPolicy(all...))
	}
	made := func(name string, opts ...llmagent.Option) agent.Agent {
		return must.Get(llmagent.New(name, "", scripted.Always("m", scripted.Reply(scripted.Text("x"))), opts...))
	}
	shared, wrong := rules("refund", "look*", "*"), rules("refund", "lookup", "audit_*")
	misspelt := must.Get(tools.NewPolicy(tools.Rule{Tool: "refund", Decision: tools.Ask, Args: map[string]tools.Arg{"ammount": {Above: 100}}}))
	for name, c := range map[string]struct {
		root     agent.Agent
		problems []string
	}{
		"its own": {made("root", llmagent.WithTools(tool("refund"), tool("lookup")), llmagent.WithToolPolicy(shared)), nil},
		"any":     {made("root", llmagent.WithToolPolicy(rules("*"))), nil},
		"shared": {made("root", llmagent.WithToolPolicy(shared), llmagent.WithSubAgents(
			made("a", llmagent.WithTools(tool("refund")), llmagent.WithToolPolicy(shared)),
			made("b", llmagent.WithTools(tool("lookup")), llmagent.WithToolPolicy(shared)))), nil},
		"a typo": {made("root", llmagent.WithTools(tool("refund")), llmagent.WithToolPolicy(rules("refunds"))), []string{
			`root: the tool policy of agent "root" has a mistake: there is no tool "refunds"; did you mean "refund"?`}},
		"one that another has": {made("root", llmagent.WithTools(tool("refund")), llmagent.WithSubAgents(
			made("a", llmagent.WithTools(tool("other")), llmagent.WithToolPolicy(rules("refund"))))), []string{
			`root/a: the tool policy of agent "a" has a mistake: there is no tool "refund"`}},
		"told once": {made("root", llmagent.WithSubAgents(
			made("a", llmagent.WithTools(tool("lookup")), llmagent.WithToolPolicy(wrong)),
			made("b", llmagent.WithTools(tool("refund")), llmagent.WithToolPolicy(wrong)))), []string{
			`root/a: the tool policy of agent "a" has a mistake: there is no tool "audit_*"`}},
		"no such argument": {made("root", llmagent.WithTools(tool("refund")), llmagent.WithToolPolicy(misspelt)), []string{
			`root: the tool policy of agent "root" has a mistake: the tool refund has no argument "ammount"; did you mean "amount"?`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := agent.NewTree(c.root)
			if c.problems == nil {
				require.NoError(t, err)
				return
			}
			tree := must.As[*agent.TreeError](err)
			var got []string
			for _, p := range tree.Problems {
				got = append(got, p.String())
			}
			require.Equal(t, c.problems, got)
		})
	}
}

// Parts of an agent have its rules, and are looked at when they are made.
func TestRulesOfParts(t *testing.T) {
	refund := must.Get(tools.Func("refund", "", func(tools.Context, struct{}) (string, error) { return "", nil }))
	p := must.Get(tools.NewPolicy(tools.Rule{Tool: "refnd", Decision: tools.Ask}))
	a := must.Get(llmagent.New("a", "", scripted.Always("m", scripted.Reply(scripted.Text("x"))), llmagent.WithTools(refund), llmagent.WithToolPolicy(p)))
	const mistake = `the tool policy of agent "a" has a mistake: there is no tool "refnd"; did you mean "refund"?`
	_, err := a.ToolAgent("refund")
	require.EqualError(t, err, mistake)
	_, _, err = a.Split()
	require.EqualError(t, err, mistake)
}
