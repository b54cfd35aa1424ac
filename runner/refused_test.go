package runner_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session/sessiontest"
)

var errDown = errors.New("the line to http://desk.test is down")

// refuses is an agent that yields some events and then refuses what it was handed.
func refuses(t testing.TB, name string, before ...*event.Event) agent.Agent {
	a, err := agent.New(name, "Refuses.", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			for _, e := range before {
				own := *e
				if !yield(&own, nil) {
					return
				}
			}
			yield(nil, &agent.RunError{Agent: name, Code: "desk_down", Err: &agent.RefusedError{Agent: name, Reason: "the line is\ndown", Err: errDown}})
		}
	})
	require.NoError(t, err)
	return a
}

func handsOver(to string, words ...string) scripted.Answer {
	return scripted.Reply(scripted.Text(words...), scripted.Call(agent.TransferTool, fmt.Sprintf(`{"agent_name":%q}`, to)))
}

// endsIn expects a request whose last message is a line of the user's role.
func endsIn(line string) scripted.Item {
	return scripted.Expect(func(req *llm.Request) error {
		if last := req.Messages[len(req.Messages)-1]; last.Role != llm.RoleUser || last.Text != line {
			return fmt.Errorf("the last message is %q", last.Text)
		}
		return nil
	})
}

const refusedLine = "[desk] did not accept the conversation: the line is down. It is yours again."

func TestRefusedHandover(t *testing.T) {
	handle := &event.Event{Data: &event.RemoteTask{TaskID: "t1", Status: "rejected"}, More: true}
	s := scripted.New().Add("support", handsOver("desk", "One moment."),
		scripted.Reply(endsIn(refusedLine), scripted.Text("The desk is closed.")), scripted.Reply(scripted.Text("Still here.")))
	support, err := llmagent.New("support", "", s.Model("support"), llmagent.WithSubAgents(refuses(t, "desk", handle)))
	require.NoError(t, err)
	r := newRunner(t, support, sessiontest.Memory(t))
	events, err := collect(r.Run(context.Background(), s1, llm.UserText("Help")))
	require.NoError(t, err)
	require.Equal(t, "support: One moment.\nsupport → desk committed \ndesk → support committed refused\nsupport: The desk is closed.", said(events))
	var kinds []string
	for _, e := range events[8:] {
		kinds = append(kinds, e.Agent+" "+e.Type())
	}
	require.Equal(t, []string{"desk harness_start", "desk remote_task", "desk notice", "desk transfer", "desk harness_end", "support harness_start",
		"support text", "support usage", "support harness_end"}, kinds)
	write := events[9:13]
	for _, e := range write {
		require.Equal(t, write[0].Time, e.Time, "all in one write")
	}
	notice := write[1].Data.(*event.Notice)
	require.Equal(t, event.NoticeTransferRefused, notice.Code)
	require.Contains(t, notice.Message, errDown.Error())
	end := write[3].Data.(*event.HarnessEnd)
	require.Equal(t, event.FinishReasonTransfer, end.FinishReason)
	require.Equal(t, "support", end.Target)
	require.Equal(t, write[3].RunID+":harness_end", events[13].ParentID)
	checkLog(t, r, load(t, r, s1))
	active, err := r.Active(context.Background(), s1)
	require.NoError(t, err)
	require.Equal(t, "support", active)
	_, err = say(r, s1, "And now?")
	require.NoError(t, err)
	require.NoError(t, s.Done())
	checkLog(t, r, load(t, r, s1))
}

// A source that hands over again and again is stopped.
func TestRefusalsAreTransfers(t *testing.T) {
	s := scripted.New().Add("support", handsOver("desk"), handsOver("desk"), scripted.Reply(scripted.ExpectTools(), scripted.ExpectResult("you cannot transfer to desk now"), scripted.Text("I will do it.")))
	support, err := llmagent.New("support", "", s.Model("support"), llmagent.WithSubAgents(refuses(t, "desk")))
	require.NoError(t, err)
	r := newRunner(t, support, sessiontest.Memory(t))
	events, err := say(r, s1, "Help")
	require.NoError(t, err)
	require.NoError(t, s.Done(), "who did not take over is no target again, with nothing said since")
	require.Equal(t, 1, strings.Count(said(events), "refused"))

	s = scripted.New().Always("support", handsOver("desk", "Once more."))
	support, err = llmagent.New("support", "", s.Model("support"), llmagent.WithSubAgents(refuses(t, "desk")))
	require.NoError(t, err)
	r = newRunner(t, support, sessiontest.Memory(t))
	events, err = say(r, s1, "Help")
	require.ErrorIs(t, err, agent.ErrTransferRejected, "it is no target in this turn any more, whatever is said")
	require.Equal(t, 1, strings.Count(said(events), "refused"))
	checkLog(t, r, load(t, r, s1))
}

