package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
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
	"github.com/agentarbor/arbor/tools/transfer"
	"github.com/agentarbor/arbor/view"
)

type refundCase struct {
	Order  int    `json:"order" jsonschema:"description=The order's number"`
	Urgent bool   `json:"urgent,omitempty"`
	Note   string `json:"note,omitempty"`
}

// TestTransferInput: what a transfer must carry is shown to the model, checked,
// kept in the event and read by the target.
func TestTransferInput(t *testing.T) {
	var got refundCase
	function := must.Get(agent.New("refunds", "Refunds", func(_ context.Context, inv *agent.Invocation) iterSeq {
		in, ok, err := agent.InputOf[refundCase](inv)
		if err != nil || !ok {
			return yields(&event.Text{Content: "nothing was given"})
		}
		got = in
		return yields(&event.Text{Content: "Refunded."})
	}))
	var requests []*llm.Request
	answers := []scripted.Answer{
		scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"refunds"}`)),
		scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"refunds","input":{"order":"seven"}}`)),
		scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"refunds","input":{"order": 7, "urgent": true}}`)),
	}
	root := must.Get(llmagent.New("support", "", scripted.Func("m", func(req *llm.Request) scripted.Answer {
		requests = append(requests, req)
		return answers[len(requests)-1]
	}), llmagent.WithSubAgents(agent.Via(function, agent.WithTransferInput[refundCase]()))))
	r := newRun(t, root)
	events := run(t, r, s1, "Refund 7")
	require.Equal(t, refundCase{Order: 7, Urgent: true}, got)
	require.Equal(t, "support → refunds rejected \nsupport → refunds rejected \nsupport → refunds committed \nrefunds: Refunded.", said(events))
	var results []string
	for _, e := range events {
		switch d := e.Data.(type) {
		case *event.ToolResult:
			results = append(results, string(d.Output))
		case *event.Transfer:
			if d.Outcome == event.TransferCommitted {
				require.JSONEq(t, `{"order":7,"urgent":true}`, string(d.Payload))
			}
		}
	}
	require.Contains(t, results[0], "needs an input of this schema")
	require.Contains(t, results[1], "/order: got string, want integer")

	var parameters struct {
		Properties map[string]json.RawMessage
		Required   []string
	}
	require.NoError(t, json.Unmarshal(requests[0].Tools[0].Parameters, &parameters))
	require.Contains(t, string(parameters.Properties["input"]), "The order's number")
	require.Equal(t, []string{"agent_name", "input"}, parameters.Required)
	for _, req := range requests {
		require.NoError(t, view.Check(req))
	}

	// The next turn begins there without a transfer, and so without an input.
	events = run(t, r, s1, "Again")
	require.Equal(t, "refunds: nothing was given", said(events))
}

// TestTransferInputsOfSeveralTargets: one property tells them apart, and only
// targets that want an input need one.
func TestTransferInputsOfSeveralTargets(t *testing.T) {
	type track struct {
		Parcel string `json:"parcel"`
	}
	var seen *llm.Request
	parcels := must.Get(llmagent.New("parcels", "", scripted.Func("p", func(req *llm.Request) scripted.Answer {
		seen = req
		return scripted.Reply(scripted.Text("On its way."))
	})))
	var offered llm.ToolSpec
	root := must.Get(llmagent.New("support", "", scripted.Func("m", func(req *llm.Request) scripted.Answer {
		offered = req.Tools[0]
		return scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"parcels","reason":"lost","input":{"parcel":"P1"}}`))
	}), llmagent.WithTransferTools(transfer.OneTool), llmagent.WithSubAgents(
		agent.Via(says(t, "refunds", "Refunded."), agent.WithTransferInput[refundCase]()),
		agent.Via(parcels, agent.WithTransferInput[track]()),
		says(t, "other", "Other."))))
	r := newRun(t, root)
	run(t, r, s1, "Where is it?")
	require.Contains(t, string(offered.Parameters), `"anyOf":[{"description":"For refunds"`)
	require.Contains(t, string(offered.Parameters), `"required":["agent_name"]`)
	require.Equal(t, `[support] transferred the conversation to you, parcels: lost. Input: {"parcel":"P1"}`, seen.Messages[len(seen.Messages)-1].PlainText())
}

