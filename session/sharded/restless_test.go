package sharded_test

import (
	"context"
	"iter"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sharded"
)

// restless is a sharded store whose shards come and go between the calls, each of which may find
// some of the sessions moved and others not.
type restless struct {
	t      *testing.T
	still  bool
	stores []session.Store

	fresh sync.Map // leases of sessions without events, of which nobody else knows

	mu   sync.RWMutex // a change of the shards waits for the calls
	now  *sharded.Store
	step int
}

type held struct {
	key   session.Key
	token int64
	shard string
}

// The shards that sessions are spread over, one after the other.
var stations = []string{"ab", "abc", "c", "bc", "a"}

// still are the tests in which nothing moves: those that compare incarnations, of which a session gets another one when it is
// moved; tokens of sessions of one key, one of which was deleted; and those of holders who let their lease end and go on, while
// whoever moves their session takes it; forks of other users' sessions, whose parent is lost; and one with so many sessions that
// moving all of them with every call takes long.
var still = map[string]bool{
	"a_writer_is_fenced_off_from_a_session_made_anew":          true,
	"a_lease_is_given_back_with_the_last_events":               true,
	"who_gave_the_lease_back_with_the_last_events_leaves_none": true,
	"an_abandoned_session_is_one_at_once":                      true,
	"a_lease_that_ended_leaves_one":                            true,
	"a_clock_that_was_set_back_leaves_one":                     true,
	"of_two_who_take_one_at_once_one_wins":                     true,
	"they_come_in_the_order_of_lists":                          true,
	"who_is_leased_is_listed_so":                               true,
	"pages_are_the_parts_of_the_list":                          true,
	"a_fork_may_belong_to_another_user_and_app":                true,
	"a_thousand,_of_which_some_are_taken_while_they_are_read":  true,
	"a_session_without_events_is_none":                         true,
}

func (r *restless) move() {
	if r.still || !r.mu.TryLock() { // a call is under way, perhaps around this one
		return
	}
	defer r.mu.Unlock()
	to, from := stations[(r.step/3+1)%len(stations)], stations[r.step/3%len(stations)]
	switch r.step % 3 {
	case 0:
		r.now = layout{now: to, former: from}.over(r.t, r.stores)
	default:
		report, err := r.now.Rebalance(context.Background())
		require.NoError(r.t, err)
		if r.step%3 == 2 {
			left := report.Left > 0 // somebody holds a lease: the next call tries again
			r.fresh.Range(func(any, any) bool { left = true; return false })
			if left {
				return
			}
			r.now = layout{now: to}.over(r.t, r.stores)
		}
	}
	r.step++
}

func (r *restless) do(call func(*sharded.Store) error) error {
	r.move()
	r.mu.RLock()
	defer r.mu.RUnlock()
	return call(r.now)
}

func (r *restless) Load(ctx context.Context, key session.Key, after int64) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		_ = r.do(func(s *sharded.Store) error { s.Load(ctx, key, after)(yield); return nil })
	}
}

func (r *restless) Append(ctx context.Context, key session.Key, seq int64, lease session.Lease, events ...*event.Event) error {
	defer r.fresh.Delete(held{key, lease.Token, lease.Shard})
	return r.do(func(s *sharded.Store) error { return s.Append(ctx, key, seq, lease, events...) })
}

func (r *restless) AppendRelease(ctx context.Context, key session.Key, seq int64, lease session.Lease, events ...*event.Event) error {
	defer r.fresh.Delete(held{key, lease.Token, lease.Shard})
	return r.do(func(s *sharded.Store) error { return s.AppendRelease(ctx, key, seq, lease, events...) })
}

func (r *restless) AcquireAppend(ctx context.Context, key session.Key, owner session.Owner, expected session.Lease, events ...*event.Event) (lease session.Lease, err error) {
	err = r.do(func(s *sharded.Store) (err error) {
		lease, err = s.AcquireAppend(ctx, key, owner, expected, events...)
		return err
	})
	return lease, err
}

func (r *restless) Acquire(ctx context.Context, key session.Key, owner session.Owner) (lease session.Lease, err error) {
	err = r.do(func(s *sharded.Store) (err error) { lease, err = s.Acquire(ctx, key, owner); return err })
	if err == nil && lease.Seq == 0 {
		r.fresh.Store(held{key, lease.Token, lease.Shard}, true)
	}
	return lease, err
}

func (r *restless) Renew(ctx context.Context, key session.Key, lease session.Lease) error {
	return r.do(func(s *sharded.Store) error { return s.Renew(ctx, key, lease) })
}

func (r *restless) Release(ctx context.Context, key session.Key, lease session.Lease) error {
	defer r.fresh.Delete(held{key, lease.Token, lease.Shard})
	return r.do(func(s *sharded.Store) error { return s.Release(ctx, key, lease) })
}

func (r *restless) Abandon(ctx context.Context, key session.Key, lease session.Lease) error {
	defer r.fresh.Delete(held{key, lease.Token, lease.Shard})
	return r.do(func(s *sharded.Store) error { return s.Abandon(ctx, key, lease) })
}

func (r *restless) Orphans(ctx context.Context, page session.Page) (infos []session.Info, err error) {
	err = r.do(func(s *sharded.Store) (err error) { infos, err = s.Orphans(ctx, page); return err })
	return infos, err
}

func (r *restless) Fork(ctx context.Context, of session.Key, seq int64, to session.Key, events ...*event.Event) error {
	return r.do(func(s *sharded.Store) error { return s.Fork(ctx, of, seq, to, events...) })
}

func (r *restless) SharedState(ctx context.Context, key session.Key) (state map[string]any, err error) {
	err = r.do(func(s *sharded.Store) (err error) { state, err = s.SharedState(ctx, key); return err })
	return state, err
}

func (r *restless) List(ctx context.Context, filter session.Key, page session.Page) (infos []session.Info, err error) {
	err = r.do(func(s *sharded.Store) (err error) { infos, err = s.List(ctx, filter, page); return err })
	return infos, err
}

func (r *restless) Delete(ctx context.Context, key session.Key) error {
	return r.do(func(s *sharded.Store) error { return s.Delete(ctx, key) })
}

func (r *restless) PutBlob(ctx context.Context, key session.Key, lease session.Lease, data []byte) (digest string, err error) {
	err = r.do(func(s *sharded.Store) (err error) { digest, err = s.PutBlob(ctx, key, lease, data); return err })
	return digest, err
}

func (r *restless) Blob(ctx context.Context, key session.Key, digest string) (data []byte, err error) {
	err = r.do(func(s *sharded.Store) (err error) { data, err = s.Blob(ctx, key, digest); return err })
	return data, err
}

func (r *restless) Close() error { return r.now.Close() }

// TestRestless runs the suite while sessions are moved.
func TestRestless(t *testing.T) {
	clock := sessiontest.NewClock()
	sessiontest.Run(t, func(t *testing.T) session.Store {
		r := &restless{t: t, still: still[t.Name()[strings.LastIndex(t.Name(), "/")+1:]]}
		for range 3 {
			r.stores = append(r.stores, session.NewMemory(session.WithClock(clock.Now)))
		}
		r.now = layout{now: stations[0]}.over(t, r.stores)
		return r
	}, sessiontest.WithAdvance(clock.Advance))
}
