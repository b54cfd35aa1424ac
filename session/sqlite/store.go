package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/session"
)

// Store is a [session.Store] in a file. It is safe for concurrent use. The zero value is not usable; see [Open].
type Store struct {
	file     file
	now      func() time.Time
	readOnly bool
	closed   <-chan struct{} // closed by Close; nil if the store is read-only
	writes   writes
	reader   *statements // in WAL mode, connections can read while another one writes
	close    func() error
}

var _ session.Store = (*Store)(nil)

// Option configures a [Store].
type Option func(*Store)

// WithClock sets the clock by which leases expire and sessions are dated. All users of a file must have the same
// clock. Defaults to [time.Now].
func WithClock(now func() time.Time) Option { return func(s *Store) { s.now = now } }

// WithBusyTimeout sets how long Open and each write wait for other processes that are writing to the file before they
// fail. Defaults to 10 s.
func WithBusyTimeout(d time.Duration) Option { return func(s *Store) { s.file.wait = d } }

// ReadOnly opens an existing file for reading. Use it for files and folders that this user cannot write, for backups,
// and for file systems that are mounted read-only. Every write then returns an error that wraps [fs.ErrPermission].
//
// The file must have the schema of this version, because the store cannot bring it up to date. If the folder cannot
// be written either and the file has no -wal next to it, SQLite reads the file without locks. The store then returns
// correct results only while no other process writes to the file.
func ReadOnly() Option { return func(s *Store) { s.readOnly = true } }

// Open opens a file, or creates it in an existing folder. The error says what is wrong with the file and what to do.
// It wraps fs.ErrNotExist or fs.ErrPermission if that is the cause.
func Open(path string, opts ...Option) (*Store, error) {
	s := &Store{file: file{driver: "sqlite", wait: 10 * time.Second}, now: time.Now}
	if err := option.Apply(s, opts); err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	if s.now == nil {
		return nil, errors.New("sqlite: the clock is nil")
	}
	var err error
	if s.file.path, err = checkPath(path); err != nil {
		return nil, err
	}
	doing, connect := "open", s.open
	if s.readOnly {
		doing, connect = "read", s.openReadOnly
	}
	c := &connections{file: &s.file}
	if err := connect(c); err != nil {
		_ = c.close()
		return nil, s.file.explain(doing, err)
	}
	return s, nil
}

// Close closes the store after the write in progress. Loads in progress fail. A second call does nothing.
func (s *Store) Close() error { return s.close() }

func (s *Store) open(c *connections) error {
	// The first connection creates the file and brings its schema up to date before
	// the others are opened.
	dsn, cleanUp, err := s.file.firstDSN()
	if err != nil {
		return err
	}
	defer cleanUp()
	db, err := c.connect(dsn, 1)
	if err != nil {
		return err
	}
	ctx := context.Background()
	if err := s.file.whileBusy(ctx, func() error { return prepareFile(ctx, db) }); err != nil {
		return err
	}
	at, err := newPlace(s.file.path)
	if err != nil {
		return err
	}
	s.writes = writes{file: &s.file, refused: errClosed, turn: make(chan struct{}, 1), closed: make(chan struct{})}
	s.closed = s.writes.closed
	if s.writes.log, err = c.writer(db, at); err != nil {
		return err
	}
	if db, err = c.connect(s.file.dsn("NORMAL"), 1); err != nil {
		return err
	}
	if s.writes.leases, err = c.writer(db, at); err != nil {
		return err
	}
	if db, err = c.connect(s.file.readDSN(), readers()); err != nil {
		return err
	}
	s.reader = c.reader(db)
	s.close = sync.OnceValue(func() error {
		<-s.writes.turn // keep the turn, so that no write starts any more
		close(s.writes.closed)
		if err := c.close(); err != nil {
			return fmt.Errorf("sqlite: close %s: %w", s.file.path, err)
		}
		return nil
	})
	s.writes.turn <- struct{}{}
	return nil
}

var (
	errClosed   = errors.New("the store is closed")
	errReadOnly = fmt.Errorf("it was opened read-only: %w", fs.ErrPermission)
)

// openReadOnly opens only connections that read, and refuses all writes.
func (s *Store) openReadOnly(c *connections) error {
	if _, err := os.Stat(s.file.path); err != nil {
		return err
	}
	ctx := context.Background()
	db, err := c.connect(s.file.readDSN("mode", "ro"), readers())
	if err != nil {
		return err
	}
	err = checkSchema(ctx, db)
	if _, missing := os.Stat(s.file.path + "-wal"); err != nil && errors.Is(missing, fs.ErrNotExist) {
		_ = c.close()
		if db, err = c.connect(s.file.readDSN("immutable", "1"), readers()); err == nil {
			err = checkSchema(ctx, db)
		}
	}
	if err != nil {
		return err
	}
	s.reader = c.reader(db)
	s.close = sync.OnceValue(c.close)
	s.writes = writes{file: &s.file, refused: errReadOnly, closed: make(chan struct{})}
	close(s.writes.closed)
	return nil
}
