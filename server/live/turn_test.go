package live

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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

// watched is what a watch has told.
type watched struct {
	seqs []int64 // of stored events
	last string
	Report
	err error
}

// watch watches a turn after an entry, to the end or until so many stored events were seen.
func watch(turns *Turns, first int64, after string, most int) (w watched) {
	for entry, err := range turns.Watch(context.Background(), key, first, after) {
		if err != nil {
			w.err = err
			return w
		}
		w.last = entry.ID
		if w.Apply(entry.Event); !entry.Event.Partial {
			w.seqs = append(w.seqs, entry.Event.Seq)
			if len(w.seqs) == most {
				return w
			}
		}
	}
	return w
}

// crashes is a store as a process sees it that is killed at some time: nothing it does arrives
// any more.
type crashes struct {
	session.Store
	dead atomic.Bool
}

var errDead = errors.New("killed")

func (s *crashes) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if s.dead.Load() {
		return session.Lease{}, errDead
	}
	return s.Store.Write(ctx, key, w)
}

// clocked is a store whose leases end by the clock of the bubble.
func clocked(t *testing.T) session.Store { return sessiontest.Memory(t, session.WithClock(time.Now)) }

// Who watches a turn whose process is killed sees it go on in another process, to its end and
// without a gap, and meanwhile both processes say how it stands.
func TestWatchACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		d, a := newDesk(t)
		store := clocked(t)
		dying := &crashes{Store: store}
		one, two := newTurns(t, a, dying), newTurns(t, a, store)
		b, err := one.BeginOnce(ctx, key, llm.UserText("think"), Request{ID: "r"})
		require.NoError(t, err)
		<-d.thinks
		stateIs(t, one, key, Running)
		stateIs(t, two, key, Running)
		r, err := two.Report(ctx, key, "")
		require.NoError(t, err)
		require.Equal(t, Running, r.State)

		done := make(chan watched, 1)
		go func() { done <- watch(two, b.First, "", 0) }()
		synctest.Wait()
		dying.dead.Store(true)
		d.free <- struct{}{}
		require.ErrorIs(t, b.Wait(ctx), errDead)
		stateIs(t, two, key, Running)
		time.Sleep(session.LeaseTTL) // of the bubble
		synctest.Wait()
		select {
		case <-d.thinks: // resumed already
		default:
			stateIs(t, one, key, CutOff)
			<-d.thinks
		}
		again, err := two.BeginOnce(ctx, key, llm.UserText("think"), Request{ID: "r"})
		require.NoError(t, err)
		require.True(t, again.Repeated)
		require.Equal(t, b.ID, again.ID)
		d.free <- struct{}{}
		w := <-done
		require.NoError(t, w.err)
		require.Equal(t, Done, w.State)
		require.Equal(t, "thinking done", w.Text)
		require.Equal(t, []int64{1, 2, 3, 4, 5, 6}, w.seqs)
		stateIs(t, one, key, Done)
	})
}

// unwatched is a context of a client who is looked at again when the turn has asked its model.
type unwatched struct {
	context.Context
	asked <-chan struct{}
}

func (c unwatched) Done() <-chan struct{} {
	<-c.asked
	return c.Context.Done()
}

// A client that hangs up at the moment in which its turn has begun does not stop it: the turn goes on without the
// client, for as long as such turns do.
func TestHangUpAtTheBeginning(t *testing.T) {
	for i := range 20 { // each of them may choose either way
		ctx, hangUp := context.WithCancel(context.Background())
		asked := make(chan struct{})
		a := must.Get(llmagent.New("desk", "", scripted.Func("m", func(*llm.Request) scripted.Answer {
			hangUp()
			close(asked)
			return scripted.Reply(scripted.Text("Hello."))
		})))
		turns := newTurns(t, a, sessiontest.Memory(t))
		x, err := turns.Begin(unwatched{ctx, asked}, key, llm.UserText("hi"))
		require.NoError(t, err, i)
		require.NoError(t, x.Wait(context.Background()))
		stateIs(t, turns, key, Done)
	}
}

// A turn that nobody follows is resumed when a client repeats the request that started it, also if
// it was stopped.
func TestRepeatedRequestGoesOn(t *testing.T) {
	for _, how := range []string{"stopped", "closed"} {
		synctest.Test(t, func(t *testing.T) {
			ctx := context.Background()
			d, a := newDesk(t)
			store := clocked(t)
			turns := newTurns(t, a, store)
			b, err := turns.BeginOnce(ctx, key, llm.UserText("think"), Request{ID: "r"})
			require.NoError(t, err)
			<-d.thinks
			if how == "stopped" {
				require.NoError(t, turns.Stop(ctx, key))
			} else {
				require.NoError(t, turns.Close(ctx))
				turns = newTurns(t, a, store)
			}
			stateIs(t, turns, key, CutOff)
			again, err := turns.BeginOnce(ctx, key, llm.UserText("think"), Request{ID: "r"})
			require.NoError(t, err)
			require.Equal(t, Begun{ID: b.ID, First: 1, Repeated: true}, *again)
			<-d.thinks
			d.free <- struct{}{}
			w := watch(turns, 1, "", 0)
			require.NoError(t, w.err)
			require.Equal(t, Done, w.State)

			// It is over now, and asked for once more it is as it was.
			_, err = turns.BeginOnce(ctx, key, llm.UserText("think"), Request{ID: "r"})
			require.NoError(t, err)
			synctest.Wait()
			require.Empty(t, d.thinks)
			require.Equal(t, w.Report, watch(turns, 1, "", 0).Report)
		})
	}
}

