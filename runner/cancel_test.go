package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"testing"
	"testing/synctest"

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

func drain(seq iter.Seq2[*event.Event, error]) error {
	_, err := collect(seq)
	return err
}

func cancelKinds(events []*event.Event) []string {
	var kinds []string
	for _, e := range events {
		kind := e.Type()
		if end, ok := e.Data.(*event.HarnessEnd); ok {
			kind += " " + string(end.FinishReason)
		}
		kinds = append(kinds, kind)
	}
	return kinds
}

// A turn that waits for an approval is given up: the call is answered, a run ends as
// canceled, and the next turn finds nothing to close.
func TestCancelPausedTurn(t *testing.T) {
	s := scripted.New().Add("billing", scripted.Reply(scripted.Call("refund", `{"order":"A1"}`)), scripted.Reply(scripted.Text("Never mind.")))
	refund := must.Get(tools.Func("refund", "Refunds.", func(tools.Context, struct {
		Order string `json:"order"`
	}) (string, error) {
		return "done", nil
	}, tools.NeedsApproval()))
	billing := must.Get(llmagent.New("billing", "You refund.", s.Model("billing"), llmagent.WithTools(refund)))
	store := sessiontest.Memory(t)
	r := newRunner(t, billing, store)
	ctx, key := context.Background(), session.ID("s")
	require.NoError(t, drain(r.Run(ctx, key, llm.UserText("refund A1"))))

	events := must.Get(r.Cancel(ctx, key))
	require.Equal(t, []string{"tool_result", "harness_start", "harness_end canceled"}, cancelKinds(events))
	again := must.Get(r.Cancel(ctx, key))
	require.Empty(t, again, "it is over")
	require.NoError(t, drain(r.Resume(ctx, key)))

	stored := must.All(r.Run(ctx, key, llm.UserText("thanks")))
	require.Equal(t, []string{"user", "harness_start", "text", "usage", "harness_end stop"}, cancelKinds(stored))
	require.NoError(t, s.Done())
}

