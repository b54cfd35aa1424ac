package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/storetest"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
)

// raw runs SQL on a file beside the store.
func raw(t testing.TB, path string, statements ...string) *sql.DB {
	t.Helper()
	db := must.Get(sql.Open("sqlite", path))
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	for _, s := range statements {
		_, err := db.Exec(s)
		require.NoError(t, err, s)
	}
	return db
}

// scalar returns the one value that a query yields, as text.
func scalar(t testing.TB, db *sql.DB, query string) string {
	t.Helper()
	var v string
	require.NoError(t, db.QueryRow(query).Scan(&v), query)
	return v
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, content string) string {
		require.NoError(t, os.WriteFile(at(name), []byte(content), 0o600))
		return at(name)
	}
	foreign := at("foreign.db")
	require.NoError(t, raw(t, foreign, "CREATE TABLE bookmarks (url TEXT)").Close())
	foreignID := at("foreign-id.db")
	require.NoError(t, raw(t, foreignID, "PRAGMA application_id = 42", "CREATE TABLE x (y)", "DROP TABLE x").Close())

	for _, tt := range []struct {
		name, path string
		names      string // what the error must name, if not the path
		says       []string
		is         error
	}{
		{"empty path", "", "path", []string{"empty"}, nil},
		{"in memory", ":memory:", ":memory:", []string{"session.NewMemory"}, nil},
		{"URI", "file:x.db?mode=ro", "file:x.db", []string{"plain path"}, nil},
		{"zero byte", "a\x00b", `a\x00b`, []string{"zero byte"}, nil},
		{"a folder", dir, dir, []string{"is a folder"}, nil},
		{"in a missing folder", at("no/such/x.db"), "x.db", []string{at("no/such"), "does not exist", "create it"}, fs.ErrNotExist},
		{"below a file", filepath.Join(write("file", "x"), "x.db"), at("file"), nil, nil},
		{"a device", os.DevNull, os.DevNull, []string{"not a regular file"}, nil},
		{"a text file", write("notes.txt", strings.Repeat("no database\n", 100)), at("notes.txt"), []string{"not an SQLite database", "another file"}, nil},
		{"a short text file", write("short.txt", "x"), at("short.txt"), []string{"not an SQLite database"}, nil},
		{"another program's database", foreign, foreign, []string{"another program"}, nil},
		{"another program's empty database", foreignID, foreignID, []string{"another program"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := sqlite.Open(tt.path)
			require.Error(t, err)
			require.ErrorContains(t, err, "sqlite: ")
			for _, s := range append(tt.says, tt.names) {
				require.ErrorContains(t, err, s)
			}
			require.Equal(t, 1, strings.Count(err.Error(), "sqlite:"), "one error: %v", err)
			require.NotContains(t, err.Error(), "\n")
			if tt.is != nil {
				require.ErrorIs(t, err, tt.is)
			}
		})
	}
	t.Run("nothing was made or changed", func(t *testing.T) {
		names := must.Get(filepath.Glob(at("*")))
		require.ElementsMatch(t, []string{at("file"), at("notes.txt"), at("short.txt"), foreign, foreignID}, names)
		db := raw(t, foreign)
		require.Equal(t, "delete", scalar(t, db, "PRAGMA journal_mode"))
		require.Equal(t, "1", scalar(t, db, "SELECT count(*) FROM sqlite_master"))
	})
}

// private requires that only its owner can read a file, on systems that have such permissions.
func private(t *testing.T, path string) {
	t.Helper()
	info := must.Get(os.Stat(path))
	if runtime.GOOS != "windows" {
		require.Equal(t, fs.FileMode(0o600), info.Mode().Perm(), path)
	}
}

func TestOpenNewFile(t *testing.T) {
	dir := t.TempDir()
	names := []string{"plain.db", "with space.db", "50% + x&y=1#z.db", "ünï'cødé.db", "no extension", "-dash"}
	if runtime.GOOS != "windows" { // where names cannot have these characters
		names = append(names, "50% + x?y=1&mode=ro#z.db", `"quoted".db`, "file:x")
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		s := open(t, path)
		private(t, path)
		lease := must.Get(sessiontest.Acquire(t.Context(), s, session.ID("s"), session.Self()))
		require.NoError(t, sessiontest.Append(t.Context(), s, session.ID("s"), 0, lease, storetest.Batch(0, 1)...))
		for _, suffix := range []string{"-wal", "-shm"} {
			private(t, path+suffix)
		}
		require.NoError(t, s.Close())
	}
	entries := must.Get(os.ReadDir(dir))
	require.Len(t, entries, len(names), "and nothing is left behind")
}

func TestOpenKeepsPermissions(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("this system has other permissions")
	}
	path := newFile(t)
	require.NoError(t, os.WriteFile(path, nil, 0o640)) // an empty file is a database without tables
	s := open(t, path)
	require.NoError(t, s.Close())
	info := must.Get(os.Stat(path))
	require.Equal(t, fs.FileMode(0o640), info.Mode().Perm())
}

