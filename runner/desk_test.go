package runner_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/integrity"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

// noting is a desk that notes what it is told, and fails as long as it is down.
type noting struct {
	mu       sync.Mutex
	down     error
	answer   human.Update
	requests []human.Request
	words    []string
	gone     []string
}

func (c *noting) RequestTransfer(_ context.Context, r human.Request) (human.Update, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down != nil {
		return human.Update{}, c.down
	}
	c.requests = append(c.requests, r)
	return c.answer, nil
}

func (c *noting) Send(_ context.Context, _ human.Leg, messages []human.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down != nil {
		return c.down
	}
	for _, m := range messages {
		c.words = append(c.words, m.Author+": "+m.Text)
	}
	return nil
}

func (c *noting) Cancel(_ context.Context, l human.Leg, _ string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = append(c.gone, l.ID)
	return nil
}

// escalates is an agent whose model hands over to a person when it is asked to, and else
// answers.
func escalates(t testing.TB, opts ...llmagent.Option) agent.Agent {
	t.Helper()
	model := scripted.Func("bot", func(req *llm.Request) scripted.Answer {
		last := req.Messages[len(req.Messages)-1].PlainText()
		switch {
		case strings.Contains(last, "person") && strings.Contains(fmt.Sprint(req.Tools), "human"):
			return scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"human"}`))
		}
		return scripted.Reply(scripted.Text("bot: " + last))
	})
	return must.Get(llmagent.New("bot", "You answer.", model, opts...))
}

// tells plays one turn and returns what the user reads.
func tells(t testing.TB, r *runner.Runner, key session.Key, words string, opts ...runner.TurnOption) string {
	t.Helper()
	var said []string
	for _, e := range must.All(sessiontest.Turn(t, r.Run(t.Context(), key, llm.UserText(words), opts...))) {
		if s := e.Visible(); s != "" {
			said = append(said, s)
		}
	}
	return strings.Join(said, "|")
}

// statuses are the steps of handoffs in a log, "+" for news.
func statuses(t testing.TB, r *runner.Runner, key session.Key) (all []string, handoff string) {
	t.Helper()
	for _, d := range find[*event.HandoffStatus](must.All(r.History(t.Context(), key))) {
		all, handoff = append(all, d.Status), d.HandoffID
	}
	return all, handoff
}

// TestPerson plays a handoff from the request to the end of it.
func TestPerson(t *testing.T) {
	desk, key, store := &noting{answer: human.Update{QueuePosition: new(2)}}, session.ID("s1"), sessiontest.Memory(t)
	fresh := func() *runner.Runner {
		return newRunner(t, escalates(t), store, runner.WithDesk(desk), runner.WithCache(0))
	}
	r := fresh()
	require.Equal(t, "bot: hello", tells(t, r, key, "hello"))
	require.Equal(t, "I have asked for a person to join us.", tells(t, r, key, "a person please"))
	require.Len(t, desk.requests, 1)
	req := desk.requests[0]
	require.Equal(t, "bot", req.From)
	var conversation []string
	for _, m := range req.Conversation {
		conversation = append(conversation, m.Author+": "+m.Text)
	}
	require.Equal(t, []string{"user: hello", "bot: bot: hello", "user: a person please"}, conversation)

	require.Equal(t, "", tells(t, r, key, "still there?"))
	require.Equal(t, []string{"user: still there?"}, desk.words)
	state := must.Get(store.SharedState(t.Context(), key))
	entry := state["app:handoff:"+req.ID].(map[string]any)
	require.NotEmpty(t, entry["since"])
	delete(entry, "since")
	require.Equal(t, map[string]any{"user": key.User, "session": key.ID, "status": "queued", "from": "bot", "reason": ""}, entry)

	deliver := func(e human.Event) error {
		e.HandoffID = req.ID
		return fresh().Deliver(t.Context(), key, e)
	}
	require.NoError(t, deliver(human.Event{ID: "1", Update: human.Update{Status: human.Connected, TargetAgent: "Ann"}}))
	require.NoError(t, deliver(human.Event{ID: "2", Text: "Ann here."}))
	require.NoError(t, deliver(human.Event{ID: "2", Text: "Ann here."}), "again")
	require.ErrorIs(t, deliver(human.Event{ID: "3", Update: human.Update{Status: human.Queued}}), human.ErrTransition)
	require.ErrorIs(t, r.Deliver(t.Context(), key, human.Event{ID: "3", HandoffID: "other", Text: "x"}), human.ErrGone)
	require.ErrorIs(t, r.Deliver(t.Context(), session.ID("s2"), human.Event{ID: "3", HandoffID: req.ID, Text: "x"}), human.ErrGone)
	require.ErrorIs(t, deliver(human.Event{ID: "3"}), agent.ErrBadInput)
	require.Equal(t, agent.Human, must.Get(r.Active(t.Context(), key)))

	desk.down = errors.New("no network")
	quick := newRunner(t, escalates(t), store, runner.WithDesk(desk, human.WithPatience(0)))
	require.Contains(t, tells(t, quick, key, "one"), "has not reached the person yet")
	require.Contains(t, tells(t, quick, key, "two"), "has not reached the person yet")
	desk.down = nil
	require.Equal(t, "", tells(t, fresh(), key, "three"))
	require.Equal(t, []string{"user: still there?", "user: one", "user: two", "user: three"}, desk.words)

	require.NoError(t, deliver(human.Event{ID: "4", Text: "Done, bye.", Update: human.Update{Status: human.Completed}}))
	require.ErrorIs(t, deliver(human.Event{ID: "5", Text: "And?"}), human.ErrGone)
	require.NoError(t, deliver(human.Event{ID: "4", Text: "Done, bye."}), "again")
	all, _ := statuses(t, r, key)
	require.Equal(t, []string{"requested", "queued", "queued", "connecting", "ringing", "connected", "connected", "connected", "connected", "connected", "completed"}, all)
	require.Empty(t, must.Get(store.SharedState(t.Context(), key)))

	preview := must.Get(fresh().Preview(t.Context(), key, "bot"))
	var seen []string
	for _, m := range preview.Messages[1:] {
		seen = append(seen, m.PlainText())
	}
	require.Contains(t, strings.Join(seen, "\n"), "[human] Ann here.")
	require.Contains(t, strings.Join(seen, "\n"), "[human] Done, bye.\n[human] handed the conversation back to you.")
	require.Equal(t, "bot: thanks", tells(t, fresh(), key, "thanks"))
	require.Len(t, desk.requests, 1)
}

// TestNoPerson: the agent that asked for a person goes on when there is none, in the same turn.
func TestNoPerson(t *testing.T) {
	for name, down := range map[string]error{"unreachable": errors.New("no network"), "closed": human.ErrUnavailable} {
		t.Run(name, func(t *testing.T) {
			desk, key := &noting{down: down}, session.ID("s1")
			r := newRun(t, escalates(t), runner.WithDesk(desk, human.WithPatience(0)))
			said := tells(t, r, key, "a person please")
			require.True(t, strings.HasPrefix(said, "No person can be reached right now.|bot: "), said)
			all, _ := statuses(t, r, key)
			require.Equal(t, []string{"requested", "failed"}, all)
			desk.down = nil
			tells(t, r, key, "a person please")
			require.Len(t, desk.requests, 1)
		})
	}
}

// TestTextsOfDesk: the user reads the program's own texts, and none where one is empty.
func TestTextsOfDesk(t *testing.T) {
	texts := human.WithTexts(human.Texts{Asked: "Einen Moment.", Undelivered: "Noch nicht da."})
	desk, key := &noting{}, session.ID("s1")
	r := newRun(t, escalates(t), runner.WithDesk(desk, human.WithPatience(0), texts))
	require.Equal(t, "Einen Moment.", tells(t, r, key, "a person please"))
	desk.down = errors.New("no network")
	require.Equal(t, "Noch nicht da.", tells(t, r, key, "one"))
	require.True(t, strings.HasPrefix(tells(t, r, session.ID("s2"), "a person please"), "bot: "), "the text for an unreachable desk is empty")
}

// TestCallHuman: the user's own wish leads to a person, whatever the agents may do.
func TestCallHuman(t *testing.T) {
	desk, key := &noting{}, session.ID("s1")
	a := escalates(t, llmagent.WithTransferPolicy(agent.TransferPolicy{NoHuman: true}))
	r := newRun(t, a, runner.WithDesk(desk))
	require.Equal(t, "bot: a person please", tells(t, r, key, "a person please"), "its policy forbids it")
	require.Empty(t, desk.requests)
	tells(t, r, key, "now", runner.CallHuman("pressed the button"))
	require.Len(t, desk.requests, 1)
	require.Equal(t, "pressed the button", desk.requests[0].Reason)
	tells(t, r, key, "again", runner.CallHuman("pressed the button"))
	require.Len(t, desk.requests, 1)

	must.Get(r.Cancel(t.Context(), key))
	require.Equal(t, []string{desk.requests[0].ID}, desk.gone)
	require.Equal(t, "bot: and now", tells(t, r, key, "and now"))

	bare := newRun(t, a)
	for _, err := range bare.Run(t.Context(), key, llm.UserText("now"), runner.CallHuman("")) {
		require.ErrorIs(t, err, agent.ErrBadInput)
	}
	require.ErrorIs(t, bare.Deliver(t.Context(), key, human.Event{ID: "1", HandoffID: "h", Text: "x"}), agent.ErrBadInput)
}

// TestPersonDecided: who is asked who answers may say that a person does.
func TestPersonDecided(t *testing.T) {
	desk := &noting{}
	model := scripted.Func("bot", func(req *llm.Request) scripted.Answer {
		require.Equal(t, []string{agent.Human, "bot"}, candidates(req))
		return scripted.Reply(scripted.Text(agent.Human))
	})
	a := must.Get(llmagent.New("bot", "You answer.", model, llmagent.WithDecision(nil)))
	r := newRun(t, a, runner.WithDesk(desk))
	require.Equal(t, "I have asked for a person to join us.", tells(t, r, session.ID("s1"), "a person please"))
	require.Len(t, desk.requests, 1)
}

// TestPersonBeyondLimits: who hands over with the last answer of a turn reaches the person.
func TestPersonBeyondLimits(t *testing.T) {
	desk := &noting{}
	r := newRun(t, escalates(t), runner.WithDesk(desk), runner.WithLimits(runner.Limits{ModelCalls: 1}))
	require.Equal(t, "I have asked for a person to join us.", tells(t, r, session.ID("s"), "a person please"))
	require.Len(t, desk.requests, 1)
}

// TestPersonDuringAQuestion: what a person says withdraws a call that waits, as a message of the user does. The call
// was asked by a process without the desk.
func TestPersonDuringAQuestion(t *testing.T) {
	desk, key, store, ran := &noting{}, session.ID("s1"), sessiontest.Memory(t), 0
	pay := must.Get(tools.Func("pay", "", func(tools.Context, struct{}) (string, error) { ran++; return "paid", nil }, tools.NeedsApproval()))
	model := scripted.Func("bot", func(req *llm.Request) scripted.Answer {
		if strings.Contains(fmt.Sprint(req.Tools), agent.Human) {
			return scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"human"}`))
		}
		return scripted.Reply(scripted.Call("pay", `{}`))
	})
	bot := must.Get(llmagent.New("bot", "You answer.", model, llmagent.WithTools(pay)))
	r := must.Get(runner.New(bot, store, runner.WithDesk(desk)))
	tells(t, r, key, "a person please")
	bare := must.Get(runner.New(bot, store)) // from whose tree the person is gone
	tells(t, bare, key, "pay")
	waiting := must.Get(bare.Pending(t.Context(), key))
	require.Len(t, waiting, 1)
	require.NoError(t, r.Deliver(t.Context(), key, human.Event{ID: "1", HandoffID: desk.requests[0].ID, Text: "Ann here."}))
	require.Empty(t, must.Get(r.Pending(t.Context(), key)))
	require.Empty(t, must.Get(integrity.Check(r.History(t.Context(), key))))
	_, err := runner.Collect(bare.Resume(t.Context(), key, runner.Approve(waiting[0].ToolCallID)))
	require.ErrorIs(t, err, runner.ErrNoApproval)
	require.Zero(t, ran)
}
