package runner_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools/transfer"
	"github.com/agentarbor/arbor/view"
)

var perTarget = llmagent.WithTransferTools(transfer.ToolPerTarget)

// ownCalls returns the calls that a request shows its model as its own.
func ownCalls(t *testing.T, req *llm.Request) (calls []string) {
	require.NoError(t, view.Check(req))
	for _, m := range req.Messages {
		for _, p := range m.Parts {
			switch p := p.(type) {
			case llm.ToolCall:
				calls = append(calls, p.Name+" "+p.Arguments)
			case llm.ToolResult:
				require.True(t, strings.HasPrefix(calls[len(calls)-1], p.Name+" "))
			}
		}
	}
	return calls
}

// TestInputOfAToolPerTarget: what a transfer must carry is the property of that target's
// tool alone, is checked and kept as ever, and comes back as the model gave it.
func TestInputOfAToolPerTarget(t *testing.T) {
	m := &asked{answers: []scripted.Answer{
		scripted.Reply(scripted.Call("transfer_to_refunds", `{"order": 7}`)),
		scripted.Reply(scripted.Call("transfer_to_refunds", `{"input":{"order":"seven"},"reason":"a & b"}`)),
		scripted.Reply(scripted.Call("transfer_to_refunds", `"{\"input\":{\"order\":7}}"`)),
	}}
	root := must.Get(llmagent.New("support", "", m.model("support"), perTarget, llmagent.WithSubAgents(
		agent.Via(says(t, "refunds", "Refunded."), agent.WithTransferInput[refundCase]()), says(t, "other", "Other."))))
	r := newRun(t, root)
	events := run(t, r, s1, "Refund 7")
	require.Equal(t, "support → refunds rejected \nsupport → refunds rejected \nsupport → refunds committed \nrefunds: Refunded.", said(events))
	for _, e := range events {
		if d, ok := e.Data.(*event.Transfer); ok && d.Outcome == event.TransferCommitted {
			require.JSONEq(t, `{"order":7}`, string(d.Payload))
		}
	}
	require.Equal(t, []string{"transfer_to_refunds", "transfer_to_other"}, toolNames(m.requests[0]))
	for i, wants := range []string{`"required":["input"]`, `"properties":{"reason":`} {
		require.Contains(t, string(m.requests[0].Tools[i].Parameters), wants)
		require.Equal(t, i == 0, strings.Contains(string(m.requests[0].Tools[i].Parameters), "The order's number"))
	}
	require.Equal(t, []string{`transfer_to_refunds {"order":7}`, `transfer_to_refunds {"input":{"order":"seven"},"reason":"a & b"}`}, ownCalls(t, m.requests[2]))
}

// TestCallsAreShownAsTheyAreOffered: which tools an agent is offered is a matter of the
// tree, not of the log. A session goes on in another form, and calls that it holds are
// shown in that.
func TestCallsAreShownAsTheyAreOffered(t *testing.T) {
	store := sessiontest.Memory(t)
	var before []string
	for i, c := range []struct {
		opts []llmagent.Option
		call string
		args string
		want string
	}{
		{[]llmagent.Option{llmagent.WithTransferTools(transfer.OneTool)}, "transfer_to_agent", `{"agent_name":"nobody","reason":"r"}`, `transfer_to_agent {"agent_name":"nobody","reason":"r"}`},
		{[]llmagent.Option{perTarget}, "transfer_to_nobody", `{"reason":"r"}`, `transfer_to_nobody {"reason":"r"}`},
		{[]llmagent.Option{perTarget, llmagent.WithTransferTool("ask_", "Ask:")}, "ask_nobody", `{"reason":"r"}`, `ask_nobody {"reason":"r"}`},
		{[]llmagent.Option{llmagent.WithTransferTools(transfer.OneTool), llmagent.WithTransferTool("handoff", "")}, "handoff", `{"agent_name":"nobody","reason":"r"}`,
			`handoff {"agent_name":"nobody","reason":"r"}`},
	} {
		m := &asked{answers: []scripted.Answer{scripted.Reply(scripted.Call(c.call, c.args)), answered}}
		root := must.Get(llmagent.New("support", "", m.model("support"), append(c.opts, llmagent.WithSubAgents(says(t, "billing", "Hello.")))...))
		run(t, newRunner(t, root, store), s1, "Hi")
		before = append(before, c.want)
		var want []string
		for range before {
			want = append(want, c.want)
		}
		require.Equal(t, want, ownCalls(t, m.requests[1]), "form %d", i)
		if len(c.opts) == 2 && i == 2 {
			require.Equal(t, "Ask:\n- billing", m.requests[0].Tools[0].Description)
			require.Contains(t, m.requests[0].System, "- billing (ask_billing)\n")
		}
	}
	for e, err := range store.Load(context.Background(), s1, 0) {
		require.NoError(t, err)
		if d, ok := e.Data.(*event.ToolCall); ok {
			require.Equal(t, agent.TransferTool+` {"agent_name":"nobody","reason":"r"}`, d.Name+" "+string(d.Input))
		}
	}
}