// Whatever of a turn is in the log when it is cut off, Cancel ends it in one write.
func TestCancelCutOffTurn(t *testing.T) {
	s := scripted.New().Add("support", scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"billing"}`))).Add("billing", scripted.Reply(scripted.Text("Refunded.")))
	billing := must.Get(llmagent.New("billing", "You refund.", s.Model("billing")))
	support := must.Get(llmagent.New("support", "Route.", s.Model("support"), llmagent.WithSubAgents(billing)))
	whole := sessiontest.Memory(t)
	r := newRunner(t, support, whole)
	ctx, key := context.Background(), session.ID("s")
	require.NoError(t, drain(r.Run(ctx, key, llm.UserText("refund"))))
	log := must.All(whole.Load(ctx, key, 0))
	for n := 1; n < len(log); n++ {
		cut := session.NewMemory()
		lease := must.Get(sessiontest.Acquire(ctx, cut, key, session.Self()))
		require.NoError(t, sessiontest.Append(ctx, cut, key, 0, lease, log[:n]...))
		require.NoError(t, sessiontest.Release(ctx, cut, key, lease))
		r := newRunner(t, support, cut)
		events := must.Get(r.Cancel(ctx, key))
		require.NotEmpty(t, events, "cut after %d", n)
		require.Equal(t, "harness_end canceled", cancelKinds(events)[len(events)-1], "cut after %d", n)
		var fold session.Fold
		for _, e := range must.All(cut.Load(ctx, key, 0)) {
			fold.Apply(e)
		}
		require.False(t, fold.Unfinished(), "cut after %d", n)
		require.Empty(t, fold.Scope("").Run.Pending, "cut after %d", n)
		require.Empty(t, fold.Open())
	}
}

func TestCancelRunningTurnIsBusy(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	slow := must.Get(agent.New("slow", "Waits.", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			close(begun)
			<-release
			yield(&event.Event{Data: &event.Text{Content: "done"}}, nil)
		}
	}))
	r := newRun(t, slow)
	done := make(chan error)
	go func() { done <- drain(r.Run(context.Background(), session.ID("s"), llm.UserText("hi"))) }()
	<-begun
	_, err := r.Cancel(context.Background(), session.ID("s"))
	require.ErrorIs(t, err, agent.ErrSessionBusy)
	close(release)
	require.NoError(t, <-done)
	events := must.Get(r.Cancel(context.Background(), session.ID("s")))
	require.Empty(t, events)
	_, err = r.Cancel(context.Background(), session.Key{})
	require.ErrorIs(t, err, agent.ErrBadInput)
}

// waiting is an agent that leaves something waiting elsewhere.
type waiting struct {
	agent.Agent
	gaveUp int
	panics bool
}

func (w *waiting) Cancel(context.Context, *agent.Invocation) ([]event.Data, error) {
	if w.panics {
		panic("no")
	}
	w.gaveUp++
	return []event.Data{&event.RemoteTask{TaskID: "t", Status: "canceled"}}, nil
}

func TestCancelGivesUpWhatWaitsElsewhere(t *testing.T) {
	inner := must.Get(agent.New("far", "Asks.", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			yield(&event.Event{Data: &event.Text{Content: "Which?"}}, nil)
		}
	}))
	w := &waiting{Agent: inner}
	r := newRun(t, w)
	ctx, key := context.Background(), session.ID("s")
	none := must.Get(r.Cancel(ctx, key))
	require.Empty(t, none, "an empty session has nothing to give up")
	require.NoError(t, drain(r.Run(ctx, key, llm.UserText("hi"))))
	events := must.Get(r.Cancel(ctx, key))
	require.Equal(t, []string{"harness_start", "remote_task", "harness_end canceled"}, cancelKinds(events))
	require.Equal(t, 1, w.gaveUp)
	w.panics = true
	_, err := r.Cancel(ctx, key)
	var run *agent.RunError
	require.ErrorAs(t, err, &run)
}

// What belongs to a message but is not its words is kept as JSON keeps it.
func TestMetadataOfTurn(t *testing.T) {
	s := scripted.New().Add("a", scripted.Reply(scripted.Text("Hi.")))
	a := must.Get(llmagent.New("a", "Greet.", s.Model("a")))
	r := newRun(t, a)
	ctx, key := context.Background(), session.ID("s")
	given := map[string]any{"language": "de", "n": 1, "list": []string{"x"}}
	for _, u := range find[*event.User](must.All(r.Run(ctx, key, llm.UserText("hi"), runner.WithMetadata(given)))) {
		data := must.Get(json.Marshal(u.Metadata))
		require.JSONEq(t, `{"language":"de","n":1,"list":["x"]}`, string(data))
		require.Equal(t, []any{"x"}, u.Metadata["list"])
	}
	require.ErrorIs(t, drain(r.Run(ctx, key, llm.UserText("hi"), runner.WithMetadata(map[string]any{"f": func() {}}))), agent.ErrBadInput)
	require.ErrorIs(t, drain(r.Run(ctx, key, llm.UserText("hi"), nil)), agent.ErrBadInput)
}

// A graph stops another graph in it, whose node is in the middle of a word: the consumer
// gets an event that says that the rest does not come.
func TestDeltasInsideOfAStoppedGraph(t *testing.T) {
	spoke := make(chan struct{})
	speaker := must.Get(agent.New("speaker", "", func(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			if !yield(&event.Event{ID: inv.NewID(), Partial: true, Attempt: 1, Data: &event.Text{Content: "Wel"}}, nil) {
				return
			}
			close(spoke)
			<-ctx.Done()
			yield(nil, ctx.Err())
		}
	}))
	breaker := must.Get(agent.New("breaker", "", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			<-spoke
			yield(nil, errors.New("broken"))
		}
	}))
	start := must.Get(agent.New("start", "", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			yield(&event.Event{Data: &event.Text{Content: "So."}}, nil)
		}
	}))
	inner := must.Get(agentgraph.NewBuilder("inner").Node("speaks", speaker).Entrypoint("speaks").Build())
	outer := must.Get(agentgraph.NewBuilder("outer").Node("start", start).Node("graph", inner).Node("breaks", breaker).
		Entrypoint("start").Edge("start", "graph").Edge("start", "breaks").Build())
	r := newRun(t, outer, runner.WithStreaming())

	shown, dropped := "", []string(nil)
	for e, err := range r.Run(t.Context(), s1, llm.UserText("Hello")) {
		if err != nil {
			require.ErrorContains(t, err, "broken")
			break
		}
		if e.Partial {
			shown = e.ID
		}
		if d, ok := e.Data.(*event.Discard); ok {
			dropped = append(dropped, d.IDs...)
		}
	}
	require.NotEmpty(t, shown)
	require.Equal(t, []string{shown}, dropped)
}

// The consumer breaks out of a turn at one of several deltas that nodes side by side want
// to be shown: its code does not run again, and somebody else can finish the turn.
func TestBreakAmongDeltas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		speaker := must.Get(agent.New("speaker", "", func(_ context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
			return func(yield func(*event.Event, error) bool) {
				id := inv.NewID()
				if yield(&event.Event{ID: id, Partial: true, Attempt: 1, Data: &event.Text{Content: "Well."}}, nil) {
					yield(&event.Event{ID: id, Data: &event.Text{Content: "Well."}}, nil)
				}
			}
		}))
		b := agentgraph.NewBuilder("graph").Node("start", speaker).Entrypoint("start")
		for _, id := range []string{"a", "b", "c", "d"} {
			b.Node(id, speaker).Edge("start", id)
		}
		g := must.Get(b.Build())
		r := newRun(t, g, runner.WithStreaming())

		shown := 0
		for e, err := range r.Run(t.Context(), s1, llm.UserText("Hello")) {
			require.NoError(t, err)
			if !e.Partial || e.Agent == "start" {
				continue
			}
			if shown++; shown == 2 {
				break
			}
			synctest.Wait() // until the others want to be shown something
		}
		require.Equal(t, 2, shown)
		events := finish(t, r.Resume(t.Context(), s1))
		require.Equal(t, event.FinishReasonStop, events[len(events)-1].Data.(*event.HarnessEnd).FinishReason)
	})
}