func TestOpenRelativePath(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	s := open(t, "rel.db")
	t.Chdir(t.TempDir()) // connections that are opened later find the file all the same
	must.Get(sessiontest.Acquire(t.Context(), s, session.ID("s"), session.Self()))
	require.FileExists(t, filepath.Join(dir, "rel.db"))
}

func TestFileSettings(t *testing.T) {
	path := newFile(t)
	open(t, path)
	db := raw(t, path)
	require.Equal(t, "wal", scalar(t, db, "PRAGMA journal_mode"))
	require.Equal(t, fmt.Sprint(0x4172626f), scalar(t, db, "PRAGMA application_id"))
	oneSchema(t, path)
	for _, column := range []string{"parent_key", "parent_seq", "token", "lease_host", "lease_pid", "lease_started", "lease_until"} {
		require.Equal(t, "1", scalar(t, db, "SELECT count(*) FROM pragma_table_info('session') WHERE name = '"+column+"'"), column)
	}
}

// TestJSONInTheFile: other programs can read the log with SQL.
func TestJSONInTheFile(t *testing.T) {
	path := newFile(t)
	s := open(t, path)
	lease := must.Get(sessiontest.Acquire(t.Context(), s, session.ID("s"), session.Self()))
	require.NoError(t, sessiontest.Append(t.Context(), s, session.ID("s"), 0, lease, storetest.Batch(0, 3)...))
	require.Equal(t, "text e2", scalar(t, raw(t, path), `SELECT json ->> 'type' || ' ' || (json ->> 'id') FROM event JOIN session ON session = key
		WHERE app = 'app' AND user = 'local' AND id = 's' AND event.seq = 2`))
}

func TestNewerSchema(t *testing.T) {
	path := newFile(t)
	open(t, path)
	raw(t, path, "INSERT INTO schema_version (version, name) SELECT max(version) + 1, '9999_future.sql' FROM schema_version")
	_, err := sqlite.Open(path)
	require.ErrorContains(t, err, path)
	require.ErrorContains(t, err, "newer version of this program")
	require.ErrorContains(t, err, "update")
}

func TestDamagedEvent(t *testing.T) {
	path := newFile(t)
	s := open(t, path)
	key := session.ID("s")
	lease := must.Get(sessiontest.Acquire(t.Context(), s, key, session.Self()))
	require.NoError(t, sessiontest.Append(t.Context(), s, key, 0, lease, storetest.Batch(0, 5)...))
	for _, text := range []string{"", "{", "{\"seq\":4,\"id\":\"e4\",\"type\":\"text\",\"content\":\"cut o", "\x00", "\xff\xfe", strings.Repeat("[", 1<<20)} {
		_, err := raw(t, path).Exec("UPDATE log SET line = ? WHERE seq = 4", text)
		require.NoError(t, err)
		seq := int64(0)
		for e, err := range s.Load(t.Context(), key, 0) {
			require.NoError(t, err)
			seq++
			require.Equal(t, seq, e.Seq)
			damage, ok := e.Data.(*event.Unknown)
			if ok {
				d, _ := damage.Damage()
				require.Equal(t, len(text), d.Bytes)
				require.Less(t, len(damage.Raw), 20<<10)
			}
			require.Equal(t, seq == 4, ok)
			must.Get(e.MarshalJSON())
		}
		require.EqualValues(t, 5, seq)
	}
	raw(t, path, "DELETE FROM log WHERE seq = 2")
	var last error
	for _, err := range s.Load(t.Context(), key, 0) {
		last = err
	}
	require.ErrorContains(t, last, "event 3 where 2 should be")
	require.ErrorContains(t, last, path)
}

// TestBusy: another program keeps the file locked.
func TestBusy(t *testing.T) {
	path := newFile(t)
	s := open(t, path, sqlite.WithBusyTimeout(20*time.Millisecond))
	key := session.ID("s")
	lease := must.Get(sessiontest.Acquire(t.Context(), s, key, session.Self()))
	other := raw(t, path, "BEGIN IMMEDIATE")
	err := sessiontest.Append(t.Context(), s, key, 0, lease, storetest.Batch(0, 1)...)
	require.ErrorContains(t, err, path)
	require.ErrorContains(t, err, "other programs kept it locked for 20ms")
	require.Empty(t, storetest.Contents(t, s, key), "reading still works")

	patient := open(t, path) // opening does not have to write
	done := make(chan error, 1)
	go func() { done <- sessiontest.Append(t.Context(), patient, key, 0, lease, storetest.Batch(0, 1)...) }()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, sessiontest.Renew(ctx, patient, key, lease), context.DeadlineExceeded, "a context ends the wait")
	_, err = other.Exec("COMMIT")
	require.NoError(t, err)
	require.NoError(t, <-done)
	require.Len(t, storetest.Contents(t, s, key), 1)
}
