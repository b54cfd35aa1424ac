package sqlite

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
)

// schema creates the tables in a new file, and says so in the table schema_version.
//
//go:embed schema.sql
var schema string

// schemaVersion is the version of the schema.
const schemaVersion = 12

// applicationID in the file's header marks a database of this program.
const applicationID = 0x4172626f

// checkFile refuses another program's database before anything is written to it.
func checkFile(ctx context.Context, db *sql.DB) error {
	var id, tables int64
	err := db.QueryRowContext(ctx, "SELECT (SELECT application_id FROM pragma_application_id), (SELECT count(*) FROM sqlite_master)").Scan(&id, &tables)
	if err != nil {
		return err
	}
	if id == applicationID || id == 0 && tables == 0 {
		return nil
	}
	return errors.New("it is an SQLite database of another program: give the path of another file")
}

// checkSchema refuses a file of another program, a new file, and a file with another schema.
func checkSchema(ctx context.Context, db *sql.DB) error {
	if err := checkFile(ctx, db); err != nil {
		return err
	}
	exists, err := hasSchema(ctx, db)
	if err == nil && !exists {
		err = errors.New("it has no sessions yet: open it once without read-only")
	}
	return err
}

// querier is a connection, or a pool of them.
type querier interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}

// hasSchema reports whether a file has the schema. It returns an error if the schema has another version.
func hasSchema(ctx context.Context, q querier) (exists bool, err error) {
	if err := q.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master WHERE name = 'schema_version'").Scan(&exists); err != nil || !exists {
		return false, err
	}
	var version int
	err = q.QueryRowContext(ctx, "SELECT coalesce(max(version), 0) FROM schema_version").Scan(&version)
	switch {
	case err != nil:
		return false, err
	case version > schemaVersion:
		return false, fmt.Errorf("it has schema %d, which a newer version of this program wrote; this program supports %d: update this program", version, schemaVersion)
	case version < schemaVersion:
		return false, fmt.Errorf("it has schema %d, which an older version of this program wrote; this program supports %d: export its sessions with that version, and import them into a new file", version, schemaVersion)
	}
	return true, nil
}

// createSchema creates the schema in a new file, in one transaction.
func createSchema(ctx context.Context, db *sql.DB) error {
	if exists, err := hasSchema(ctx, db); err != nil || exists {
		return err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK") // fails after COMMIT
	if exists, err := hasSchema(ctx, conn); err != nil || exists { // another process may have created it meanwhile
		return err
	}
	_, err = conn.ExecContext(ctx, schema+"COMMIT")
	return err
}