func TestRefusalsThatEndTheTurn(t *testing.T) {
	words := &event.Event{Data: &event.Text{Content: "Let me see."}, More: true}
	stored := &event.Event{Data: &event.Text{Content: "Let me see."}}
	shown := &event.Event{ID: "x", Partial: true, Data: &event.Text{Content: "Let"}}
	state := &event.Event{Data: &event.State{Delta: map[string]any{"a": 1}}, More: true}
	other, err := agent.New("desk", "", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			yield(nil, fmt.Errorf("inside: %w", &agent.RefusedError{Agent: "clerk", Reason: "no"}))
		}
	})
	require.NoError(t, err)
	for name, desk := range map[string]agent.Agent{
		"it spoke":           refuses(t, "desk", words),
		"it has spoken":      refuses(t, "desk", stored),
		"it showed words":    refuses(t, "desk", shown),
		"it did something":   refuses(t, "desk", state),
		"another agent's no": other,
	} {
		t.Run(name, func(t *testing.T) {
			s := scripted.New().Add("support", handsOver("desk"))
			support, err := llmagent.New("support", "", s.Model("support"), llmagent.WithSubAgents(desk))
			require.NoError(t, err)
			r := newRunner(t, support, sessiontest.Memory(t), runner.WithStreaming())
			events, err := say(r, s1, "Help")
			require.ErrorIs(t, err, agent.ErrRefused)
			require.NotContains(t, said(events), "refused")
			checkLog(t, r, load(t, r, s1))
			active, err := r.Active(context.Background(), s1)
			require.NoError(t, err)
			require.Equal(t, "desk", active)
		})
	}
	t.Run("the turn begins with it", func(t *testing.T) {
		r := newRunner(t, refuses(t, "desk"), sessiontest.Memory(t))
		events, err := say(r, s1, "Help")
		var run *agent.RunError
		require.ErrorAs(t, err, &run)
		require.Equal(t, "desk_down", run.Code)
		require.ErrorIs(t, err, errDown)
		require.Equal(t, event.FinishReasonError, endOf(events))
	})
	t.Run("the source refuses its own", func(t *testing.T) {
		runs := 0
		pass, err := agent.New("pass", "", func(_ context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
			return func(yield func(*event.Event, error) bool) {
				if runs++; runs > 1 {
					yield(nil, &agent.RefusedError{Agent: "pass", Reason: "not again"})
					return
				}
				yield(&event.Event{Data: &event.Transfer{To: "desk", Outcome: event.TransferCommitted}}, nil)
			}
		}, agent.WithSubAgents(refuses(t, "desk")))
		require.NoError(t, err)
		r := newRunner(t, pass, sessiontest.Memory(t))
		events, err := say(r, s1, "Help")
		require.ErrorContains(t, err, "not again")
		require.Equal(t, "pass → desk committed \ndesk → pass committed refused", said(events))
		checkLog(t, r, load(t, r, s1))
	})
}

// A route's source has answered, and must not answer again.
func TestRefusedRoute(t *testing.T) {
	support := says(t, "support", "Done.", llmagent.WithSubAgents(refuses(t, "desk")), llmagent.WithRoutes(agent.OnStop("desk")))
	r := newRunner(t, support, sessiontest.Memory(t))
	events, err := say(r, s1, "Help")
	require.ErrorIs(t, err, agent.ErrRefused)
	require.Equal(t, "support: Done.\nsupport → desk committed route", said(events))
	checkLog(t, r, load(t, r, s1))
}

