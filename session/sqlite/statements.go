package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"
)

// statements are the prepared statements of a connection, or of a pool of them. Each is prepared when it is first run.
// They must be closed before their connection, because SQLite keeps a connection open while it has a statement.
type statements struct {
	on interface {
		PrepareContext(context.Context, string) (*sql.Stmt, error)
	}

	mu       sync.Mutex
	prepared map[string]*sql.Stmt
}

func (s *statements) prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stmt := s.prepared[query]; stmt != nil {
		return stmt, nil
	}
	stmt, err := s.on.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	if s.prepared == nil {
		s.prepared = make(map[string]*sql.Stmt)
	}
	s.prepared[query] = stmt
	return stmt, nil
}

// errEnough ends the reading of rows without an error.
var errEnough = errors.New("enough")

// each runs a statement, and calls do for each row of its results. It runs the statement to its end, unless do returns
// an error, because SQLite commits an implicit transaction there, and an error of the commit would be lost.
func (s *statements) each(ctx context.Context, query string, args []any, do func(*sql.Rows) error) error {
	stmt, err := s.prepare(ctx, query)
	if err != nil {
		return err
	}
	r, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	for r.Next() && err == nil {
		err = do(r)
	}
	if err = errors.Join(err, r.Err(), r.Close()); errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// one runs a statement with at most one row of results, and scans the row.
func (s *statements) one(ctx context.Context, query string, args []any, dest ...any) (found bool, err error) {
	err = s.each(ctx, query, args, func(r *sql.Rows) error {
		found = true
		return r.Scan(dest...)
	})
	return found && err == nil, err
}

func (s *statements) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, stmt := range s.prepared {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(errs...)
}

// connections are the connections that a store has open.
type connections struct {
	file    *file
	closers []func() error
}

// connect opens a pool of n connections.
func (c *connections) connect(dsn string, n int) (*sql.DB, error) {
	db, err := sql.Open(c.file.driver, dsn)
	if err != nil {
		return nil, err
	}
	c.closers = append(c.closers, db.Close)
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return db, nil
}

// writer takes the connection of a pool for a writer. The writer keeps it, so that all statements of a transaction run
// on one connection.
func (c *connections) writer(db *sql.DB, at *place) (*writer, error) {
	conn, err := db.Conn(context.Background())
	if err != nil {
		return nil, err
	}
	w := &writer{place: at, statements: statements{on: conn}}
	c.closers = append(c.closers, conn.Close, w.close)
	return w, nil
}

// reader returns the statements of a pool whose connections only read.
func (c *connections) reader(db *sql.DB) *statements {
	s := &statements{on: db}
	c.closers = append(c.closers, s.close)
	return s
}

// close closes everything in reverse order.
func (c *connections) close() error {
	var errs []error
	for _, closer := range slices.Backward(c.closers) {
		errs = append(errs, closer())
	}
	c.closers = nil
	return errors.Join(errs...)
}
