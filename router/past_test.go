package router_test

import (
	"context"
	"iter"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/router"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/tools"
)

// hands is a step that hands over to the agent that the message names after an @, and else
// answers.
func hands(_ context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
	for word := range strings.FieldsSeq(inv.Message().PlainText()) {
		for _, to := range inv.Node().Targets() {
			if word == inv.Agent().Name()+"@"+to.Agent.Name() {
				return yields(&event.Transfer{To: to.Agent.Name()})(nil, nil)
			}
		}
	}
	return says(inv.Agent().Name())(nil, nil)
}

func TestWhoHasAskedWhat(t *testing.T) {
	asking := true
	booking := router.Specialist(made(t, "booking", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		if asking {
			return yields(&event.Text{Content: "When?"}, &event.Finish{Reason: event.FinishReasonInputRequired})(nil, nil)
		}
		return says("booked")(nil, nil)
	}))
	wipe := must.Get(tools.Func("wipe", "Wipes.", func(tools.Context, struct{}) (string, error) { return "", nil }, tools.NeedsApproval()))
	careful := must.Get(llmagent.New("careful", "", scripted.Always("m", scripted.Reply(scripted.Call("wipe", "{}"))), llmagent.WithTools(wipe)))
	c := newTalk(t, newRouter(t, "front", router.Rules(router.When(router.Keyword("book")).To(booking),
		router.When(router.Keyword("wipe")).To(router.Specialist(careful))), router.Wrap(made(t, "rest", says("r")))))
	require.Equal(t, "front booking", c.say("book"))
	asking = false
	require.Equal(t, "front booking", c.say("Tuesday"))
	require.Equal(t, "front rest", c.say("Tuesday"), "it has its answer")
	require.Equal(t, "front careful", c.say("wipe"))
	require.Len(t, of[*event.Relay](c), 1)
	require.Equal(t, "front rest", c.say("Tuesday"), "a question for an approval is none for words")
}

func TestNobodyIsChosenTwice(t *testing.T) {
	rest := router.Specialist(made(t, "rest", says("r")))
	deep := made(t, "deep", hands, toParent)
	desk := router.Specialist(made(t, "desk", hands, toParent, agent.WithSubAgents(deep)))
	c := newTalk(t, newRouter(t, "front", router.Sticky(), router.Rules(router.When(router.Keyword("start")).To(desk)), router.Default(rest)))
	require.Equal(t, "front desk deep", c.say("start desk@deep"))
	require.Equal(t, "front deep", c.say("hello"))
	require.Equal(t, "front deep desk front rest", c.say("deep@desk desk@front"), "nobody stays who comes back")
	require.NoError(t, c.err)

	b := router.Specialist(made(t, "b", hands, toParent))
	broken := router.Specialist(made(t, "broken", fails(context.DeadlineExceeded)), router.OnError(b))
	down := router.Specialist(&unready{made(t, "down", says("d"))}, router.OnError(b))
	c = newTalk(t, newRouter(t, "front", router.Rules(router.When(router.Keyword("bee")).To(b), router.When(router.Keyword("down")).To(down),
		router.When(router.Keyword("broken")).To(broken)), router.Default(rest)))
	require.Equal(t, "front broken b front rest", c.say("broken b@front"), "nor who has failed")
	require.NoError(t, c.err)
	require.Equal(t, "front b front down b", c.say("bee down b@front"), "but in place of one that failed")
	require.ErrorIs(t, c.err, agent.ErrTransferLimit, "and without a word it gives it back no second time")
}

// TestARouterInAGraph: a node has a name of its own, under which its router is handed back to.
func TestARouterInAGraph(t *testing.T) {
	back := router.Specialist(made(t, "back", func(_ context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
		return yields(&event.Transfer{To: inv.Node().Parent.Agent.Name()})(nil, nil)
	}, toParent))
	front := newRouter(t, "front", router.Rules(router.When(router.Keyword("back")).To(back)), router.Wrap(made(t, "rest", says("r"))))
	plan := must.Get(agentgraph.NewBuilder("plan").Node("choice", front).Build())
	c := newTalk(t, plan)
	require.Equal(t, "plan choice back choice rest", c.say("back"))
	for _, d := range of[*event.Route](c) {
		require.Equal(t, "choice", d.From)
		require.Equal(t, []string{"choice", d.To}, d.GraphPath)
	}
}

// sometimes is an agent that can start only sometimes.
type sometimes struct {
	agent.Agent
	down error
}

func (s *sometimes) Unwrap() agent.Agent         { return s.Agent }
func (s *sometimes) Ready(context.Context) error { return s.down }

