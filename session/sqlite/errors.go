package sqlite

import (
	"errors"
	"fmt"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/session/internal/rows"
)

// code returns SQLite's primary result code, or -1 if the error is not SQLite's.
func code(err error) int {
	if e, ok := errors.AsType[*driver.Error](err); ok {
		return e.Code() & 0xff
	}
	return -1
}

// isBusy reports whether another connection blocks this one for a moment. SQLITE_PROTOCOL is a race when a
// write-ahead log is set up.
func isBusy(err error) bool {
	switch code(err) {
	case codes.SQLITE_BUSY, codes.SQLITE_PROTOCOL:
		return true
	}
	return false
}

// explain returns the error that callers get when the file fails: it names the file, the cause, and what to do.
func (f *file) explain(doing string, err error) error {
	if rows.Passes(err) {
		return err
	}
	advice := ""
	switch code(err) {
	case codes.SQLITE_BUSY, codes.SQLITE_PROTOCOL, codes.SQLITE_LOCKED:
		advice = fmt.Sprintf("other programs kept it locked for %s: wait for them, or end them", f.wait)
	case codes.SQLITE_NOTADB:
		advice = "it is not an SQLite database: give the path of another file"
	case codes.SQLITE_CORRUPT:
		advice = "it is damaged: restore it from a backup, or save what is left with the sqlite3 program's .recover"
	case codes.SQLITE_FULL:
		advice = "the disk is full: make room"
	case codes.SQLITE_READONLY:
		advice = "it cannot be written: check the permissions of the file, of the files next to it that end in -wal and -shm, and of their folder"
	case codes.SQLITE_CANTOPEN, codes.SQLITE_PERM, codes.SQLITE_AUTH:
		advice = "it cannot be opened: check that it exists, the permissions of the file, of its folder and of the file system, and the limit of open files"
	case codes.SQLITE_IOERR:
		advice = "the disk or its file system failed: check them, and the space that is left"
	case codes.SQLITE_TOOBIG:
		return fmt.Errorf("sqlite: %s %s: one event or file is too large for SQLite: %w: %w", doing, f.path, agent.ErrBadInput, err)
	}
	return rows.Explain("sqlite: "+doing+" "+f.path, advice, err)
}
