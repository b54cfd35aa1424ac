package sharded

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// Report says what a rebalancing did.
type Report struct {
	Moved int // sessions that are where they belong now
	Left  int // sessions of users of whom one was under way
	// Stay counts sessions on shards that are leaving which no rebalancing moves: forks of other users' sessions, and
	// those that nobody finds because the shard is not among the former ones. It must not be taken away then.
	Stay int
}

// batch is how many sessions are listed at once.
const batch = 10_000

// Rebalance moves sessions from the former shards to where they belong, user by user: those
// of users who have none under way. When it has left none, [Former] is no longer needed. It can be
// called again, by any process, whatever became of an earlier call. While it runs all sessions can be used; for the moment of its move
// a session is busy. The shards must be a [session.Mover].
//
// A session that is copied is not there for others until it has left its former shard, which it leaves
// only if nobody has taken its lease meanwhile.
func (s *Store) Rebalance(ctx context.Context) (report Report, err error) {
	for _, from := range s.shards {
		users := make(map[session.Key]bool)
		if err := from.each(ctx, func(i session.Info) { users[session.Key{App: i.Key.App, User: i.Key.User}] = true }); err != nil {
			return report, err
		}
		for user := range users {
			if user.App == App || user.User == App { // notes
				continue
			}
			_, err := s.settle(ctx, userOf(user), true)
			if err == nil {
				_, err = s.settle(ctx, appOf(user), true)
			}
			if homes := s.homes(user.App, user.User); err == nil && len(homes) > 1 && homes[0] == from {
				err = s.moveUser(ctx, from, homes[1], user, &report)
			}
			if err != nil {
				return report, from.explain(err)
			}
		}
		if slices.Contains(s.ring, from) {
			continue
		}
		if err := from.each(ctx, func(i session.Info) {
			if !isNote(i) && !slices.Contains(s.homes(i.Key.App, i.Key.User), from) {
				report.Stay++
			}
		}); err != nil {
			return report, err
		}
	}
	return report, nil
}

// each lists all sessions of a shard.
func (x *shard) each(ctx context.Context, see func(session.Info)) error {
	for page := (session.Page{Limit: batch}); ; {
		infos, err := x.List(ctx, session.Key{}, page)
		if err != nil {
			return x.explain(err)
		}
		for _, i := range infos {
			see(i)
		}
		if len(infos) < batch {
			return nil
		}
		page.After = infos[len(infos)-1].Place()
	}
}

// moveUser moves the sessions of a user, and the notes of where others of them are.
func (s *Store) moveUser(ctx context.Context, from, to *shard, user session.Key, report *Report) error {
	source, _ := from.Store.(session.Mover)
	target, _ := to.Store.(session.Mover)
	if source == nil || target == nil {
		return fmt.Errorf("sharded: sessions cannot be moved from %s to %s: their stores do not implement session.Mover", from.name, to.name)
	}
	all, err := from.List(ctx, user, session.Page{})
	if err != nil {
		return err
	}
	var family []session.Info // parents come before their forks
	for _, i := range all {
		on := s.noted(i)
		switch {
		case i.Key.App != user.App || i.Key.User != user.User: // a part of the key is empty
		case !isNote(i):
			family = append(family, i)
		case i.Parent.ID != "to " && on != nil && on != to:
			if err := to.point(ctx, i.Key, on); err != nil && !errors.Is(err, agent.ErrConflict) {
				return err
			}
		}
	}
	slices.SortStableFunc(family, func(a, b session.Info) int { return depth(family, a) - depth(family, b) })
	if slices.ContainsFunc(family, func(i session.Info) bool { return i.Leased }) {
		report.Left += len(family)
		return nil
	}
	orphans, err := from.Orphans(ctx, session.Page{})
	if err != nil {
		return err
	}
	orphan := make(map[session.Key]bool)
	for _, i := range orphans {
		orphan[i.Key] = true
	}
	leases := make([]session.Lease, len(family))
	defer func() {
		for n, i := range family { // but the leases that have left with their sessions
			if orphan[i.Key] {
				_ = from.Abandon(ctx, i.Key, leases[n])
			} else {
				_ = from.Release(ctx, i.Key, leases[n])
			}
		}
	}()
	for n, i := range family {
		var err error
		if leases[n], err = from.Acquire(ctx, i.Key, session.Self()); err == nil {
			err = copyTo(ctx, from, to, i, leases[n], orphan[i.Key])
		}
		if errors.Is(err, agent.ErrSessionBusy) || errors.Is(err, agent.ErrConflict) {
			report.Left += len(family)
			return nil
		}
		if err != nil {
			return err
		}
	}
	for n, i := range slices.Backward(family) {
		switch err := source.Leave(ctx, i.Key, leases[n]); {
		case errors.Is(err, agent.ErrConflict):
			report.Left++
		case err != nil:
			return err
		default:
			report.Moved++
		}
	}
	return nil
}