// Wherever the turn is cut off, Resume ends it in the same way.
func TestRefusedHandoverCutOff(t *testing.T) {
	var whole string
	for cut := 0; ; cut++ {
		s := scripted.New().Always("support", scripted.Reply(scripted.Text("x")))
		s.Func("support", func(req *llm.Request) scripted.Answer {
			if req.Messages[len(req.Messages)-1].Text == refusedLine {
				return scripted.Reply(scripted.Text("The desk is closed."))
			}
			return handsOver("desk", "One moment.")
		})
		support, err := llmagent.New("support", "", s.Model("support"), llmagent.WithSubAgents(refuses(t, "desk")))
		require.NoError(t, err)
		store := sessiontest.Memory(t)
		seen := 0
		for _, err := range newRunner(t, support, store).Run(context.Background(), s1, llm.UserText("Help")) {
			require.NoError(t, err)
			if seen++; seen == cut {
				break
			}
		}
		r := newRunner(t, support, store) // another process
		_, err = collect(r.Resume(context.Background(), s1))
		require.NoError(t, err)
		log := load(t, r, s1)
		checkLog(t, r, log)
		if cut == 0 {
			whole = said(log)
			require.Contains(t, whole, "refused")
		}
		require.Equal(t, whole, said(log), "cut after %d", cut)
		if cut > 0 && seen < cut {
			break
		}
	}
}

// What the source was started with is there again when it runs anew.
func TestRefusedHandoverKeepsThePayload(t *testing.T) {
	type order struct {
		Number int `json:"number"`
	}
	var got []int
	clerk, err := agent.New("clerk", "", func(_ context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			in, _, err := agent.InputOf[order](inv)
			if err != nil {
				yield(nil, err)
				return
			}
			if got = append(got, in.Number); len(got) > 2 {
				yield(&event.Event{Data: &event.Text{Content: "I did it."}}, nil)
				return
			}
			if len(got) == 2 && !yield(&event.Event{Data: &event.Text{Content: "Once more."}}, nil) {
				return
			}
			yield(&event.Event{Data: &event.Transfer{To: "desk", Outcome: event.TransferCommitted}}, nil)
		}
	}, agent.WithSubAgents(refuses(t, "desk")))
	require.NoError(t, err)
	root, err := agent.New("root", "", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			yield(&event.Event{Data: &event.Transfer{To: "clerk", Outcome: event.TransferCommitted, Payload: []byte(`{"number":7}`)}}, nil)
		}
	}, agent.WithSubAgents(agent.Via(clerk, agent.WithTransferInput[order]())))
	require.NoError(t, err)
	r := newRunner(t, root, sessiontest.Memory(t))
	_, err = say(r, s1, "Help")
	require.NoError(t, err)
	require.Equal(t, []int{7, 7, 7}, got)
	checkLog(t, r, load(t, r, s1))
}

// Inside of an agent tool the inner conversation goes back, never the outer one.
func TestRefusedInnerHandover(t *testing.T) {
	s := scripted.New().
		Add("clerk", handsOver("desk"), scripted.Reply(endsIn(refusedLine), scripted.Text("I did it."))).
		Add("support", scripted.Reply(scripted.Call("clerk", `{"input":"do it"}`)), scripted.Reply(scripted.ExpectResult("I did it."), scripted.Text("Done.")))
	clerk, err := llmagent.New("clerk", "", s.Model("clerk"), llmagent.WithSubAgents(refuses(t, "desk")))
	require.NoError(t, err)
	tool, err := agenttool.New(clerk)
	require.NoError(t, err)
	support, err := llmagent.New("support", "", s.Model("support"), llmagent.WithTools(tool))
	require.NoError(t, err)
	r := newRunner(t, support, sessiontest.Memory(t))
	_, err = say(r, s1, "Help")
	require.NoError(t, err)
	require.NoError(t, s.Done())
	checkLog(t, r, load(t, r, s1))
	active, err := r.Active(context.Background(), s1)
	require.NoError(t, err)
	require.Equal(t, "support", active)
}

// An engine that takes the turn step by step sees it go on.
func TestRefusedHandoverStepByStep(t *testing.T) {
	s := scripted.New().Add("support", handsOver("desk"), scripted.Reply(scripted.Text("The desk is closed.")))
	support, err := llmagent.New("support", "", s.Model("support"), llmagent.WithSubAgents(refuses(t, "desk")))
	require.NoError(t, err)
	r := newRunner(t, support, sessiontest.Memory(t))
	_, _, err = r.Begin(context.Background(), s1, llm.UserText("Help"))
	require.NoError(t, err)
	steps := 0
	for done := false; !done; steps++ {
		require.Less(t, steps, 10)
		_, done, err = over(r.Advance(context.Background(), s1, runner.Step{Attempt: 1}))
		require.NoError(t, err)
	}
	require.Equal(t, 3, steps, "the transfer, the refusal, the answer")
	require.NoError(t, s.Done())
	checkLog(t, r, load(t, r, s1))
}
