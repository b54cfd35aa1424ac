package live

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// ErrMismatch says that a request has the name of an earlier one that asked for something else.
var ErrMismatch = errors.New("another request had this name")

// Request holds what a client asks for in addition to the message.
type Request struct {
	// ID is the client's name for the request, so that one that is sent twice is done once; ""
	// is none. It is kept with the words in the log.
	ID string
	// Sum stands for what must be the same in a repetition besides words and metadata.
	Sum string
	// At is where the log must end; nil is anywhere.
	At *int64
	// Wait is how long to wait for a session that is busy; 0 is not at all.
	Wait time.Duration
	// Metadata is kept with the words; see [Reserved].
	Metadata map[string]any
	Options  []runner.TurnOption
}

// requestKey is where the metadata of a user event has the request that began the turn.
const requestKey = "arbor.request"

// lookBack is the number of recent turns searched for a duplicate request.
const lookBack = 64

// Reserved reports whether clients may not write a key of metadata.
func Reserved(key string) bool { return strings.HasPrefix(key, "arbor.") }

// RequestID returns the client's name for the request that began a turn, by the words that began
// it; "" if there was none.
func RequestID(d *event.User) string {
	if d == nil {
		return ""
	}
	request, _ := d.Metadata[requestKey].(map[string]any)
	id, _ := request["id"].(string)
	return id
}

// Begun is a turn that a request has started.
type Begun struct {
	// ID is the turn's, and First the position of its words.
	ID    string
	First int64
	// From is the position in front of what the request has stored.
	From int64
	// Repeated says that the request was sent before. Turn is nil then.
	Repeated bool
	*Turn
}

// BeginOnce is [Turns.Begin] for a request that may be sent twice. If the request started one of the last
// 64 turns before, BeginOnce returns that turn, and resumes it if it was cut off. In addition to the errors
// of Begin it returns [ErrMismatch], or agent.ErrConflict if the log does not end at the position of the
// request.
func (t *Turns) BeginOnce(ctx context.Context, key session.Key, msg llm.Message, r Request) (*Begun, error) {
	name := request{id: r.ID}
	if r.ID != "" {
		words, err := json.Marshal([]any{msg.Content, r.Metadata, r.Sum})
		if err != nil {
			return nil, fmt.Errorf("the message has no JSON form: %w: %w", err, agent.ErrBadInput)
		}
		sum := sha256.Sum256(words)
		name.sum = hex.EncodeToString(sum[:16])
	}
	return t.patiently(ctx, key, r, func() (*Begun, error) { return t.beginOnce(ctx, key, msg, r, name) })
}

func (t *Turns) beginOnce(ctx context.Context, key session.Key, msg llm.Message, r Request, name request) (*Begun, error) {
	opts, metadata, at := r.Options, r.Metadata, r.At
	if r.ID != "" {
		unlock, err := t.Lock(ctx, key, nil)
		if err != nil {
			return nil, err
		}
		defer unlock()
		info, _, err := session.Find(ctx, t.store, key)
		if err != nil {
			return nil, err
		}
		if b, err := t.requested(ctx, key, info, name); b != nil || err != nil {
			return b, err
		}
		if at == nil {
			at = &info.Seq
		}
		if metadata = maps.Clone(metadata); metadata == nil {
			metadata = make(map[string]any, 1)
		}
		metadata[requestKey] = map[string]any{"id": name.id, "sum": name.sum}
	}
	if at != nil {
		opts = append(opts[:len(opts):len(opts)], runner.At(*at))
	}
	if metadata != nil {
		opts = append(opts[:len(opts):len(opts)], runner.WithMetadata(metadata))
	}
	x, err := t.Begin(ctx, key, msg, opts...)
	if err != nil {
		return nil, err
	}
	return &Begun{ID: x.First.TurnID, First: x.First.Seq, From: x.First.Seq - 1, Turn: x}, nil
}

// request is a request that has begun a turn, or a turn that none has.
type request struct {
	id, sum string
	turn    string
	first   int64
}

// requests are those of a session's last turns, the last one last.
type requests struct {
	incarnation int64
	head        session.Head // of the log, as far as it was read
	turns       []request
}

