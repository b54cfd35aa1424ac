package tail

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/race"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// The tests in this file look at time and at what a Tail holds.

func liveText(id, words string) *event.Event {
	return &event.Event{ID: id, TurnID: "t", RunID: "r", Agent: "a", Time: time.Now().UTC(), Data: &event.Text{Content: words}}
}

func liveDelta(id, words string) *event.Event {
	e := liveText(id, words)
	e.Partial = true
	return e
}

func liveAppend(t *testing.T, s session.Store, key session.Key, seq int64, lease session.Lease, e *event.Event) {
	t.Helper()
	e.Seq = seq + 1
	require.NoError(t, sessiontest.Append(context.Background(), s, key, seq, lease, e))
}

func TestOptions(t *testing.T) {
	_, err := New(nil)
	require.ErrorContains(t, err, "nil")
	for _, opt := range []Option{WithPoll(0), WithPoll(-1), WithLinger(-1)} {
		_, err := New(session.NewMemory(), opt)
		require.ErrorContains(t, err, "option")
	}
}

// counted counts the reads of logs.
type counted struct {
	session.Store
	loads atomic.Int64
}

func (c *counted) Load(ctx context.Context, key session.Key, after int64) iter.Seq2[*event.Event, error] {
	c.loads.Add(1)
	return c.Store.Load(ctx, key, after)
}

// TestNoLookWhileTheLeaseIsHere: followers do not read the store while only this process can store events. They do once the lease
// is given back, and once it has expired because it was not renewed.
func TestNoLookWhileTheLeaseIsHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, key, ctx := &counted{Store: session.NewMemory()}, session.ID("s"), context.Background()
		l := must.Get(New(store))
		defer l.Close()
		follower, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			for range l.Follow(follower, key, "") {
			}
		}()
		looks := func(of time.Duration) int64 {
			synctest.Wait()
			before := store.loads.Load()
			time.Sleep(of)
			synctest.Wait()
			return store.loads.Load() - before
		}
		require.EqualValues(t, 10, looks(10*time.Second+time.Millisecond))
		lease := must.Get(sessiontest.Acquire(ctx, l, key, session.Self()))
		for range 4 {
			require.Zero(t, looks(session.LeaseTTL/3))
			_, err := l.Write(ctx, key, session.Write{Lease: lease})
			require.NoError(t, err)
		}
		liveAppend(t, l, key, 0, lease, liveText("e1", "one"))
		require.Zero(t, looks(session.LeaseTTL-time.Second))
		require.EqualValues(t, 3, looks(4*time.Second), "the lease has expired")
		lease = must.Get(sessiontest.Acquire(ctx, l, key, session.Self()))
		require.Zero(t, looks(5*time.Second))
		require.NoError(t, sessiontest.Release(ctx, l, key, lease))
		require.EqualValues(t, 5, looks(5*time.Second))
	})
}

// TestPollBesideAnAppend: a poll finds events in the store that this process is appending. It does not announce them, because
// followers must first get the partial events that were published before.
func TestPollBesideAnAppend(t *testing.T) {
	l := must.Get(New(session.NewMemory()))
	defer l.Close()
	s := &stream{seq: 1, lease: 1}
	version, ok := s.beginPoll()
	require.True(t, ok)
	require.True(t, s.publish(l, []*event.Event{liveDelta("b", "x")}))
	s.beginAppend(nil)
	_, ok = s.beginPoll()
	require.False(t, ok)
	s.endPoll(2, version)
	require.EqualValues(t, 1, s.after(session.Position{Seq: 1}).seq)
	e := liveText("b", "x")
	e.Seq = 2
	s.endAppend(l, nil, []*event.Event{e}, nil)
	s.endPoll(3, version)
	require.EqualValues(t, 2, s.after(session.Position{Seq: 1}).seq)
	version, ok = s.beginPoll()
	require.True(t, ok)
	s.endPoll(3, version)
	require.EqualValues(t, 3, s.after(session.Position{Seq: 2}).seq)
}

