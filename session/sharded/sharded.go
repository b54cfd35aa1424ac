// Package sharded spreads sessions over several stores. It imports session, agent and event, knows
// no store, and keeps nothing but what is in the shards.
//
// A user's sessions are on one shard, which a hash of app and user chooses among the names (rendezvous hashing), so that
// a shard that is added takes its share from each of the others and nothing else moves. A fork stays
// with what it shares: if it belongs to a user of another shard, a note there, an empty fork of a session of the app
// [App], says where it is.
//
// The state of a user is on the user's shard. The state of an app is on a shard that a hash of the app chooses; the
// others have copies, which are read while that one is down. Where a session is on another shard than state that
// it changes, the state is written after the events, and not with them: if the process dies in between, or the other
// shard is down, which is an error, it is as it was before. That is the one promise of a store that a sharded one does not keep.
package sharded

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/session"
)

// App is the app of the sessions that a sharded store keeps for itself in the shards. No session of
// this app can be stored.
const App = "arbor.sharded"

// Shard is one of the stores.
type Shard struct {
	// Name is what sessions are assigned by. It is never changed, unlike the place and the
	// address of the store.
	Name  string
	Store session.Store
	// Leaving says that no session is to be here. [Store.Rebalance] moves those that are, if the shard is a [Former] one, but
	// for forks of other users' sessions: with these it stays among the shards, or they are lost.
	Leaving bool
}

// Store is a [session.Store] of shards. It is safe for concurrent use. The zero value is not usable.
type Store struct {
	shards       []*shard // all of them
	ring, former []*shard // those that sessions are spread over, and were
	formerNames  []string
	settled      sync.Map // the scopes whose state is where it belongs
}

var (
	_ session.Store     = (*Store)(nil)
	_ session.Acquirer  = (*Store)(nil)
	_ session.Releaser  = (*Store)(nil)
	_ session.Snapshots = (*Store)(nil)
)

// Option configures a [Store].
type Option func(*Store)

// Former names the shards that sessions were spread over until now. Sessions that have not been moved
// yet are found where they were, which costs a query more, and [Store.Rebalance] moves them. All processes must agree on
// the shards and the former ones: end those that do not before the first that does begins.
func Former(names ...string) Option { return func(s *Store) { s.formerNames = names } }

// New makes a store of others, which it owns from then on: Close closes them too. They
// must differ. It asks none of them anything: one that is down is missed when it is needed. The error says what is wrong with names.
func New(shards []Shard, opts ...Option) (*Store, error) {
	s := &Store{}
	if err := option.Apply(s, opts); err != nil {
		return nil, fmt.Errorf("sharded: %w", err)
	}
	for _, d := range shards {
		switch {
		case d.Name == "" || len(d.Name) > 100 || strings.ContainsFunc(d.Name, func(r rune) bool { return r <= ' ' || r > '~' }):
			return nil, fmt.Errorf("sharded: %q is no name of a shard: give 1 to 100 printable characters of ASCII without spaces", d.Name)
		case d.Store == nil:
			return nil, fmt.Errorf("sharded: the shard %s has no store", d.Name)
		case s.named(d.Name) != nil:
			return nil, fmt.Errorf("sharded: two shards are called %s", d.Name)
		}
		x := &shard{Wrapped: session.Wrapped{Store: d.Store}, name: d.Name, mark: int64(score(d.Name) >> 1)}
		s.shards = append(s.shards, x)
		if !d.Leaving {
			s.ring = append(s.ring, x)
		}
	}
	for _, name := range s.formerNames {
		x := s.named(name)
		if x == nil {
			return nil, fmt.Errorf("sharded: the former shard %s is not among the shards: its sessions could not be found", name)
		}
		s.former = append(s.former, x)
	}
	if len(s.ring) == 0 {
		return nil, errors.New("sharded: there is no shard that sessions could be on")
	}
	// Sessions move from the first to the last, and so are seen in one of them at least.
	stage := func(x *shard) int {
		switch {
		case !slices.Contains(s.ring, x):
			return 0
		case slices.Contains(s.former, x):
			return 1
		}
		return 2
	}
	slices.SortStableFunc(s.shards, func(a, b *shard) int { return stage(a) - stage(b) })
	return s, nil
}

// Unwrap returns the stores of the shards, for [session.SnapshotsOf], [session.AcquirerOf] and [session.ReleaserOf]: the
// store can what all of them can.
func (s *Store) Unwrap() (stores []session.Store) {
	for _, x := range s.shards {
		stores = append(stores, x.Store)
	}
	return stores
}

