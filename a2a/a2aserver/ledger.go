package a2aserver

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// mark contains what a list needs to filter and sort a task.
type mark struct {
	id    sdk.TaskID
	state sdk.TaskState
	at    time.Time // when the state changed
}

func (m mark) compare(o mark) int { // newest first
	return cmp.Or(o.at.Compare(m.at), cmp.Compare(o.id, m.id))
}

// ledgers caches the marks of recently listed sessions, so that a list reads only new events.
type ledgers struct {
	mu   sync.Mutex
	byID map[session.Key]*ledger
}

// maxLedgers is the largest number of sessions whose marks are kept.
const maxLedgers = 4096

// ledger contains the marks of one session's tasks, up to the last event that was read.
type ledger struct {
	mu          sync.Mutex
	head        session.Head // the last event that was read
	incarnation int64        // of the session; 0 if unknown
	marks       []mark
	open        *projection // the last task
	errorLogged bool        // an error about this session was logged
}

// since returns the end of a session's log, the marks of the tasks that began after a position, and the mark of the
// task before them. If the position is negative, it returns only the mark of the last task.
func (s *served) since(ctx context.Context, key session.Key, position int64) (end int64, marks []mark, err error) {
	err = s.withLedger(ctx, session.Info{Key: key}, func(l *ledger) {
		end = l.head.Seq
		first := len(l.marks) - 1
		for first > 0 && position >= 0 && startOf(l.marks[first].id) > position {
			first--
		}
		marks = slices.Clone(l.marks[max(0, first):])
	})
	return end, marks, err
}

// withLedger calls show with the ledger of a session, which is only valid until show returns. It does not read the log
// if info shows that the session has not changed. An info that contains only the key always causes a read.
func (s *served) withLedger(ctx context.Context, info session.Info, show func(*ledger)) error {
	l := s.ledgers.of(info.Key)
	l.mu.Lock()
	defer l.mu.Unlock()
	if info.Incarnation == 0 || info.Incarnation != l.incarnation || info.Seq != l.head.Seq || info.LastID != "" && info.LastID != l.head.ID {
		if err := l.update(ctx, s.store, info); err != nil {
			return err
		}
	}
	show(l)
	return nil
}

// withLedgerForList is withLedger for lists. If a session cannot be read, it has no tasks in the list, and this is
// logged once. It does not log the error itself, because it may contain content of the log.
func (s *served) withLedgerForList(ctx context.Context, info session.Info, show func(*ledger)) error {
	err := s.withLedger(ctx, info, show)
	if err == nil || ctx.Err() != nil {
		return err
	}
	l := s.ledgers.of(info.Key)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.errorLogged {
		l.errorLogged = true
		s.logger.Error("cannot read a session; lists omit its tasks", "session", info.Key.String(), "readable", l.head.Seq)
	}
	return nil
}

// of returns the ledger of a session, and adds it if it is missing.
func (s *ledgers) of(key session.Key) *ledger {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.byID[key]
	if l == nil {
		if len(s.byID) >= maxLedgers {
			for k := range s.byID { // any of them, because it can be read again
				delete(s.byID, k)
				break
			}
		}
		l = &ledger{}
		s.byID[key] = l
	}
	return l
}

// update reads the new events of the log, or the whole log if the session was deleted or the database restored.
func (l *ledger) update(ctx context.Context, store session.Store, info session.Info) error {
	err := l.read(ctx, store, info.Key)
	if errors.Is(err, agent.ErrConflict) {
		l.head, l.marks, l.open = session.Head{}, nil, nil
		err = l.read(ctx, store, info.Key)
	}
	if err == nil {
		l.incarnation, l.errorLogged = info.Incarnation, false
	}
	return err
}

func (l *ledger) read(ctx context.Context, store session.Store, key session.Key) error {
	for e, err := range session.Since(ctx, store, key, l.head) {
		if err != nil {
			return err
		}
		l.apply(key, e)
	}
	return nil
}

func (l *ledger) apply(key session.Key, e *event.Event) {
	l.head = session.HeadOf(e)
	if l.open != nil {
		l.open.apply(e)
		l.marks[len(l.marks)-1] = markOf(l.open)
	}
	if _, ok := e.Data.(*event.User); ok && (l.open == nil || l.open.superseded) {
		l.open = newProjection(key, e)
		l.open.outline = true
		l.open.apply(e)
		l.marks = append(l.marks, markOf(l.open))
	}
}

func markOf(p *projection) mark {
	return mark{p.task.ID, p.task.Status.State, *p.task.Status.Timestamp}
}
