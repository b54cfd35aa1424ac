package sqlite

import (
	"context"
	"database/sql"
)

// preparer prepares statements on one connection, or on each connection of a
// pool, and keeps the first error.
type preparer struct {
	ctx context.Context
	on  interface {
		PrepareContext(context.Context, string) (*sql.Stmt, error)
	}
	err error
}

func (p *preparer) prepare(query string) *sql.Stmt {
	if p.err != nil {
		return nil
	}
	var stmt *sql.Stmt
	stmt, p.err = p.on.PrepareContext(p.ctx, query)
	return stmt
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
