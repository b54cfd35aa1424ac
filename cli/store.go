package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/sessionform"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sqlite"
)

// memoryDB is the value of --db that keeps sessions for one process only.
const memoryDB = ":memory:"

// place says where the sessions are.
type place struct{ db, redis string }

// dbFlag adds --db.
func (p *program) dbFlag(fs *pflag.FlagSet) {
	address := ""
	if p.postgres != nil {
		address = " a postgres:// address,"
	}
	fs.StringVar(&p.place.db, "db", "", "store sessions in `DB`: a SQLite file,"+address+" or "+memoryDB+" (default "+p.stateFile()+" in the state directory)")
}

// stateFile is the default database below the state directory.
func (p *program) stateFile() string { return p.name + "/" + p.name + ".db" }

// defaultFile returns the default database.
func (p *program) defaultFile() (string, error) {
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
	path   string // as messages show it; memoryDB if nothing is kept
	remote bool   // it is no file of sessions
}

var (
	errNoFile    = errors.New("there is no such sessions' file")
	errNoSession = errors.New("there is no such session")
)

// openDB opens the database and closes it at the end of the command. With --redis
// it can be followed live.
func (p *program) openDB(ctx context.Context, create bool) (*database, error) {
	db, err := p.openStore(ctx, p.place.db, create)
	if err != nil {
		return nil, err
	}
	p.atEnd(func() { _ = db.Close() }) // of what db.Store is then
	return db, p.goLive(ctx, db)
}

// libpqWords finds a connection string of PostgreSQL's own form, such as host=db user=me.
var libpqWords = lazyregexp.New(`(?i)(^|\s)(host|hostaddr|port|dbname|user|password|passfile|service|sslmode)\s*=`)

// credentials finds what is meant as an address with a user and a password.
var credentials = lazyregexp.New(`(?i)^(postgres(ql)?|mysql|rediss?|https?):|^/*[^/]*:[^/]*@`)

// checkDB refuses what is no file's name but the address of a server in a form that is
// not understood, before a file is made of it or a message holds it: it may have a
// password in it. A file that is really called so can be given as ./NAME.
func checkDB(db string) error {
	switch {
	case strings.Contains(db, "://"), strings.HasPrefix(db, "./"):
		return nil
	case libpqWords.MatchString(db):
		return usagef("--db: settings such as host=… are not supported: write a database as postgres://USER:PASSWORD@HOST/NAME, and a file of this name as ./NAME")
	case credentials.MatchString(db):
		return usagef("--db: this looks like an address with a mistake: a database's is postgres://USER:PASSWORD@HOST/NAME, and a file of such a name is ./NAME")
	}
	return nil
}

// openStore opens what a value of --db says.
func (p *program) openStore(ctx context.Context, db string, create bool) (*database, error) {
	if db == memoryDB {
		return &database{Store: session.NewMemory(), path: memoryDB}, nil
	}
	if scheme, _, ok := strings.Cut(db, "://"); ok {
		if scheme != "postgres" && scheme != "postgresql" {
			return nil, usagef("--db %s://…: a SQLite file or a postgres:// address is possible", render.Cut(scheme, 20))
		}
		return p.openPostgres(ctx, db)
	}
	return p.openFile(db, create)
}

// openFile opens a SQLite file. What it creates only its owner can read, because it
// holds conversations. Without create, a missing file is an error that is errNoFile, and a file that
// cannot be written is opened for reading.
func (p *program) openFile(db string, create bool) (*database, error) {
	path := db
	if path == "" {
		var err error
		if path, err = p.defaultFile(); err != nil {
			return nil, err
		}
	}
	if create {
		if db == "" {
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
	store, err := sqlite.Open(path)
	if err != nil && !create {
		if readable, e := sqlite.Open(path, sqlite.ReadOnly()); e == nil {
			store, err = readable, nil
		}
	}
	if err != nil {
		return nil, usagef("the sessions' file %s cannot be used: %w", path, err)
	}
	return &database{Store: store, path: path}, nil
}

// historyFile returns where chat keeps what was typed: beside the sessions, and if
// these are elsewhere, where they would be; "" for nowhere.
func (p *program) historyFile(db *database) string {
	switch {
	case db.path == memoryDB:
		return ""
	case !db.remote:
		return db.path + ".history"
	}
	path, err := p.defaultFile()
	if err != nil || os.MkdirAll(filepath.Dir(path), 0o700) != nil {
		return "" // chat works without
	}
	return path + ".history"
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

// sessionKey returns the key of an id, or of a new session if it is empty.
func sessionKey(id string) (session.Key, error) {
	if id == "" {
		return session.ID("s-" + randomHex(5)), nil
	}
	return session.ID(id), checkSession(id)
}

// maxSessionID bounds a session's id, in bytes.
const maxSessionID = sessionform.MaxID

func checkSession(id string) error {
	if len(id) > maxSessionID {
		return badID(id)
	}
	return checkName(id)
}

// checkName refuses what names no session, stored or not.
func checkName(id string) error {
	if !utf8.ValidString(id) || strings.TrimSpace(id) != id || id == "" || strings.ContainsFunc(id, unicode.IsControl) {
		return badID(id)
	}
	return nil
}

func badID(id string) error {
	return usagef("session %q: an id has 1 to %d bytes of text without control characters and without space around it", render.Cut(id, 40), maxSessionID)
}
