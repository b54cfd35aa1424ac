package runner_test

import (
	"context"
	"iter"
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
	"github.com/agentarbor/arbor/session/sessiontest"
)

// TestSessionMadeAnew: what is known of a session that was deleted is not used for
// one that has its key now, whether it was learned with a lease or without one.
func TestSessionMadeAnew(t *testing.T) {
	ctx := context.Background()
	for _, turns := range []int{1, 2} { // of the new session
		for _, ran := range []bool{false, true} {
			for _, runs := range []bool{false, true} {
				var sent *llm.Request
				root := must.Get(llmagent.New("solo", "", scripted.Func("solo", func(req *llm.Request) scripted.Answer {
					sent = req
					return scripted.Reply(scripted.Text("Hello."))
				})))
				store := sessiontest.Memory(t)
				r, other := newRunner(t, root, store), newRunner(t, root, store)
				if ran {
					run(t, r, s1, "Old words")
				} else {
					run(t, other, s1, "Old words")
					must.Get(r.Preview(ctx, s1, "solo"))
				}
				require.NoError(t, store.Delete(ctx, s1))
				for range turns {
					run(t, other, s1, "New words")
				}
				if runs {
					run(t, r, s1, "New words")
				} else {
					preview := must.Get(r.Preview(ctx, s1, "solo"))
					sent = preview.Request
				}
				want := 2 * turns
				if runs {
					want++
				}
				require.Len(t, sent.Messages, want)
				for _, m := range sent.Messages {
					require.Contains(t, []string{"New words", "Hello."}, m.PlainText())
				}
			}
		}
	}
}

// readCount is a store that counts the events which are read from it, and may hold up who reads.
type readCount struct {
	session.Store
	events atomic.Int64
	hold   chan struct{} // nil: nobody is held up
}

func (s *readCount) Load(ctx context.Context, key session.Key, after int64) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		if s.hold != nil {
			<-s.hold
		}
		for e, err := range s.Store.Load(ctx, key, after) {
			s.events.Add(1)
			if !yield(e, err) {
				return
			}
		}
	}
}

// seqOf is where a session's log ends, by ReadFold.
func seqOf(t testing.TB, r *runner.Runner) (seq int64) {
	t.Helper()
	require.NoError(t, r.ReadFold(context.Background(), s1, func(f *session.Fold) error {
		seq = f.Seq
		return nil
	}))
	return seq
}

// ReadFold costs what is new in the log, and nothing while a turn of the runner has it.
func TestGlance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		store := &readCount{Store: sessiontest.Memory(t)}
		asked, let := make(chan struct{}), make(chan struct{})
		think := scripted.Wait(func(context.Context) error {
			asked <- struct{}{}
			<-let
			return nil
		})
		a := must.Get(llmagent.New("solo", "", scripted.Always("solo", scripted.Reply(think, scripted.Text("Hello.")))))
		r, other := newRunner(t, a, store), newRunner(t, a, store)
		turn := func(r *runner.Runner, during func()) {
			done := make(chan error)
			go func() { done <- drain(r.Run(ctx, s1, llm.UserText("hi"))) }()
			<-asked
			during()
			let <- struct{}{}
			require.NoError(t, <-done)
		}
		require.Zero(t, seqOf(t, r))
		for range 5 {
			turn(other, func() {})
		}
		require.EqualValues(t, 25, seqOf(t, r))
		store.events.Store(0)
		require.EqualValues(t, 25, seqOf(t, r))
		require.EqualValues(t, 1, store.events.Load(), "the last one, which tells whether it is the same log")

		turn(r, func() {
			store.events.Store(0)
			require.EqualValues(t, 27, seqOf(t, r))
			require.Zero(t, store.events.Load(), "the turn knows")
			require.Equal(t, "solo", must.Get(r.Active(ctx, s1)))
			require.EqualValues(t, 27, seqOf(t, other))
			require.EqualValues(t, 3, store.events.Load(), "another process reads what is new")
		})
		require.EqualValues(t, 30, seqOf(t, r))

		failed := context.DeadlineExceeded // any error
		require.ErrorIs(t, r.ReadFold(ctx, s1, func(*session.Fold) error { return failed }), failed)
	})
}

// Of many who look at once one reads the log, and the turn that begins meanwhile is told.
func TestGlancesShareWhatTheyRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		store := &readCount{Store: sessiontest.Memory(t)}
		a := must.Get(llmagent.New("solo", "", scripted.Always("solo", scripted.Reply(scripted.Text("Hello.")))))
		for range 20 {
			run(t, newRunner(t, a, store), s1, "hi")
		}
		r := newRunner(t, a, store)
		store.events.Store(0)
		store.hold = make(chan struct{})
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { require.LessOrEqual(t, int64(100), seqOf(t, r)) })
		}
		synctest.Wait()
		all.Go(func() { require.NoError(t, drain(r.Run(ctx, s1, llm.UserText("hi")))) })
		gone, leave := context.WithCancel(ctx)
		all.Go(func() {
			require.ErrorIs(t, r.ReadFold(gone, s1, func(*session.Fold) error { return nil }), context.Canceled)
		})
		synctest.Wait()
		leave() // who waits need not wait for ever
		synctest.Wait()
		close(store.hold)
		all.Wait()
		require.Less(t, store.events.Load(), int64(220), "once for all, and once by the agent who answers")
		require.EqualValues(t, 105, seqOf(t, r))
	})
}

// lateEnd is a store whose last write of a turn is made at once and answered late. It counts writes that are refused.
type lateEnd struct {
	session.Store
	refused atomic.Int64
}

func (s *lateEnd) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	lease, err := s.Store.Write(ctx, key, w)
	if err != nil {
		s.refused.Add(1)
	}
	if w.Release && len(w.Events) > 0 {
		time.Sleep(session.LeaseTTL)
	}
	return lease, err
}

// A turn does not renew its lease while it gives it back: it would take the lease for lost, and be cancelled.
func TestTheLeaseIsNotRenewedAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &lateEnd{Store: sessiontest.Memory(t)}
		a := must.Get(llmagent.New("solo", "", scripted.Always("solo", scripted.Reply(scripted.Text("Hello.")))))
		require.NoError(t, drain(newRunner(t, a, store).Run(context.Background(), s1, llm.UserText("hi"))))
		require.Zero(t, store.refused.Load())
	})
}
