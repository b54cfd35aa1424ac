package sessionform

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/checkpoint"
)

// MaxID is the maximal length of generated session ids, in bytes.
const MaxID = 200

// ChildID returns the id of a session that is created from another one: the other id, shortened if necessary, with an
// ending of at most 64 bytes.
func ChildID(of, ending string) string {
	for len(of) > MaxID-1-len(ending) {
		_, size := utf8.DecodeLastRuneInString(of)
		of = of[:len(of)-size]
	}
	return strings.TrimSpace(of) + "-" + ending
}

// Ending returns an ending that depends on texts.
func Ending(from ...string) string {
	sum := sha256.Sum256(event.EncodeJSON(from))
	return hex.EncodeToString(sum[:6])
}

// Checkpoint is a position at which a session can be forked.
type Checkpoint struct {
	Seq    int64     `json:"seq"`
	Time   time.Time `json:"time"`
	What   string    `json:"what"` // a short description of the step that ends there
	Active string    `json:"active,omitempty"`
	Events int       `json:"events"` // the number of events of the step
	// Shared reports that it belongs to the session from which this one was forked.
	Shared bool `json:"shared,omitempty"`
}

// History yields the checkpoints of a session, the oldest first. It describes the events that see returns; it omits an
// event if see returns nil.
func History(ctx context.Context, s *checkpoint.Sessions, of session.Info, see func(*event.Event) *event.Event) iter.Seq2[Checkpoint, error] {
	return func(yield func(Checkpoint, error) bool) {
		fold := &session.Fold{}
		for c, err := range s.History(ctx, of.Key) {
			if err != nil {
				yield(Checkpoint{}, err)
				return
			}
			var seen []*event.Event
			for _, e := range c.Events {
				fold.Apply(e)
				if e = see(e); e != nil {
					seen = append(seen, e)
				}
			}
			if !yield(Checkpoint{c.Seq, c.Time.UTC(), render.Step(seen), fold.Active(), len(c.Events), c.Seq <= of.ParentSeq}, nil) {
				return
			}
		}
	}
}

// Diff is the difference of two sessions; see [checkpoint.Diff].
type Diff struct {
	Common int64 `json:"common"`
	Shared int64 `json:"shared"`
	Same   bool  `json:"same"`
	A      Side  `json:"a"`
	B      Side  `json:"b"`
}

// Side is the part of one of two sessions that the other does not have.
type Side struct {
	Moment
	Events []*event.Event `json:"events"`
}

// DiffOf returns a difference in this form.
func DiffOf(d *checkpoint.Diff) Diff {
	side := func(s checkpoint.Side) Side {
		return Side{MomentOf(s.Key, s.Fold), append([]*event.Event{}, s.Events...)}
	}
	return Diff{d.Common, d.Shared, d.Same(), side(d.A), side(d.B)}
}
