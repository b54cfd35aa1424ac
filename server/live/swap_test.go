package live

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

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

// A turn that runs ends with the tree that it has; what begins later, and what waits, has the new
// one. The old tree is over when its last turn is, and not before.
func TestSwap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		d, a := newDesk(t)
		turns := newTurns(t, a, sessiontest.Memory(t))
		next := func(words string) *runner.Runner {
			b := must.Get(llmagent.New("desk", "You are new.", scripted.Always("desk", scripted.Reply(scripted.Text(words)))))
			return must.Get(runner.New(b, turns.Store(), runner.WithStreaming()))
		}
		begin := func(id, words string) *Turn {
			return must.Get(turns.Begin(ctx, session.ID(id), llm.UserText(words)))
		}
		said := func(id string) (last string) {
			for e, err := range turns.Store().Load(ctx, session.ID(id), 0) {
				require.NoError(t, err)
				if text, ok := e.Data.(*event.Text); ok {
					last = text.Content
				}
			}
			return last
		}
		first, second := begin("1", "think"), begin("2", "think")
		require.NoError(t, begin("asks", "ask").Wait(ctx))
		over := 0
		require.NoError(t, turns.Swap(next("I am new."), func() { over++ }))
		require.NoError(t, begin("3", "hello").Wait(ctx))
		require.Equal(t, "I am new.", said("3"))

		// What waits can only be denied in the new tree, which has no such tool any more.
		asked := stateIs(t, turns, session.ID("asks"), Waiting).Pending[0].ToolCallID
		_, err := turns.Resume(ctx, session.ID("asks"), runner.Approve(asked))
		require.ErrorIs(t, err, agent.ErrBadInput)
		x, err := turns.Resume(ctx, session.ID("asks"), runner.Deny(asked, ""))
		require.NoError(t, err)
		require.NoError(t, x.Wait(ctx))
		require.Equal(t, "I am new.", said("asks"))

		d.free <- struct{}{}
		<-d.thinks
		<-d.thinks
		synctest.Wait()
		require.Zero(t, over, "one turn of the old tree is still at work")
		_, err = turns.Cancel(ctx, session.ID("1")) // one of both has ended, and the other is canceled
		require.NoError(t, err)
		_, err = turns.Cancel(ctx, session.ID("2"))
		require.NoError(t, err)
		_, _ = first.Wait(ctx), second.Wait(ctx)
		synctest.Wait()
		require.Equal(t, 1, over)

		// Without a turn at work the old tree is over at once.
		again := next("I am newer.")
		require.NoError(t, turns.Swap(again, func() { over++ }))
		require.Same(t, again, turns.Runner())
		synctest.Wait()
		require.Equal(t, 2, over)
		require.NoError(t, turns.Swap(next("I am the newest."), nil))

		require.ErrorContains(t, turns.Swap(nil, nil), "the runner is nil")
		require.NoError(t, turns.Close(ctx))
		require.ErrorIs(t, turns.Swap(again, func() { over++ }), ErrClosed)
		synctest.Wait()
		require.Equal(t, 2, over)
	})
}

// TestLend has a session run by a runner of its own until others need the place, and no other session.
func TestLend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		_, a := newDesk(t)
		turns := newTurns(t, a, sessiontest.Memory(t))
		var mu sync.Mutex
		over := make(map[string]int)
		lend := func(id string) {
			b := must.Get(llmagent.New("desk", "You are new.", scripted.Always("desk", scripted.Reply(scripted.Text("I am "+id+".")))))
			run := must.Get(runner.New(b, turns.Store(), runner.WithStreaming()))
			require.NoError(t, turns.Lend(session.ID(id), run, func() {
				mu.Lock()
				defer mu.Unlock()
				over[id]++
			}))
			synctest.Wait()
		}
		say := func(id string) string {
			x := must.Get(turns.Begin(ctx, session.ID(id), llm.UserText("hello")))
			require.NoError(t, x.Wait(ctx))
			return x.Report().Text
		}
		lend("0")
		require.Equal(t, "I am 0.", say("0"))
		require.NotContains(t, say("other"), "I am")
		lend("0")
		require.Equal(t, map[string]int{"0": 1}, over, "the first one lent to the session")
		for i := range 16 {
			require.Equal(t, 1, over["0"])
			lend(strconv.Itoa(i + 1))
		}
		require.Equal(t, map[string]int{"0": 2}, over)
		require.NotContains(t, say("0"), "I am")
		require.Equal(t, "I am 16.", say("16"))
		require.Error(t, turns.Lend(session.ID("x"), nil, func() {}))
		require.NoError(t, turns.Close(ctx))
		synctest.Wait()
		require.Len(t, over, 17)
		require.ErrorIs(t, turns.Lend(session.ID("x"), turns.Runner(), func() {}), ErrClosed)
	})
}

// TestPrepares: agents that may be unable to start are asked when a runner comes, in the background, and until Close.
func TestPrepares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		_, a := newDesk(t)
		far := &starting{a, func(ctx context.Context) error { asked++; <-ctx.Done(); return ctx.Err() }}
		turns := newTurns(t, far, sessiontest.Memory(t))
		synctest.Wait()
		require.Equal(t, 1, asked)
		run := must.Get(runner.New(far, turns.Store()))
		require.NoError(t, turns.Swap(run, nil))
		synctest.Wait()
		require.Equal(t, 2, asked)
		require.NoError(t, turns.Close(context.Background()))
	})
}

type starting struct {
	agent.Agent
	ready func(context.Context) error
}

func (s *starting) Unwrap() agent.Agent             { return s.Agent }
func (s *starting) Ready(ctx context.Context) error { return s.ready(ctx) }
