package session

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// Find returns the info of the session with the given key. If the store has no such session, ok is false and the
// error is nil. Find does not report a session that only has a lease.
func Find(ctx context.Context, store Store, key Key) (info Info, ok bool, err error) {
	if CheckKey(key) != nil { // no such session can be stored, and an empty part would match others
		return Info{}, false, nil
	}
	infos, err := store.List(ctx, key, Page{Limit: 1})
	if err != nil || len(infos) == 0 {
		return Info{}, false, err
	}
	return infos[0], true, nil
}

// Since yields, oldest first, the events that follow head, the last event that the caller has. If the log no longer
// has that event at that position, because the session was deleted or the database was restored, Since yields an
// error that is [agent.ErrConflict]. With the zero Head it yields the whole log.
func Since(ctx context.Context, store Store, key Key, head Head) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		known := head.Seq == 0
		for e, err := range store.Load(ctx, key, max(head.Seq-1, 0)) {
			switch {
			case err != nil:
				yield(nil, err)
				return
			case known:
				if !yield(e, nil) {
					return
				}
			default:
				if known = HeadOf(e) == head; !known {
					yield(nil, gone(key, head))
					return
				}
			}
		}
		if !known {
			yield(nil, gone(key, head))
		}
	}
}

func gone(key Key, head Head) error {
	return fmt.Errorf("session %s: position %d no longer has event %q: the session was deleted, or the database was restored: %w",
		key, head.Seq, head.ID, agent.ErrConflict)
}

// Backward reads the log in pieces of these sizes, in events. Each piece is twice as large as the one before.
const firstPiece, largestPiece = 64, 4096

// Backward yields the events of a session that come before a position, newest first. If before is 0, or larger than
// the last position, it starts with the last event. It reads the log in pieces that grow from 64 to 4,096 events, so
// a caller that finds what it needs near the end does not read a long log.
func Backward(ctx context.Context, store Store, key Key, before int64) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		if before <= 0 {
			before = math.MaxInt64
		}
		for piece := int64(firstPiece); before > 1; piece = min(2*piece, largestPiece) {
			after := max(0, before-1-piece)
			var events []*event.Event
			for e, err := range store.Load(ctx, key, after) {
				if err != nil {
					yield(nil, err)
					return
				}
				if e.Seq >= before {
					break
				}
				events = append(events, e)
			}
			if len(events) == 0 { // the log ends before this piece
				info, _, err := Find(ctx, store, key)
				if err != nil {
					yield(nil, err)
					return
				}
				before = min(info.Seq, after) + 1
				continue
			}
			for _, e := range slices.Backward(events) {
				if !yield(e, nil) {
					return
				}
			}
			before = after + 1
		}
	}
}
