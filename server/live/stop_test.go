package live

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

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

// TestStopAtAnotherServer: a stop or a cancellation at one server ends the turn of another one. Clients that watch it at
// any server are told, and no server resumes a stopped turn until a user does.
func TestStopAtAnotherServer(t *testing.T) {
	for _, cancels := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			d, a := newDesk(t)
			store := clocked(t)
			one, two := newTurns(t, a, store), newTurns(t, a, store, WithAdoption(time.Second))
			x := must.Get(one.Begin(ctx, key, llm.UserText("think")))
			<-d.thinks
			ends := make(chan watched, 2)
			for _, turns := range []*Turns{one, two} {
				go func() { ends <- watch(turns, 1, "", 0) }()
				go func() {
					for range turns.Follow(ctx, key, "") {
					}
				}()
			}
			synctest.Wait()
			if begun := time.Now(); cancels {
				must.Get(two.Cancel(ctx, key))
			} else {
				require.NoError(t, two.Stop(ctx, key))
				require.LessOrEqual(t, time.Since(begun), session.LeaseTTL/3+time.Second)
			}
			require.ErrorIs(t, x.Wait(ctx), session.ErrStopped)
			for range 2 {
				if w := <-ends; !cancels {
					require.ErrorIs(t, w.err, session.ErrStopped)
				}
			}
			time.Sleep(2 * session.LeaseTTL)
			require.Empty(t, d.thinks)
			require.Empty(t, orphans(t, store))
			require.Equal(t, []string{event.NoticeStopped}, notices(t, store, key))
			if cancels {
				stateIs(t, one, key, Canceled)
				return
			}
			stateIs(t, one, key, CutOff)
			require.NoError(t, one.Stop(ctx, key), "it is stopped")
			w := watch(one, 1, "", 0)
			require.ErrorIs(t, watch(one, 1, w.last, 0).err, session.ErrStopped, "a client that has seen all of it")

			again := must.Get(one.Resume(ctx, key))
			d.free <- struct{}{}
			require.NoError(t, again.Wait(ctx))
			require.Equal(t, []string{event.NoticeStopped, event.NoticeResumed}, notices(t, store, key))
		})
	}
}

// TestStopWithoutAProcess: a turn is stopped although no process runs it: its process has died, and the one that
// requested the stop may have died too. It keeps to the request until a user resumes it or says something else.
func TestStopWithoutAProcess(t *testing.T) {
	for name, then := range map[string]func(*testing.T, *desk, *Turns) (want []string){
		"nothing": func(t *testing.T, _ *desk, turns *Turns) []string {
			newTurns(t, must.Get(llmagent.New("desk", "", scripted.Always("m", scripted.Reply(scripted.Text("Late."))))), turns.Store(), WithAdoption(time.Second))
			time.Sleep(2 * session.LeaseTTL)
			require.Empty(t, orphans(t, turns.Store()))
			stateIs(t, turns, key, CutOff)
			return []string{"stopped"}
		},
		"resumed": func(t *testing.T, d *desk, turns *Turns) []string {
			time.Sleep(session.LeaseTTL)
			x := must.Get(turns.Resume(t.Context(), key))
			d.free <- struct{}{}
			require.NoError(t, x.Wait(t.Context()))
			return []string{"stopped", "resumed"}
		},
		"a message": func(t *testing.T, _ *desk, turns *Turns) []string {
			before := notices(t, turns.Store(), key)
			time.Sleep(session.LeaseTTL)
			require.NoError(t, must.Get(turns.Begin(t.Context(), key, llm.UserText("hello"))).Wait(t.Context()))
			stateIs(t, turns, key, Done)
			return before
		},
	} {
		for _, waits := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d, a := newDesk(t)
					store := clocked(t)
					kill(t, d, a, store, key, "think")
					turns := newTurns(t, a, store)
					if waits {
						require.NoError(t, turns.Stop(t.Context(), key))
					} else {
						must.Get(store.Write(t.Context(), key, session.Write{Stop: turns.mustSeq(t)}))
					}
					require.Equal(t, then(t, d, turns), notices(t, store, key))
				})
			})
		}
	}
}

func (t *Turns) mustSeq(tb testing.TB) int64 {
	return must.Get(t.Look(tb.Context(), key)).Seq
}

