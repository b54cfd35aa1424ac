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

// Find returns the info of one session, and whether it is stored.
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

// Since yields the events of a session after those that the caller knows, whose last one is head, oldest first. The error is
// [agent.ErrConflict] if the log does not have this event at its position: the session was deleted, or the database restored.
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

// The first and the largest piece that Backward reads, in events.
const firstPiece, largestPiece = 64, 4096

// Backward yields the events of a session before a position, newest first. 0, or a position after the end of the log,
// starts at the end. It reads the log in pieces that grow, so that a search near the end does not read a long log.
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
			if len(events) == 0 { // the log ends before
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
