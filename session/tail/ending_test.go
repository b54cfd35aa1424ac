package tail_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// slow is a store in memory whose last write of a turn waits until it is let go, before it is made or with its answer.
type slow struct {
	session.Store
	asked, before, answer chan struct{}
	fails                 error // instead of an answer
}

func (s *slow) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if len(w.Events) == 0 || !w.Release {
		return s.Store.Write(ctx, key, w)
	}
	s.asked <- struct{}{}
	s.before <- struct{}{}
	lease, err := s.Store.Write(ctx, key, w)
	s.answer <- struct{}{}
	if err == nil {
		err = s.fails
	}
	return lease, err
}

// TestTheNextLeaseIsFaster: a lease may be given back and taken again before its holder has heard that his last events are
// stored. What they complete is not voided, and what nobody completes is.
func TestTheNextLeaseIsFaster(t *testing.T) {
	key := session.ID("s")
	text := func(seq int64, id, words string) *event.Event {
		return &event.Event{Seq: seq, ID: id, TurnID: "t", RunID: "r", Agent: "a", Time: time.Now().UTC(), Data: &event.Text{Content: words}}
	}
	shown := func(id, words string) *event.Event {
		e := text(0, id, words)
		e.Partial = true
		return e
	}
	acquire := func(t *testing.T, s session.Store) session.Lease {
		t.Helper()
		return must.Get(sessiontest.Acquire(t.Context(), s, key, session.Self()))
	}
	for name, test := range map[string]struct {
		fails     error
		lost      bool  // the lease has ended when its holder's events come
		elsewhere int64 // events that another process has stored meanwhile
		want      []string
	}{
		"the events are stored": {want: []string{"a", "b1", "b1 half", "b2", "b1.", "void b2", "c", "c."}},
		"the answer is lost":    {fails: context.DeadlineExceeded, want: []string{"a", "b1", "b1 half", "b2", "b1.", "void b2", "c", "c."}},
		"the lease is lost":     {lost: true, want: []string{"a", "b1", "b1 half", "b2", "void b1 b2", "c", "c."}},
		"the lease is lost, and another process has stored as much": {lost: true, elsewhere: 1,
			want: []string{"a", "b1", "b1 half", "b2", "else.", "void b1 b2", "c", "c."}},
	} {
		t.Run(name, func(t *testing.T) {
			clock := sessiontest.NewClock()
			memory := session.NewMemory(session.WithClock(clock.Now))
			store := &slow{Store: memory, asked: make(chan struct{}), before: make(chan struct{}), answer: make(chan struct{}), fails: test.fails}
			l := newLive(t, store)
			defer l.Close()
			first := acquire(t, l)
			require.NoError(t, sessiontest.Append(t.Context(), l, key, 0, first, text(1, "a", "a")))
			require.NoError(t, l.Publish(t.Context(), key, shown("b1", "b1"), shown("b1", "b1 half"), shown("b2", "b2")))
			over := make(chan error)
			go func() { over <- sessiontest.Finish(t.Context(), l, key, 1, first, text(2, "b1", "b1")) }()
			<-store.asked
			seq := int64(2)
			var second session.Lease
			if test.lost {
				clock.Advance(session.LeaseTTL)
				if seq = 1 + test.elsewhere; test.elsewhere > 0 {
					lease := acquire(t, memory)
					require.NoError(t, sessiontest.Finish(t.Context(), memory, key, 1, lease, text(2, "else", "else")))
				}
				second = acquire(t, l)
				<-store.before
				<-store.answer
				require.ErrorIs(t, <-over, agent.ErrConflict)
			} else {
				<-store.before
				must.Wait(t, func() bool {
					_ = sessiontest.Renew(t.Context(), l, key, first) // which may find that the lease is gone
					var err error
					second, err = sessiontest.Acquire(t.Context(), l, key, session.Self())
					return err == nil
				})
				<-store.answer
				require.Equal(t, test.fails, <-over)
			}
			require.Equal(t, seq, second.Head.Seq)
			require.NoError(t, l.Publish(t.Context(), key, shown("c", "c")))
			require.NoError(t, sessiontest.Append(t.Context(), l, key, seq, second, text(seq+1, "c", "c")))
			require.NoError(t, sessiontest.Release(t.Context(), l, key, second))
			var got []string
			for entry, err := range l.Follow(t.Context(), key, "1-0") {
				require.NoError(t, err)
				e := entry.Event
				switch d := e.Data.(type) {
				case *event.Discard:
					words := "void"
					for _, id := range d.IDs {
						words += " " + id
					}
					got = append(got, words)
				default:
					words := e.Text()
					if !e.Partial {
						words += "."
					}
					got = append(got, words)
				}
				if e.Seq == seq+1 {
					break
				}
			}
			require.Equal(t, test.want[1:], got)
		})
	}
}