// TestTransferInputOfAFunction: a function agent that transfers is held to the
// type, too.
func TestTransferInputOfAFunction(t *testing.T) {
	for payload, want := range map[string]string{`{"order":1}`: "", `{"order":"x"}`: "got string, want integer", "": "needs an input"} {
		root := must.Get(agent.New("root", "", func(context.Context, *agent.Invocation) iterSeq {
			return yields(&event.Transfer{To: "refunds", Outcome: event.TransferCommitted, Payload: json.RawMessage(payload)})
		}, agent.WithSubAgents(agent.Via(says(t, "refunds", "Refunded."), agent.WithTransferInput[refundCase]()))))
		r := newRun(t, root)
		_, err := collect(r.Run(context.Background(), s1, llm.UserText("Go")))
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, agent.ErrTransferRejected)
		require.ErrorContains(t, err, want)
	}
}

// TestTransferInputIsForTheWayDown: only a transfer from the parent carries what
// the edge to a child requires. The models of other sources do not see the
// input, and what they send all the same is dropped.
func TestTransferInputIsForTheWayDown(t *testing.T) {
	var offered []string
	hands := func(name, arguments string, opts ...llmagent.Option) *llmagent.Agent {
		return must.Get(llmagent.New(name, "", scripted.Func(name, func(req *llm.Request) scripted.Answer {
			offered = append(offered, string(req.Tools[0].Parameters))
			return scripted.Reply(scripted.Text("On."), scripted.Call(agent.TransferTool, arguments))
		}), append(opts, llmagent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToParent: true, AllowTransferToPeers: true}))...))
	}
	var given []string
	next := []string{"leaf", "peer", ""}
	middle := function(t, "middle", func(_ context.Context, inv *agent.Invocation) iterSeq {
		in, ok, err := agent.InputOf[refundCase](inv)
		require.NoError(t, err)
		given = append(given, fmt.Sprint(in.Order, ok))
		to := next[0]
		next = next[1:]
		if to == "" {
			return yields(&event.Text{Content: "Done."})
		}
		return yields(&event.Transfer{To: to, Outcome: event.TransferCommitted})
	}, agent.WithSubAgents(hands("leaf", `{"agent_name":"middle","input":{"order":2}}`)),
		agent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToPeers: true}))
	root := hands("root", `{"agent_name":"middle","input":{"order":1}}`, llmagent.WithSubAgents(
		agent.Via(middle, agent.WithTransferInput[refundCase]()), hands("peer", `{"agent_name":"middle"}`)))
	r := newRun(t, root)
	events := run(t, r, s1, "Hi")
	require.Equal(t, "root: On.\nroot → middle committed \nmiddle → leaf committed \nleaf: On.\nleaf → middle committed \nmiddle → peer committed \npeer: On.\npeer → middle committed \nmiddle: Done.", said(events))
	require.Equal(t, []string{"1 true", "0 false", "0 false"}, given)
	require.Contains(t, offered[0], `"input"`)
	for _, parameters := range offered[1:] {
		require.NotContains(t, parameters, `"input"`)
	}

	t.Run("routes from below and from the side need none", func(t *testing.T) {
		middle := function(t, "middle", func(context.Context, *agent.Invocation) iterSeq { return yields(&event.Text{Content: "Middle."}) },
			agent.WithSubAgents(says(t, "leaf", "Leaf.", llmagent.WithRoutes(agent.OnStop("middle")))))
		root := says(t, "root", "Root.", llmagent.WithSubAgents(agent.Via(middle, agent.WithTransferInput[refundCase]()), says(t, "peer", "Peer.", llmagent.WithRoutes(agent.OnStop("middle")))))
		newRun(t, root)
	})
}