// TestLivePolls: what another process stores is seen at the next look, and what this
// one stores at once.
func TestLivePolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, key := session.NewMemory(), session.ID("s")
		l := must.Get(New(store))
		ctx, cancel := context.WithCancel(context.Background())
		var mu sync.Mutex
		var list []string
		ids := func() []string {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(list)
		}
		done := make(chan error, 1)
		go func() {
			for e, err := range l.Follow(ctx, key, "") {
				if err != nil {
					done <- err
					return
				}
				mu.Lock()
				list = append(list, e.ID)
				mu.Unlock()
			}
		}()
		synctest.Wait()
		lease, err := sessiontest.Acquire(ctx, store, key, session.Self()) // past the Tail
		require.NoError(t, err)
		liveAppend(t, store, key, 0, lease, liveText("e1", "one"))
		require.NoError(t, sessiontest.Release(ctx, store, key, lease))
		time.Sleep(999 * time.Millisecond)
		require.Empty(t, ids())
		time.Sleep(2 * time.Millisecond)
		require.Equal(t, []string{"1-0"}, ids())

		lease = must.Get(sessiontest.Acquire(ctx, l, key, session.Self()))
		liveAppend(t, l, key, 1, lease, liveText("e2", "two"))
		require.NoError(t, l.Publish(ctx, key, liveDelta("b", "x")))
		require.Equal(t, []string{"1-0", "2-0", "2-1"}, ids())
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		require.NoError(t, l.Close())
	})
}

// TestLiveLingers: the partial events of a turn that has ended are there for a while,
// and nothing is held after that.
func TestLiveLingers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		l := must.Get(New(session.NewMemory(), WithLinger(10*time.Second)))
		turn := func(key session.Key) {
			lease := must.Get(sessiontest.Acquire(ctx, l, key, session.Self()))
			for i := range 100 {
				id := fmt.Sprint("b", lease.Head.Seq, i)
				require.NoError(t, l.Publish(ctx, key, liveDelta(id, "x")))
				liveAppend(t, l, key, lease.Head.Seq+int64(i), lease, liveText(id, "x"))
			}
			require.NoError(t, sessiontest.Release(ctx, l, key, lease))
		}
		count := func(key session.Key, until int64) (n int) {
			for e, err := range l.Follow(ctx, key, "") {
				require.NoError(t, err)
				if n++; e.Event.Seq == until {
					return n
				}
			}
			return -1
		}
		turn(session.ID("a"))
		time.Sleep(6 * time.Second)
		require.Equal(t, 200, count(session.ID("a"), 100))
		turn(session.ID("a"))
		turn(session.ID("b"))
		time.Sleep(6 * time.Second)
		require.Equal(t, 300, count(session.ID("a"), 200), "the first turn's are gone")
		require.Equal(t, 200, count(session.ID("b"), 100))
		time.Sleep(6 * time.Second)
		require.Equal(t, 200, count(session.ID("a"), 200))
		require.Empty(t, l.sessions)
		require.Empty(t, l.ended)
		require.NoError(t, l.Close())
	})
}

// withMaxPartial sets the bounds of the partial events that are kept of a session.
func withMaxPartial(number, bytes int) Option {
	return func(t *Tail) { t.maxParts, t.maxBytes = number, bytes }
}

// TestEventsWithOnePayload: only deltas of a block are kept as texts.
func TestEventsWithOnePayload(t *testing.T) {
	notice := &event.Event{ID: "n", Partial: true, Data: &event.Notice{Code: "busy"}}
	s := &series{at: session.Position{Seq: 1, Part: 1}, first: notice}
	require.Zero(t, s.add(session.Position{Seq: 1, Part: 2}, notice))
}

// TestLateFollower: a follower receives the same deltas, however they are kept.
func TestLateFollower(t *testing.T) {
	ctx, key := context.Background(), session.ID("s")
	l := must.Get(New(session.NewMemory()))
	lease := must.Get(sessiontest.Acquire(ctx, l, key, session.Self()))
	liveAppend(t, l, key, 0, lease, liveText("e1", "one"))
	var want []*event.Event
	for i, data := range []event.Data{
		&event.Reasoning{Content: "a"}, &event.Reasoning{Content: "b"}, &event.Reasoning{Sealed: "s"}, &event.Reasoning{Content: "c", Sealed: "s"},
		&event.Text{Content: "c"}, &event.Text{Content: "d"}, &event.Text{}, &event.Text{Content: "e"},
		&event.ToolProgress{ToolCallID: "b", Content: []byte(`1`)}, &event.ToolProgress{ToolCallID: "b", Content: []byte(`2`)},
	} {
		e := liveDelta("b", "")
		e.Data, e.Attempt, e.Time = data, i/7, e.Time.Add(time.Duration(i/6)*time.Hour)
		want = append(want, e)
	}
	require.NoError(t, l.Publish(ctx, key, want...))
	var got []*event.Event
	for e, err := range l.Follow(ctx, key, "1-0") {
		require.NoError(t, err)
		if got = append(got, e.Event); len(got) == len(want) {
			break
		}
	}
	require.Equal(t, want, got)
}

