package sqlite

import (
	"context"
	"errors"
	"slices"
	"sync"

	codes "modernc.org/sqlite/lib"

	"github.com/agentarbor/arbor/agent"
)

// Writes that arrive during another write wait in a queue. The next writer makes the changes of all
// of them in one transaction. So one fsync serves all sessions that wait for it, and a slow disk
// delays the turns of a busy program together and not one after the other. A lone writer does not wait.

// pendingWrite is a change that waits for its transaction.
type pendingWrite struct {
	// change makes the change in the open transaction of a connection, If isRefusal is true for its error, it has changed
	// nothing.
	change  func(*writer) error
	durable bool // the change waits for an fsync

	done chan struct{} // closed when err is set
	err  error
}

// isRefusal reports whether an error concerns only one change, and not its transaction.
func isRefusal(err error) bool {
	return errors.Is(err, agent.ErrConflict) || errors.Is(err, agent.ErrSessionBusy)
}

// end returns the result of a change to the goroutine that waits for it.
func (w *pendingWrite) end(err error) {
	w.err = err
	close(w.done)
}

// queue contains the changes that wait, oldest first.
type queue struct {
	mu      sync.Mutex
	waiting []*pendingWrite
}

func (q *queue) add(w *pendingWrite) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, w)
}

// durable reports whether one of the waiting changes needs an fsync.
func (q *queue) durable() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.ContainsFunc(q.waiting, func(w *pendingWrite) bool { return w.durable })
}

// take removes and returns all waiting changes, or only those that need no fsync.
func (q *queue) take(durable bool) (all []*pendingWrite) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if durable {
		all, q.waiting = q.waiting, nil
		return all
	}
	q.waiting = slices.DeleteFunc(q.waiting, func(w *pendingWrite) bool {
		if !w.durable {
			all = append(all, w)
		}
		return !w.durable
	})
	return all
}

// remove removes a change, and reports whether it was still waiting.
func (q *queue) remove(w *pendingWrite) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, w)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	return i >= 0
}

// writes lets one goroutine write at a time, because SQLite lets one connection do so. Waiting in this queue is
// cheaper and fairer than SQLite's polling, which is only used when other processes write.
type writes struct {
	file    *file
	turn    chan struct{} // contains a token while no goroutine writes
	closed  chan struct{}
	refused error // the error of writes after closed is closed

	queue  queue
	log    *writer // each commit waits for an fsync
	leases *writer // commits do not wait; see the package documentation
}

// exclusive makes a durable change in a transaction of its own, and retries while another process prevents it from
// starting. The end of the context matters only until the change has started.
func (q *writes) exclusive(ctx context.Context, change func(*writer) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-q.turn:
	case <-q.closed:
		return q.refused
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { q.turn <- struct{}{} }()
	return q.file.whileBusy(ctx, func() error {
		if err := q.log.start(); err != nil {
			return err
		}
		return q.log.end(change(q.log))
	})
}

// batched makes a change together with the other changes that wait. The end of the context matters only until the
// change has started.
func (q *writes) batched(ctx context.Context, durable bool, change func(*writer) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := &pendingWrite{change: change, durable: durable, done: make(chan struct{})}
	q.queue.add(w)
	select {
	case <-q.turn:
		q.commitQueued(ctx, w)
		q.turn <- struct{}{}
	case <-w.done:
	case <-q.closed:
		q.withdraw(w, q.refused)
	case <-ctx.Done():
		q.withdraw(w, ctx.Err())
	}
	<-w.done
	return w.err
}

// withdraw removes a change that no goroutine has started.
func (q *writes) withdraw(w *pendingWrite, err error) {
	if q.queue.remove(w) {
		w.end(err)
	}
}

// commitQueued makes all waiting changes, including w, when it can write. The caller has the turn. The queue is
// emptied only after the transaction has started, so until then each change can be withdrawn. If no change needs an
// fsync, the connection is the one whose commits do not wait for the disk.
func (q *writes) commitQueued(ctx context.Context, w *pendingWrite) {
	select {
	case <-w.done: // another writer has made the change
		return
	default:
	}
	durable := q.queue.durable()
	on := q.leases
	if durable {
		on = q.log
	}
	if err := q.file.whileBusy(ctx, on.start); err != nil {
		q.withdraw(w, err)
		return
	}
	q.apply(on, q.queue.take(durable))
}

// apply makes changes in the open transaction. If one of them fails, each change gets a transaction of its own, so
// that the others are still made. A failure of the disk concerns all changes: after an fsync has failed, a later one
// proves nothing about what was written before it. The same is true if the file was moved.
func (q *writes) apply(on *writer, all []*pendingWrite) {
	errs, failed := on.transact(all)
	for i, w := range all {
		switch {
		case failed == nil:
			w.end(errs[i])
		case len(all) == 1 && !isBusy(failed), code(failed) == codes.SQLITE_IOERR, errors.Is(failed, errMoved):
			w.end(failed)
		default:
			w.end(q.file.whileBusy(context.Background(), func() error {
				if err := on.start(); err != nil {
					return err
				}
				errs, failed := on.transact([]*pendingWrite{w})
				if failed == nil {
					failed = errs[0]
				}
				return failed
			}))
		}
	}
}

// writer is a connection that writes.
type writer struct {
	place *place
	statements
}

// exec runs a statement without results.
func (w *writer) exec(query string, args ...any) error {
	stmt, err := w.prepare(context.Background(), query)
	if err == nil {
		_, err = stmt.ExecContext(context.Background(), args...)
	}
	return err
}

// one runs a statement with at most one row of results, and scans the row.
func (w *writer) one(query string, args []any, dest ...any) (found bool, err error) {
	return w.statements.one(context.Background(), query, args, dest...)
}

func (w *writer) start() error { return w.exec("BEGIN IMMEDIATE") }

// end commits the open transaction, or rolls it back if a change failed. It returns errMoved if the committed file is
// no longer the one at the path.
func (w *writer) end(failed error) error {
	if failed == nil {
		failed = w.exec("COMMIT")
	}
	if failed == nil {
		return w.place.check()
	}
	_ = w.exec("ROLLBACK") // fails if SQLite has done so itself
	return failed
}

// transact makes changes and commits them. errs are the refusals of single changes, which changed nothing. failed is
// an error of the whole transaction: nothing is stored then.
func (w *writer) transact(all []*pendingWrite) (errs []error, failed error) {
	errs = make([]error, len(all))
	for i, one := range all {
		if err := one.change(w); isRefusal(err) {
			errs[i] = err
		} else if err != nil {
			failed = err
			break
		}
	}
	return errs, w.end(failed)
}