// depth is how many sessions of a family another one comes from.
func depth(family []session.Info, i session.Info) (n int) {
	for n <= len(family) {
		at := slices.IndexFunc(family, func(o session.Info) bool { return o.Key == i.Parent })
		if at < 0 {
			break
		}
		n, i = n+1, family[at]
	}
	return n
}

// sameDates tells a copy of a session from one of another session that had its key.
func sameDates(a, b session.Info) bool {
	return same(a.Created, b.Created) && same(a.Updated, b.Updated)
}

// same compares times as stores keep them, some of which know no nanoseconds.
func same(a, b time.Time) bool {
	return a.Truncate(time.Microsecond).Equal(b.Truncate(time.Microsecond))
}

// begins reports whether a log begins with all that the shard has of its session.
func (x *shard) begins(ctx context.Context, copied session.Info, log []*event.Event) (bool, error) {
	if copied.Seq == 0 || copied.Seq > int64(len(log)) {
		return copied.Seq == 0, nil
	}
	for e, err := range x.Load(ctx, copied.Key, copied.Seq-1) {
		if err != nil {
			return false, x.explain(err)
		}
		has, err := e.MarshalJSON()
		want, other := log[copied.Seq-1].MarshalJSON()
		if err != nil || other != nil || !bytes.Equal(has, want) {
			return false, cmp.Or(err, other)
		}
	}
	return true, nil
}

// copyTo makes the copy of a session that becomes the session when it leaves its shard.
func copyTo(ctx context.Context, from, to *shard, info session.Info, held session.Lease, orphan bool) error {
	lease, err := to.Acquire(ctx, info.Key, session.Self()) // before anything is read: who deletes the session ends it
	if err != nil {
		return to.explain(err)
	}
	defer func() { _ = to.Release(ctx, info.Key, lease) }() // unless it has ended with what follows
	copied, ok, err := to.info(ctx, info.Key)
	if ok = ok && !isNote(copied); err != nil || ok && copied.Seq == held.Seq && sameDates(copied, info) {
		if err == nil && orphan { // an earlier call made the copy, and nothing has come since
			err = to.Abandon(ctx, info.Key, lease)
		}
		return to.explain(err)
	}
	moved := session.Moved{Info: info, Lease: held}
	moved.Seq = held.Seq
	for e, err := range from.Load(ctx, info.Key, 0) {
		if err != nil {
			return from.explain(err)
		}
		moved.Events = append(moved.Events, e)
	}
	if ok && same(copied.Created, info.Created) {
		if whole, err := to.begins(ctx, copied, moved.Events); err != nil || !whole {
			return cmp.Or(err, fmt.Errorf("session %s has other events on shard %s, where it belongs, than on %s: shards were changed again before all had moved; "+
				"make the shards those of then, or remove the one that is not to stay from its shard alone", info.Key, to.name, from.name))
		}
	}
	digests, err := from.Store.(session.Mover).Digests(ctx, info.Key)
	if err != nil {
		return from.explain(err)
	}
	for digest, seq := range digests {
		data, err := from.Blob(ctx, info.Key, digest)
		if err != nil {
			return from.explain(err)
		}
		moved.Blobs = append(moved.Blobs, session.MovedBlob{Seq: seq, Data: data})
	}
	if err := to.Store.(session.Mover).Adopt(ctx, info.Key, lease, moved); err != nil {
		return to.explain(err)
	}
	if orphan {
		lease, err := to.Acquire(ctx, info.Key, session.Self())
		if err == nil {
			err = to.Abandon(ctx, info.Key, lease)
		}
		if err != nil {
			return to.explain(err)
		}
	}
	return from.explain(from.Renew(ctx, info.Key, held))
}
