package runner

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// turnSession is the session as one turn has it: what is known of it, what the turn has stored, and the lease.
// Agents see it as their agent.Session. Tools that run in parallel, and agents inside them, may call
// its methods at once.
type turnSession struct {
	r      *setup
	ctx    context.Context // of the turn
	cancel context.CancelCauseFunc
	key    session.Key

	lease    session.Lease
	unleased bool // the first write takes the lease

	mu     lock // guards what follows
	cached *cachedSession
	log    []*event.Event   // what this turn has stored
	read   []*event.Event   // what comes before it, as far as it was just read
	shared map[string]any   // state of user and app, nil until it is read
	saved  map[string]int64 // the sizes of files that agents of this turn have saved, by digest
	passed func()           // of an imagined session: called when an agent has read all that is stored; nil
	shown  shownBlocks
	held   time.Time // when the store was last asked and said that the turn has the lease
	lost   bool      // a write was refused: the lease was lost, or the log is not what the cached session says
}

// fold returns the fold of the log, for a caller that holds mu.
func (t *turnSession) fold() *session.Fold { return &t.cached.fold }

// Key implements agent.Session.
func (t *turnSession) Key() session.Key { return t.key }

// Seq implements agent.Session.
func (t *turnSession) Seq() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.fold().Seq
}

// Turns implements agent.Session.
func (t *turnSession) Turns() agent.Turns {
	t.mu.Lock()
	defer t.mu.Unlock()
	turns := t.fold().Turns
	turns.LastTransfer = t.fold().Conversation.Handed
	return turns
}

// Events implements agent.Session. The events of this turn are in memory,
// earlier ones come from the store.
func (t *turnSession) Events(ctx context.Context, after int64) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		t.mu.Lock()
		log, read, seq := t.log, t.read, t.fold().Seq
		t.mu.Unlock()
		if after >= seq {
			return
		}
		first := seq - int64(len(log))
		if after < first && !t.earlier(ctx, after, first, read, yield) {
			return
		}
		if t.passed != nil && after <= first {
			t.passed()
		}
		for _, e := range log[max(0, len(log)-int(seq-after)):] {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// earlier yields the events between two positions, the second included, from the store, but for those
// that were just read. It reports whether to go on. The last of them are kept until the end of the turn, because several agents
// may want them.
func (t *turnSession) earlier(ctx context.Context, after, until int64, read []*event.Event, yield func(*event.Event, error) bool) bool {
	until -= int64(len(read))
	if after < until {
		var earlier []*event.Event
		for e, err := range t.r.store.Load(ctx, t.key, after) {
			if err == nil && e.Seq > until {
				break
			}
			if err != nil && ctx.Err() == nil {
				err = t.outage(err)
			}
			if !yield(e, err) || err != nil {
				return false
			}
			if until-after <= int64(longTail-len(read)) {
				earlier = append(earlier, e)
			}
		}
		t.mu.Lock()
		if len(earlier) > 0 && len(t.read) == len(read) { // else others did so meanwhile
			t.read = append(earlier, t.read...)
		}
		t.mu.Unlock()
		after = until
	}
	for _, e := range read[after-until:] {
		if !yield(e, nil) {
			return false
		}
	}
	return true
}

// State implements agent.Session.
func (t *turnSession) State(key string) (any, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !strings.HasPrefix(key, "user:") && !strings.HasPrefix(key, "app:") {
		return t.fold().State(key)
	}
	if t.shared == nil {
		shared, err := t.r.store.SharedState(t.ctx, t.key)
		if err != nil {
			_ = t.outage(err) // which ends the turn: an agent cannot continue without its state
			t.r.logger.Error("the state of user and app cannot be read", "session", t.key.String(), "error", err)
			return nil, false
		}
		t.shared = shared
	}
	v, ok := t.shared[key]
	return v, ok
}

// Memo implements agent.Session.
func (t *turnSession) Memo(key any, create func() any) any {
	t.mu.Lock()
	v, ok := t.cached.memos.get(key)
	t.mu.Unlock()
	if ok {
		return v
	}
	v = t.restoreMemo(create)
	t.mu.Lock()
	defer t.mu.Unlock()
	if other, ok := t.cached.memos.get(key); ok {
		return other
	}
	t.cached.memos.put(key, v)
	return v
}

// updateState applies a stored event to the shared state in memory.
func (t *turnSession) updateState(e *event.Event) {
	if s, ok := e.Data.(*event.State); ok && t.shared != nil {
		for key, value := range s.Delta {
			switch {
			case !strings.HasPrefix(key, "user:") && !strings.HasPrefix(key, "app:"):
			case value == nil:
				delete(t.shared, key)
			default:
				t.shared[key] = value
			}
		}
	}
}

// restoreMemo makes what an agent keeps, as the session's snapshot has it if it can be read.
func (t *turnSession) restoreMemo(create func() any) any {
	value := create() // it may look at the session
	v, ok := value.(named)
	if !ok {
		return value
	}
	t.mu.Lock()
	data, end := t.cached.stored[v.SnapshotName()], t.fold().Seq
	delete(t.cached.stored, v.SnapshotName())
	t.mu.Unlock()
	if data != nil && (json.Unmarshal(data, v) != nil || v.Seq() > end) { // a value that read a part of it cannot be used
		return create()
	}
	return value
}

// forget drops what agents keep next to the session: after a panic it may be half
// done.
func (t *turnSession) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cached.memos, t.cached.stored = nil, nil
}

