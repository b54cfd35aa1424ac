package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrations embed.FS

// schemaVersion is the newest version of the schema: the SQL files, and as the third
// version the function that fills the second one's table.
const schemaVersion = 10

// versionTable is where goose keeps the version, in the schema that it is the
// version of.
const versionTable = "arbor.goose_db_version"

// lockID is the advisory lock under which one process at a time changes the
// schema: "arbor" in ASCII.
const lockID = 0x6172626f72

// prepare checks the database and brings its schema up to date.
func (s *Store) prepare(ctx context.Context) error {
	var version int
	err := s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		if err := check(ctx, conn); err != nil {
			return err
		}
		version, err = currentVersion(ctx, conn)
		return err
	})
	switch {
	case err != nil || version == schemaVersion:
		return err
	case version > schemaVersion:
		return fmt.Errorf("a newer version of this program made its schema arbor (version %d, and this program knows %d): update this program", version, schemaVersion)
	}
	return migrate(ctx, s.pool.Config().ConnConfig, schemaVersion)
}

// check refuses a database in which the store could not keep its promises.
func check(ctx context.Context, conn *pgx.Conn) error {
	var encoding, commit string
	err := conn.QueryRow(ctx, "SELECT current_setting('server_encoding'), current_setting('synchronous_commit')").Scan(&encoding, &commit)
	switch {
	case err != nil:
		return err
	case encoding != "UTF8":
		return fmt.Errorf("its encoding is %s, which cannot hold every text: create a database with ENCODING 'UTF8'", encoding)
	case commit == "off":
		return errors.New("synchronous_commit is off, so that a crash of the server would lose what was stored: ALTER ROLE … SET synchronous_commit = on")
	}
	return nil
}

// currentVersion returns 0 for a database without the schema.
func currentVersion(ctx context.Context, conn *pgx.Conn) (version int, err error) {
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", versionTable).Scan(&exists); err != nil || !exists {
		return 0, err
	}
	err = conn.QueryRow(ctx, "SELECT coalesce(max(version_id), 0) FROM "+versionTable+" WHERE is_applied").Scan(&version)
	return version, err
}

// migrate brings the schema up to a version. Each step is one transaction.
// Processes that do it at the same time wait for each other.
func migrate(ctx context.Context, config *pgx.ConnConfig, version int64) (err error) {
	scripts, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	db := stdlib.OpenDB(*config)
	defer db.Close()
	unlock, err := lock(ctx, db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, scripts,
		goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()),
		goose.WithGoMigrations(goose.NewGoMigration(3, &goose.GoFunc{RunTx: fillMessages}, nil)))
	if err != nil {
		return err
	}
	if _, err := provider.UpTo(ctx, version); err != nil {
		return fmt.Errorf("bring the schema up to date: %w", err)
	}
	return nil
}

// lock takes the lock and makes the schema, in which goose keeps its table. Goose
// has locks of its own, but looks for its table before it takes one. The server
// gives the lock back if this process dies.
func lock(ctx context.Context, db *sql.DB) (unlock func() error, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = conn.Close()
		}
	}()
	if _, err := conn.ExecContext(ctx, "SELECT pg_advisory_lock($1)", int64(lockID)); err != nil {
		return nil, err
	}
	unlock = func() error {
		_, err := conn.ExecContext(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", int64(lockID))
		return errors.Join(err, conn.Close())
	}
	var exists bool
	err = conn.QueryRowContext(ctx, "SELECT to_regnamespace('arbor') IS NOT NULL").Scan(&exists)
	if err == nil && !exists { // who may not make a schema can still be given one
		_, err = conn.ExecContext(ctx, "CREATE SCHEMA arbor")
	}
	if err != nil {
		return nil, errors.Join(err, unlock())
	}
	return unlock, nil
}
