// Package sessiontest is the suite that every session store must pass. A store's
// own test calls [Run] with a function that opens an empty one:
//
//	func TestStore(t *testing.T) {
//		clock := sessiontest.NewClock()
//		sessiontest.Run(t, func(t *testing.T) session.Store {
//			return session.NewMemory(session.WithClock(clock.Now))
//		}, sessiontest.Options{Advance: clock.Advance})
//	}
//
// The suite uses only the interface [session.Store]. The database need not be empty, because each test uses another
// app name.
package sessiontest

import (
	"crypto/rand"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// Options are further means of testing a store with [Run], or a tail with [RunTail]. The tests that need a field that is
// not set are skipped.
type Options struct {
	// Advance advances the clock of all open stores, or sets it back if the duration is negative, such as
	// [Clock.Advance]. With it, the suite tests how leases expire.
	Advance func(time.Duration)
	// Damage replaces a stored event by other JSON, as a fault or an earlier version may have done. With it, the suite
	// tests that the rest of the log stays usable.
	Damage func(t *testing.T, store session.Store, key session.Key, seq int64, text string)
	// DeadOwners declares that the store at once replaces the lease of a process that died on the same host, as
	// [session.Alive] reports it.
	DeadOwners bool
	// Peer opens the data of an open store a second time, as another process would. With it, the suite tests that the
	// two stores behave like one. For a tail, it must return a [Followed].
	Peer func(t *testing.T, of session.Store) session.Store
	// Reopen closes a store and opens the same data again. With it, the suite tests that stored data lasts.
	Reopen func(t *testing.T, old session.Store) session.Store
	// Restore saves the data of a store. The function that it returns restores them while the store stays open, as from
	// a backup. With it, the suite tests that the loss of later events is detected.
	Restore func(t *testing.T, of session.Store) (restore func())

	// Cuts is how often [RunTail] disconnects a client at random places of a running stream.
	//
	// Defaults to 1,000, and to 100 with go test -short.
	Cuts int
	// PlainStore opens the store of a tail again without the tail. With it, [RunTail] tests that followers receive
	// events that were stored without the tail.
	PlainStore func(t *testing.T, of session.Store) session.Store
}

// Run runs the suite, with a subtest for each rule. open returns an open store, which the suite closes. The race
// detector should be on.
func Run(t *testing.T, open func(t *testing.T) session.Store, o Options) {
	runAll(t, []group[*fixture]{
		{"model", modelTests()}, {"log", logTests}, {"load", loadTests}, {"payload", payloadTests}, {"damage", damageTests}, {"lease", leaseTests},
		{"orphan", orphanTests}, {"page", pageTests}, {"fork", forkTests}, {"blob", blobTests}, {"snapshot", snapshotTests},
		{"concurrency", concurrencyTests},
	}, func(t *testing.T) *fixture { return newFixture(t, open(t), o) })
}

// group contains the rules about one part of a store, each with its test.
type group[F any] struct {
	name  string
	tests []rule[F]
}

type rule[F any] struct {
	name string
	run  func(F)
}

type test = rule[*fixture]

// runAll runs the tests of groups, each with a new fixture.
func runAll[F any](t *testing.T, groups []group[F], fixture func(*testing.T) F) {
	for _, group := range groups {
		t.Run(group.name, func(t *testing.T) {
			for _, test := range group.tests {
				t.Run(test.name, func(t *testing.T) { test.run(fixture(t)) })
			}
		})
	}
}

func newFixture(t *testing.T, store session.Store, o Options) *fixture {
	f := &fixture{T: t, Options: o, app: "app-" + rand.Text()}
	f.store = f.mustOpen(store)
	f.key = session.Key{App: f.app, User: "ann", ID: "s1"}
	return f
}

// fixture contains the store and the app of one test.
type fixture struct {
	*testing.T
	Options
	store session.Store
	app   string
	key   session.Key // of the session that most tests use
}

func (f *fixture) mustOpen(s session.Store) session.Store {
	f.Helper()
	require.NotNil(f, s)
	f.Cleanup(func() { _ = s.Close() }) // it may be closed already
	return s
}

// pass advances the clock. It skips the test without [Options.Advance].
func (f *fixture) pass(d time.Duration) {
	f.Helper()
	if f.Advance == nil {
		f.Skip("needs the option Advance")
	}
	f.Advance(d)
}

func (f *fixture) acquire(key session.Key) session.Lease {
	f.Helper()
	lease, err := Acquire(f.Context(), f.store, key, session.Self())
	require.NoError(f, err)
	return lease
}

// append stores events after seq and returns the new end of the log.
func (f *fixture) append(key session.Key, seq int64, lease session.Lease, data ...event.Data) int64 {
	f.Helper()
	require.NoError(f, Append(f.Context(), f.store, key, seq, lease, events(seq, data...)...))
	return seq + int64(len(data))
}

// write stores events in a separate turn: acquire, append, release.
func (f *fixture) write(key session.Key, data ...event.Data) {
	f.Helper()
	lease := f.acquire(key)
	f.append(key, lease.Head.Seq, lease, data...)
	f.release(key, lease)
}

func (f *fixture) release(key session.Key, lease session.Lease) {
	f.Helper()
	require.NoError(f, Release(f.Context(), f.store, key, lease))
}

func (f *fixture) load(key session.Key, after int64) []*event.Event {
	f.Helper()
	return load(f.T, f.store, key, after)
}

func load(t *testing.T, store session.Store, key session.Key, after int64) []*event.Event {
	t.Helper()
	var out []*event.Event
	for e, err := range store.Load(t.Context(), key, after) {
		require.NoError(t, err)
		out = append(out, e)
	}
	return out
}

// contents returns the texts of a session's text events.
func (f *fixture) contents(key session.Key) []string {
	f.Helper()
	out := []string{}
	for i, e := range f.load(key, 0) {
		require.Equal(f, int64(i+1), e.Seq)
		out = append(out, e.Text())
	}
	return out
}

// race makes n calls at once. One must succeed, and the others must fail with lost. It returns the number of the
// successful call.
func (f *fixture) race(n int, lost error, do func(i int) error) (won int) {
	f.Helper()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = do(i) })
	}
	wg.Wait()
	won = slices.Index(errs, nil)
	require.GreaterOrEqual(f, won, 0, "%v", errs)
	for i, err := range errs {
		if i != won {
			require.ErrorIs(f, err, lost)
		}
	}
	return won
}

func (f *fixture) busy(key session.Key) {
	f.Helper()
	_, err := Acquire(f.Context(), f.store, key, session.Self())
	require.ErrorIs(f, err, agent.ErrSessionBusy)
}
