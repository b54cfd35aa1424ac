package runner_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
)

var errDown = errors.New("the line to http://desk.test is down")

// refuses is an agent that yields some events and then refuses what it was handed.
func refuses(t testing.TB, name string, before ...*event.Event) agent.Agent {
	return must.Get(agent.New(name, "Refuses.", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			for _, e := range before {
				own := *e
				if !yield(&own, nil) {
					return
				}
			}
			yield(nil, &agent.RunError{Agent: name, Code: "desk_down", Err: &agent.RefusedError{Agent: name, Reason: "the line is\ndown", Err: errDown}})
		}
	}))
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
	support := must.Get(llmagent.New("support", "", s.Model("support"), llmagent.WithSubAgents(refuses(t, "desk", handle))))
	var logged strings.Builder
	r := newRun(t, support, runner.WithLogger(slog.New(slog.NewTextHandler(&logged, nil))))
	events := run(t, r, s1, "Help")
	require.Regexp(t, `^time=\S+ level=WARN msg="the target of a transfer refused the conversation" agent=desk error=".*desk\.test is down"\n$`, logged.String())
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
	require.Equal(t, "support", must.Get(r.Active(context.Background(), s1)))
	run(t, r, s1, "And now?")
	require.NoError(t, s.Done())
}

// A source that hands over again and again is stopped.
func TestRefusalsAreTransfers(t *testing.T) {
	s := scripted.New().Add("support", handsOver("desk"), handsOver("desk"), scripted.Reply(scripted.ExpectTools(), scripted.ExpectResult("you cannot transfer to desk now"), scripted.Text("I will do it.")))
	support := must.Get(llmagent.New("support", "", s.Model("support"), llmagent.WithSubAgents(refuses(t, "desk"))))
	r := newRun(t, support)
	events := run(t, r, s1, "Help")
	require.NoError(t, s.Done(), "who did not take over is no target again, with nothing said since")
	require.Equal(t, 1, strings.Count(said(events), "refused"))

	s = scripted.New().Always("support", handsOver("desk", "Once more."))
	support = must.Get(llmagent.New("support", "", s.Model("support"), llmagent.WithSubAgents(refuses(t, "desk"))))
	r = newRun(t, support)
	events, err := say(r, s1, "Help")
	require.ErrorIs(t, err, agent.ErrTransferRejected, "it is no target in this turn any more, whatever is said")
	require.Equal(t, 1, strings.Count(said(events), "refused"))
}

func TestRefusalsThatEndTheTurn(t *testing.T) {
	words := &event.Event{Data: &event.Text{Content: "Let me see."}, More: true}
	stored := &event.Event{Data: &event.Text{Content: "Let me see."}}
	shown := &event.Event{ID: "x", Partial: true, Data: &event.Text{Content: "Let"}}
	state := &event.Event{Data: &event.State{Delta: map[string]any{"a": 1}}, More: true}
	other := must.Get(agent.New("desk", "", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			yield(nil, fmt.Errorf("inside: %w", &agent.RefusedError{Agent: "clerk", Reason: "no"}))
		}
	}))
	for name, desk := range map[string]agent.Agent{
		"it spoke":           refuses(t, "desk", words),
		"it has spoken":      refuses(t, "desk", stored),
		"it showed words":    refuses(t, "desk", shown),
		"it did something":   refuses(t, "desk", state),
		"another agent's no": other,
	} {
		t.Run(name, func(t *testing.T) {
			s := scripted.New().Add("support", handsOver("desk"))
			support := must.Get(llmagent.New("support", "", s.Model("support"), llmagent.WithSubAgents(desk)))
			r := newRun(t, support, runner.WithStreaming())
			events, err := say(r, s1, "Help")
			require.ErrorIs(t, err, agent.ErrRefused)
			require.NotContains(t, said(events), "refused")
			require.Equal(t, "desk", must.Get(r.Active(context.Background(), s1)))
		})
	}
	t.Run("the turn begins with it", func(t *testing.T) {
		r := newRun(t, refuses(t, "desk"))
		events, err := say(r, s1, "Help")
		require.Equal(t, "desk_down", must.As[*agent.RunError](err).Code)
		require.ErrorIs(t, err, errDown)
		require.Equal(t, event.FinishReasonError, endOf(events))
	})
	t.Run("the source refuses its own", func(t *testing.T) {
		runs := 0
		pass := must.Get(agent.New("pass", "", func(_ context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
			return func(yield func(*event.Event, error) bool) {
				if runs++; runs > 1 {
					yield(nil, &agent.RefusedError{Agent: "pass", Reason: "not again"})
					return
				}
				yield(&event.Event{Data: &event.Transfer{To: "desk", Outcome: event.TransferCommitted}}, nil)
			}
		}, agent.WithSubAgents(refuses(t, "desk"))))
		r := newRun(t, pass)
		events, err := say(r, s1, "Help")
		require.ErrorContains(t, err, "not again")
		require.Equal(t, "pass → desk committed \ndesk → pass committed refused", said(events))
	})
}

// A route's source has answered, and must not answer again.
func TestRefusedRoute(t *testing.T) {
	support := says(t, "support", "Done.", llmagent.WithSubAgents(refuses(t, "desk")), llmagent.WithRoutes(agent.OnStop("desk")))
	r := newRun(t, support)
	events, err := say(r, s1, "Help")
	require.ErrorIs(t, err, agent.ErrRefused)
	require.Equal(t, "support: Done.\nsupport → desk committed route", said(events))
}

// What the source was started with is there again when it runs anew.
func TestRefusedHandoverKeepsThePayload(t *testing.T) {
	type order struct {
		Number int `json:"number"`
	}
	var got []int
	clerk := must.Get(agent.New("clerk", "", func(_ context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
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
	}, agent.WithSubAgents(refuses(t, "desk"))))
	root := must.Get(agent.New("root", "", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			yield(&event.Event{Data: &event.Transfer{To: "clerk", Outcome: event.TransferCommitted, Payload: []byte(`{"number":7}`)}}, nil)
		}
	}, agent.WithSubAgents(agent.Via(clerk, agent.WithTransferInput[order]()))))
	r := newRun(t, root)
	run(t, r, s1, "Help")
	require.Equal(t, []int{7, 7, 7}, got)
}

// Inside of an agent tool the inner conversation goes back, never the outer one.
func TestRefusedInnerHandover(t *testing.T) {
	s := scripted.New().
		Add("clerk", handsOver("desk"), scripted.Reply(endsIn(refusedLine), scripted.Text("I did it."))).
		Add("support", scripted.Reply(scripted.Call("clerk", `{"input":"do it"}`)), scripted.Reply(scripted.ExpectResult("I did it."), scripted.Text("Done.")))
	clerk := must.Get(llmagent.New("clerk", "", s.Model("clerk"), llmagent.WithSubAgents(refuses(t, "desk"))))
	tool := must.Get(agenttool.New(clerk))
	support := must.Get(llmagent.New("support", "", s.Model("support"), llmagent.WithTools(tool)))
	r := newRun(t, support)
	run(t, r, s1, "Help")
	require.NoError(t, s.Done())
	require.Equal(t, "support", must.Get(r.Active(context.Background(), s1)))
}
