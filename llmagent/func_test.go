package llmagent_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

type order struct {
	ID int `json:"id"`
}

// coded is a tree of a function and a specialist, and what the tool was called with.
type coded struct {
	t      *testing.T
	tree   agent.Agent
	store  session.Store
	model  *model
	called []int
}

func newCoded(t *testing.T, run func(*llmagent.Step) error, toolOpts []tools.Option, opts ...llmagent.Option) *coded {
	c := &coded{t: t, store: sessiontest.Memory(t), model: &model{}}
	refund := must.Get(tools.Func("refund", "Refunds.", func(_ tools.Context, in order) (order, error) {
		c.called = append(c.called, in.ID)
		if in.ID == 13 {
			return order{}, errors.New("no such order")
		}
		return order{in.ID + 1}, nil
	}, toolOpts...))
	billing := must.Get(llmagent.New("billing", "You bill.", scripted.Always("m", scripted.Reply(scripted.Text("Billing here.")))))
	c.tree = must.Get(llmagent.Func("desk", "The first to answer.", run, append(opts, llmagent.WithTools(refund), llmagent.WithSubAgents(billing))...))
	return c
}

// does runs something on a runner.
type does = func(*runner.Runner) iter.Seq2[*event.Event, error]

// turn runs or continues a turn in a new process, as far as the consumer wants.
func (c *coded) turn(run does, enough func(*event.Event) bool, opts ...runner.Option) (said []string, failed error) {
	r := must.Get(runner.New(c.tree, c.store, opts...))
	for e, err := range sessiontest.Turn(c.t, run(r)) {
		if err != nil {
			failed = err
			break
		}
		if w := e.Visible(); w != "" {
			said = append(said, w)
		}
		if enough != nil && enough(e) {
			break
		}
	}
	require.NoError(c.t, c.model.bad)
	return said, failed
}

func hears(text string) does {
	return func(r *runner.Runner) iter.Seq2[*event.Event, error] {
		return r.Run(context.Background(), key, llm.UserText(text))
	}
}

func resumes(d ...runner.Decision) does {
	return func(r *runner.Runner) iter.Seq2[*event.Event, error] {
		return r.Resume(context.Background(), key, d...)
	}
}

// everything uses all that a step can do.
func everything(m llm.Model, runs *int) func(*llmagent.Step) error {
	return func(s *llmagent.Step) error {
		*runs++
		if err := s.Say("You said: " + s.Message()); err != nil {
			return err
		}
		var done order
		if err := s.Call("refund", order{7}, &done); err != nil {
			return err
		}
		w := s.Stream()
		for _, piece := range []string{"Refunded \xe2", "\x82", "\xac", fmt.Sprint(done.ID)} {
			if _, err := io.WriteString(w, piece); err != nil {
				return err
			}
		}
		answer, err := s.Ask(m, "Be kind.")
		if err != nil {
			return err
		}
		if strings.Contains(answer, "lawyer") {
			return s.Transfer("billing", "wants a lawyer")
		}
		return s.Say("Done.")
	}
}

func TestFunc(t *testing.T) {
	var runs int
	var c *coded
	c = newCoded(t, func(s *llmagent.Step) error { return everything(c.model, &runs)(s) }, nil, llmagent.WithSettings(llm.Settings{MaxTokens: 77}))
	c.model.answers = replies(reply(scripted.Text("Gladly.")), reply(scripted.Text("Call a lawyer.")))
	said := must.Get(c.turn(hears("hello"), nil))
	require.Equal(t, []string{"You said: hello", "Refunded €8", "Gladly.", "Done."}, said)
	said = must.Get(c.turn(hears("again"), nil))
	require.Equal(t, []string{"You said: again", "Refunded €8", "Call a lawyer.", "Billing here."}, said)
	require.Equal(t, []int{7, 7}, c.called)

	req := c.model.requests[0]
	require.Equal(t, "Be kind.", req.System)
	require.Equal(t, 77, req.MaxTokens)
	require.Empty(t, req.Tools)
	require.Contains(t, fmt.Sprint(req.Messages), "Refunded €8")
	require.Contains(t, fmt.Sprint(c.model.requests[1].Messages), "Gladly.", "a function's own words are in its view")

	// The conversation is the specialist's now.
	said = must.Get(c.turn(hears("and now?"), nil))
	require.Equal(t, []string{"Billing here."}, said)
}

