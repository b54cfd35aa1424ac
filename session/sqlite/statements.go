package sqlite

import (
	"context"
	"database/sql"
	"errors"
)

// preparer prepares statements on one connection, or on each connection of a
// pool. It keeps the first error, and the statements, which must be closed before
// their connection: SQLite keeps a connection open for the sake of a statement.
type preparer struct {
	ctx context.Context
	on  interface {
		PrepareContext(context.Context, string) (*sql.Stmt, error)
	}
	whileBusy func(context.Context, func() error) error

	stmts []*sql.Stmt
	err   error
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

// once is how a statement is used that is too rare to be kept.
type once func(query string, use func(*sql.Stmt) error) error

func (p *preparer) once(query string, use func(*sql.Stmt) error) error {
	stmt, err := p.on.PrepareContext(p.ctx, query)
	if err != nil {
		return err
	}
	return errors.Join(use(stmt), stmt.Close())
}

func (p *preparer) close() error {
	var errs []error
	for _, stmt := range p.stmts {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(errs...)
}

// queryOne runs a statement with at most one row of results and scans it. It
// steps on to the statement's end, which is where SQLite commits a change of its
// own, and so does not miss what goes wrong there.
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
