package runner_test

import (
	"context"
	"slices"
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
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/transfer"
	"github.com/agentarbor/arbor/view"
)

// asked keeps what the model of an agent was asked.
type asked struct {
	requests []*llm.Request
	answers  []scripted.Answer
}

func (a *asked) model(name string) llm.Model {
	return scripted.Func(name, func(req *llm.Request) scripted.Answer {
		a.requests = append(a.requests, req)
		return a.answers[len(a.requests)-1]
	})
}

func toolNames(req *llm.Request) (names []string) {
	for _, t := range req.Tools {
		names = append(names, t.Name)
	}
	return names
}

var (
	toParent = llmagent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToParent: true})
	held     = llmagent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToParent: true, HoldOnArrival: true})
	back     = scripted.Reply(scripted.CallID("b1", agent.TransferTool, `{"agent_name":"support"}`))
	answered = scripted.Reply(scripted.Text("Done."))
)

// TestNoTransferAfterALimit: after "limit reached" the request has no transfer tool, no
// instruction about transfers and no tool choice that names it, in whatever way the run
// goes on.
func TestNoTransferAfterALimit(t *testing.T) {
	for i := range 4 {
		steps, form, name := i%2 == 1, transfer.DefaultForm(transfer.OneTool), agent.TransferTool
		if i > 1 {
			form, name = transfer.DefaultForm(transfer.ToolPerTarget), "transfer_to_desk"
		}
		desk := says(t, "desk", "Desk.")
		m := &asked{answers: []scripted.Answer{handsOver("desk"), scripted.Reply(scripted.Call("look", "{}")), handsOver("desk")}}
		look := must.Get(tools.Func("look", "", func(tools.Context, struct{}) (string, error) { return "seen", nil }))
		support := must.Get(llmagent.New("support", "You route.", m.model("support"), llmagent.WithSubAgents(desk), llmagent.WithTools(look),
			llmagent.WithTransferTools(form.Tools), llmagent.WithSettings(llm.Settings{ToolChoice: llm.ToolChoice(name)})))
		first := must.Get(agent.New("first", "", func(context.Context, *agent.Invocation) iterSeq {
			return yields(&event.Transfer{To: "support", Outcome: event.TransferCommitted})
		}, agent.WithSubAgents(support)))
		store := sessiontest.Memory(t)
		r := newRunner(t, first, store, runner.WithLimits(runner.Limits{Transfers: 1}))
		var err error
		if steps {
			_, _, err = r.Begin(context.Background(), s1, llm.UserText("Help"))
			for done := false; !done && err == nil; {
				other := newRunner(t, first, store, runner.WithLimits(runner.Limits{Transfers: 1})) // that knows the log alone
				_, done, err = over(other.Advance(context.Background(), s1, runner.Step{Attempt: 1}))
			}
		} else {
			_, err = say(r, s1, "Help")
		}
		require.ErrorIs(t, err, agent.ErrTransferLimit)
		require.Equal(t, []string{"look", name}, toolNames(m.requests[0]))
		require.Equal(t, "You route.\n\n"+strings.NewReplacer(transfer.ToolPlaceholder, form.Name, transfer.TargetsPlaceholder, map[bool]string{true: "- desk", false: "- desk (transfer_to_desk)"}[i < 2], transfer.SelfPlaceholder, "support", "{from}", "first", "{reason}", "").Replace(form.Arrived.Targets), m.requests[0].System)
		require.Equal(t, llm.ToolChoice(name), m.requests[0].ToolChoice)
		for _, req := range m.requests[1:] {
			require.Equal(t, []string{"look"}, toolNames(req))
			require.Equal(t, "You route.\n\nYou are support\nfirst gave you the conversation because it is your work. Answer the user now.", req.System)
			require.Empty(t, req.ToolChoice, "endpoints refuse the name of a tool that is not there")
		}
		require.Len(t, m.requests, 3)
		log := load(t, r, s1)
		require.Equal(t, event.FinishReasonLimit, log[len(log)-1].Data.(*event.HarnessEnd).FinishReason)
	}
}

// TestHandBackAcrossAPause: an agent that is held stays held across a transfer that somebody
// denied; the result of a tool ends that.
func TestHandBackAcrossAPause(t *testing.T) {
	m := &asked{answers: []scripted.Answer{
		scripted.Reply(scripted.CallID("t1", agent.TransferTool, `{"agent_name":"clerk"}`)),
		scripted.Reply(scripted.CallID("t2", "look", `{}`)), back}}
	look := must.Get(tools.Func("look", "", func(tools.Context, struct{}) (string, error) { return "seen", nil }, tools.NeedsApproval()))
	desk := must.Get(llmagent.New("desk", "", m.model("desk"), held, llmagent.WithTransferApproval(), llmagent.WithTools(look), llmagent.WithSubAgents(says(t, "clerk", "Clerk."))))
	support := scriptedAgent(t, "support", seq(handsOver("desk"), answered), llmagent.WithSubAgents(desk))
	r := newRun(t, support)
	run(t, r, s1, "Help")
	for _, decision := range []runner.Decision{runner.Deny("c2", "not now"), runner.Approve("c3"), runner.Approve("c4")} {
		finish(t, resume(r, s1, decision))
	}
	for i, want := range [][]string{{"clerk"}, {"clerk"}, {"support", "clerk"}} {
		require.Equal(t, want, offered(t, m.requests[i]), "request %d", i)
	}
	log := load(t, r, s1)
	require.Equal(t, "support → desk committed \ndesk → clerk failed \ndesk → support committed \nsupport: Done.", said(log))
}