func TestFuncStreams(t *testing.T) {
	var runs int
	var c *coded
	c = newCoded(t, func(s *llmagent.Step) error { return everything(c.model, &runs)(s) }, nil)
	c.model.answers = replies(reply(scripted.Text("Gladly.")))
	said := must.Get(c.turn(hears("hello"), nil, runner.WithStreaming()))
	require.Equal(t, "You said: helloRefunded €8Gladly.Done.", strings.Join(said, ""))
	require.Subset(t, said, []string{"Refunded ", "€", "8"}, "pieces come as they are written, and runes whole")
}

func TestFuncWaitsForApproval(t *testing.T) {
	for _, approved := range []bool{true, false} {
		var runs int
		c := newCoded(t, func(s *llmagent.Step) error {
			runs++
			if err := s.Say("One moment."); err != nil {
				return err
			}
			var denied *llmagent.CallError
			switch err := s.Call("refund", order{1}, nil); {
			case errors.As(err, &denied):
				return s.Say(denied.Error())
			case err != nil:
				require.ErrorIs(t, err, llmagent.ErrOver)
				require.ErrorIs(t, s.Say("too late"), llmagent.ErrOver)
				return err
			}
			return s.Say("Refunded.")
		}, []tools.Option{tools.NeedsApproval()})
		said := must.Get(c.turn(hears("hello"), nil))
		require.Equal(t, []string{"One moment."}, said)
		require.Empty(t, c.called)

		r := must.Get(runner.New(c.tree, c.store))
		waiting := must.Get(r.Pending(context.Background(), key))
		require.Len(t, waiting, 1)
		said = must.Get(c.turn(resumes(runner.Decision{CallID: waiting[0].ToolCallID, Approved: approved, Reason: "too dear"}), nil))
		require.Equal(t, 2, runs)
		if approved {
			require.Equal(t, []string{"Refunded."}, said)
			require.Equal(t, []int{1}, c.called)
		} else {
			require.Equal(t, []string{"tool refund: denied: too dear"}, said)
			require.Empty(t, c.called)
		}
	}
}

// TestFuncDoesNotRepeatACall: a call that may have had its effect in an earlier
// process is not run again, and the function gets an error that says so; calls after
// it run as usual.
func TestFuncDoesNotRepeatACall(t *testing.T) {
	var messages []string
	c := newCoded(t, func(s *llmagent.Step) error {
		for _, id := range []int{1, 2} {
			var failed *llmagent.CallError
			if err := s.Call("refund", order{id}, nil); errors.As(err, &failed) {
				messages = append(messages, failed.Message)
			} else if err != nil {
				return err
			}
		}
		return s.Say("Done.")
	}, nil)
	must.Get(c.turn(hears("hello"), func(e *event.Event) bool { _, ok := e.Data.(*event.ToolCall); return ok }))
	said := must.Get(c.turn(resumes(), nil))
	require.Equal(t, []string{"Done."}, said)
	require.Equal(t, []string{"interrupted; outcome unknown; check before you repeat it"}, messages)
	require.Equal(t, []int{2}, c.called)
}

