package runner_test

import (
	"context"
	"encoding/json"
	"errors"
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
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

func says(t testing.TB, name, text string, opts ...llmagent.Option) *llmagent.Agent {
	return must.Get(llmagent.New(name, "", scripted.Always(name, scripted.Reply(scripted.Text(text))), opts...))
}

// said writes who said what, and who handed over to whom.
func said(events []*event.Event) string {
	var lines []string
	for _, e := range events {
		switch d := e.Data.(type) {
		case *event.Text:
			lines = append(lines, e.Agent+": "+d.Content)
		case *event.Transfer:
			lines = append(lines, d.From+" → "+d.To+" "+string(d.Outcome)+" "+d.TransferType)
		}
	}
	return strings.Join(lines, "\n")
}

func answers(want string) agent.Condition {
	return func(_ context.Context, _ *agent.Invocation, answer string) (bool, error) { return answer == want, nil }
}

func TestRoutes(t *testing.T) {
	never := func(context.Context, *agent.Invocation, string) (bool, error) { return false, nil }
	for name, c := range map[string]struct {
		root agent.Agent
		want string
		next string // who is active afterwards
	}{
		"to a child, always": {says(t, "writer", "A draft.", llmagent.WithSubAgents(says(t, "editor", "Edited.")), llmagent.WithRoutes(agent.OnStop("editor"))),
			"writer: A draft.\nwriter → editor committed route\neditor: Edited.", "editor"},
		"down an edge whose condition holds": {says(t, "writer", "A draft.", llmagent.WithSubAgents(agent.Via(says(t, "lawyer", "Fine."), agent.When(answers("Sue me."))), agent.Via(says(t, "editor", "Edited."), agent.When(answers("A draft."))))),
			"writer: A draft.\nwriter → editor committed route\neditor: Edited.", "editor"},
		"none holds": {says(t, "writer", "A draft.", llmagent.WithSubAgents(says(t, "editor", "Edited.")), llmagent.WithRoutes(agent.OnStop("editor", answers("A draft."), never))),
			"writer: A draft.", "writer"},
		"to a sibling, whatever the policy": {says(t, "root", "Begin.", llmagent.WithSubAgents(
			says(t, "one", "One.", llmagent.WithRoutes(agent.OnStop("two"))), says(t, "two", "Two.")), llmagent.WithRoutes(agent.OnStop("one"))),
			"root: Begin.\nroot → one committed route\none: One.\none → two committed route\ntwo: Two.", "two"},
		"and return": {says(t, "writer", "A draft.", llmagent.WithSubAgents(says(t, "editor", "Edited.", llmagent.WithReturn(agent.ReturnToParent))), llmagent.WithRoutes(agent.OnStop("editor"))),
			"writer: A draft.\nwriter → editor committed route\neditor: Edited.", "writer"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, c.root)
			events := run(t, r, s1, "Write")
			require.Equal(t, c.want, said(events))
			require.Equal(t, c.next, must.Get(r.Active(context.Background(), s1)))
			run(t, r, s1, "Again")
		})
	}
}

func TestARouteThatFails(t *testing.T) {
	boom := errors.New("boom")
	for name, when := range map[string]agent.Condition{
		"error": func(context.Context, *agent.Invocation, string) (bool, error) { return false, boom },
		"panic": func(context.Context, *agent.Invocation, string) (bool, error) { panic("boom") },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, says(t, "writer", "A draft.", llmagent.WithSubAgents(says(t, "editor", "Edited.")), llmagent.WithRoutes(agent.OnStop("editor", when))))
			events, err := collect(r.Run(context.Background(), s1, llm.UserText("Write")))
			require.ErrorContains(t, err, "boom")
			require.Equal(t, "writer: A draft.", said(events), "the answer is kept")
		})
	}
	t.Run("the limit of transfers", func(t *testing.T) {
		r := newRun(t, says(t, "a", "A.", llmagent.WithSubAgents(says(t, "b", "B.", llmagent.WithSubAgents(says(t, "c", "C.")), llmagent.WithRoutes(agent.OnStop("c")))),
			llmagent.WithRoutes(agent.OnStop("b"))), runner.WithLimits(runner.Limits{Transfers: 1}))
		events, err := collect(r.Run(context.Background(), s1, llm.UserText("Go")))
		require.ErrorIs(t, err, agent.ErrTransferLimit)
		require.Equal(t, "a: A.\na → b committed route\nb: B.", said(events))
	})
	t.Run("a target that cannot start", func(t *testing.T) {
		r := newRun(t, says(t, "a", "A.", llmagent.WithSubAgents(closed{says(t, "b", "B.")}), llmagent.WithRoutes(agent.OnStop("b"))))
		events := run(t, r, s1, "Go")
		require.Equal(t, "a: A.\na → b failed route", said(events))
	})
}

