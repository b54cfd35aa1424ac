package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"slices"
)

// preparer prepares statements on one connection, or on each connection of a pool. It keeps the first error. It also
// keeps the statements, which must be closed before their connection, because SQLite keeps a connection open while it
// has a statement.
type preparer struct {
	ctx       context.Context
	on        preparing
	whileBusy func(context.Context, func() error) error

	stmts []*sql.Stmt
	err   error
}

// preparing is a connection or a pool of them.
type preparing interface {
	PrepareContext(context.Context, string) (*sql.Stmt, error)
}

func (p *preparer) prepare(query string) *sql.Stmt {
	if p.err != nil {
		return nil
	}
	var stmt *sql.Stmt
	p.err = p.whileBusy(p.ctx, func() (err error) { // it may have to read the schema
		stmt, err = p.on.PrepareContext(p.ctx, query)
		return err
	})
	if p.err != nil {
		return nil
	}
	p.stmts = append(p.stmts, stmt)
	return stmt
}

func (p *preparer) close() error {
	var errs []error
	for _, stmt := range p.stmts {
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

func (c *connections) preparer(on preparing) *preparer {
	p := &preparer{ctx: context.Background(), on: on, whileBusy: c.file.whileBusy}
	c.closers = append(c.closers, p.close)
	return p
}

// writer prepares the statements of a writer. It keeps its connection, so that writes need not take one from a pool.
func (c *connections) writer(db *sql.DB, prepare func(*preparer)) error {
	conn, err := db.Conn(context.Background())
	if err != nil {
		return err
	}
	c.closers = append(c.closers, conn.Close)
	p := c.preparer(conn)
	prepare(p)
	return p.err
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

// queryOne runs a statement with at most one row of results, and scans the row. It runs the statement to its end,
// because SQLite commits an implicit transaction there, and an error of the commit would be lost.
func queryOne(ctx context.Context, stmt *sql.Stmt, args []any, dest ...any) (found bool, err error) {
	rows, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	for rows.Next() {
		found = true
		if err := rows.Scan(dest...); err != nil {
			return false, err
		}
	}
	if err := rows.Err(); err != nil {
		return false, err
	}
	return found, rows.Close()
}
