package transfer_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools/transfer"
)

func TestToolPerTarget(t *testing.T) {
	in := agent.WithTransferInput[struct {
		Order int `json:"order"`
	}]()
	tree, err := agent.NewTree(node(t, "support", "", open, agent.Via(node(t, "billing", odd, open), in), node(t, "tech", "", open)))
	require.NoError(t, err)
	n := tree.Root()
	specs, words := transfer.DefaultForm(transfer.ToolPerTarget).Offer(n, n.Targets(), "")
	require.Equal(t, []llm.ToolSpec{
		{Name: "transfer_to_billing", Description: "Transfers the conversation to this agent, which reads all of it and answers in your place:\n- billing: " + odd,
			Parameters: json.RawMessage(`{"type":"object","properties":{"reason":{"type":"string","description":"Why, in a few words"},"input":` +
				string(n.InputFor(n.Targets()[0]).Schema) + `},"required":["input"],"additionalProperties":false}`),
			Aliases: []string{"billing", "transfer_to_agent"}, Bare: []string{"transfer_to_billing"}},
		{Name: "transfer_to_tech", Description: "Transfers the conversation to this agent, which reads all of it and answers in your place:\n- tech",
			Parameters: json.RawMessage(`{"type":"object","properties":{"reason":{"type":"string","description":"Why, in a few words"}},"additionalProperties":false}`),
			Aliases:    []string{"tech", "transfer_to_agent"}, Bare: []string{"transfer_to_tech"}},
	}, specs)
	require.True(t, strings.HasPrefix(words, "You are support\nOther agents, for other work only, each with its tool:\n- billing (transfer_to_billing): "+odd+"\n- tech (transfer_to_tech)\n"), words)

	specs, words = transfer.DefaultForm(transfer.ToolPerTarget).Offer(n, n.Targets()[1:], "")
	require.Len(t, specs, 1)
	require.True(t, strings.HasPrefix(words, "You are support\nOther agents, for other work only, each with its tool:\n- tech (transfer_to_tech)\nIf "))
	specs, words = transfer.DefaultForm(transfer.ToolPerTarget).Offer(n, nil, "")
	require.Empty(t, specs)
	require.Equal(t, "You are support", words)

	one, _ := transfer.DefaultForm(transfer.OneTool).Offer(n, n.Targets(), "")
	require.Equal(t, []string{"billing", "transfer_to_billing", "tech", "transfer_to_tech"}, one[0].Aliases)
}

// Words of one's own are shown as they are, and a placeholder for targets in a
// description is not replaced.
func TestWordsOfOnesOwn(t *testing.T) {
	tree, err := agent.NewTree(node(t, "root", "", closed, node(t, "leaf", "{tool} {targets}", closed)))
	require.NoError(t, err)
	n := tree.Root()
	for _, c := range []struct {
		form        transfer.Form
		words       string
		name, about string
	}{
		{transfer.Form{Tools: transfer.OneTool, Name: "handoff", Description: "Ask:", Begun: transfer.Instructions{Targets: "Use {tool}: {targets}\n{targets}."}},
			"Use handoff: - leaf: {tool} {targets}\n- leaf: {tool} {targets}.", "handoff", "Ask:\n- leaf: {tool} {targets}"},
		{transfer.Form{Tools: transfer.ToolPerTarget, Name: "ask_", Description: "Ask {tool}:", Begun: transfer.Instructions{Targets: "Nothing but this."}},
			"Nothing but this.", "ask_leaf", "Ask {tool}:\n- leaf: {tool} {targets}"},
		{transfer.Form{Tools: transfer.ToolPerTarget, Name: "ask_", Description: "Ask:"}, "", "ask_leaf", "Ask:\n- leaf: {tool} {targets}"},
	} {
		specs, words := c.form.Offer(n, n.Targets(), "")
		require.Equal(t, c.words, words)
		require.Equal(t, c.name, specs[0].Name)
		require.Equal(t, c.about, specs[0].Description)
	}
}

func TestTargetOf(t *testing.T) {
	n := support(t).Node("billing") // to support, refunds, invoices, tech, Desk-EU, desk-eu
	one, each := transfer.DefaultForm(transfer.OneTool), transfer.DefaultForm(transfer.ToolPerTarget)
	own := transfer.Form{Tools: transfer.OneTool, Name: "handoff"}
	ask := transfer.Form{Tools: transfer.ToolPerTarget, Name: "ask_"}
	for name, c := range map[string]struct {
		target string
		in     []transfer.Form
	}{
		"transfer_to_agent":   {"", []transfer.Form{one, each, own, ask}},
		"handoff":             {"", []transfer.Form{own}},
		"refunds":             {"refunds", []transfer.Form{one, each, own, ask}},
		"transfer_to_refunds": {"refunds", []transfer.Form{one, each, own, ask}},
		"transfer_to_nobody":  {"nobody", []transfer.Form{one, each, own, ask}},
		"ask_refunds":         {"refunds", []transfer.Form{ask}},
		"ask_nobody":          {"nobody", []transfer.Form{ask}},
		"transfer_to_":        {"", nil},
		"ask_":                {"", nil},
		"billing":             {"", nil},
		"Refunds":             {"", nil},
		"lookup":              {"", nil},
		"":                    {"", nil},
	} {
		for _, f := range []transfer.Form{one, each, own, ask} {
			target, ok := f.TargetOf(n, name)
			want := false
			for _, in := range c.in {
				want = want || in == f
			}
			require.Equal(t, want, ok, "%s, %v", name, f)
			if ok {
				require.Equal(t, c.target, target)
			}
		}
	}
}