// score is how much a shard is the one for something.
func score(name string, of ...string) uint64 {
	text := strconv.AppendQuote(make([]byte, 0, 128), name)
	for _, part := range of {
		text = strconv.AppendQuote(text, part)
	}
	sum := sha256.Sum256(text)
	return binary.BigEndian.Uint64(sum[:])
}

// shard is a store and its place among the others.
type shard struct {
	session.Wrapped
	name string
	mark int64        // distinguishes its incarnations from those of other shards
	down atomic.Int64 // until when it is asked for nothing that can be done without it
}

// explain names the shard in an error that has to do with it.
func (x *shard) explain(err error) error {
	if err == nil || errors.Is(err, agent.ErrConflict) || errors.Is(err, agent.ErrSessionBusy) || errors.Is(err, agent.ErrBadInput) ||
		errors.Is(err, agent.ErrNoFile) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("shard %s: %w", x.name, err)
}

// info returns what the shard lists of a session.
func (x *shard) info(ctx context.Context, key session.Key) (session.Info, bool, error) {
	infos, err := x.List(ctx, key, session.Page{})
	if i := slices.IndexFunc(infos, func(i session.Info) bool { return i.Key == key }); i >= 0 {
		return infos[i], true, nil
	}
	return session.Info{}, false, x.explain(err)
}

// note makes a session that lists do not show. It is a fork of one that is named as the shard that it
// points to, "" being none. If there is a session of the key, the error is [agent.ErrConflict].
func (x *shard) note(ctx context.Context, to string, key session.Key, events ...*event.Event) error {
	of := session.Key{App: App, User: "notes", ID: "to " + to}
	for known := false; ; {
		err := x.Fork(ctx, of, 0, key, events...)
		if known || !errors.Is(err, agent.ErrBadInput) {
			return x.explain(err)
		}
		if _, known, err = x.info(ctx, of); err != nil {
			return err
		}
		if known {
			continue
		}
		// It is the first of its kind. Who makes it at the same time makes the same.
		lease, err := x.Acquire(ctx, of, session.Self())
		if err == nil && lease.Seq == 0 {
			err = x.Append(ctx, of, 0, lease, &event.Event{Seq: 1, ID: "note", Data: &event.Text{Content: "Sessions that share nothing with this one are notes."}})
		}
		if err == nil {
			err = x.Release(ctx, of, lease)
		}
		if err != nil && !errors.Is(err, agent.ErrSessionBusy) {
			return x.explain(err)
		}
	}
}

// free returns an error for a session of the app that is the store's own.
func free(key session.Key) error {
	if key.App == App {
		return fmt.Errorf("session %s: the app %s is the sharded store's own: %w", key, App, agent.ErrBadInput)
	}
	return nil
}

// isNote reports whether a session is not to be listed.
func isNote(i session.Info) bool { return i.Key.App == App || i.Parent.App == App }

// noted returns the shard that a note names, nil if it names none, or one that is not there.
func (s *Store) noted(i session.Info) *shard { return s.named(strings.TrimPrefix(i.Parent.ID, "to ")) }

// named returns nil if there is no such shard.
func (s *Store) named(name string) *shard {
	for _, x := range s.shards {
		if x.name == name {
			return x
		}
	}
	return nil
}

// Home returns the name of the shard that a session belongs on. It asks no shard: before it is moved,
// and if it is a fork of a session of another user, the session is elsewhere.
func (s *Store) Home(key session.Key) string {
	homes := s.homes(key.App, key.User)
	return homes[len(homes)-1].name
}

// homes returns where something belongs, after where it was before if that is another shard.
func (s *Store) homes(of ...string) (homes []*shard) {
	for _, ring := range [][]*shard{s.former, s.ring} {
		if len(ring) > 0 {
			homes = append(homes, slices.MaxFunc(ring, func(a, b *shard) int { return cmp.Compare(score(a.name, of...), score(b.name, of...)) }))
		}
	}
	return slices.Compact(homes)
}

// find returns where a session is, or would be, and what is listed of it there.
func (s *Store) find(ctx context.Context, key session.Key) (x *shard, info session.Info, ok bool, err error) {
	for _, x = range s.homes(key.App, key.User) {
		info, ok, err = x.info(ctx, key)
		if err != nil || ok && !isNote(info) {
			return x, info, ok, err
		}
		if ok {
			to := s.noted(info)
			if to == nil {
				return nil, info, false, fmt.Errorf("sharded: session %s is on %q, which is no shard here: name it as one", key, info.Parent.ID)
			}
			info, ok, err = to.info(ctx, key)
			return to, info, ok, err
		}
	}
	return x, info, false, nil
}
