package sessiontest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

var concurrencyTests = []test{
	{"many sessions at once", func(f *fixture) {
		const sessions, turns, batch = 30, 6, 5
		var wg sync.WaitGroup
		for i := range sessions {
			wg.Go(func() {
				key := session.Key{App: f.app, User: fmt.Sprint(i % 3), ID: fmt.Sprint(i)}
				for range turns {
					if err := f.turn(f.store, key, func(seq int64) []*event.Event { return numbered(key, seq, batch) }); err != nil {
						f.Errorf("session %d: %v", i, err)
						return
					}
				}
			})
		}
		wg.Go(func() { // reading does not affect the writers
			for range 20 {
				if _, err := f.store.List(f.Context(), session.Key{App: f.app}, session.Page{}); err != nil {
					f.Error(err)
				}
				if _, err := f.store.SharedState(f.Context(), session.Key{App: f.app, User: "1"}); err != nil {
					f.Error(err)
				}
			}
		})
		wg.Wait()
		infos := f.list(session.Key{App: f.app})
		require.Len(f, infos, sessions)
		for _, i := range infos {
			require.EqualValues(f, turns*batch, i.Seq)
			f.complete(i.Key, turns*batch)
		}
	}},
	{"a fork waits for nobody who writes shared state to its key", func(f *fixture) {
		f.write(f.key, text("a"))
		for i := range 50 {
			to := f.another(fmt.Sprint("to", i))
			lease := f.acquire(to)
			var forked, stored error
			var wg sync.WaitGroup
			wg.Go(func() { forked = f.store.Fork(f.Context(), f.key, 1, to, events(1, state("user:b", i))...) })
			wg.Go(func() { stored = Append(f.Context(), f.store, to, 0, lease, events(0, state("user:a", i))...) })
			wg.Wait()
			require.ErrorIs(f, forked, agent.ErrConflict)
			require.NoError(f, stored)
		}
	}},
	{"one of two appends at a position wins", func(f *fixture) { f.appendTwice(f.store, f.store) }},
	{"many writers on one session take turns", func(f *fixture) {
		f.contend(f.store, f.store)
	}},
	{"one of two appends through two stores wins", withPeer(func(f *fixture, peer session.Store) { f.appendTwice(f.store, peer) })},
	{"writers of two stores take turns", withPeer(func(f *fixture, peer session.Store) { f.contend(f.store, peer) })},
}

// withPeer skips a test without [Options.Peer].
func withPeer(run func(f *fixture, peer session.Store)) func(*fixture) {
	return func(f *fixture) {
		if f.Peer == nil {
			f.Skip("needs the option Peer")
		}
		run(f, f.mustOpen(f.Peer(f.T, f.store)))
	}
}

// appendTwice appends at each position through both stores at once, and requires that one of the two wins.
func (f *fixture) appendTwice(stores ...session.Store) {
	lease := f.acquire(f.key)
	for seq := int64(0); seq < 40; seq += 2 {
		won := f.race(len(stores), agent.ErrConflict, func(i int) error {
			return Append(f.Context(), stores[i], f.key, seq, lease, events(seq, texts(2, fmt.Sprintf("%d-", i))...)...)
		})
		log := f.contents(f.key)
		require.Len(f, log, int(seq)+2)
		require.Equal(f, []string{fmt.Sprintf("%d-0", won), fmt.Sprintf("%d-1", won)}, log[seq:])
	}
}

// contend lets goroutines on both stores compete for one session until 40 batches are stored. It requires that each
// batch is stored once.
func (f *fixture) contend(a, b session.Store) {
	const batches, size = 40, 3
	next := make(chan int, batches)
	for i := range batches {
		next <- i
	}
	close(next)
	var wg sync.WaitGroup
	for i := range 6 {
		store := a
		if i%2 == 1 {
			store = b
		}
		wg.Go(func() {
			for n := range next {
				for {
					err := f.turn(store, f.key, func(seq int64) []*event.Event { return events(seq, texts(size, fmt.Sprintf("%d-", n))...) })
					if errors.Is(err, agent.ErrSessionBusy) {
						continue
					}
					if err != nil {
						f.Errorf("batch %d: %v", n, err)
					}
					break
				}
			}
		})
	}
	wg.Wait()
	seen := make(map[string]bool)
	for i, s := range f.contents(f.key) {
		var n, k int
		_, err := fmt.Sscanf(s, "%d-%d", &n, &k)
		require.NoError(f, err)
		require.Equal(f, i%size, k, "a batch was torn apart")
		require.False(f, seen[s], "%s came twice", s)
		seen[s] = true
	}
	require.Len(f, seen, batches*size)
}

// turn stores events under one lease. batch returns those after a position.
func (f *fixture) turn(store session.Store, key session.Key, batch func(seq int64) []*event.Event) error {
	lease, err := Acquire(f.Context(), store, key, session.Self())
	if err != nil {
		return err
	}
	if err := Append(f.Context(), store, key, lease.Head.Seq, lease, batch(lease.Head.Seq)...); err != nil {
		return err
	}
	if err := Renew(f.Context(), store, key, lease); err != nil {
		return err
	}
	return Release(f.Context(), store, key, lease)
}

// numbered returns texts with their positions, and a state at the end.
func numbered(key session.Key, seq int64, n int) []*event.Event {
	batch := events(seq, texts(n, "")...)
	for _, e := range batch {
		e.Data = text(fmt.Sprintf("%s %d", key, e.Seq))
	}
	batch[n-1].Data = state("user:last", key.ID, "app:n", float64(seq))
	return batch
}

// complete requires that the log contains the texts of numbered without gaps.
func (f *fixture) complete(key session.Key, n int) {
	f.Helper()
	log := f.load(key, 0)
	require.Len(f, log, n)
	for i, e := range log {
		require.EqualValues(f, i+1, e.Seq)
		if e.Type() == event.TypeText {
			require.Equal(f, fmt.Sprintf("%s %d", key, i+1), e.Text())
		}
	}
}
