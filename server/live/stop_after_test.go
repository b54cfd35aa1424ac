package live

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

// TestToldOfAStop: whoever is told of a stop, at any server, finds that the turn is cut off, although its process has
// not released the session, and can resume it. Adopt leaves it alone, so that it never seems to run.
func TestToldOfAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		d, a := newDesk(t)
		store := newSlowRelease(t, clocked(t), 100*time.Millisecond)
		one, two := newTurns(t, a, store), newTurns(t, a, store)
		must.Get(one.Begin(ctx, key, llm.UserText("think")))
		<-d.thinks
		var mu sync.Mutex
		states := make(map[State]int)
		look := func(turns *Turns) {
			s, report := must.Get(turns.Look(ctx, key)), must.Get(turns.Report(ctx, key, ""))
			mu.Lock()
			defer mu.Unlock()
			states[s.State]++
			states[report.State]++
		}
		for _, turns := range []*Turns{one, two} {
			defer turns.OnStop(key, func() { look(turns) })()
			go func() {
				for e, err := range turns.Follow(ctx, key, "") {
					if err != nil {
						return
					}
					if e.Event.IsNotice(event.NoticeStopped) {
						look(turns)
					}
				}
			}()
			go func() {
				if w := watch(turns, 1, "", 0); w.err != nil {
					look(turns)
				}
			}()
		}
		synctest.Wait()
		require.NoError(t, two.Stop(ctx, key))
		time.Sleep(session.LeaseTTL)
		mu.Lock()
		require.Len(t, states, 1)
		require.GreaterOrEqual(t, states[CutOff], 12)
		mu.Unlock()

		for _, turns := range []*Turns{one, two} {
			turns.Adopt(key)
			require.Empty(t, turns.runningTurns(key))
		}
	})
}

// TestResumeAtTheStop: a user can resume a turn as soon as the log says that it was stopped.
func TestResumeAtTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		d, a := newDesk(t)
		store := newSlowRelease(t, clocked(t), 100*time.Millisecond)
		one, two := newTurns(t, a, store), newTurns(t, a, store)
		must.Get(one.Begin(ctx, key, llm.UserText("think")))
		<-d.thinks
		go func() { _ = one.Stop(ctx, key) }()
		synctest.Wait()
		require.Equal(t, []string{event.NoticeStopped}, notices(t, store, key))
		d.free <- struct{}{}
		require.NoError(t, must.Get(two.Resume(ctx, key)).Wait(ctx))
		stateIs(t, one, key, Done)
	})
}

// TestCancelWithoutItsClient: a client cancels a turn and leaves before the turn has ended. The turn is canceled all the
// same, and if it does not end for too long, it stays stopped, although another client follows it.
func TestCancelWithoutItsClient(t *testing.T) {
	for _, late := range []time.Duration{time.Second, 2 * cancelTime} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			slow := scripted.Wait(func(ctx context.Context) error {
				asked++
				<-ctx.Done()
				time.Sleep(late)
				return ctx.Err()
			})
			desk := must.Get(llmagent.New("desk", "", scripted.Always("m", scripted.Reply(slow))))
			turns := newTurns(t, desk, clocked(t))
			must.Get(turns.Begin(t.Context(), key, llm.UserText("pay")))
			go func() {
				for range turns.Follow(t.Context(), key, "") {
				}
			}()
			synctest.Wait()
			ctx, leave := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer leave()
			_, err := turns.Cancel(ctx, key)
			if late < cancelTime {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, context.DeadlineExceeded)
				time.Sleep(late + 2*session.LeaseTTL)
				stateIs(t, turns, key, CutOff)
				must.Get(turns.Cancel(t.Context(), key))
			}
			stateIs(t, turns, key, Canceled)
			require.Equal(t, 1, asked)
		})
	}
}

// TestCloseAfterACancel: a server stops a second after a cancellation whose client has left, though another process ends
// the turn late. The turn stays stopped.
func TestCloseAfterACancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		works := make(chan struct{})
		slow := scripted.Wait(func(ctx context.Context) error {
			close(works)
			<-ctx.Done()
			time.Sleep(8 * time.Second)
			return ctx.Err()
		})
		desk := must.Get(llmagent.New("desk", "", scripted.Always("m", scripted.Reply(slow))))
		store := clocked(t)
		one, two := newTurns(t, desk, store), newTurns(t, desk, store)
		x := must.Get(one.Begin(t.Context(), key, llm.UserText("go")))
		<-works
		ctx, leave := context.WithCancel(t.Context())
		canceled := make(chan error, 1)
		go func() {
			_, err := two.Cancel(ctx, key)
			canceled <- err
		}()
		synctest.Wait()
		leave()
		begun := time.Now()
		require.NoError(t, two.Close(t.Context()))
		require.LessOrEqual(t, time.Since(begun), 2*time.Second)
		require.ErrorIs(t, <-canceled, context.Canceled)
		require.Error(t, x.Wait(t.Context()))
		stateIs(t, one, key, CutOff)
	})
}

