package sessiontest

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// beginWith acquires the lease of the fixture's session, which had one before, in the write with a turn's first events.
func (f *tailFixture) beginWith(data ...event.Data) {
	f.Helper()
	lease, err := Begin(f.Context(), f.store, f.key, f.seq, events(f.seq, data...)...)
	require.NoError(f, err)
	f.lease, f.seq = lease, f.seq+int64(len(data))
}

// endWith releases the lease in the write with a turn's last events.
func (f *tailFixture) endWith(list ...*event.Event) {
	f.Helper()
	for i, e := range list {
		e.Seq = f.seq + int64(i) + 1
	}
	require.NoError(f, Finish(f.Context(), f.store, f.key, f.seq, f.lease, list...))
	f.seq += int64(len(list))
}

var tailLeaseTests = []tailTest{
	{"the first events take the lease and the last ones give it back", func(f *tailFixture) {
		c := f.follow("")
		f.begin(text("a"))
		f.end()
		for _, id := range []string{"b1", "b2"} {
			f.beginWith(&event.User{}, &event.HarnessStart{AgentID: "support"})
			f.show(id, "One", " moment")
			f.endWith(block(id, "One moment"), entry(0, &event.HarnessEnd{AgentID: "support", FinishReason: event.FinishReasonStop}))
			require.ErrorIs(f, f.store.Publish(f.Context(), f.key, delta(id, "late")), agent.ErrConflict)
		}
		got := c.until(f.seq)
		turn := []string{".", ".", "One", " moment", "One moment.", "."}
		require.Equal(f, slices.Concat([]string{"a."}, turn, turn), words(got))
		f.whole(got)
		f.beginWith(text("of the next"))
		require.Equal(f, []string{"of the next."}, words(c.take(1)))
	}},
	{"what the last events leave open is voided", func(f *tailFixture) {
		c := f.follow("")
		f.begin(text("a"))
		f.show("b1", "half")
		f.endWith(block("b2", "whole"))
		require.Equal(f, []string{"a.", "half", "whole.", "void b1"}, words(c.take(4)))
		f.beginWith(text("b"))
		f.show("b3", "half")
		f.endWith()
		require.Equal(f, []string{"b.", "half", "void b3"}, words(c.take(3)))
	}},
	{"who is refused a lease or its end changes nothing", func(f *tailFixture) {
		c := f.follow("")
		f.begin(text("a"))
		f.endWith(block("b0", "b"))
		f.beginWith(text("c"))
		f.show("b1", "half")
		_, err := Begin(f.Context(), f.store, f.key, f.seq, events(f.seq, text("x"))...)
		require.ErrorIs(f, err, agent.ErrSessionBusy)
		require.ErrorIs(f, Finish(f.Context(), f.store, f.key, f.seq, session.Lease{Token: f.lease.Token + 1}, events(f.seq, text("x"))...), agent.ErrConflict)
		f.show("b1", " more")
		f.endWith(block("b1", "half more"))
		require.Equal(f, []string{"a.", "b.", "c.", "half", " more", "half more."}, words(c.take(6)))
	}},
	{"turns of many, one at the heels of the other", func(f *tailFixture) {
		const writers, turns = 4, 10
		c := f.follow("")
		f.begin(text("a"))
		f.endWith()
		var wg sync.WaitGroup
		var ends atomic.Int64 // where the last turn that is over has left the log
		ends.Store(f.seq)
		for range writers {
			wg.Go(func() {
				for range turns {
					f.rush(&ends)
				}
			})
		}
		wg.Wait()
		got := c.until(1 + writers*turns*2)
		f.whole(got)
		require.False(f, slices.ContainsFunc(words(got), func(w string) bool { return strings.HasPrefix(w, "void") }), "every block was completed")
	}},
}

// rush plays a turn as early as possible. It acquires the lease in the write with the first events if the log has the
// expected length, and before them otherwise.
func (f *tailFixture) rush(ends *atomic.Int64) {
	for {
		at := ends.Load()
		lease, err := Begin(f.Context(), f.store, f.key, at, events(at, text("begins"))...)
		if errors.Is(err, agent.ErrConflict) {
			if lease, err = Acquire(f.Context(), f.store, f.key, session.Self()); err == nil {
				lease, err = f.store.Write(f.Context(), f.key, session.Write{Lease: lease, Head: lease.Head, Events: events(lease.Head.Seq, text("begins"))})
			}
		}
		if errors.Is(err, agent.ErrSessionBusy) {
			runtime.Gosched()
			continue
		}
		if err == nil {
			last := block(lease.Head.ID+"-answer", "ends")
			last.Seq = lease.Head.Seq + 1
			if err = f.store.Publish(f.Context(), f.key, delta(last.ID, "ends")); err == nil {
				_, err = f.store.Write(f.Context(), f.key, session.Write{Lease: lease, Head: lease.Head, Events: []*event.Event{last}, Release: true})
			}
			ends.Store(last.Seq)
		}
		if err != nil {
			f.Errorf("a turn failed: %v", err)
		}
		return
	}
}