// What a model gave with a call is in the log, and comes back to it.
func TestCallsComeBack(t *testing.T) {
	each := transfer.DefaultForm(transfer.ToolPerTarget)
	for given, logged := range map[string]string{
		`{}`:                                 `{"agent_name":"billing"}`,
		`{"reason":"a & b"}`:                 `{"agent_name":"billing","reason":"a & b"}`,
		`{"reason":3,"input":{"b":1,"a":2}}`: `{"agent_name":"billing","input":{"b":1,"a":2},"reason":3}`,
		`{"order":7}`:                        `{"agent_name":"billing","order":7}`,
		`{"raw":"oops"}`:                     `{"agent_name":"billing","raw":"oops"}`,
	} {
		input := transfer.Input("billing", json.RawMessage(given))
		require.Equal(t, logged, string(input))
		name, arguments := each.ToolCall(input)
		require.Equal(t, "transfer_to_billing", name)
		require.JSONEq(t, given, string(arguments))
		name, arguments = transfer.DefaultForm(transfer.OneTool).ToolCall(input)
		require.Equal(t, agent.TransferTool, name)
		require.Equal(t, logged, string(arguments))
	}
	for given, logged := range map[string]string{
		`{"agent_name":"tech","AGENT_NAME":"tech","a":1}`:               `{"agent_name":"billing","a":1}`, // the tool's name says it
		`{"raw":"\"{\\\"reason\\\":\\\"r\\\"}\""}`:                      `{"agent_name":"billing","reason":"r"}`,
		`{"raw":"\"{\\\"input\\\":{},\\\"agent_name\\\":\\\"x\\\"}\""}`: `{"agent_name":"billing","input":{}}`,
		`null`: `{"agent_name":"billing"}`,
		``:     `{"agent_name":"billing"}`,
		`[1]`:  `{"agent_name":"billing"}`,
	} {
		input := transfer.Input("billing", json.RawMessage(given))
		require.Equal(t, logged, string(input))
		call, err := transfer.Parse(input)
		require.NoError(t, err)
		require.Equal(t, "billing", call.Target)
	}
	for _, input := range []string{`{}`, `{"agent_name":""}`, `{"agent_name":3}`, `{"agent_name":"a b"}`, `{"agent_name":"` + strings.Repeat("x", 53) + `"}`,
		`{"agent_name":"agent"}`, `{"raw":"{oops"}`, `null`, ``} {
		name, arguments := each.ToolCall(json.RawMessage(input))
		require.Equal(t, agent.TransferTool, name, input)
		require.Equal(t, input, string(arguments))
	}
}

func TestNamesOfTools(t *testing.T) {
	each := transfer.DefaultForm(transfer.ToolPerTarget)
	own := func(name string) bool { return name == "transfer_to_tech" || name == "lookup" }
	long := strings.Repeat("x", 53)
	require.Empty(t, each.Check([]string{"billing", long[1:]}, own))
	const advice = "; rename one of them, or offer one tool for all targets"
	require.Equal(t, []string{
		`there can be no tool for transfers to "` + long + `" alone: its name transfer_to_` + long + ` has 65 characters, and at most 64 are allowed` + advice,
		`there can be no tool for transfers to "agent" alone: its name transfer_to_agent is reserved` + advice,
		`there can be no tool for transfers to "tech" alone: its name transfer_to_tech is that of another of its tools` + advice,
		`there can be no tool for transfers to "a" alone: its name transfer_to_a is that of another agent to transfer to` + advice,
	}, each.Check([]string{long, "agent", "tech", "a", "transfer_to_a"}, own))
	require.Empty(t, transfer.DefaultForm(transfer.OneTool).Check([]string{long, "agent", "tech", "a", "transfer_to_a"}, own))
	require.Equal(t, []string{"transfer_to_a", "transfer_to_b"}, each.Names([]string{"a", "b"}))
	require.Equal(t, []string{agent.TransferTool}, transfer.DefaultForm(transfer.OneTool).Names([]string{"a", "b"}))
	require.Empty(t, transfer.DefaultForm(transfer.OneTool).Names(nil))
}