func TestFuncErrors(t *testing.T) {
	var got error
	c := newCoded(t, func(s *llmagent.Step) error {
		got = s.Call("refnd", nil, nil)
		require.EqualError(t, got, `agent "desk" has no tool "refnd"; did you mean "refund"?`)
		require.EqualError(t, s.Call("refund", []int{1}, nil), "the arguments of tool refund: [1] is not a JSON object")
		require.Equal(t, "no such order", must.As[*llmagent.CallError](s.Call("refund", order{13}, nil)).Message)
		var text string
		require.ErrorContains(t, s.Call("refund", order{1}, &text), "the output of tool refund: json")
		require.ErrorIs(t, s.Transfer("nobody", ""), agent.ErrUnknownTarget)
		_, err := s.Ask(nil, "")
		require.ErrorContains(t, err, "needs a model")
		_, err = s.Ask(scripted.Always("m", scripted.Reply(scripted.Fail(&llm.Error{Code: "refused", Message: "go away"}))), "")
		require.ErrorContains(t, err, "go away")
		w := s.Stream()
		must.Get(io.WriteString(w, "a"))
		require.NoError(t, s.Say("b"))
		_, err = io.WriteString(w, "c")
		require.ErrorContains(t, err, "has closed the stream")
		return s.Transfer("billing", "")
	}, nil)
	said, err := c.turn(hears("hello"), nil)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "Billing here."}, said)

	// What was shown before an error is kept.
	c = newCoded(t, func(s *llmagent.Step) error {
		must.Get(io.WriteString(s.Stream(), "So far"))
		return errors.New("and no further")
	}, nil)
	said, err = c.turn(hears("hello"), nil, runner.WithStreaming())
	require.ErrorContains(t, err, "and no further")
	require.Equal(t, []string{"So far"}, said)
	r := must.Get(runner.New(c.tree, c.store))
	var kept []string
	for _, e := range must.All(r.History(context.Background(), key)) {
		if e.Text() != "" {
			kept = append(kept, e.Text())
		}
	}
	require.Equal(t, []string{"So far"}, kept)

	// An error of the function ends the turn; one that it does not return does not.
	c = newCoded(t, func(s *llmagent.Step) error { return errors.New("out of paper") }, nil)
	_, err = c.turn(hears("hello"), nil)
	require.ErrorContains(t, err, "out of paper")
}

// TestFuncMustDoTheSame: what is in the log is not given to a function that asks for
// something else.
func TestFuncMustDoTheSame(t *testing.T) {
	runs := 0
	c := newCoded(t, func(s *llmagent.Step) error {
		if runs++; runs > 1 {
			return s.Call("refund", order{1}, nil)
		}
		if err := s.Say("a"); err != nil {
			return err
		}
		return s.Say("b")
	}, nil)
	must.Get(c.turn(hears("hello"), func(e *event.Event) bool { return e.Text() == "a" }))
	_, err := c.turn(resumes(), nil)
	require.ErrorContains(t, err, `the function of agent "desk" was called again after a pause or a crash, and tries to call refund where it did something else before`)
	require.Empty(t, c.called)
}

// TestFuncGoesOnWithoutAnAnswer: a function that went on after an error of a model gets an
// error again, and the model is not asked a second time.
func TestFuncGoesOnWithoutAnAnswer(t *testing.T) {
	for _, failure := range []scripted.Item{scripted.Fail(&llm.Error{Code: llm.CodeServer, Message: "on fire"}), scripted.Text(""), scripted.Call("refund", "{}")} {
		var c *coded
		var errs []error
		c = newCoded(t, func(s *llmagent.Step) error {
			if err := s.Say("One moment."); err != nil {
				return err
			}
			_, err := s.Ask(c.model, "")
			errs = append(errs, err)
			if err := s.Say("Never mind."); err != nil {
				return err
			}
			return s.Say("Bye.")
		}, nil)
		c.model.answers = replies(reply(failure), reply(failure), reply(failure), reply(failure))
		must.Get(c.turn(hears("hello"), func(e *event.Event) bool { return e.Text() == "Never mind." }))
		asked := len(c.model.requests)
		said := must.Get(c.turn(resumes(), nil))
		require.Equal(t, []string{"Bye."}, said)
		require.Len(t, c.model.requests, asked)
		require.Len(t, errs, 2)
		require.Error(t, errs[0])
		require.Error(t, errs[1])
	}
}

