package session

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// Tail lets clients follow sessions while they run: in another request, in another process, or again after a
// connection was lost. Implementations are also stores, and show to followers what is written through them. They are
// safe for concurrent use.
type Tail interface {
	// Publish sends partial events of the current turn to the followers. Partial events are never stored. A tail that
	// cannot send them drops them: the complete event follows when it is stored. Callers must not change the events
	// afterwards, because followers receive the same values.
	Publish(ctx context.Context, key Key, events ...*event.Event) error
	// Follow yields the entries that come after the entry with the id after, and then waits for new ones. With "" it
	// starts at the beginning. Stored events are yielded in the order of the log, each once. The session need not
	// exist yet. Follow ends only with an error, its last element: the context's error when the context ends, or that
	// of the store.
	Follow(ctx context.Context, key Key, after string) iter.Seq2[Entry, error]
}

// Entry is an event that a follower of a session receives. The event must not be changed, because other followers may
// have it too.
type Entry struct {
	// ID is the text of a [Position]. Passed to Follow, it continues after this entry. A server sends it as the id of
	// a server-sent event, and the client sends it back as Last-Event-ID (WHATWG HTML, section 9.2).
	ID    string
	Event *event.Event
}

// Position is a place in the sequence of entries that followers of a session receive. The stored event at position
// Seq has {Seq, 0}. The partial events that were published after it, before the next stored event, have {Seq, 1},
// {Seq, 2} and so on. The zero value is the beginning.
type Position struct{ Seq, Part int64 }

// String returns the id of the position, such as 12-0.
func (p Position) String() string {
	b := make([]byte, 0, 24)
	b = append(strconv.AppendInt(b, p.Seq, 10), '-')
	return string(strconv.AppendInt(b, p.Part, 10))
}

// Compare returns a negative number if p comes before o, and a positive number if it comes after o.
func (p Position) Compare(o Position) int {
	return cmp.Or(cmp.Compare(p.Seq, o.Seq), cmp.Compare(p.Part, o.Part))
}

// ParsePosition parses the id of an entry. "" is the beginning, and a number alone is the stored event at that
// position. The error is [agent.ErrBadInput].
func ParsePosition(id string) (p Position, err error) {
	if id == "" {
		return p, nil
	}
	seq, part, both := strings.Cut(id, "-")
	if p.Seq, err = number(seq); err == nil && both {
		p.Part, err = number(part)
	}
	if err != nil {
		return Position{}, fmt.Errorf("%.40q is not a position in a session: it must look like 12-0: %w", id, agent.ErrBadInput)
	}
	return p, nil
}

func number(s string) (int64, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	return int64(n), err
}
