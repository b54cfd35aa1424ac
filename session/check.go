package session

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// CheckKey returns an error that is [agent.ErrBadInput] if the key cannot name a session. Each part must have 1 to
// 255 bytes of valid UTF-8 without NUL.
func CheckKey(key Key) error {
	for _, part := range []string{key.App, key.User, key.ID} {
		if part == "" || len(part) > 255 || !utf8.ValidString(part) || strings.ContainsRune(part, 0) {
			return fmt.Errorf("session key %q: app, user and id are 1 to 255 bytes of UTF-8 each, without NUL: %w", key, agent.ErrBadInput)
		}
	}
	return nil
}

// CheckEvents returns an error if a store must not append the events after expectedSeq. It refuses an event without a
// payload, a partial event, a control value ([event.Continue], [event.Finish]), JSON that is nested deeper than
// [event.MaxDepth], and positions that do not follow expectedSeq without a gap. Only the error about depth is
// [agent.ErrBadInput]. Stores call CheckEvents before they write.
func CheckEvents(key Key, expectedSeq int64, events []*event.Event) error {
	for i, e := range events {
		want := expectedSeq + int64(i) + 1
		switch {
		case e == nil || e.Data == nil:
			return fmt.Errorf("session %s: event %d of the batch has no payload", key, i+1)
		case e.Partial:
			return fmt.Errorf("session %s: event %s is partial: only complete events are stored", key, e.ID)
		case e.Seq != want:
			return fmt.Errorf("session %s: event %s has seq %d instead of %d", key, e.ID, e.Seq, want)
		}
		switch e.Data.(type) {
		case *event.Continue, *event.Finish:
			return fmt.Errorf("session %s: a %s event is never stored", key, e.Type())
		}
		if _, deep := event.Bound(e.Data); deep != nil {
			return fmt.Errorf("session %s: event %s: %s: its JSON is nested deeper than %d levels and could not be read back: call event.Bound first, which turns the deep part into a string: %w",
				key, e.ID, e.Type(), event.MaxDepth, agent.ErrBadInput)
		}
	}
	return nil
}

// LeaseLost returns the error for a write whose lease is no longer the current one. The error is [agent.ErrConflict].
func LeaseLost(key Key) error {
	return fmt.Errorf("session %s: the lease was lost: another process has it, or the database was restored: %w", key, agent.ErrConflict)
}