// Who watches a turn that is stopped is told all that it has stored, and that it was stopped, also
// who comes later, until it goes on.
func TestWatchAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		d, a := newDesk(t)
		turns := newTurns(t, a, sessiontest.Memory(t))
		require.NoError(t, must.Get(turns.Begin(ctx, key, llm.UserText("hello"))).Wait(ctx))
		b, err := turns.BeginOnce(ctx, key, llm.UserText("think"), Request{})
		require.NoError(t, err)
		<-d.thinks
		done := make(chan watched, 3)
		for range 3 {
			go func() { done <- watch(turns, b.First, "", 0) }()
		}
		synctest.Wait()
		require.NoError(t, turns.Stop(ctx, key))
		var last string
		for range 3 {
			w := <-done
			require.ErrorIs(t, w.err, session.ErrStopped)
			require.ErrorIs(t, w.err, agent.ErrSuspended)
			require.Equal(t, stateIs(t, turns, key, CutOff).Seq, w.seqs[len(w.seqs)-1])
			last = w.last
		}
		w := watch(turns, b.First, last, 0)
		require.ErrorIs(t, w.err, session.ErrStopped)
		require.Empty(t, w.seqs)
		require.Equal(t, []int64{6, 7, 8}, watch(turns, b.First, "", 0).seqs)
		require.Equal(t, Done, watch(turns, 1, "", 0).State, "the turn before")

		_, err = turns.Resume(ctx, key)
		require.NoError(t, err)
		<-d.thinks
		go func() { done <- watch(turns, b.First, last, 0) }()
		synctest.Wait()
		d.free <- struct{}{}
		w = <-done
		require.NoError(t, w.err)
		require.Equal(t, []int64{9, 10, 11, 12}, w.seqs)
	})
}

// A watch ends where the turn waits, and goes on from there when that was decided. Who comes later
// sees both parts as one.
func TestWatchADecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		_, a := newDesk(t)
		turns := newTurns(t, a, sessiontest.Memory(t))
		b, err := turns.BeginOnce(ctx, key, llm.UserText("ask"), Request{})
		require.NoError(t, err)
		first := watch(turns, b.First, "", 0)
		require.NoError(t, first.err)
		require.Equal(t, Waiting, first.State)
		require.Len(t, first.Pending, 1)
		require.Empty(t, watch(turns, b.First, first.last, 0).seqs, "it still waits")
		x, err := turns.Resume(ctx, key, runner.Approve(first.Pending[0].ToolCallID))
		require.NoError(t, err)
		second := watch(turns, b.First, first.last, 0)
		require.NoError(t, second.err)
		require.NoError(t, x.Wait(ctx))
		whole := watch(turns, b.First, "", 0)
		require.NoError(t, whole.err)
		require.Equal(t, append(first.seqs, second.seqs...), whole.seqs)
		require.Equal(t, Done, whole.State)
		require.Empty(t, whole.Pending)
		r, err := turns.Report(ctx, key, b.ID)
		require.NoError(t, err)
		require.Equal(t, whole.Report, *r)

		for after, want := range map[string]error{"nonsense": agent.ErrBadInput, "": ErrNoTurn} {
			for _, err := range turns.Watch(ctx, session.ID("nobody's"), 1, after) {
				require.ErrorIs(t, err, want)
			}
		}
	})
}

// Who has seen that a turn rests may go on with it, or say something else, although the process has
// not let go of the session yet.
func TestQuickerThanTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		_, a := newDesk(t)
		store := newSlowRelease(t, clocked(t), 50*time.Millisecond)
		one, two := newTurns(t, a, store), newTurns(t, a, store)
		for _, turns := range []*Turns{one, two} {
			b, err := one.BeginOnce(ctx, key, llm.UserText("ask"), Request{})
			require.NoError(t, err)
			w := watch(turns, b.First, "", 0)
			require.NoError(t, w.err)
			_, err = turns.Resume(ctx, key, runner.Approve(w.Pending[0].ToolCallID))
			require.NoError(t, err)
			require.NoError(t, watch(turns, b.First, "", 0).err)
			require.NoError(t, must.Get(turns.Begin(ctx, key, llm.UserText("hello"))).Wait(ctx))
		}
	})
}

