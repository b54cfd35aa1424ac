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

// Tail lets others follow sessions while they run: in another request, in another
// process, or again after a connection was lost. Implementations are stores too,
// and show what they store by themselves. They are safe for concurrent use.
type Tail interface {
	// Publish shows partial events of the turn under way to the followers. They
	// are never stored. An implementation that cannot show them drops them: the complete event follows
	// when it is stored. The events must not change any more: followers are given them as they are.
	Publish(ctx context.Context, key Key, events ...*event.Event) error
	// Follow yields what came after an entry, "" being the beginning, and then what
	// comes, until the context ends; its error is then the last that is yielded. Stored
	// events come in the order of the log, each once. The session need not exist yet.
	Follow(ctx context.Context, key Key, after string) iter.Seq2[Entry, error]
}

// Entry is what a follower of a session gets. The event must not be changed: other followers may have it too.
type Entry struct {
	// ID is the text of a [Position]. Given to Follow, it continues after this entry.
	// A server sends it as the id of a server-sent event, so that it comes back as
	// Last-Event-ID (WHATWG HTML, section 9.2).
	ID    string
	Event *event.Event
}

// Position is a place in what followers of a session see. The stored event of
// position Seq is at {Seq, 0}. The partial events that were published after it,
// before the next one was stored, are at {Seq, 1} and so on.
type Position struct{ Seq, Part int64 }

// String returns the form of ids, such as 12-0.
func (p Position) String() string {
	b := make([]byte, 0, 24)
	b = append(strconv.AppendInt(b, p.Seq, 10), '-')
	return string(strconv.AppendInt(b, p.Part, 10))
}

// Compare is negative if a position comes before another one, and positive behind it.
func (p Position) Compare(o Position) int {
	return cmp.Or(cmp.Compare(p.Seq, o.Seq), cmp.Compare(p.Part, o.Part))
}

// ParsePosition reads an entry's id; "" is the beginning, and a number alone the
// stored event of that position. The error is [agent.ErrBadInput].
func ParsePosition(id string) (p Position, err error) {
	if id == "" {
		return p, nil
	}
	seq, part, both := strings.Cut(id, "-")
	if p.Seq, err = number(seq); err == nil && both {
		p.Part, err = number(part)
	}
	if err != nil {
		return Position{}, fmt.Errorf("%.40q is no position in a session, such as 12-0: %w", id, agent.ErrBadInput)
	}
	return p, nil
}

func number(s string) (int64, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	return int64(n), err
}
