package redis_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/agentarbor/arbor/internal/servers"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/redis"
)

// late is a store whose answer to the last write of a turn waits until it is let go.
type late struct {
	session.Wrapped
	made, answer chan struct{}
}

func (l *late) AppendRelease(ctx context.Context, key session.Key, seq int64, lease session.Lease, events ...*event.Event) error {
	err := l.Wrapped.AppendRelease(ctx, key, seq, lease, events...)
	close(l.made)
	<-l.answer
	return err
}

// TestTheNextLeaseIsFaster: a lease may be given back and taken again before its holder has heard that his last events are stored.
// Followers see these at once all the same, what they complete is not voided, and what nobody completes is.
func TestTheNextLeaseIsFaster(t *testing.T) {
	for n := range 8 {
		elsewhere, silent, open := n&1 > 0, n&2 > 0, n&4 > 0 // where and how the next lease is used, and whether a block is left open
		t.Run(fmt.Sprintf("elsewhere %t, silent %t, open %t", elsewhere, silent, open), func(t *testing.T) {
			key := session.ID(rand.Text())
			url, memory := servers.SharedRedis(t), session.NewMemory()
			slow := &late{session.Wrapped{Store: memory}, make(chan struct{}), make(chan struct{})}
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
			over := make(chan error)
			e := w.event("b1", "b")
			e.Seq = 2
			go func() { over <- first.AppendRelease(t.Context(), key, 1, w.lease, e) }()
			<-slow.made
			second, err := next.Acquire(t.Context(), key, session.Self())
			require.NoError(t, err)
			require.EqualValues(t, 2, second.Seq)
			if !silent {
				require.NoError(t, next.Append(t.Context(), key, 2, second, &event.Event{Seq: 3, ID: "c", TurnID: "t", RunID: "r", Agent: "a", Data: &event.Text{Content: "c"}}))
			}
			require.NoError(t, next.Release(t.Context(), key, second))
			close(slow.answer)
			require.NoError(t, <-over)
			if want = append(want, "b."); open {
				want = append(want, "void b2")
			}
			if !silent {
				want = append(want, "c.")
			}
			c.sees(want...)
		})
	}
}