// Whatever was seen of a turn, the watch goes on exactly there.
func TestWatchFromAnywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		d, a := newDesk(t)
		turns := newTurns(t, a, sessiontest.Memory(t))
		for _, words := range []string{"hello", "ask", "fail", "think", "hello"} { // the fourth ends the second's question
			if words == "think" {
				d.free <- struct{}{}
			}
			x := must.Get(turns.Begin(ctx, key, llm.UserText(words)))
			_ = x.Wait(ctx)
		}
		var ids []string
		var firsts []int64
		for e, err := range turns.Store().Load(ctx, key, 0) {
			require.NoError(t, err)
			if e.Type() == event.TypeUser {
				ids, firsts = append(ids, e.TurnID), append(firsts, e.Seq)
			}
		}
		for i, first := range firsts {
			whole := watch(turns, first, "", 0)
			require.NoError(t, whole.err)
			r, err := turns.Report(ctx, key, ids[i])
			require.NoError(t, err)
			if r.State == Canceled { // the question was there still when the watch ended
				whole.State = Canceled
			}
			require.Equal(t, whole.Report, *r)
			require.Equal(t, first, r.First)
			require.Equal(t, []State{Done, Canceled, Failed, Done, Done}[i], r.State)
			for n, seq := range whole.seqs {
				rest := watch(turns, first, session.Position{Seq: seq}.String(), 0)
				require.NoError(t, rest.err)
				require.Equal(t, whole.seqs[n+1:], append([]int64{}, rest.seqs...))
			}
		}
		_, err := turns.Report(ctx, key, "nobody's")
		require.ErrorIs(t, err, ErrNoTurn)
		_, err = turns.Report(ctx, session.ID("none"), "")
		require.ErrorIs(t, err, ErrNoTurn)
	})
}

// Words that nobody has begun to answer are a turn that goes on, and one that was canceled when
// others were said.
func TestReportOfWordsAlone(t *testing.T) {
	ctx := t.Context()
	_, a := newDesk(t)
	store := session.NewMemory() // unchecked: a log as others may write it
	turns := newTurns(t, a, store)
	lease := must.Get(sessiontest.Acquire(ctx, store, key, session.Self()))
	said := func(seq int64, id string) *event.Event {
		return &event.Event{Seq: seq, ID: id, TurnID: id, RunID: "r" + id, Agent: "user", Time: time.Unix(seq, 0), Data: &event.User{Content: llm.Content{Text: "hi"}}}
	}
	require.NoError(t, sessiontest.Append(ctx, store, key, 0, lease, said(1, "a"), said(2, "b")))
	for id, want := range map[string]State{"a": Canceled, "b": Running} {
		r, err := turns.Report(ctx, key, id)
		require.NoError(t, err)
		require.Equal(t, want, r.State)
	}
	require.NoError(t, sessiontest.Release(ctx, store, key, lease))
	r, err := turns.Report(ctx, key, "b")
	require.NoError(t, err)
	require.Equal(t, CutOff, r.State)
}

// readCount counts what is read from a store.
type readCount struct {
	session.Store
	events atomic.Int64
}

func (s *readCount) Load(ctx context.Context, key session.Key, after int64) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		for e, err := range s.Store.Load(ctx, key, after) {
			s.events.Add(1)
			if !yield(e, err) {
				return
			}
		}
	}
}

// TestTheNextTurnIsFoundWhereTheLastOneLostItsSession: a process that has lost its session and does not know it yet, because the
// store lets it read only, tells of the turn that began elsewhere meanwhile.
func TestTheNextTurnIsFoundWhereTheLastOneLostItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		d, a := newDesk(t)
		store := clocked(t)
		dying := &crashes{Store: store}
		one, two := newTurns(t, a, dying), newTurns(t, a, store)
		_, err := one.BeginOnce(ctx, key, llm.UserText("think"), Request{})
		require.NoError(t, err)
		<-d.thinks
		time.Sleep(2 * session.LeaseTTL)
		stateIs(t, one, key, Running)
		dying.dead.Store(true)
		time.Sleep(session.LeaseTTL)
		next, err := two.BeginOnce(ctx, key, llm.UserText("hello"), Request{})
		require.NoError(t, err)
		<-next.done
		require.NoError(t, next.err)

		require.Len(t, one.runningTurns(key), 1, "it still thinks")
		for _, turn := range []string{next.ID, ""} {
			r, err := one.Report(ctx, key, turn)
			require.NoError(t, err)
			require.Equal(t, next.ID, r.ID)
			require.Equal(t, Done, r.State)
		}
		require.Equal(t, next.ID, stateIs(t, one, key, Done).Turn)
		name, err := one.Runner().Active(ctx, key)
		require.NoError(t, err)
		require.Equal(t, "desk", name)
	})
}