func TestOnErrorOfThoseBelow(t *testing.T) {
	deep := &sometimes{Agent: made(t, "deep", hands)}
	rest := router.Specialist(made(t, "rest", says("r")))
	desk := router.Specialist(made(t, "desk", hands, agent.WithSubAgents(deep)), router.OnError(rest))
	c := newTalk(t, newRouter(t, "front", router.Sticky(), router.Default(desk)))
	require.Equal(t, "front desk deep", c.say("desk@deep"))
	require.Equal(t, "front deep", c.say("hello"))
	deep.down = context.DeadlineExceeded
	require.Equal(t, "front deep rest", c.say("hello"))
	require.NoError(t, c.err)
}

func TestSentimentOfATurnCountsOnce(t *testing.T) {
	a := router.Specialist(made(t, "a", hands, toParent))
	tree := func(turns int) agent.Agent {
		return newRouter(t, "front", router.Rules(router.When(router.Sentiment("frustration").OverTurns(turns)).ToHuman("frustrated"),
			router.When(router.Keyword("a")).To(a)), router.Wrap(made(t, "rest", says("r"))))
	}
	c := newTalk(t, tree(2), runner.WithDesk(human.Log{}))
	require.Equal(t, "front a front rest", c.say("ridiculous a a@front"))
	require.Equal(t, "front human", c.say("ridiculous"))
	c = newTalk(t, tree(3), runner.WithDesk(human.Log{}))
	require.Equal(t, "front a front rest", c.say("ridiculous a a@front"))
	require.Equal(t, "front rest", c.say("ridiculous"))
	require.Equal(t, "front human", c.say("ridiculous"))
}

func TestAfterAPerson(t *testing.T) {
	billing := router.Specialist(made(t, "billing", says("b")))
	c := newTalk(t, newRouter(t, "front", router.Sticky(), router.Rules(router.When(router.WantsHuman()).ToHuman("asked"),
		router.When(router.Keyword("refund")).To(billing)), router.Wrap(made(t, "rest", says("r")))), runner.WithDesk(human.Log{}))
	handoff := func() string {
		require.Equal(t, "front human", c.say("a human please"))
		return of[*event.HandoffStatus](c)[0].HandoffID
	}
	ends := func(id, next string) {
		r := must.Get(runner.New(c.tree, c.store, c.opts...))
		for i, status := range []human.Status{human.Connected, human.Completed} {
			require.NoError(t, r.Deliver(t.Context(), key, human.Event{ID: string(rune('a' + i)), HandoffID: id, Update: human.Update{Status: status, TargetAgent: next}}))
		}
	}
	id := handoff()
	require.Equal(t, "human", c.say("refund"), "while the person is there nothing is decided")
	ends(id, "")
	require.Equal(t, "front rest", c.say("and now?"))
	ends(handoff(), "billing")
	require.Equal(t, "front billing", c.say("and now?"), "whom the desk named stays in charge")
}

func TestInsideATool(t *testing.T) {
	inner := newRouter(t, "inner", router.Sticky(), router.Description("Routes."),
		router.Rules(router.When(router.Keyword("refund")).To(router.Specialist(made(t, "billing", says("paid"))))), router.Wrap(made(t, "rest", says("r"))))
	tool := must.Get(agenttool.New(inner))
	desk := must.Get(llmagent.New("desk", "", scripted.Func("m", func(req *llm.Request) scripted.Answer {
		if last := req.Messages[len(req.Messages)-1]; last.Role == llm.RoleUser {
			return scripted.Reply(scripted.Call("inner", `{"input":"`+last.PlainText()+`"}`))
		}
		return scripted.Reply(scripted.Text("done"))
	}), llmagent.WithTools(tool)))
	c := newTalk(t, newRouter(t, "front", router.Rules(router.When(router.Keyword("bill")).To(router.Specialist(made(t, "billing", says("b"))))), router.Wrap(desk)))
	require.Equal(t, "front desk inner billing", c.say("a refund"), "what the tool was given decides")
	require.Equal(t, "front billing", c.say("bill"))
	require.Equal(t, "front desk inner rest", c.say("hello"), "what happens in the conversation is nothing to it")
	require.NoError(t, c.err)
}

// TestLongLog shows that what a router keeps does not grow with the log, and that a router
// that has forgotten reads the same again.
func TestLongLog(t *testing.T) {
	billing := router.Specialist(made(t, "billing", says("b")))
	c := newTalk(t, newRouter(t, "front", router.Sticky(), router.Rules(
		router.When(router.Sentiment("frustration").OverTurns(16)).ToHuman("frustrated"),
		router.When(router.Keyword("refund")).To(billing)), router.Wrap(made(t, "rest", says("r")))), runner.WithDesk(human.Log{}))
	r := must.Get(runner.New(c.tree, c.store, c.opts...))
	for i := range 40 {
		text := "useless"
		if i == 0 || i == 10 {
			text = "refund"
		}
		var last string
		for e, err := range r.Run(t.Context(), key, llm.UserText(text)) {
			require.NoError(t, err)
			last = e.Agent
		}
		if i == 26 { // the sixteenth after the one that was calm
			require.Equal(t, "human", last)
			break
		}
		require.Equal(t, "billing", last, "turn %d", i)
	}
}
