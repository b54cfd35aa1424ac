package sessionform

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agentarbor/arbor/checkpoint"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/session"
)

// MaxID bounds the ids that are made for sessions, in bytes.
const MaxID = 200

// ChildID makes the id of a session that is made of another one: the other's, shortened if it must
// be, and an ending of at most 64 bytes.
func ChildID(of, ending string) string {
	for len(of) > MaxID-1-len(ending) {
		_, size := utf8.DecodeLastRuneInString(of)
		of = of[:len(of)-size]
	}
	return strings.TrimSpace(of) + "-" + ending
}

// Ending is one that follows from texts.
func Ending(from ...string) string {
	sum := sha256.Sum256(event.EncodeJSON(from))
	return hex.EncodeToString(sum[:6])
}

// Checkpoint is a position that a session can be forked at.
type Checkpoint struct {
	Seq    int64     `json:"seq"`
	Time   time.Time `json:"time"`
	What   string    `json:"what"` // was done in the step that ends there, in a few words
	Active string    `json:"active,omitempty"`
	Events int       `json:"events"` // of the step
	// Shared says that it is one of the session from which this one was forked.
	Shared bool `json:"shared,omitempty"`
}

// History yields the checkpoints of a session, the oldest first. What was done is told of the events as see returns
// them; nil is left out.
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

// Diff is how two sessions differ; see [checkpoint.Diff].
type Diff struct {
	Common int64 `json:"common"`
	Shared int64 `json:"shared"`
	Same   bool  `json:"same"`
	A      Side  `json:"a"`
	B      Side  `json:"b"`
}

// Side is what one of two sessions has for itself.
type Side struct {
	Moment
	Events []*event.Event `json:"events"`
}

// DiffOf returns a difference in its form.
func DiffOf(d *checkpoint.Diff) Diff {
	side := func(s checkpoint.Side) Side {
		return Side{MomentOf(s.Key, s.Fold), append([]*event.Event{}, s.Events...)}
	}
	return Diff{d.Common, d.Shared, d.Same(), side(d.A), side(d.B)}
}