// TestFuncGoesOnAfterARefusedTransfer: nothing of it is recorded, and the function gets an
// error again, also if the target could take over by now.
func TestFuncGoesOnAfterARefusedTransfer(t *testing.T) {
	for _, to := range []string{"nobody", "billing"} {
		runs := 0
		c := newCoded(t, func(s *llmagent.Step) error {
			runs++
			target := to
			if runs == 1 {
				target = "nobody"
			}
			require.ErrorIs(t, s.Transfer(target, ""), map[string]error{"nobody": agent.ErrUnknownTarget, "billing": agent.ErrTransferRejected}[target])
			if err := s.Say("I stay."); err != nil {
				return err
			}
			return s.Say("Bye.")
		}, nil)
		must.Get(c.turn(hears("hello"), func(e *event.Event) bool { return e.Text() == "I stay." }))
		said := must.Get(c.turn(resumes(), nil))
		require.Equal(t, []string{"Bye."}, said)
	}
}

// TestFuncUnderANodesName: in a graph an agent has the name of its node, and so have its
// events.
func TestFuncUnderANodesName(t *testing.T) {
	c := newCoded(t, func(s *llmagent.Step) error {
		if err := s.Say("One."); err != nil {
			return err
		}
		if err := s.Call("refund", order{1}, nil); err != nil {
			return err
		}
		return s.Say("Two.")
	}, nil)
	c.tree = must.Get(agentgraph.NewBuilder("g").Node("first", c.tree).Build())
	must.Get(c.turn(hears("hello"), func(e *event.Event) bool { _, done := e.Data.(*event.ToolResult); return done }))
	must.Get(c.turn(resumes(), nil))
	r := must.Get(runner.New(c.tree, c.store))
	var said []string
	for _, e := range must.All(r.History(context.Background(), key)) {
		if e.Text() != "" {
			said = append(said, e.Agent+": "+e.Text())
		}
	}
	require.Equal(t, []string{"first: One.", "first: Two.", "g: Two."}, said)
	require.Equal(t, []int{1}, c.called)
}

// TestFuncIsWithinLimits: what ends a turn ends the run of a function that would go on.
func TestFuncIsWithinLimits(t *testing.T) {
	var c *coded
	c = newCoded(t, func(s *llmagent.Step) error {
		for {
			if _, err := s.Ask(c.model, ""); err != nil {
				require.ErrorIs(t, err, agent.ErrLimit)
				require.ErrorIs(t, err, llmagent.ErrOver)
				require.ErrorIs(t, s.Say("still here"), llmagent.ErrOver)
				return nil
			}
		}
	}, nil)
	said, err := c.turn(hears("hello"), nil, runner.WithLimits(runner.Limits{ModelCalls: 2}))
	require.ErrorIs(t, err, agent.ErrLimit)
	require.Equal(t, []string{"ok", "ok"}, said)
	said, err = c.turn(hears("hello"), nil, runner.WithLimits(runner.Limits{Steps: 3}))
	require.ErrorIs(t, err, agent.ErrLimit)
	require.Equal(t, []string{"ok", "ok", "ok"}, said)

	c = newCoded(t, func(s *llmagent.Step) error {
		for {
			if err := s.Call("refund", order{1}, nil); errors.Is(err, llmagent.ErrOver) {
				return nil
			}
		}
	}, nil)
	_, err = c.turn(hears("hello"), nil, runner.WithLimits(runner.Limits{ToolCalls: 3}))
	require.ErrorIs(t, err, agent.ErrLimit)
	require.Equal(t, []int{1, 1, 1}, c.called)
}

func TestFuncOptions(t *testing.T) {
	_, err := llmagent.Func("a b", "", nil, nil, llmagent.WithCompaction(llmagent.Compaction{Window: 1000}), llmagent.WithTransferApproval())
	for _, want := range []string{"option 0 is nil", "the function is nil", "letters", "an option sets a compaction", "an option sets approvals of transfers"} {
		require.ErrorContains(t, err, want)
	}
}