// TestHandBackAfterARoute: an agent to which a route led may go back, as its source
// has answered and not just handed over.
func TestHandBackAfterARoute(t *testing.T) {
	m := &asked{answers: []scripted.Answer{back, answered}}
	desk := must.Get(llmagent.New("desk", "", m.model("desk"), toParent))
	support := scriptedAgent(t, "support", seq(scripted.Reply(scripted.Text("A draft.")), scripted.Reply(scripted.Text("Another."))),
		llmagent.WithSubAgents(desk), llmagent.WithRoutes(agent.OnStop("desk")))
	r := newRun(t, support)
	run(t, r, s1, "Write")
	require.Equal(t, []string{"support"}, offered(t, m.requests[0]))
	require.Equal(t, []string{"support"}, offered(t, m.requests[1]))
}

// TestFunctionsMayHandBack: what a program says is no small model's mistake.
func TestFunctionsMayHandBack(t *testing.T) {
	desk := must.Get(agent.New("desk", "", func(context.Context, *agent.Invocation) iterSeq {
		return yields(&event.Transfer{To: "support", Outcome: event.TransferCommitted})
	}, agent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToParent: true})))
	support := scriptedAgent(t, "support", seq(handsOver("desk"), answered), llmagent.WithSubAgents(desk))
	events := run(t, newRun(t, support), s1, "Help")
	require.Equal(t, "support → desk committed \ndesk → support committed \nsupport: Done.", said(events))
}

// TestHandBackInTheNextTurn: a run that the user began has no sender. Before the
// target runs, a preview of it has.
func TestHandBackInTheNextTurn(t *testing.T) {
	m := &asked{answers: []scripted.Answer{answered, back}}
	desk := must.Get(llmagent.New("desk", "", m.model("desk"), held))
	support := scriptedAgent(t, "support", seq(handsOver("desk"), answered), llmagent.WithSubAgents(desk))
	r := newRun(t, support)
	for _, text := range []string{"Help", "And?"} {
		run(t, r, s1, text)
	}
	require.Nil(t, offered(t, m.requests[0]))
	require.Equal(t, []string{"support"}, offered(t, m.requests[1]))
	log := load(t, r, s1)
	i := slices.IndexFunc(log, func(e *event.Event) bool { return e.Agent == "desk" })
	for _, at := range []int{i - 1, i} { // before its run, and in it
		p := must.Get(r.PreviewAt(context.Background(), s1, log[at].Seq, "desk"))
		require.Nil(t, offered(t, p.Request), "at %d", log[at].Seq)
	}
	p := must.Get(r.Preview(context.Background(), s1, "desk"))
	require.Equal(t, []string{"support"}, offered(t, p.Request))
}

// TestRequestsOfLaterTurns: while an agent has the conversation, each of its requests begins with the whole one before it,
// so that an endpoint's cache has it; in another process too.
func TestRequestsOfLaterTurns(t *testing.T) {
	for _, root := range []llmagent.Option{llmagent.WithTransferTools(transfer.OneTool), llmagent.WithTransferTools(transfer.ToolPerTarget)} {
		for _, policy := range []view.Policy{view.Full(), view.LastTurns(5)} {
			m := &asked{answers: []scripted.Answer{answered, scripted.Reply(scripted.Call("look", "{}")), answered, answered, back, answered}}
			look := must.Get(tools.Func("look", "", func(tools.Context, struct{}) (string, error) { return "seen", nil }))
			desk := must.Get(llmagent.New("desk", "You answer.", m.model("desk"), llmagent.WithTools(look), toParent, root, llmagent.WithHistory(policy)))
			support := must.Get(llmagent.New("support", "You route.", (&asked{answers: []scripted.Answer{handsOver("desk"), answered, handsOver("desk")}}).model("support"), llmagent.WithSubAgents(desk)))
			store := sessiontest.Memory(t)
			for _, said := range []string{"Help", "Look", "And?", "Something else", "Help again"} {
				r := newRunner(t, support, store)
				run(t, r, s1, said)
			}
			require.Len(t, m.requests, 6)
			for i, req := range m.requests[1:5] {
				before := m.requests[i]
				require.Equal(t, before.System, req.System)
				require.Equal(t, before.Tools, req.Tools)
				require.Equal(t, before.Messages, req.Messages[:len(before.Messages)])
			}
			require.Contains(t, m.requests[0].System, "support gave you the conversation because it is your work. Answer the user now.")
		}
	}
}
