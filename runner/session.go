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

// turnSession is the session of one turn: its state in memory, the events that the turn has stored, and the lease. It
// implements agent.Session for the agents of the turn. Its methods are safe for concurrent use.
type turnSession struct {
	r      *setup
	ctx    context.Context // of the turn
	cancel context.CancelCauseFunc
	key    session.Key

	lease    session.Lease
	unleased bool // the first write acquires the lease

	mu           lock // guards the following fields
	cached       *cachedSession
	log          []*event.Event   // the events that this turn has stored
	read         []*event.Event   // the events before them that the turn has read, if any
	shared       map[string]any   // state of user and app, nil until it is read
	saved        map[string]int64 // the sizes of files that agents of this turn have saved, by digest
	onRead       func()           // in an anticipation: called when an agent has read all stored events; otherwise nil
	lastTransfer *event.Transfer  // in an anticipation: the last transfer of the stored events
	unstored     unstored
	confirmed    time.Time // the start of the last write by which the store confirmed the lease
	stop         int64     // the position of the last request to stop that a write has returned
	lost         bool      // the store refused a write: the lease was lost, or the log differs from the cached session
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
	if turns.LastTransfer = t.fold().Conversation.Handed; t.onRead != nil {
		turns.LastTransfer = t.lastTransfer
	}
	return turns
}

// Events implements agent.Session. The events of this turn come from memory, earlier ones from the store.
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
		if t.onRead != nil && after <= first {
			t.onRead()
		}
		for _, e := range log[max(0, len(log)-int(seq-after)):] {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// earlier yields the events after one position up to another. It reads from the store, except for the events in read,
// and keeps at most maxTail events in t.read for other agents. It reports whether the caller wants more events.
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
			if until-after <= int64(maxTail-len(read)) {
				earlier = append(earlier, e)
			}
		}
		t.mu.Lock()
		if len(earlier) > 0 && len(t.read) == len(read) { // otherwise another goroutine has read them meanwhile
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
			_ = t.outage(err) // ends the turn: an agent cannot continue without its state
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

// restoreMemo creates a memo, with the contents that the session's snapshot has for it.
func (t *turnSession) restoreMemo(create func() any) any {
	value := create() // without mu, because it may call methods of the session
	v, ok := value.(snapshotMemo)
	if !ok {
		return value
	}
	t.mu.Lock()
	data, end := t.cached.stored[v.SnapshotName()], t.fold().Seq
	delete(t.cached.stored, v.SnapshotName())
	t.mu.Unlock()
	if data != nil && (json.Unmarshal(data, v) != nil || v.Seq() > end) { // the value may be half decoded
		return create()
	}
	return value
}

// forget drops the memos of the session: after a panic one may be in the middle of a change.
func (t *turnSession) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cached.memos, t.cached.stored = nil, nil
}

// recoverMemos recovers from a panic of a memo: it drops the memos and logs the panic. It must be deferred.
func (t *turnSession) recoverMemos(what string) {
	if p := recover(); p != nil {
		t.forget()
		t.r.logger.Error(what, "session", t.key.String(), "panic", p, "stack", string(debug.Stack()))
	}
}

// warmViews applies the turn's last events to the view of the active agent, so that the next turn need not read them
// from the store. The views of agents that have transferred are left, because these agents may not be asked again soon.
func (t *turnSession) warmViews() {
	defer t.recoverMemos("a view panicked") // in a function of a view policy
	t.mu.Lock()                             // a tool that ignores the end of its context may still use a memo
	first, used := t.fold().Seq-int64(len(t.log)), t.cached.memos.markUnused()
	t.mu.Unlock()
	events := t.Events(t.ctx, first) // from memory, so without errors
	for _, value := range used {
		v, ok := value.(interface {
			Seq() int64
			CatchUp(iter.Seq2[*event.Event, error]) error
		})
		if ok && v.Seq() >= first {
			_ = v.CatchUp(events)
		}
	}
}

// outage cancels the turn after a failure of the store, and returns the error as [session.ErrUnavailable]. So no agent,
// tool or fallback reacts to the failure, the log does not contain it, and a resumed turn continues at the end of the
// log. If the store refused the request, or another process has the session, outage only returns the error.
func (t *turnSession) outage(err error) error {
	if t.unleased || errors.Is(err, agent.ErrConflict) || errors.Is(err, agent.ErrBadInput) || errors.Is(err, agent.ErrSessionBusy) {
		return err
	}
	err = session.Unavailable(err)
	t.cancel(err)
	return err
}

// lock is the mutex of a turnSession. After the turn has returned the cached session, a tool that still runs gets an
// empty session.
type lock struct {
	sync.Mutex
	left *turnSession // the turnSession after it has returned the cached session, nil before
}

func (l *lock) Lock() {
	if l.Mutex.Lock(); l.left != nil && l.left.cached == nil {
		l.left.cached = &cachedSession{key: l.left.key}
	}
}

// runOf returns the last run of a scope.
func (t *turnSession) runOf(scope string) session.Run {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.fold().Scope(scope).Run
}

// runAndTurn returns the last run of a scope, and the turn.
func (t *turnSession) runAndTurn(scope string) (session.Run, session.Turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.fold().Scope(scope).Run, t.fold().Turn
}

// hasLease reports false if another process may have the lease, because the store has refused a write or has not
// confirmed the lease for session.LeaseTTL. The caller holds mu.
func (t *turnSession) hasLease() bool {
	return !t.lost && time.Since(t.confirmed) < session.LeaseTTL
}

// readFold implements holder. It reports false after the turn has returned the cached session, and if another process
// may have the lease.
func (t *turnSession) readFold(read func(*session.Fold) error) (ok bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.left != nil || !t.hasLease() {
		return false, nil
	}
	return true, read(t.fold())
}

// encodeSnapshot returns a snapshot of the session, or "" if a memo cannot be encoded.
func (t *turnSession) encodeSnapshot() (data string) {
	defer t.recoverMemos("a snapshot panicked") // in a memo of an agent
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.cached
	w.snapshot = snapshotMark{seq: w.fold.Seq} // even after an error the next attempt comes only after more events
	data, err := w.snapshotData()
	if err != nil {
		t.r.logger.Warn("a session cannot be stored as a snapshot", "session", t.key.String(), "error", err)
		return ""
	}
	w.snapshot.size = len(data)
	return data
}

// closer returns a closer for the session. The caller holds mu while it uses the closer.
func (t *turnSession) closer() closer { return closer{t.fold(), t.lease, &t.unstored} }

// scopeSession is the agent.Session of an inner scope: it begins at the first event of the scope, and its memos end
// with the scope. So a call of an agent costs the same in a long conversation, and leaves nothing in memory.
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
