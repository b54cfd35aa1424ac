package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sqlite"
)

// memoryDB is the value of --db that keeps sessions for one process only.
const memoryDB = ":memory:"

// stateFile is the default database below the state directory.
func (p *program) stateFile() string { return p.name + "/" + p.name + ".db" }

// dbPath returns the database to use: --db, or the default one.
func (p *program) dbPath() (string, error) {
	if p.flags.db != "" {
		if scheme, _, ok := strings.Cut(p.flags.db, "://"); ok {
			return "", usagef("--db %s://…: only SQLite files are supported", scheme)
		}
		return p.flags.db, nil
	}
	state := p.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // as the XDG base directory specification asks
		home := p.Getenv("HOME")
		if home == "" {
			home, _ = os.UserHomeDir()
		}
		if home == "" {
			return "", usagef("there is no home directory for the sessions' file: give --db FILE, or set XDG_STATE_HOME")
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, filepath.FromSlash(p.stateFile())), nil
}

// database is an open store.
type database struct {
	session.Store
	path string // memoryDB if nothing is kept
}

var errNoFile = errors.New("there is no such sessions' file")

// openDB opens the database and closes it at the end of the command. What it
// creates only its owner can read, because it holds conversations. Without
// create a missing file is an error that is errNoFile.
func (p *program) openDB(create bool) (*database, error) {
	path, err := p.dbPath()
	if err != nil {
		return nil, err
	}
	db := &database{path: path}
	if path == memoryDB {
		db.Store = session.NewMemory()
		return db, nil
	}
	if create {
		if p.flags.db == "" {
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				return nil, usagef("the sessions' folder cannot be made: %w", err)
			}
		}
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, usagef("the sessions' file cannot be opened: %w", err)
		}
		_ = f.Close()
	} else if _, err := os.Stat(path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, usagef("%s: %w", path, errNoFile)
		}
		return nil, usageError{err}
	}
	if db.Store, err = sqlite.Open(path); err != nil {
		return nil, usagef("the sessions' file %s cannot be used: %w", path, err)
	}
	p.atEnd(func() { _ = db.Close() })
	return db, nil
}

// fold reads a session's log and returns what it amounts to.
func (db *database) fold(ctx context.Context, key session.Key) (*session.Fold, error) {
	f := &session.Fold{}
	for e, err := range db.Load(ctx, key, 0) {
		if err != nil {
			return nil, err
		}
		f.Apply(e)
	}
	return f, nil
}

// sessionKey returns the key of --session, or of a new session.
func (p *program) sessionKey() (session.Key, error) {
	id := p.flags.session
	if id == "" {
		var random [5]byte
		_, _ = rand.Read(random[:]) // it never fails
		return session.ID("s-" + hex.EncodeToString(random[:])), nil
	}
	return session.ID(id), checkSession(id)
}

func checkSession(id string) error {
	if len(id) > 200 || !utf8.ValidString(id) || strings.TrimSpace(id) != id || id == "" || strings.ContainsFunc(id, unicode.IsControl) {
		return usagef("session %q: an id has 1 to 200 bytes of text without control characters and without space around it", cut(id, 40))
	}
	return nil
}
