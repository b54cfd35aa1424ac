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
	"github.com/agentarbor/arbor/internal/must"
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
