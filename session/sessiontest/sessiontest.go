// Package sessiontest is the suite that every session store must pass. A store's
// own test calls [Run] with a function that opens an empty one:
//
//	func TestStore(t *testing.T) {
//		clock := sessiontest.NewClock()
//		sessiontest.Run(t, func(t *testing.T) session.Store {
//			return session.NewMemory(session.WithClock(clock.Now))
//		}, sessiontest.WithAdvance(clock.Advance))
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

// Option gives [Run] or [RunTail] a further means of testing the store. Without an option, the tests that need it are
// skipped.
type Option func(*suite)

// WithAdvance sets the function that advances the clock of all open stores, or sets it back if the duration is negative,
// such as [Clock.Advance]. With it, the suite tests how leases expire.
func WithAdvance(advance func(time.Duration)) Option {
	return func(s *suite) { s.advance = advance }
}

// WithReopen sets the function that closes a store and opens the same data again. With it, the suite tests that stored
// data lasts.
func WithReopen(reopen func(t *testing.T, old session.Store) session.Store) Option {
	return func(s *suite) { s.reopen = reopen }
}

// WithPeer sets the function that opens the data of an open store a second time, as another process would. With it, the
// suite tests that the two stores behave like one.
func WithPeer(peer func(t *testing.T, of session.Store) session.Store) Option {
	return func(s *suite) { s.peer = peer }
}

// WithDeadOwners declares that the store at once replaces the lease of a process that died on the same host, as
// [session.Alive] reports it.
func WithDeadOwners() Option { return func(s *suite) { s.deadOwners = true } }

// WithRestore sets the function that saves the data of a store. The function that it returns restores them while the
// store stays open, as from a backup. With it, the suite tests that the loss of later events is detected.
func WithRestore(save func(t *testing.T, of session.Store) (restore func())) Option {
	return func(s *suite) { s.saves = save }
}

type suite struct {
	saves      func(*testing.T, session.Store) (restore func())
	advance    func(time.Duration)
	reopen     func(*testing.T, session.Store) session.Store
	peer       func(*testing.T, session.Store) session.Store
	deadOwners bool
	cuts       int
	plain      func(*testing.T, session.Store) session.Store
	damage     func(*testing.T, session.Store, session.Key, int64, string)
}

// Run runs the suite, with a subtest for each rule. open returns an open store, which the suite closes. The race
// detector should be on.
func Run(t *testing.T, open func(t *testing.T) session.Store, opts ...Option) {
	s := &suite{}
	for _, opt := range opts {
		opt(s)
	}
	runAll(t, []group[*fixture]{
		{"model", modelTests()}, {"log", logTests}, {"load", loadTests}, {"payload", payloadTests}, {"damage", damageTests}, {"lease", leaseTests},
		{"orphan", orphanTests}, {"state", stateTests}, {"page", pageTests}, {"fork", forkTests}, {"blob", blobTests}, {"snapshot", snapshotTests},
		{"concurrency", concurrencyTests},
	}, func(t *testing.T) *fixture { return s.fixture(t, open(t)) })
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

func (s *suite) fixture(t *testing.T, store session.Store) *fixture {
	f := &fixture{T: t, suite: s, app: "app-" + rand.Text()}
	f.store = f.mustOpen(store)
	f.key = session.Key{App: f.app, User: "ann", ID: "s1"}
	return f
}

// fixture contains the store and the app of one test.
type fixture struct {
	*testing.T
	*suite
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

// pass advances the clock. It skips the test without [WithAdvance].
func (f *fixture) pass(d time.Duration) {
	f.Helper()
	if f.advance == nil {
		f.Skip("needs the option WithAdvance")
	}
	f.advance(d)
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
