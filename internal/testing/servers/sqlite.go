package servers

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"modernc.org/sqlite"
)

// SaveFile copies an SQLite file. The returned function restores the copy while processes have the file open, like the
// command .restore of the program sqlite3.
func SaveFile(t testing.TB, path string) (restore func()) {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "copy.db")
	onFile(t, path, func(db *sql.DB) error {
		_, err := db.Exec("VACUUM INTO ?", copied)
		return err
	})
	return func() {
		t.Helper()
		onFile(t, path, func(db *sql.DB) error {
			conn, err := db.Conn(t.Context())
			if err != nil {
				return err
			}
			return errors.Join(conn.Raw(func(c any) error {
				backup, err := c.(interface {
					NewRestore(string) (*sqlite.Backup, error)
				}).NewRestore(copied)
				if err != nil {
					return err
				}
				_, err = backup.Step(-1)
				return errors.Join(err, backup.Finish())
			}), conn.Close())
		})
	}
}

func onFile(t testing.TB, path string, do func(*sql.DB) error) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err == nil {
		err = errors.Join(do(db), db.Close())
	}
	must(t, err)
}