// TestResumedElsewhere: a server that stopped a turn treats it as one that runs when another server has resumed it, and
// adopts it when that one dies.
func TestResumedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		d, a := newDesk(t)
		store := clocked(t)
		dying := &crashes{Store: store}
		one, two := newTurns(t, a, store, WithAdoption(time.Second)), newTurns(t, a, dying)
		must.Get(one.Begin(ctx, key, llm.UserText("think")))
		<-d.thinks
		require.NoError(t, one.Stop(ctx, key))
		stateIs(t, one, key, CutOff)
		x := must.Get(two.Resume(ctx, key))
		<-d.thinks
		ends := make(chan watched, 1)
		go func() { ends <- watch(one, 1, "", 0) }()
		synctest.Wait()
		require.Empty(t, ends, "the turn runs")
		stateIs(t, one, key, Running)

		dying.dead.Store(true)
		d.free <- struct{}{}
		require.ErrorIs(t, x.Wait(ctx), errDead)
		d.free <- struct{}{}
		require.NoError(t, (<-ends).err)
		stateIs(t, one, key, Done)
		require.Equal(t, []string{event.NoticeStopped, event.NoticeResumed, event.NoticeAdopted}, notices(t, store, key))
	})
}

// onWrite is a store that calls a function after each write.
type onWrite struct {
	session.Store
	then atomic.Pointer[func(session.Write)]
}

func (s *onWrite) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	lease, err := s.Store.Write(ctx, key, w)
	if then := s.then.Load(); err == nil && then != nil {
		(*then)(w)
	}
	return lease, err
}

// TestCloseAtTheStop: a server that is stopped while it stores that a turn was stopped does not give the turn back.
func TestCloseAtTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		d, a := newDesk(t)
		store := clocked(t)
		kill(t, d, a, store, key, "think")
		hooked := &onWrite{Store: store}
		one := newTurns(t, a, hooked)
		must.Get(store.Write(ctx, key, session.Write{Stop: one.mustSeq(t)}))
		time.Sleep(session.LeaseTTL)
		closed := make(chan error, 1)
		then := func(w session.Write) {
			if len(w.Events) > 0 {
				hooked.then.Store(nil)
				go func() { closed <- one.Close(context.Background()) }()
				<-one.background.Done()
			}
		}
		hooked.then.Store(&then)
		one.Adopt(key)
		require.NoError(t, <-closed)
		newTurns(t, a, store, WithAdoption(time.Second))
		time.Sleep(session.LeaseTTL)
		require.Equal(t, []string{event.NoticeStopped}, notices(t, store, key))
		require.Empty(t, orphans(t, store))
	})
}

// TestDecideAfterAStop: a decision that resumes a stopped turn is stored with the notices about that, although the
// process died before it stored that the turn was stopped.
func TestDecideAfterAStop(t *testing.T) {
	for _, noted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx, works := t.Context(), make(chan struct{}, 9)
			var runs atomic.Int32 // the calls run at the same time
			refund := must.Get(tools.Func("refund", "Refunds.", func(c tools.Context, _ struct{ N int }) (string, error) {
				if runs.Add(1) > 1 {
					return "refunded", nil
				}
				works <- struct{}{}
				<-c.Done()
				return "", context.Cause(c)
			}, tools.Idempotent(), tools.NeedsApproval(tools.ByUser())))
			model := scripted.Func("m", func(req *llm.Request) scripted.Answer {
				if req.Messages[len(req.Messages)-1].Role == llm.RoleTool {
					return scripted.Reply(scripted.Text("Done."))
				}
				return scripted.Reply(scripted.Call("refund", `{"N":1}`), scripted.Call("refund", `{"N":2}`))
			})
			a := must.Get(llmagent.New("desk", "", model, llmagent.WithTools(refund)))
			store := clocked(t)
			dying := &crashes{Store: store}
			one, two := newTurns(t, a, dying), newTurns(t, a, store)
			require.NoError(t, must.Get(one.Begin(ctx, key, llm.UserText("go"))).Wait(ctx))
			asked := stateIs(t, one, key, Waiting).Pending
			require.Len(t, asked, 2)
			must.Get(one.Resume(ctx, key, runner.Approve(asked[0].ToolCallID)))
			<-works
			if noted {
				require.NoError(t, one.Stop(ctx, key))
			} else {
				dying.dead.Store(true)
				for _, x := range one.runningTurns(key) {
					x.cancel(session.ErrAbandoned)
					<-x.done
				}
				require.NoError(t, two.Stop(ctx, key))
			}
			require.NoError(t, must.Get(two.Resume(ctx, key, runner.Approve(asked[1].ToolCallID))).Wait(ctx))
			stateIs(t, two, key, Done)
			require.Equal(t, []string{event.NoticeStopped, event.NoticeResumed}, notices(t, store, key))
		})
	}
}

// TestStopIsBounded: a model of another server that ignores its context does not keep a stop for longer than the lease,
// which is not renewed then, and what it does later is not stored.
func TestStopIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, works, free := t.Context(), make(chan struct{}), make(chan struct{})
		thinks := scripted.Wait(func(context.Context) error {
			close(works)
			<-free
			return nil
		})
		a := must.Get(llmagent.New("desk", "", scripted.Always("m", scripted.Reply(thinks, scripted.Text("Late.")))))
		store := clocked(t)
		one, two := newTurns(t, a, store), newTurns(t, a, store)
		x := must.Get(one.Begin(ctx, key, llm.UserText("go")))
		<-works
		begun := time.Now()
		err := two.Stop(ctx, key)
		took := time.Since(begun)
		_, canceled := two.Cancel(ctx, key)
		close(free)
		require.NoError(t, err)
		require.NoError(t, canceled)
		require.LessOrEqual(t, took, session.LeaseTTL+session.LeaseTTL/3)
		require.Error(t, x.Wait(ctx))
		stateIs(t, two, key, Canceled)
	})
}
