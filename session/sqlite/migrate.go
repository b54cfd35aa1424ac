package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
)

//go:embed migrations/*.sql
var migrations embed.FS

// oldest is the oldest version of the schema that this program can bring up to date. The first script creates it in a
// new file, and each later script is one version, in the order of the names.
const oldest = 10

// applicationID in the file's header marks a database of this program: "Arbo" in ASCII.
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

// checkSchema refuses a file of another program, and a file whose schema is not the newest.
func checkSchema(ctx context.Context, db *sql.DB) error {
	if err := checkFile(ctx, db); err != nil {
		return err
	}
	left, version, err := missing(ctx, db)
	if err != nil || len(left) == 0 {
		return err
	}
	return fmt.Errorf("it has schema %d, which an older version of this program wrote; read-only it must have %d: open it, or a copy of it, once without read-only", version, max(version, oldest-1)+len(left))
}

// missing returns the scripts that a file has not had, and the version of its schema, which is 0 for a new file. It
// returns an error if this program is too old or too new for the file.
func missing(ctx context.Context, q querier) (left []string, version int, err error) {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err == nil {
		version, err = schemaVersion(ctx, q)
	}
	newest := oldest + len(files) - 1
	switch {
	case err != nil:
		return nil, 0, err
	case version > newest:
		return nil, 0, fmt.Errorf("it has schema %d, which a newer version of this program wrote; this program supports up to %d: update this program", version, newest)
	case version > 0 && version < oldest:
		return nil, 0, fmt.Errorf("it has schema %d, which an older version of this program wrote; this program supports %d and later: export its sessions with that version, and import them into a new file", version, oldest)
	}
	return files[max(version+1-oldest, 0):], version, nil
}

// querier is a connection, or a pool of them.
type querier interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}

// migrate brings the schema up to date in one transaction.
func migrate(ctx context.Context, db *sql.DB) error {
	if left, _, err := missing(ctx, db); err != nil || len(left) == 0 {
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
	if _, err := conn.ExecContext(ctx, fmt.Sprintf(`PRAGMA application_id = %d;
		CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT`, applicationID)); err != nil {
		return err
	}
	left, version, err := missing(ctx, conn) // another process may have migrated the file meanwhile
	if err != nil {
		return err
	}
	for i, file := range left {
		script, err := fs.ReadFile(migrations, file)
		if err != nil {
			return err
		}
		if _, err := conn.ExecContext(ctx, string(script)); err != nil {
			return fmt.Errorf("schema %s: %w", path.Base(file), err)
		}
		if _, err := conn.ExecContext(ctx, "INSERT INTO schema_version (version, name) VALUES (?, ?)", max(version+1, oldest)+i, path.Base(file)); err != nil {
			return err
		}
	}
	_, err = conn.ExecContext(ctx, "COMMIT")
	return err
}

// schemaVersion returns 0 for a new file.
func schemaVersion(ctx context.Context, q querier) (version int, err error) {
	var exists bool
	if err := q.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master WHERE name = 'schema_version'").Scan(&exists); err != nil || !exists {
		return 0, err
	}
	err = q.QueryRowContext(ctx, "SELECT coalesce(max(version), 0) FROM schema_version").Scan(&version)
	return version, err
}
