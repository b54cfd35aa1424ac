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

// ErrMismatch reports that an earlier request had the same ID but asked for something else.
var ErrMismatch = errors.New("another request with different content had this id: use a new id")

// Request contains what a client sends in addition to the message. The zero value is a request without an ID, which
// is never recognized as repeated.
type Request struct {
	// ID is the client's id for the request. A request that is sent twice with the same ID is executed once. "" is no
	// ID. The log stores it with the message.
	ID string
	// Sum represents everything else that must be equal in a repeated request, in addition to the message and the
	// metadata.
	Sum string
	// At is the position at which the log must end. nil is any position.
	At *int64
	// Wait is how long to wait for a busy session. 0 only waits for a process that releases the session after a turn, for
	// up to 10 s.
	Wait time.Duration
	// Metadata is stored with the message; see [Reserved].
	Metadata map[string]any
	Options  []runner.TurnOption
}

// requestKey is the metadata key of a user event for the request that started the turn.
const requestKey = "arbor.request"

// lookBack is the number of recent turns searched for a duplicate request.
const lookBack = 64

// Reserved reports whether a metadata key is reserved, so that clients may not set it.
func Reserved(key string) bool { return strings.HasPrefix(key, "arbor.") }

// RequestID returns the ID of the request that started a turn, or "" if it had none. d is the user event of the turn;
// it may be nil.
func RequestID(d *event.User) string {
	if d == nil {
		return ""
	}
	request, _ := d.Metadata[requestKey].(map[string]any)
	id, _ := request["id"].(string)
	return id
}

// Begun is a turn that a request started. Turn is nil if Repeated is true.
type Begun struct {
	// ID is the id of the turn, and First the position of the message that started it.
	ID    string
	First int64
	// From is the position before the first event that the request stored.
	From int64
	// Repeated reports that the request was sent before.
	Repeated bool
	*Turn
}

// BeginOnce is [Turns.Begin] for a request that may be sent twice. If the request started one of the last 64 turns,
// BeginOnce returns that turn, and resumes it if it is the last one and was interrupted. In addition to the errors of
// Begin it returns [ErrMismatch], or agent.ErrConflict if the log does not end at the position At of the request.
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
	return t.retryBusy(ctx, key, r, func(refused error) (*Begun, error) { return t.beginOnce(ctx, key, msg, r, name, refused) })
}

func (t *Turns) beginOnce(ctx context.Context, key session.Key, msg llm.Message, r Request, name request, refused error) (*Begun, error) {
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
		if refused != nil {
			return nil, refused
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

// request is the request that started a turn. id is "" if the turn had none.
type request struct {
	id, sum string
	turn    string
	first   int64
}

// requests are the requests of a session's last turns, oldest first.
type requests struct {
	incarnation int64
	head        session.Head // the last event that was read
	turns       []request
}

// maxCached is the number of sessions whose requests are cached.
const maxCached = 1024

// requested finds the turn that a request started among the last ones. The caller holds the session's lock.
func (t *Turns) requested(ctx context.Context, key session.Key, info session.Info, name request) (*Begun, error) {
	asked, err := t.requestCache.requests(ctx, key, info)
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
			err = t.ResumeInterrupted(ctx, key)
		}
		return &Begun{ID: r.turn, First: r.first, From: r.first - 1, Repeated: true}, err
	}
	return nil, nil
}

// ResumeInterrupted resumes the last turn in the background if it was interrupted or stopped, because its client
// has returned, and these Turns may adopt it: see [WithAdoption]. If its process died, the turn is adopted: see
// [Turns.Adopt]. ResumeInterrupted does nothing if a process runs the turn. The error says why the session cannot be
// read.
func (t *Turns) ResumeInterrupted(ctx context.Context, key session.Key) error {
	if len(t.runningTurns(key)) > 0 {
		return nil
	}
	cut, stopped, ours, err := t.interrupted(ctx, key)
	switch {
	case err != nil || !cut || !ours:
	case stopped:
		t.ResumeInBackground(key, nil)
	default:
		t.Adopt(key)
	}
	return err
}

// requestCache caches the requests that started the last turns of sessions. It reads missing ones from the log.
type requestCache struct {
	store Store
	mu    sync.Mutex
	asked map[session.Key]*requests
}

// requests returns the requests of a session's last turns. If it has cached some, it reads only newer events. If the
// session is not cached, or its log is another one, it reads back from the end of the log.
func (b *requestCache) requests(ctx context.Context, key session.Key, info session.Info) ([]request, error) {
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
	if b.asked[key] == nil && len(b.asked) >= maxCached {
		for other := range b.asked {
			delete(b.asked, other)
			break
		}
	}
	b.asked[key] = known
	return known.turns, nil
}

// newer adds the requests up to a position to the cached ones. If the log no longer has the last event that was read,
// the error is agent.ErrConflict.
func (b *requestCache) newer(ctx context.Context, key session.Key, known requests, end int64) (*requests, error) {
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

// latest reads the requests of a session's last turns from the end of the log.
func (b *requestCache) latest(ctx context.Context, key session.Key, info session.Info) (*requests, error) {
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

// isRequest reports whether an event starts a turn.
func isRequest(e *event.Event) bool { return e.Type() == event.TypeUser }

// requestOf returns the request that started a turn.
func requestOf(e *event.Event) request {
	r := request{turn: e.TurnID, first: e.Seq}
	user, _ := e.Data.(*event.User)
	if name, ok := user.Metadata[requestKey].(map[string]any); ok {
		r.id, _ = name["id"].(string)
		r.sum, _ = name["sum"].(string)
	}
	return r
}
