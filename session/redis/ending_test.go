package redis_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/redis"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// late is a store whose answer to the last write of a turn waits until it is let go.
type late struct {
	session.Store
	made, answer chan struct{}
}

func (l *late) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if len(w.Events) == 0 || !w.Release {
		return l.Store.Write(ctx, key, w)
	}
	lease, err := l.Store.Write(ctx, key, w)
	close(l.made)
	<-l.answer
	return lease, err
}

// TestTheNextLeaseIsFaster: a lease may be given back and taken again before its holder has heard that his last events are stored.
// Followers see these at once all the same, what they complete is not voided, and what nobody completes is.
func TestTheNextLeaseIsFaster(t *testing.T) {
	for n := range 8 {
		elsewhere, silent, open := n&1 > 0, n&2 > 0, n&4 > 0 // where and how the next lease is used, and whether a block is left open
		t.Run(fmt.Sprintf("elsewhere %t, silent %t, open %t", elsewhere, silent, open), func(t *testing.T) {
			key := session.ID(rand.Text())
			url, memory := servers.SharedRedis(t), session.NewMemory()
			slow := &late{memory, make(chan struct{}), make(chan struct{})}
			first := newTail(t, url, slow, redis.WithPoll(time.Hour)) // so that Redis alone tells what is new
			next := first
			if elsewhere {
				next = newTail(t, url, shared{memory}, redis.WithPoll(time.Hour))
			}
			w := begin(t, first, key)
			w.add("a", "a")
			w.show("b1", "half")
			want := []string{"a.", "half"}
			if open {
				w.show("b2", "half")
				want = append(want, "half")
			}
			follow(t, first, key, "").sees(want...)
			c := follow(t, first, key, "") // who has nothing to wait for
			c.sees(want...)
			before := slices.Clone(want)
			over := make(chan error)
			e := w.event("b1", "b")
			e.Seq = 2
			go func() { over <- sessiontest.Finish(t.Context(), first, key, 1, w.lease, e) }()
			<-slow.made
			second := must.Get(sessiontest.Acquire(t.Context(), next, key, session.Self()))
			require.EqualValues(t, 2, second.Head.Seq)
			if !silent {
				require.NoError(t, sessiontest.Append(t.Context(), next, key, 2, second, &event.Event{Seq: 3, ID: "c", TurnID: "t", RunID: "r", Agent: "a", Data: &event.Text{Content: "c"}}))
			}
			require.NoError(t, sessiontest.Release(t.Context(), next, key, second))
			close(slow.answer)
			require.NoError(t, <-over)
			if want = append(want, "b."); open {
				want = append(want, "void b2")
			}
			if !silent {
				want = append(want, "c.")
			}
			c.waits(want, func(has []string) bool { // both may void the block, neither knowing of the other
				return slices.Equal(slices.Compact(has[len(before):]), want[len(before):])
			})
		})
	}
}
