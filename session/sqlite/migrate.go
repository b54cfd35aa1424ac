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

// applicationID in the file's header marks a database of this program: "Arbo" in ASCII.
const applicationID = 0x4172626f

// rebuilt is the last version whose script creates the table of sessions again, so that references to it must be
// checked. Later scripts cost the same for a file of any size.
const rebuilt = 2

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
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return err
	}
	version, err := knownVersion(ctx, db, len(files))
	if err != nil || version == len(files) {
		return err
	}
	return fmt.Errorf("it has schema %d, which an older version of this program wrote; read-only it must have %d: open it, or a copy of it, once without read-only", version, len(files))
}

// knownVersion returns the version of the schema, and an error if this program is too old for it.
func knownVersion(ctx context.Context, db *sql.DB, newest int) (version int, err error) {
	if version, err = schemaVersion(ctx, db); err == nil && version > newest {
		err = fmt.Errorf("it has schema %d, which a newer version of this program wrote; this program supports up to %d: update this program", version, newest)
	}
	return version, err
}

// migrate brings the schema up to date in one transaction. Each file of the folder migrations is one version, in the
// order of the names.
func migrate(ctx context.Context, db *sql.DB) error {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return err
	}
	return migrateTo(ctx, db, migrations, files)
}

func migrateTo(ctx context.Context, db *sql.DB, fsys fs.FS, files []string) (err error) {
	if version, err := knownVersion(ctx, db, len(files)); err != nil || version == len(files) {
		return err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	// Most changes of a table require a new table. While SQLite enforces foreign keys,
	// dropping the old table deletes the rows that refer to it. The setting cannot
	// be changed inside the transaction.
	if _, err := conn.ExecContext(ctx, "PRAGMA foreign_keys = OFF"); err != nil {
		return err
	}
	defer func() {
		_, on := conn.ExecContext(context.WithoutCancel(ctx), "PRAGMA foreign_keys = ON")
		err = errors.Join(err, on)
	}()
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK") // fails after COMMIT
	if _, err := conn.ExecContext(ctx, fmt.Sprintf(`PRAGMA application_id = %d;
		CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT`, applicationID)); err != nil {
		return err
	}
	version, err := schemaVersion(ctx, conn) // another process may have migrated the file meanwhile
	if err != nil {
		return err
	}
	for n := version + 1; n <= len(files); n++ {
		script, err := fs.ReadFile(fsys, files[n-1])
		if err != nil {
			return err
		}
		name := path.Base(files[n-1])
		if _, err := conn.ExecContext(ctx, string(script)); err != nil {
			return fmt.Errorf("schema %s: %w", name, err)
		}
		if _, err := conn.ExecContext(ctx, "INSERT INTO schema_version (version, name) VALUES (?, ?)", n, name); err != nil {
			return err
		}
	}
	broken := 0
	if version < rebuilt {
		err = conn.QueryRowContext(ctx, "SELECT count(*) FROM pragma_foreign_key_check").Scan(&broken)
	}
	if err != nil {
		return err
	}
	if broken > 0 {
		return fmt.Errorf("it is damaged: %d rows belong to sessions that do not exist: restore it from a backup", broken)
	}
	_, err = conn.ExecContext(ctx, "COMMIT")
	return err
}

// schemaVersion returns 0 for a new file.
func schemaVersion(ctx context.Context, q interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}) (version int, err error) {
	var exists bool
	if err := q.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master WHERE name = 'schema_version'").Scan(&exists); err != nil || !exists {
		return 0, err
	}
	err = q.QueryRowContext(ctx, "SELECT coalesce(max(version), 0) FROM schema_version").Scan(&version)
	return version, err
}
