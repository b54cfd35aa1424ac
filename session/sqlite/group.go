package sqlite

import (
	"context"
	"errors"
	"slices"
	"sync"

	codes "modernc.org/sqlite/lib"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/session"
)

// Appends that come while somebody writes wait in a queue, and whoever of them is
// the next to write stores all of them, in one transaction. So one fsync serves
// as many sessions as wait for it, and a slow disk slows a turn down, but not
// every turn of a busy program after the other. Who is alone waits for nobody.

// appending is an append that waits to be stored.
type appending struct {
	key     session.Key
	seq     int64 // the expected position
	lease   session.Lease
	lines   []string // the events
	changes []stateChange

	done chan struct{} // closed when err is set
	err  error
}

// end says how an append went, to its own goroutine.
func (a *appending) end(err error) {
	a.err = err
	close(a.done)
}

// queue is the appends that wait, oldest first.
type queue struct {
	mu      sync.Mutex
	waiting []*appending
}

func (q *queue) add(a *appending) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, a)
}

func (q *queue) takeAll() []*appending {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.waiting
	q.waiting = nil
	return all
}

// remove reports whether the append was still waiting.
func (q *queue) remove(a *appending) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, a)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	return i >= 0
}

// group stores an append, with those that wait beside it or as one of them.
func (s *Store) group(ctx context.Context, a *appending) error {
	s.queue.add(a)
	select {
	case <-s.turn:
		s.lead(ctx, a)
		s.turn <- struct{}{}
	case <-a.done:
	case <-s.closed:
		s.leave(a, errClosed)
	case <-ctx.Done():
		s.leave(a, ctx.Err())
	}
	<-a.done
	return a.err
}

// leave ends an append that nobody has begun to store.
func (s *Store) leave(a *appending, err error) {
	if s.queue.remove(a) {
		a.end(err)
	}
}

// lead stores all that wait when it can write, a among them; the turn is a's. The
// queue is emptied only then, so that until then each may leave it.
func (s *Store) lead(ctx context.Context, a *appending) {
	select {
	case <-a.done: // the turn before has stored it
		return
	default:
	}
	if err := s.whileBusy(ctx, s.begin); err != nil {
		s.leave(a, err)
		return
	}
	s.storeAll(s.queue.takeAll())
}

func (s *Store) begin() error {
	_, err := s.log.begin.ExecContext(context.Background())
	return err
}

// storeAll stores appends in the transaction that is open. If one of them cannot
// be stored, that must not be the others' loss: each gets a transaction of its
// own. But what the disk did to one it did to all: after an fsync that failed,
// another one proves nothing of what was written before it.
func (s *Store) storeAll(all []*appending) {
	errs, failed := s.transact(all)
	for i, a := range all {
		switch {
		case failed == nil:
			a.end(errs[i])
		case len(all) == 1 && !isBusy(failed), code(failed) == codes.SQLITE_IOERR:
			a.end(failed)
		default:
			a.end(s.whileBusy(context.Background(), func() error {
				if err := s.begin(); err != nil {
					return err
				}
				errs, failed := s.transact([]*appending{a})
				if failed == nil {
					failed = errs[0]
				}
				return failed
			}))
		}
	}
}

// transact makes the changes of appends and commits them. The errors of single
// ones are conflicts, which change nothing; any other error is that of all, and
// nothing is stored then.
func (s *Store) transact(all []*appending) (errs []error, failed error) {
	ctx := context.Background()
	errs = make([]error, len(all))
	for i, a := range all {
		if err := s.append(a); errors.Is(err, agent.ErrConflict) {
			errs[i] = err
		} else if err != nil {
			failed = err
			break
		}
	}
	if failed == nil {
		_, failed = s.log.commit.ExecContext(ctx)
	}
	if failed != nil {
		_, _ = s.log.rollback.ExecContext(ctx) // fails if SQLite has done so itself
	}
	return errs, failed
}
