package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/session"
)

// Store is a [session.Store] in a file. It is safe for concurrent use. The zero
// value is not usable.
type Store struct {
	path   string
	driver string // of package database/sql
	now    func() time.Time
	wait   time.Duration

	readOnly bool
	refused  error // the error of writes once closed is closed

	// turn holds a token while nobody writes. SQLite lets one connection write at
	// a time; queueing here is cheaper and fairer than its polling, which is left
	// for the contest with other processes.
	turn   chan struct{}
	closed chan struct{}
	close  func() error

	queue  queue      // of writes
	log    *logWriter // every commit waits for an fsync
	leases *writer    // commits do not; see the package's documentation
	reader *reader

	logOnce, readOnce once // on the connections of log and reader
}

var _ session.Store = (*Store)(nil)

// Option configures a [Store].
type Option func(*Store)

// WithClock sets the clock by which leases expire and sessions are dated. All
// users of a file need the same; the default is time.Now.
func WithClock(now func() time.Time) Option { return func(s *Store) { s.now = now } }

// WithBusyTimeout sets how long a write, or the opening, waits for other
// processes that are writing to the file, before it fails. The default is 10 s.
func WithBusyTimeout(d time.Duration) Option { return func(s *Store) { s.wait = d } }

// ReadOnly opens an existing file for reading. Use it for files and folders that this user cannot
// write, for backups, and for file systems that are mounted read-only. Every write
// then returns an error that wraps [fs.ErrPermission].
//
// The file must have the schema of this version, because the store cannot bring it up to date. If
// the folder cannot be written either and the file has no -wal next to it, SQLite reads it without locks.
// The store is then correct only while no other process writes to the file.
func ReadOnly() Option { return func(s *Store) { s.readOnly = true } }

// Open opens a file, or makes a new one, in a folder that exists. The error says
// what is wrong with the file and what to do; it wraps fs.ErrNotExist,
// fs.ErrPermission and the like where they are the cause.
func Open(path string, opts ...Option) (*Store, error) {
	s := &Store{driver: "sqlite", now: time.Now, wait: 10 * time.Second, refused: errClosed, turn: make(chan struct{}, 1), closed: make(chan struct{})}
	if err := option.Apply(s, opts); err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	if s.now == nil {
		return nil, errors.New("sqlite: the clock is nil")
	}
	var err error
	if s.path, err = checkPath(path); err != nil {
		return nil, err
	}
	if s.readOnly {
		if err := s.openReadOnly(); err != nil {
			return nil, s.explain("read", err)
		}
		return s, nil
	}
	if err := s.open(); err != nil {
		return nil, s.explain("open", err)
	}
	s.turn <- struct{}{}
	return s, nil
}

// Close closes the store after the write that is under way, if any. Loads that
// are under way fail. Closing twice does nothing.
func (s *Store) Close() error { return s.close() }

func (s *Store) open() (err error) {
	var closers []func() error
	closeAll := func() error { // the last first
		var errs []error
		for i := range closers {
			errs = append(errs, closers[len(closers)-1-i]())
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			_ = closeAll()
		}
	}()
	ctx := context.Background()
	connect := func(dsn string, connections int) (*sql.DB, error) {
		db, err := sql.Open(s.driver, dsn)
		if err != nil {
			return nil, err
		}
		closers = append(closers, db.Close)
		db.SetMaxOpenConns(connections)
		db.SetMaxIdleConns(connections)
		return db, nil
	}
	// A writer holds its connection, which saves taking it from a pool each time.
	writer := func(db *sql.DB) (*preparer, error) {
		conn, err := db.Conn(ctx)
		if err != nil {
			return nil, err
		}
		p := &preparer{ctx: ctx, on: conn, whileBusy: s.whileBusy}
		closers = append(closers, conn.Close, p.close)
		return p, nil
	}

	// The first connection makes the file and brings it up to date, so that the
	// others find it ready.
	dsn, cleanUp, err := s.firstDSN()
	if err != nil {
		return err
	}
	defer cleanUp()
	db, err := connect(dsn, 1)
	if err != nil {
		return err
	}
	if err := s.whileBusy(ctx, func() error { return prepareFile(ctx, db) }); err != nil {
		return err
	}
	at, err := newPlace(s.path)
	if err != nil {
		return err
	}
	p, err := writer(db)
	if err != nil {
		return err
	}
	if s.log, s.logOnce = newLogWriter(p, at), p.once; p.err != nil {
		return p.err
	}
	if db, err = connect(s.dsn("NORMAL"), 1); err != nil {
		return err
	}
	if p, err = writer(db); err != nil {
		return err
	}
	leases := newWriter(p, at)
	s.leases = &leases
	if p.err != nil {
		return p.err
	}
	if db, err = connect(s.readDSN(), readers()); err != nil {
		return err
	}
	p = &preparer{ctx: ctx, on: db, whileBusy: s.whileBusy}
	closers = append(closers, p.close)
	if s.reader, s.readOnce = newReader(p), p.once; p.err != nil {
		return p.err
	}
	s.close = sync.OnceValue(func() error {
		<-s.turn // and never give it back
		close(s.closed)
		if err := closeAll(); err != nil {
			return fmt.Errorf("sqlite: close %s: %w", s.path, err)
		}
		return nil
	})
	return nil
}

var (
	errClosed   = errors.New("the store is closed")
	errReadOnly = fmt.Errorf("it was opened read-only: %w", fs.ErrPermission)
)

// openReadOnly opens only the connections that read, and refuses all writes.
func (s *Store) openReadOnly() error {
	if _, err := os.Stat(s.path); err != nil {
		return err
	}
	ctx := context.Background()
	db, err := sql.Open(s.driver, s.readDSN("mode", "ro"))
	if err != nil {
		return err
	}
	err = checkSchema(ctx, db)
	if _, missing := os.Stat(s.path + "-wal"); err != nil && errors.Is(missing, fs.ErrNotExist) {
		_ = db.Close()
		if db, err = sql.Open(s.driver, s.readDSN("immutable", "1")); err != nil {
			return err
		}
		err = checkSchema(ctx, db)
	}
	db.SetMaxOpenConns(readers())
	p := &preparer{ctx: ctx, on: db, whileBusy: s.whileBusy}
	if err == nil {
		s.reader, s.readOnce = newReader(p), p.once
		err = p.err
	}
	s.close = sync.OnceValue(func() error { return errors.Join(p.close(), db.Close()) })
	if err != nil {
		_ = s.close()
		return err
	}
	s.refused = errReadOnly
	close(s.closed)
	return nil
}

// write runs fn when it is this goroutine's turn to write, again and again while
// another process keeps it from starting. fn must not have changed anything when
// it returns a busy error. The context counts until fn has started its change.
func (s *Store) write(ctx context.Context, fn func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-s.turn:
	case <-s.closed:
		return s.refused
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { s.turn <- struct{}{} }()
	return s.whileBusy(ctx, fn)
}

// whileBusy repeats fn while it fails because another process is writing. The
// pauses are short, for that process may free the file for moments only.
func (s *Store) whileBusy(ctx context.Context, fn func() error) error {
	err := fn()
	if !isBusy(err) {
		return err
	}
	deadline := time.Now().Add(s.wait)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for pause := 100 * time.Microsecond; isBusy(err) && time.Now().Before(deadline); pause = min(2*pause, 2*time.Millisecond) {
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		err = fn()
	}
	return err
}