// TestApprovalOfAToolPerTarget: a transfer waits for an approval in whatever form it is
// called, and a denied call is shown as it was made.
func TestApprovalOfAToolPerTarget(t *testing.T) {
	for _, approve := range []bool{true, false} {
		m := &asked{answers: []scripted.Answer{scripted.Reply(scripted.CallID("c1", "transfer_to_billing", `{"reason":"money"}`)), answered}}
		root := must.Get(llmagent.New("support", "", m.model("support"), perTarget, llmagent.WithTransferApproval(), llmagent.WithSubAgents(says(t, "billing", "Hello."))))
		r := newRun(t, root)
		events := run(t, r, s1, "Hi")
		for _, e := range events {
			if d, ok := e.Data.(*event.Relay); ok {
				require.Equal(t, agent.TransferTool, d.Tool)
				require.Equal(t, json.RawMessage(`{"agent_name":"billing","reason":"money"}`), d.Params)
			}
		}
		decision := runner.Deny("c1", "not now")
		if approve {
			decision = runner.Approve("c1")
		}
		finish(t, resume(r, s1, decision))
		log := load(t, r, s1)
		if approve {
			require.Equal(t, "support → billing committed \nbilling: Hello.", said(log))
			continue
		}
		require.Equal(t, []string{`transfer_to_billing {"reason":"money"}`}, ownCalls(t, m.requests[1]))
	}
}

// TestNoToolForATarget: what cannot be offered is refused when the tree is built, and
// says what to do.
func TestNoToolForATarget(t *testing.T) {
	model := scripted.Always("m", scripted.Reply())
	_, err := llmagent.New("a", "", model, llmagent.WithTransferTools(3))
	require.ErrorContains(t, err, "the option for transfer tools is 3, but must be transfer.OneTool or transfer.ToolPerTarget")
	_, err = llmagent.New("a", "", model, perTarget, llmagent.WithSettings(llm.Settings{ToolChoice: agent.TransferTool}))
	require.ErrorContains(t, err, "no tool is named transfer_to_agent, the tool choice, because each target has its own tool: choose one of these, or required")
	long := strings.Repeat("x", 53)
	for target, want := range map[string]string{
		long:      "has 65 characters",
		"agent":   "is reserved",
		"lookup":  `the tool "lookup" of agent "root" is named like an agent it can transfer to`,
		"billing": "",
	} {
		for _, form := range []transfer.Tools{transfer.OneTool, transfer.ToolPerTarget} {
			root := must.Get(llmagent.New("root", "", model, llmagent.WithTransferTools(form), llmagent.WithTools(lookupTool(t, "")), llmagent.WithSubAgents(says(t, target, ""))))
			_, err = agent.NewTree(root)
			if want == "" || form == transfer.OneTool && target != "lookup" {
				require.NoError(t, err)
				continue
			}
			require.ErrorContains(t, err, want)
			if target != "lookup" {
				require.ErrorContains(t, err, "rename one of them, or offer one tool for all targets")
			}
		}
	}
	_, err = llmagent.New("root", "", model, perTarget, llmagent.WithTools(lookupTool(t, "")), llmagent.WithTransferTool("look", ""), llmagent.WithSubAgents(says(t, "up", "")))
	require.NoError(t, err, "who has a place in a tree is known later")
}