// TestTransferInputSurvivesAnApproval: the input of a transfer that waits for a
// decision reaches the target, also when another process goes on.
func TestTransferInputSurvivesAnApproval(t *testing.T) {
	var got refundCase
	var given bool
	refunds := function(t, "refunds", func(_ context.Context, inv *agent.Invocation) iterSeq {
		var err error
		got, given, err = agent.InputOf[refundCase](inv)
		require.NoError(t, err)
		return yields(&event.Text{Content: "Refunded."})
	})
	root := scriptedAgent(t, "support", seq(scripted.Reply(scripted.CallID("t1", agent.TransferTool, `{"agent_name":"refunds","input":{"order":7}}`))),
		llmagent.WithTransferApproval(), llmagent.WithSubAgents(agent.Via(refunds, agent.WithTransferInput[refundCase]())))
	store := sessiontest.Memory(t)
	run(t, newRunner(t, root, store), s1, "Refund 7")
	require.False(t, given)
	r := newRunner(t, root, store)
	events := finish(t, resume(r, s1, runner.Approve("c1")))
	require.Equal(t, "support → refunds committed \nrefunds: Refunded.", said(events))
	require.True(t, given)
	require.Equal(t, refundCase{Order: 7}, got)
}

// TestTransferToolOfOnesOwn: on the wire the tool has the name and description
// that the agent gives it, in the log it has its own, also when it was refused.
func TestTransferToolOfOnesOwn(t *testing.T) {
	var requests []*llm.Request
	answers := []scripted.Answer{
		scripted.Reply(scripted.Call("hand_over", `{"agent_name":"nobody"}`)),
		scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"nobody"}`)),
		scripted.Reply(scripted.Call("hand_over", `{"agent_name":"billing"}`)),
	}
	root := must.Get(llmagent.New("support", "", scripted.Func("m", func(req *llm.Request) scripted.Answer {
		requests = append(requests, req)
		return answers[len(requests)-1]
	}), llmagent.WithSubAgents(says(t, "billing", "Hello.")), llmagent.WithTransferTool("hand_over", "Passes the caller on to:")))
	r := newRun(t, root)
	events := run(t, r, s1, "Hi")
	require.Equal(t, "support → nobody rejected \nsupport → nobody rejected \nsupport → billing committed \nbilling: Hello.", said(events))
	for _, e := range events {
		switch d := e.Data.(type) {
		case *event.ToolCall:
			require.Equal(t, agent.TransferTool, d.Name)
		case *event.ToolResult:
			require.Equal(t, agent.TransferTool, d.Name)
		}
	}
	last := requests[2]
	require.Equal(t, "hand_over", last.Tools[0].Name)
	require.Equal(t, "Passes the caller on to:\n- billing", last.Tools[0].Description)
	require.Contains(t, last.System, "call hand_over for that agent")
	require.NotContains(t, last.System, agent.TransferTool)
	require.NoError(t, view.Check(last))
	for _, m := range last.Messages {
		for _, p := range m.Parts {
			switch p := p.(type) {
			case llm.ToolCall:
				require.Equal(t, "hand_over", p.Name)
			case llm.ToolResult:
				require.Equal(t, "hand_over", p.Name)
			}
		}
	}
	for _, name := range []string{"bad name", strings.Repeat("x", 65)} {
		_, err := llmagent.New("a", "", scripted.Always("m", scripted.Reply()), llmagent.WithTransferTool(name, ""))
		require.ErrorContains(t, err, "the transfer tool")
	}
	_, err := llmagent.New("a", "", scripted.Always("m", scripted.Reply()), llmagent.WithTools(lookupTool(t, "")), llmagent.WithTransferTool("lookup", ""))
	require.ErrorContains(t, err, "lookup is reserved")
}

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
	for _, d := range find[*event.ToolCall](must.All(store.Load(context.Background(), s1, 0))) {
		require.Equal(t, agent.TransferTool+` {"agent_name":"nobody","reason":"r"}`, d.Name+" "+string(d.Input))
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
		for _, d := range find[*event.Relay](events) {
			require.Equal(t, agent.TransferTool, d.Tool)
			require.Equal(t, json.RawMessage(`{"agent_name":"billing","reason":"money"}`), d.Params)
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
