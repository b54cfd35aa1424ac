package runner_test

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agenttool"
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

// The cases in this file were found by random conversations; see TestProperties.

// scriptedAgent is an agent of a script.
func scriptedAgent(t testing.TB, name string, answers []scripted.Answer, opts ...llmagent.Option) *llmagent.Agent {
	return must.Get(llmagent.New(name, "", scripted.New().Add(name, answers...).Model(name), opts...))
}

func agentTool(t testing.TB, a agent.Agent) tools.Tool {
	return must.Get(agenttool.New(a))
}

func seq(answers ...scripted.Answer) []scripted.Answer { return answers }

// signals says when the words of the agent deep are stored.
type signals struct {
	session.Store
	stored chan struct{}
}

func (s *signals) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if len(w.Events) == 0 {
		return s.Store.Write(ctx, key, w)
	}
	events := w.Events
	lease, err := s.Store.Write(ctx, key, w)
	for _, e := range events {
		if e.Agent == "deep" && e.Text() != "" {
			close(s.stored)
		}
	}
	return lease, err
}

// Deltas of agents two agent tools deep do not come after the complete event.
func TestNoDeltaAfterTheWhole(t *testing.T) {
	deep := scriptedAgent(t, "deep", seq(scripted.Reply(scripted.Text("Deep."))))
	inner := scriptedAgent(t, "inner", seq(scripted.Reply(scripted.Call("deep", `{"input":"go"}`)), scripted.Reply(scripted.Text("Inner."))), llmagent.WithTools(agentTool(t, deep)))
	root := scriptedAgent(t, "root", seq(scripted.Reply(scripted.Call("inner", `{"input":"go"}`)), scripted.Reply(scripted.Text("Done."))), llmagent.WithTools(agentTool(t, inner)))
	store := &signals{Store: sessiontest.Memory(t), stored: make(chan struct{})}
	r := newRunner(t, root, store, runner.WithStreaming())
	whole := make(map[string]bool)
	for e, err := range r.Run(context.Background(), s1, llm.UserText("Hi")) {
		require.NoError(t, err)
		if e.Partial {
			require.False(t, whole[e.ID], "a delta of %s after its complete event", e.Agent)
		} else if _, ok := e.Data.(*event.Text); ok {
			whole[e.ID] = true
		}
		if _, ok := e.Data.(*event.HarnessStart); ok && e.Agent == "deep" { // a slow consumer
			select {
			case <-store.stored:
			case <-time.After(100 * time.Millisecond): // a delta may be waiting for this consumer itself
			}
		}
	}
}

type modelFunc func(context.Context, *llm.Request) iter.Seq2[llm.Chunk, error]

func (m modelFunc) Name() string { return "m" }
func (m modelFunc) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return m(ctx, req)
}

// A guard's In is asked once a run, also in steps of Advance.
func TestGuardIsAskedOnceARun(t *testing.T) {
	for _, advance := range []bool{false, true} {
		asked := 0
		guard := agent.Guard{Name: "g", In: func(_ context.Context, _ *agent.Invocation, in agent.Ingress) error {
			if in.Kind == agent.IngressUser {
				asked++
			}
			return nil
		}}
		root := scriptedAgent(t, "solo", seq(scripted.Reply(scripted.Call("none", "{}")), scripted.Reply(scripted.Text("Hi."))), llmagent.WithGuards(guard))
		r := newRun(t, root)
		var err error
		if advance {
			_, _, err = r.Begin(context.Background(), s1, llm.UserText("Hi"))
			require.NoError(t, err)
			for done := false; !done; {
				_, done, err = over(r.Advance(context.Background(), s1, runner.Step{Attempt: 1}))
				require.NoError(t, err)
			}
		} else {
			_, err = say(r, s1, "Hi")
		}
		require.NoError(t, err)
		require.Equal(t, 1, asked, "advance: %v", advance)
	}
}

// A summary is not asked for beyond the limit of model calls.
func TestSummaryWithinTheLimit(t *testing.T) {
	asked := 0
	failing := modelFunc(func(context.Context, *llm.Request) iter.Seq2[llm.Chunk, error] {
		asked++
		return func(yield func(llm.Chunk, error) bool) {
			if asked == 1 {
				yield(llm.Chunk{Text: "Hello.", Finish: llm.FinishStop}, nil)
			} else if yield(llm.Chunk{Text: "Hel"}, nil) {
				yield(llm.Chunk{}, &llm.Error{Code: llm.CodeContextLength, Status: 400, Message: "too long"})
			}
		}
	})
	summaries := 0
	summarizer := modelFunc(func(context.Context, *llm.Request) iter.Seq2[llm.Chunk, error] {
		summaries++
		return func(yield func(llm.Chunk, error) bool) { yield(llm.Chunk{Text: "Sum.", Finish: llm.FinishStop}, nil) }
	})
	a := must.Get(llmagent.New("solo", "", failing, llmagent.WithCompaction(llmagent.Compaction{Window: 1000, Summarizer: summarizer})))
	r := newRun(t, a, runner.WithLimits(runner.Limits{ModelCalls: 1}))
	run(t, r, s1, "Hi")
	_, err := say(r, s1, "Hi")
	require.ErrorIs(t, err, agent.ErrLimit)
	require.LessOrEqual(t, asked-1+summaries, 1, "model calls of the second turn")
}

// TestPanicAfterATransfer: a function that panics after its transfer has transferred all
// the same.
func TestPanicAfterATransfer(t *testing.T) {
	a := must.Get(agent.New("a", "", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			yield(&event.Event{Data: &event.Transfer{To: "b"}}, nil)
			panic("too late")
		}
	}, agent.WithSubAgents(says(t, "b", "Here I am."))))
	r := newRun(t, a)
	var said string
	for _, e := range must.All(sessiontest.Turn(t, r.Run(t.Context(), session.ID("s1"), llm.UserText("Hello")))) {
		said += e.Visible()
	}
	require.Equal(t, "Here I am.", said)
}
