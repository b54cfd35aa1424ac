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

// mark is what a list must know of a task: enough to filter and to sort it.
type mark struct {
	id    sdk.TaskID
	state sdk.TaskState
	at    time.Time // of the state
}

func (m mark) compare(o mark) int { // newest first
	return cmp.Or(o.at.Compare(m.at), cmp.Compare(o.id, m.id))
}

// ledgers keeps the marks of sessions that were listed lately, so that a list reads
// only what is new in them.
type ledgers struct {
	mu   sync.Mutex
	byID map[session.Key]*ledger
}

// maxLedgers bounds the sessions whose marks are kept.
const maxLedgers = 4096

// ledger is the marks of one session's tasks, as far as its log was read.
type ledger struct {
	mu          sync.Mutex
	head        session.Head // of the log, as far as it was read
	incarnation int64        // of the session, 0 if nobody has said
	marks       []mark
	open        *projection // of the last task
	told        bool        // that the session cannot be read
}

// lately returns the marks of a session's last n tasks, the oldest first.
func (s *served) lately(ctx context.Context, key session.Key, n int) (last []mark, err error) {
	err = s.look(ctx, session.Info{Key: key}, func(l *ledger) { last = slices.Clone(l.marks[max(0, len(l.marks)-n):]) })
	return last, err
}

// since returns where a session's log ends, and the marks of the tasks that began behind a
// position of it or were the last one there; with a negative position, of the last task.
func (s *served) since(ctx context.Context, key session.Key, position int64) (end int64, marks []mark, err error) {
	err = s.look(ctx, session.Info{Key: key}, func(l *ledger) {
		end = l.head.Seq
		first := len(l.marks) - 1
		for first > 0 && position >= 0 && startOf(l.marks[first].id) > position {
			first--
		}
		marks = slices.Clone(l.marks[max(0, first):])
	})
	return end, marks, err
}

// look shows what is known of a session. It changes when show has returned. Nothing is read of a session that is, as its info says, as it was last time;
// an info with the key alone says nothing.
func (s *served) look(ctx context.Context, info session.Info, show func(*ledger)) error {
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

// glance is look for lists: a session that cannot be read has no tasks there, which is
// logged once. Its log may hold anything, and is not quoted.
func (s *served) glance(ctx context.Context, info session.Info, show func(*ledger)) error {
	err := s.look(ctx, info, show)
	if err == nil || ctx.Err() != nil {
		return err
	}
	l := s.ledgers.of(info.Key)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.told {
		l.told = true
		s.logger.Error("a session cannot be read: its tasks are left out of lists", "session", info.Key.String(), "readable", l.head.Seq)
	}
	return nil
}

// of returns what is known of a session.
func (s *ledgers) of(key session.Key) *ledger {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.byID[key]
	if l == nil {
		if len(s.byID) >= maxLedgers {
			for k := range s.byID { // any: it can be read again
				delete(s.byID, k)
				break
			}
		}
		l = &ledger{}
		s.byID[key] = l
	}
	return l
}

// update reads what is new in the log, or all of it if the session was deleted or the database restored.
func (l *ledger) update(ctx context.Context, store session.Store, info session.Info) error {
	err := l.read(ctx, store, info.Key)
	if errors.Is(err, agent.ErrConflict) {
		l.head, l.marks, l.open = session.Head{}, nil, nil
		err = l.read(ctx, store, info.Key)
	}
	if err == nil {
		l.incarnation, l.told = info.Incarnation, false
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
	if _, ok := e.Data.(*event.User); ok && (l.open == nil || l.open.over) {
		l.open = newProjection(key, e)
		l.open.outline = true
		l.open.apply(e)
		l.marks = append(l.marks, markOf(l.open))
	}
}

func markOf(p *projection) mark {
	return mark{p.task.ID, p.task.Status.State, *p.task.Status.Timestamp}
}