// maxAsked is of how many sessions the requests are remembered. Of others they are read again.
const maxAsked = 1024

// requested finds the turn that a request has begun among the last ones. It is called with the
// session's lock.
func (t *Turns) requested(ctx context.Context, key session.Key, info session.Info, name request) (*Begun, error) {
	asked, err := t.book.requests(ctx, key, info)
	if err != nil {
		return nil, err
	}
	for i, r := range slices.Backward(asked) {
		switch {
		case r.id != name.id:
			continue
		case r.sum != name.sum:
			return nil, ErrMismatch
		case i == len(asked)-1:
			err = t.goOn(ctx, key)
		}
		return &Begun{ID: r.turn, First: r.first, From: r.first - 1, Repeated: true}, err
	}
	return nil, nil
}

// goOn takes up the last turn if it was cut off, or stopped: the client is there again.
func (t *Turns) goOn(ctx context.Context, key session.Key) error {
	if len(t.here(key)) > 0 {
		return nil
	}
	cut := false
	err := t.reader(key).Glance(ctx, key, func(f *session.Fold) error {
		cut = f.Unfinished()
		return nil
	})
	if !cut {
		return err
	}
	if t.forgetStopped(key) {
		t.TakeUp(key, nil)
	} else {
		t.TakeOver(key)
	}
	return err
}

// book caches the requests that started the last turns of sessions. It reads those that it does not have from the log.
type book struct {
	store Store
	mu    sync.Mutex
	asked map[session.Key]*requests
}

// requests reads what has begun the last turns of a session: what is new since the last time, or
// of a session that is not remembered, or whose log has changed since, from the end of the log.
func (b *book) requests(ctx context.Context, key session.Key, info session.Info) ([]request, error) {
	b.mu.Lock()
	known := b.asked[key]
	b.mu.Unlock()
	err := error(agent.ErrConflict)
	if known != nil && known.incarnation == info.Incarnation {
		if known.head == info.State().Head {
			return known.turns, nil
		}
		known, err = b.newer(ctx, key, *known, info.Seq)
	}
	if errors.Is(err, agent.ErrConflict) {
		known, err = b.latest(ctx, key, info)
	}
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.asked[key] == nil && len(b.asked) >= maxAsked {
		for other := range b.asked {
			delete(b.asked, other)
			break
		}
	}
	b.asked[key] = known
	return known.turns, nil
}

// newer adds the requests up to a position to those that are known. The error is agent.ErrConflict if the log no longer has what was read.
func (b *book) newer(ctx context.Context, key session.Key, known requests, end int64) (*requests, error) {
	for e, err := range session.Since(ctx, b.store, key, known.head) {
		if err != nil {
			return nil, err
		}
		if e.Seq > end {
			break
		}
		if known.head = session.HeadOf(e); isRequest(e) {
			known.turns = append(known.turns, requestOf(e))
		}
	}
	known.turns = slices.Delete(known.turns, 0, max(0, len(known.turns)-lookBack))
	return &known, nil
}

// latest reads the requests of a session's last turns.
func (b *book) latest(ctx context.Context, key session.Key, info session.Info) (*requests, error) {
	known := &requests{incarnation: info.Incarnation}
	for e, err := range session.Backward(ctx, b.store, key, info.Seq+1) {
		if err != nil {
			return nil, err
		}
		if known.head.Seq == 0 {
			known.head = session.HeadOf(e)
		}
		if !isRequest(e) {
			continue
		}
		if known.turns = append(known.turns, requestOf(e)); len(known.turns) == lookBack {
			break
		}
	}
	slices.Reverse(known.turns)
	return known, nil
}

// isRequest reports whether an event begins a turn.
func isRequest(e *event.Event) bool { return e.Type() == event.TypeUser }

// requestOf reads the request that an event begins a turn with.
func requestOf(e *event.Event) request {
	r := request{turn: e.TurnID, first: e.Seq}
	user, _ := e.Data.(*event.User)
	if name, ok := user.Metadata[requestKey].(map[string]any); ok {
		r.id, _ = name["id"].(string)
		r.sum, _ = name["sum"].(string)
	}
	return r
}
