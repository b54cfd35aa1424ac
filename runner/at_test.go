package runner_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// A turn that was decided on by looking at a log begins on that log or not at all, and so
// does the cancellation of one.
func TestAt(t *testing.T) {
	a := must.Get(llmagent.New("a", "Answer.", scripted.Always("a", scripted.Reply(scripted.Text("Yes.")))))
	store := sessiontest.Memory(t)
	ctx, key := context.Background(), session.ID("s")
	length := func() (n int64) {
		for e, err := range store.Load(ctx, key, 0) {
			require.NoError(t, err)
			n = e.Seq
		}
		return n
	}
	for round := range 20 {
		at := length()
		var begun, refused atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			r := newRunner(t, a, store, runner.WithWait(session.LeaseTTL))
			wg.Go(func() {
				if err := drain(r.Run(ctx, key, llm.UserText("hi"), runner.At(at))); err == nil {
					begun.Add(1)
				} else if errors.Is(err, agent.ErrConflict) {
					refused.Add(1)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 1, begun.Load())
		require.EqualValues(t, 3, refused.Load())
		require.EqualValues(t, 5*(round+1), length(), "what was refused stored nothing")
	}
	r := newRunner(t, a, store)
	_, _, err := r.Begin(ctx, key, llm.UserText("and this?"), runner.At(length()))
	require.NoError(t, err)
	_, err = r.Cancel(ctx, key, runner.At(length()-1))
	require.ErrorIs(t, err, agent.ErrConflict)
	_, err = r.Cancel(ctx, key, nil)
	require.ErrorIs(t, err, agent.ErrBadInput)
	events, err := r.Cancel(ctx, key, runner.At(length()))
	require.NoError(t, err)
	require.NotEmpty(t, events)
}

func TestPinOf(t *testing.T) {
	pin, err := runner.PinOf(runner.At(7), runner.WithTurnID("t-1", 2), runner.WithMetadata(map[string]any{"k": "v"}))
	require.NoError(t, err)
	require.Equal(t, runner.Pin{Turn: "t-1", Attempt: 2, At: 7, Pinned: true}, pin)
	_, err = runner.PinOf(nil)
	require.ErrorIs(t, err, agent.ErrBadInput)
}