// TestStopComesTooLate: the end of a turn, its pause, or a new turn wins against a request to stop it, which has no
// effect afterwards.
func TestStopComesTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		d, a := newDesk(t)
		store := clocked(t)
		turns := newTurns(t, a, store)
		request := func() { must.Get(store.Write(ctx, key, session.Write{Stop: turns.mustSeq(t)})) }
		x := must.Get(turns.Begin(ctx, key, llm.UserText("think")))
		<-d.thinks
		request()
		d.free <- struct{}{}
		require.NoError(t, x.Wait(ctx))
		stateIs(t, turns, key, Done)
		request()
		require.NoError(t, newTurns(t, a, store).Stop(ctx, key))

		_, call := asked(t, turns)
		request()
		require.NoError(t, newTurns(t, a, store).Stop(ctx, key))
		require.NoError(t, must.Get(turns.Resume(ctx, key, runner.Approve(call))).Wait(ctx))
		stateIs(t, turns, key, Done)
		require.Empty(t, notices(t, store, key))
	})
}

// TestManyStop: servers that stop and cancel one turn at the same time get no error, and the log says once that it was
// stopped.
func TestManyStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		d, a := newDesk(t)
		store := clocked(t)
		all := []*Turns{newTurns(t, a, store), newTurns(t, a, store), newTurns(t, a, store)}
		must.Get(all[0].Begin(ctx, key, llm.UserText("think")))
		<-d.thinks
		done := make(chan error)
		for _, turns := range append(all, all...) {
			go func() { done <- turns.Stop(ctx, key) }()
		}
		for range 6 {
			require.NoError(t, <-done)
		}
		require.Equal(t, []string{event.NoticeStopped}, notices(t, store, key))
		for _, turns := range all {
			go func() { _, err := turns.Cancel(ctx, key); done <- err }()
		}
		for range 3 {
			require.NoError(t, <-done)
		}
		stateIs(t, all[1], key, Canceled)
	})
}

// TestStopOfInnerRuns: a stop at another server reaches a tool of an agent that a tool runs, and the turn resumes there.
func TestStopOfInnerRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, works, runs := t.Context(), make(chan struct{}, 9), 0
		dig := must.Get(tools.Func("dig", "Digs.", func(c tools.Context, _ struct{}) (string, error) {
			if runs++; runs > 1 {
				return "gold", nil
			}
			works <- struct{}{}
			<-c.Done()
			return "", context.Cause(c)
		}, tools.Idempotent()))
		inner := must.Get(llmagent.New("inner", "", scripted.Func("m", calls("dig", `{}`)), llmagent.WithTools(dig)))
		outer := must.Get(llmagent.New("outer", "", scripted.Func("m", calls("inner", `{"input":"dig"}`)), llmagent.WithTools(must.Get(agenttool.New(inner)))))
		store := clocked(t)
		one, two := newTurns(t, outer, store), newTurns(t, outer, store)
		x := must.Get(one.Begin(ctx, key, llm.UserText("hello")))
		<-works
		require.NoError(t, two.Stop(ctx, key))
		require.ErrorIs(t, x.Wait(ctx), session.ErrStopped)
		require.NoError(t, must.Get(two.Resume(ctx, key)).Wait(ctx))
		stateIs(t, one, key, Done)
	})
}

// calls returns a model that calls a tool once.
func calls(tool, args string) func(*llm.Request) scripted.Answer {
	return func(req *llm.Request) scripted.Answer {
		if req.Messages[len(req.Messages)-1].Role == llm.RoleTool {
			return scripted.Reply(scripted.Text("Done."))
		}
		return scripted.Reply(scripted.Call(tool, args))
	}
}

// TestStopOfAFork: a fork without events of its own runs nothing, so there is nothing to stop, and a user can resume it.
func TestStopOfAFork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, to := t.Context(), session.ID("fork")
		d, a := newDesk(t)
		store := clocked(t)
		turns := newTurns(t, a, store)
		must.Get(turns.Begin(ctx, key, llm.UserText("think")))
		<-d.thinks
		require.NoError(t, store.Fork(ctx, key, turns.mustSeq(t), to))
		require.NoError(t, turns.Stop(ctx, to))
		x := must.Get(turns.Resume(ctx, to))
		d.free <- struct{}{}
		d.free <- struct{}{}
		require.NoError(t, x.Wait(ctx))
		stateIs(t, turns, to, Done)
	})
}

// TestStopWithoutAStore: a stop that the store cannot keep is an error.
func TestStopWithoutAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, a := newDesk(t)
		dying := &crashes{Store: sessiontest.Memory(t)}
		turns := newTurns(t, a, dying)
		must.Get(turns.Begin(t.Context(), key, llm.UserText("think")))
		<-d.thinks
		dying.dead.Store(true)
		require.ErrorIs(t, turns.Stop(t.Context(), key), errDead)
	})
}
