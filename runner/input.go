package runner

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// TurnOption says something about one turn.
type TurnOption func(*turnOptions)

type turnOptions struct {
	metadata map[string]any
	at       int64 // the position that the log must have
	pinned   bool  // it must have that one
}

// WithMetadata keeps what belongs to the user's message but is not part of its words
// in the metadata of the user event, such as its language, or the request that it came
// with. No model sees it. It must have a JSON form.
func WithMetadata(metadata map[string]any) TurnOption {
	return func(o *turnOptions) { o.metadata = metadata }
}

// At begins the turn only if the session's log ends at a position, that of the last event
// that was looked at to decide on it; 0 is an empty log. Else nothing is stored, and the
// error is agent.ErrConflict: look again. So of several processes that would begin a turn
// for the same reason, one does.
func At(seq int64) TurnOption {
	return func(o *turnOptions) { o.at, o.pinned = seq, true }
}

// expect refuses a turn that was decided on when the log ended elsewhere.
func (t *turn) expect(o turnOptions) error {
	if o.pinned && t.lease.Seq != o.at {
		return fmt.Errorf("session %s: the log is at %d, not at %d: %w", t.w.key, t.lease.Seq, o.at, agent.ErrConflict)
	}
	return nil
}

// turnOptionsOf checks what a turn is to begin with.
func turnOptionsOf(key session.Key, msg llm.Message, opts []TurnOption) (o turnOptions, err error) {
	if err := checkMessage(key, msg); err != nil {
		return o, err
	}
	return optionsOf(opts)
}

func optionsOf(opts []TurnOption) (o turnOptions, err error) {
	for i, opt := range opts {
		if opt == nil {
			return o, fmt.Errorf("option %d of the turn is nil: %w", i, agent.ErrBadInput)
		}
		opt(&o)
	}
	if o.metadata == nil {
		return o, nil
	}
	data, err := json.Marshal(o.metadata)
	if err != nil {
		return o, fmt.Errorf("the metadata of the message cannot be stored: %w: %w", err, agent.ErrBadInput)
	}
	if event.TooDeep(data) {
		return o, fmt.Errorf("the metadata of the message cannot be stored: it is nested deeper than %d levels: %w", event.MaxDepth, agent.ErrBadInput)
	}
	o.metadata = nil // as it comes back from its JSON form, and nobody else's to change
	if err := json.Unmarshal(data, &o.metadata); err != nil {
		return o, fmt.Errorf("the metadata of the message cannot be stored: %w: %w", err, agent.ErrBadInput)
	}
	return o, nil
}

// checkMessage refuses what no model could be given word for word.
func checkMessage(key session.Key, msg llm.Message) error {
	if err := session.CheckKey(key); err != nil {
		return err
	}
	if err := llm.CheckUser(msg); err != nil {
		return fmt.Errorf("%w: %w", err, agent.ErrBadInput)
	}
	return nil
}

const idLetters = "0123456789abcdefghjkmnpqrstvwxyz"

// idPool makes random ids, several at a time, because a turn needs many. It is
// safe for concurrent use.
type idPool struct {
	mu   sync.Mutex
	rest string
}

const idLen = 12 // 60 random bits

func (p *idPool) next() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rest == "" {
		var b [8 * idLen]byte
		for i := 0; i < len(b); i += idLen {
			n := rand.Uint64()
			for j := range idLen {
				b[i+j] = idLetters[n&31]
				n >>= 5
			}
		}
		p.rest = string(b[:])
	}
	id := p.rest[:idLen]
	p.rest = p.rest[idLen:]
	return id
}

// usableID reports whether an endpoint's call id can stand in a log and go back
// on the wire.
func usableID(id string) bool {
	if id == "" || len(id) > 64 {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return true
}