// TestLiveIsBounded: the oldest partial events give way, and what is held is as much
// as was allowed.
func TestLiveIsBounded(t *testing.T) {
	ctx, key := context.Background(), session.ID("s")
	for name, opt := range map[string]Option{"number": withMaxPartial(500, 1<<30), "bytes": withMaxPartial(1<<30, 500*(deltaSize+4))} {
		t.Run(name, func(t *testing.T) {
			l := must.Get(New(session.NewMemory(), opt))
			lease := must.Get(sessiontest.Acquire(ctx, l, key, session.Self()))
			liveAppend(t, l, key, 0, lease, liveText("e1", "one"))
			for i := range 1000 {
				require.NoError(t, l.Publish(ctx, key, liveDelta("b", fmt.Sprintf("%4d", i))))
			}
			s := l.sessions[key]
			left := s.number
			require.LessOrEqual(t, left, l.maxParts)
			require.LessOrEqual(t, s.bytes, l.maxBytes)
			require.LessOrEqual(t, cap(s.parts), 8)
			require.Greater(t, left, 200)
			liveAppend(t, l, key, 1, lease, liveText("b", "all"))
			require.NoError(t, sessiontest.Release(ctx, l, key, lease))
			var ids []string
			for e, err := range l.Follow(ctx, key, "") {
				require.NoError(t, err)
				if ids = append(ids, e.ID); e.Event.Seq == 2 {
					break
				}
			}
			require.Len(t, ids, left+2)
			require.Equal(t, []string{"1-0", fmt.Sprintf("1-%d", 1001-left)}, ids[:2], "the first is the stored one, then come the newest")
		})
	}
	t.Run("none", func(t *testing.T) {
		l := must.Get(New(session.NewMemory(), withMaxPartial(0, 0)))
		lease := must.Get(sessiontest.Acquire(ctx, l, key, session.Self()))
		require.NoError(t, l.Publish(ctx, key, liveDelta("b", "x")))
		liveAppend(t, l, key, 0, lease, liveText("b", "x"))
		for e, err := range l.Follow(ctx, key, "") {
			require.NoError(t, err)
			require.Equal(t, "1-0", e.ID)
			break
		}
	})
}

// TestLiveForgets: sessions that nobody writes to or follows cost nothing.
func TestLiveForgets(t *testing.T) {
	ctx := context.Background()
	l := must.Get(New(session.NewMemory(), WithLinger(0)))
	for i := range 100 {
		key := session.ID(fmt.Sprint(i))
		lease := must.Get(sessiontest.Acquire(ctx, l, key, session.Self()))
		_, err := sessiontest.Acquire(ctx, l, key, session.Self())
		require.ErrorIs(t, err, agent.ErrSessionBusy)
		require.NoError(t, l.Publish(ctx, key, liveDelta("b", "x")))
		liveAppend(t, l, key, 0, lease, liveText("b", "x"))
		require.NoError(t, sessiontest.Release(ctx, l, key, lease))
		for range l.Follow(ctx, key, "") {
			break
		}
	}
	for range l.Follow(ctx, session.ID("0"), "") {
		break
	}
	require.Empty(t, l.sessions)
	require.Empty(t, l.ended)
}

// TestLiveAllocates is the budget for what every delta of every model goes through.
func TestLiveAllocates(t *testing.T) {
	ctx, key := context.Background(), session.ID("s")
	l := must.Get(New(session.NewMemory()))
	must.Get(sessiontest.Acquire(ctx, l, key, session.Self()))
	e := liveDelta("b", "word ")
	for range 10_000 { // as full as it gets
		require.NoError(t, l.Publish(ctx, key, e))
	}
	require.LessOrEqual(t, race.Allocations(t, 1000, func() {
		if err := l.Publish(ctx, key, e); err != nil {
			t.Error(err)
		}
	}), 2.0)
}