// recoverMemos ends a panic of what agents keep next to the session. It is deferred.
func (t *turnSession) recoverMemos(what string) {
	if p := recover(); p != nil {
		t.forget()
		t.r.logger.Error(what, "session", t.key.String(), "panic", p, "stack", string(debug.Stack()))
	}
}

// warmViews gives the view of the active agent the turn's last events, which would
// have to be read from the store when the session goes on. Agents that have
// handed over may not be asked again for long: theirs wait until they are.
func (t *turnSession) warmViews() {
	defer t.recoverMemos("a view panicked") // of a policy's own function
	first := t.fold().Seq - int64(len(t.log))
	events := t.Events(t.ctx, first) // from memory: nothing can fail
	for _, m := range t.cached.memos {
		v, ok := m.value.(interface {
			Seq() int64
			CatchUp(iter.Seq2[*event.Event, error]) error
		})
		if ok && m.used && v.Seq() >= first {
			_ = v.CatchUp(events)
		}
	}
	t.cached.memos.unuse()
}

// outage cancels the turn if the store could not do what it was asked for, and returns the error as
// [session.ErrUnavailable]. Then the log has no failure: no agent, tool result or error handler answers for it, and a resumed
// turn continues at the end of the log. It is no outage if the store refuses a request, or if another process has the
// session.
func (t *turnSession) outage(err error) error {
	if t.unleased || errors.Is(err, agent.ErrConflict) || errors.Is(err, agent.ErrBadInput) || errors.Is(err, agent.ErrSessionBusy) {
		return err
	}
	err = session.Unavailable(err)
	t.cancel(err)
	return err
}

// lock guards a turn. A tool that still runs when the turn has left its session finds an empty session.
type lock struct {
	sync.Mutex
	left *turnSession // that has left, nil before
}

func (l *lock) Lock() {
	if l.Mutex.Lock(); l.left != nil && l.left.cached == nil {
		l.left.cached = &cachedSession{key: l.left.key}
	}
}

func (t *turnSession) runOf(scope string) session.Run {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.fold().Scope(scope).Run
}

// glance reports whether the turn knows how its session is: it has not left it, and no other process can have it. A
// lease that the store has not confirmed for as long as it lasts may be another's by now.
func (t *turnSession) glance(look func(*session.Fold) error) (ok bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.left != nil || t.lost || time.Since(t.held) >= session.LeaseTTL {
		return false, nil
	}
	return true, look(t.fold())
}

// takeSnapshot returns what is to be stored, "" if it cannot be.
func (t *turnSession) takeSnapshot() (data string) {
	defer t.recoverMemos("a snapshot panicked") // of an agent's own function
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.cached
	w.kept = keptAt{seq: w.fold.Seq} // it is tried again later, whatever becomes of it
	data, err := w.snapshotData()
	if err != nil {
		t.r.logger.Warn("a session cannot be stored as a snapshot", "session", t.key.String(), "error", err)
		return ""
	}
	w.kept.size = len(data)
	return data
}

// closer makes the events that end what is open. The caller holds mu while it uses it.
func (t *turnSession) closer() closer { return closer{t.fold(), t.lease, t.shown} }

// scopeSession is the session as agents of an inner scope get it: it begins where
// the scope does, and what they keep next to it goes with the scope. So a call of
// an agent costs the same in a long conversation, and leaves nothing behind.
type scopeSession struct {
	*turnSession
	after int64
	memos memos
}

// Events implements agent.Session.
func (s *scopeSession) Events(ctx context.Context, after int64) iter.Seq2[*event.Event, error] {
	return s.turnSession.Events(ctx, max(after, s.after))
}

// Memo implements agent.Session.
func (s *scopeSession) Memo(key any, create func() any) any {
	v, ok := s.memos.get(key)
	if !ok {
		v = create()
		s.memos.put(key, v)
	}
	return v
}
