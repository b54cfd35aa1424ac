package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"

	codes "modernc.org/sqlite/lib"

	"github.com/agentarbor/arbor/agent"
)

// Writes that arrive during another write wait in a queue. The next writer makes the changes of all
// of them in one transaction. So one fsync serves as many sessions as wait for it, and a slow disk
// delays the turns of a busy program together and not one after the other. A lone writer does not wait.

// writing is a change that waits to be made.
type writing struct {
	// change makes it in the transaction that is open on a connection, of which it gets
	// the statements. An error that is its own, see isOwn, says that it has
	// changed nothing.
	change func(*rowWriter) error
	lasts  bool // the change waits for an fsync

	done chan struct{} // closed when err is set
	err  error
}

// isOwn reports whether an error is that of one change, and not of its transaction.
func isOwn(err error) bool {
	return errors.Is(err, agent.ErrConflict) || errors.Is(err, agent.ErrSessionBusy)
}

// end says how a change went, to its own goroutine.
func (w *writing) end(err error) {
	w.err = err
	close(w.done)
}

// queue is the changes that wait, oldest first.
type queue struct {
	mu      sync.Mutex
	waiting []*writing
}

func (q *queue) add(w *writing) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, w)
}

// lasts reports whether one of those that wait has to last.
func (q *queue) lasts() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.ContainsFunc(q.waiting, func(w *writing) bool { return w.lasts })
}

// take returns all that wait, or those of them that wait for no fsync.
func (q *queue) take(lasting bool) (all []*writing) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if lasting {
		all, q.waiting = q.waiting, nil
		return all
	}
	q.waiting = slices.DeleteFunc(q.waiting, func(w *writing) bool {
		if !w.lasts {
			all = append(all, w)
		}
		return !w.lasts
	})
	return all
}

// remove reports whether the change was still waiting.
func (q *queue) remove(w *writing) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, w)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	return i >= 0
}

// writes lets one goroutine write at a time, because SQLite lets one connection do so: queueing here is cheaper and
// fairer than its polling, which is left for the contest with other processes.
type writes struct {
	file    *file
	turn    chan struct{} // holds a token while nobody writes
	closed  chan struct{}
	refused error // the error of writes once closed is closed

	queue  queue
	log    *logWriter // every commit waits for an fsync
	leases *writer    // commits do not; see the package's documentation
}

// alone makes a change that must last in a transaction of its own, again and again while
// another process keeps it from starting. The context counts until the change has started.
func (q *writes) alone(ctx context.Context, change func(*logWriter) error) error {
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

// group makes a change, with those that wait beside it or as one of them. The context
// counts until it is begun.
func (q *writes) group(ctx context.Context, lasts bool, change func(*rowWriter) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := &writing{change: change, lasts: lasts, done: make(chan struct{})}
	q.queue.add(w)
	select {
	case <-q.turn:
		q.lead(ctx, w)
		q.turn <- struct{}{}
	case <-w.done:
	case <-q.closed:
		q.leave(w, q.refused)
	case <-ctx.Done():
		q.leave(w, ctx.Err())
	}
	<-w.done
	return w.err
}

// leave ends a change that nobody has begun to make.
func (q *writes) leave(w *writing, err error) {
	if q.queue.remove(w) {
		w.end(err)
	}
}

// lead makes all changes that wait when it can write, w among them; the turn is w's. The
// queue is emptied only then, so that until then each may leave it. If none of them has
// to last, the connection is the one whose commits wait for no disk.
func (q *writes) lead(ctx context.Context, w *writing) {
	select {
	case <-w.done: // the turn before has made it
		return
	default:
	}
	lasting := q.queue.lasts()
	on := q.leases
	if lasting {
		on = q.log.writer
	}
	if err := q.file.whileBusy(ctx, on.start); err != nil {
		q.leave(w, err)
		return
	}
	q.makeAll(on, q.queue.take(lasting))
}

// makeAll makes changes in the transaction that is open. If one of them cannot
// be made, that must not be the others' loss: each gets a transaction of its
// own. But what the disk did to one it did to all: after an fsync that failed,
// another one proves nothing of what was written before it. So it is with a file that is not in its place.
func (q *writes) makeAll(on *writer, all []*writing) {
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
				errs, failed := on.transact([]*writing{w})
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
	begin, commit, rollback *sql.Stmt
	place                   *place
	*rowWriter
}

func newWriter(p *preparer, at *place) *writer {
	return &writer{place: at, begin: p.prepare("BEGIN IMMEDIATE"), commit: p.prepare("COMMIT"), rollback: p.prepare("ROLLBACK"), rowWriter: newRowWriter(p)}
}

func (w *writer) start() error {
	_, err := w.begin.ExecContext(context.Background())
	return err
}

// end commits the transaction that is open, unless something has failed in it. It says so if what it has committed is not in
// the file that has the path.
func (w *writer) end(failed error) error {
	if failed == nil {
		_, failed = w.commit.ExecContext(context.Background())
	}
	if failed == nil {
		return w.place.check()
	}
	_, _ = w.rollback.ExecContext(context.Background()) // fails if SQLite has done so itself
	return failed
}

// transact makes changes and commits them. The errors of single ones change nothing; any
// other error is that of all, and nothing is stored then.
func (w *writer) transact(all []*writing) (errs []error, failed error) {
	errs = make([]error, len(all))
	for i, one := range all {
		if err := one.change(w.rowWriter); isOwn(err) {
			errs[i] = err
		} else if err != nil {
			failed = err
			break
		}
	}
	return errs, w.end(failed)
}

// logWriter is the connection for changes that must last.
type logWriter struct {
	*writer
	putBlob *sql.Stmt
	*forkWriter
}

func newLogWriter(p *preparer, at *place) *logWriter {
	return &logWriter{writer: newWriter(p, at), forkWriter: newForkWriter(p),
		putBlob: p.prepare("INSERT INTO blob (session, digest, seq, data) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING")}
}