// TestARouteAfterNewWordsIsNoCircle: an agent that gets the conversation back and
// says something new may go the same way again; one that says nothing may not.
func TestARouteAfterNewWordsIsNoCircle(t *testing.T) {
	for name, c := range map[string]struct {
		second scripted.Answer
		want   string
		err    error
	}{
		"new words": {scripted.Reply(scripted.Text("Draft 2.")),
			"writer: Draft 1.\nwriter → editor committed route\neditor → writer committed \nwriter: Draft 2.\nwriter → editor committed route\neditor: Fine.", nil},
		"no words": {scripted.Reply(),
			"writer: Draft 1.\nwriter → editor committed route\neditor → writer committed ", agent.ErrEmptyAnswer},
		"blanks": {scripted.Reply(scripted.Text(" \n")),
			"writer: Draft 1.\nwriter → editor committed route\neditor → writer committed ", agent.ErrEmptyAnswer},
	} {
		for _, steps := range []bool{false, true} {
			editor := scriptedAgent(t, "editor", seq(scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"writer"}`)), scripted.Reply(scripted.Text("Fine."))),
				llmagent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToParent: true}))
			writer := scriptedAgent(t, "writer", seq(scripted.Reply(scripted.Text("Draft 1.")), c.second, c.second), llmagent.WithSubAgents(editor), llmagent.WithRoutes(agent.OnStop("editor")))
			r := newRun(t, writer)
			var err error
			if steps {
				_, _, err = r.Begin(context.Background(), s1, llm.UserText("Write"))
				for done := false; !done && err == nil; {
					_, done, err = over(r.Advance(context.Background(), s1, runner.Step{Attempt: 1}))
				}
			} else {
				_, err = say(r, s1, "Write")
			}
			require.ErrorIs(t, err, c.err, "%s, in steps: %v", name, steps)
			log := load(t, r, s1)
			require.Equal(t, c.want, said(log), "%s, in steps: %v", name, steps)
		}
	}
}

// TestARouteWithoutNewWordsIsACircle: a function that gets the conversation back and
// says nothing may not go the same way again.
func TestARouteWithoutNewWordsIsACircle(t *testing.T) {
	drafted := false
	editor := scriptedAgent(t, "editor", seq(scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"writer"}`))),
		llmagent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToParent: true}))
	writer := function(t, "writer", func(context.Context, *agent.Invocation) iterSeq {
		if drafted {
			return yields()
		}
		drafted = true
		return yields(&event.Text{Content: "Draft 1."})
	}, agent.WithSubAgents(agent.Via(editor, agent.When(func(context.Context, *agent.Invocation, string) (bool, error) { return true, nil }))))
	r := newRun(t, writer)
	_, err := say(r, s1, "Write")
	require.ErrorIs(t, err, agent.ErrTransferLimit)
	require.Equal(t, "writer: Draft 1.\nwriter → editor committed route\neditor → writer committed ", said(load(t, r, s1)))
}

type closed struct{ agent.Agent }

func (closed) Ready(context.Context) error { return errors.New("it is closed") }

// TestARouteIsPartOfTheAnswer: answer, transfer, the run's end and the start of who takes
// over are one write, so that no crash comes between them.
func TestARouteIsPartOfTheAnswer(t *testing.T) {
	store := &batches{Store: sessiontest.Memory(t)}
	r := newRunner(t, says(t, "a", "A.", llmagent.WithSubAgents(says(t, "b", "B.")), llmagent.WithRoutes(agent.OnStop("b"))), store)
	run(t, r, s1, "Go")
	require.Equal(t, []string{"user harness_start", "text usage transfer harness_end harness_start", "text usage harness_end"}, store.wrote)
}

// batches notes the types of the events of each write.
type batches struct {
	session.Store
	wrote []string
}

func (b *batches) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if len(w.Events) == 0 {
		return b.Store.Write(ctx, key, w)
	}
	events := w.Events
	var types []string
	for _, e := range events {
		types = append(types, e.Type())
	}
	b.wrote = append(b.wrote, strings.Join(types, " "))
	return b.Store.Write(ctx, key, w)
}

// TestRouteOfARunThatIsTakenUp: the condition of a route gets the answer that the
// agent gave before it waited for an approval, or before the session was forked.
func TestRouteOfARunThatIsTakenUp(t *testing.T) {
	for _, name := range []string{"an approval", "a fork"} {
		editor := scriptedAgent(t, "editor", seq(scripted.Reply(scripted.Text("Edited.")), scripted.Reply(scripted.Text("Edited."))))
		steps, call := 0, &event.Event{Data: &event.ToolCall{Name: "publish", Input: json.RawMessage("{}")}}
		root := function(t, "writer", func(context.Context, *agent.Invocation) iterSeq {
			steps++
			published := func() *event.Event {
				return &event.Event{ID: call.ID, Data: &event.ToolResult{Name: "publish", Output: json.RawMessage(`"done"`)}}
			}
			return func(yield func(*event.Event, error) bool) {
				switch {
				case steps > 1: // it has nothing to add
					_ = yield(published(), nil)
				case !yield(&event.Event{Data: &event.Text{Content: "A draft."}}, nil) || !yield(call, nil):
				case name == "a fork":
					_ = yield(published(), nil)
				case yield(&event.Event{Data: &event.Relay{Kind: "permission", ToolCallID: call.ID, Tool: "publish"}}, nil):
					yield(&event.Event{Data: &event.Finish{Reason: event.FinishReasonInputRequired}}, nil)
				}
			}
		}, agent.WithSubAgents(agent.Via(editor, agent.When(answers("A draft.")))))
		store := sessiontest.Memory(t)
		r := newRunner(t, root, store)
		run(t, r, s1, "Hi")
		ctx, key := context.Background(), s1
		if name == "a fork" {
			key = forked
			require.NoError(t, store.Fork(ctx, s1, 4, key))
			finish(t, r.Resume(ctx, key))
		} else {
			finish(t, resume(r, key, runner.Approve("c1")))
		}
		require.Equal(t, "editor", must.Get(r.Active(ctx, key)), name)
	}
}
