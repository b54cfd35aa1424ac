package factory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/internal/sessionform"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sqlite"
	"github.com/agentarbor/arbor/session/tail"
)

// Asked reads a session's log. It returns the open questions that are answered in this session, and the fold.
func (db *Database) Asked(ctx context.Context, key session.Key) ([]*event.Relay, *session.Fold, error) {
	fold, err := db.Fold(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	info, _, err := session.Find(ctx, db, key)
	shared := fold.SharedQuestions(info.ParentSeq)
	return slices.DeleteFunc(fold.Questions(), func(q *event.Relay) bool { return slices.Contains(shared, q) }), fold, err
}

// PollInterval is how often follow polls a database that has no live tail.
const PollInterval = 250 * time.Millisecond

// followed is a store that can be followed.
type followed interface {
	session.Store
	session.Tail
}

// Tail returns the database as a store that can be followed: through its live tail, or by polling.
func (db *Database) Tail() (followed, error) {
	if t, ok := db.Store.(followed); ok {
		return t, nil
	}
	t, err := tail.New(db.Store, tail.WithPoll(PollInterval))
	if err != nil {
		return nil, err
	}
	db.Store = t
	return t, nil
}

// Feed reads the events of a session.
type Feed interface {
	// Log yields the stored events after a position.
	Log(ctx context.Context, after int64) iter.Seq2[*event.Event, error]
	// Tail yields the entries after an entry, as session.Tail does.
	Tail(ctx context.Context, after string) iter.Seq2[session.Entry, error]
}

// StoredSession is a session of the database.
type StoredSession struct {
	DB  *Database
	Key session.Key
}

func (s StoredSession) Log(ctx context.Context, after int64) iter.Seq2[*event.Event, error] {
	return s.DB.Load(ctx, s.Key, after)
}

func (s StoredSession) Tail(ctx context.Context, after string) iter.Seq2[session.Entry, error] {
	tail, err := s.DB.Tail()
	if err != nil {
		return func(yield func(session.Entry, error) bool) { yield(session.Entry{}, err) }
	}
	return tail.Follow(ctx, s.Key, after)
}

func (s StoredSession) FileBytes(ctx context.Context, digest string) ([]byte, error) {
	return s.DB.Blob(ctx, s.Key, digest)
}

// ResumeWait is how long resume waits for the session's lease.
const ResumeWait = 20 * time.Second

// MemoryDB is the value of --db that keeps sessions only in memory.
const MemoryDB = ":memory:"

// place names the store of the sessions.
type place struct{ DB, Redis string }

// DBFlag adds --db.
func (f *Factory) DBFlag(fs *pflag.FlagSet) {
	address := ""
	if f.Postgres != nil {
		address = " a postgres:// address,"
	}
	fs.StringVarP(&f.Place.DB, "db", "d", "", "store sessions in `DB`: a SQLite file,"+address+" or "+MemoryDB+" (default "+f.StateFile()+" in the state directory)")
}

// StateFile returns the path of the default database below the state directory.
func (f *Factory) StateFile() string { return f.Name + "/" + f.Name + ".db" }

// defaultFile returns the path of the default database.
func (f *Factory) defaultFile() (string, error) {
	state := f.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // as the XDG base directory specification requires
		home := f.Getenv("HOME")
		if home == "" {
			home, _ = os.UserHomeDir()
		}
		if home == "" {
			return "", Usagef("there is no home directory for the sessions' file: give --db FILE, or set XDG_STATE_HOME")
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, filepath.FromSlash(f.StateFile())), nil
}

// Database is an open store.
type Database struct {
	session.Store
	Path   string // as messages show it; MemoryDB if nothing is stored
	Remote bool   // the sessions are not in a file
}

// ErrNoFile is the error of a missing sessions' file.
var ErrNoFile = errors.New("there is no such sessions' file")

// OpenDB opens the database and closes it at the end of the command. With --redis it can be followed live.
func (f *Factory) OpenDB(ctx context.Context, create bool) (*Database, error) {
	db, err := openStore(ctx, f, f.Place.DB, create)
	if err != nil {
		return nil, err
	}
	f.AtEnd(func() { _ = db.Close() }) // of the value of db.Store at that time
	return db, goLive(ctx, f, db)
}

// libpqWords matches a connection string in PostgreSQL's own form, such as host=db user=me.
var libpqWords = lazyregexp.New(`(?i)(^|\s)(host|hostaddr|port|dbname|user|password|passfile|service|sslmode)\s*=`)

// credentials matches a text that is meant as an address with a user and a password.
var credentials = lazyregexp.New(`(?i)^(postgres(ql)?|mysql|rediss?|https?):|^/*[^/]*:[^/]*@`)

// CheckDB refuses a value of --db that is the address of a server in an unsupported form, and not a file's name. It
// does so before a file with this name is created or a message contains it, because it may contain a password. ./NAME
// names a file with such a name.
func CheckDB(db string) error {
	switch {
	case strings.Contains(db, "://"), strings.HasPrefix(db, "./"):
		return nil
	case libpqWords.MatchString(db):
		return Usagef("--db: settings such as host=… are not supported: write a database as postgres://USER:PASSWORD@HOST/NAME, and a file of this name as ./NAME")
	case credentials.MatchString(db):
		return Usagef("--db: this looks like an address with a mistake: a database's is postgres://USER:PASSWORD@HOST/NAME, and a file of such a name is ./NAME")
	}
	return nil
}

// openStore opens the store of a value of --db.
func openStore(ctx context.Context, f *Factory, db string, create bool) (*Database, error) {
	if db == MemoryDB {
		return &Database{Store: session.NewMemory(), Path: MemoryDB}, nil
	}
	if scheme, _, ok := strings.Cut(db, "://"); ok {
		if scheme != "postgres" && scheme != "postgresql" {
			return nil, Usagef("--db %s://…: give a SQLite file or a postgres:// address", visible.Cut(scheme, 20))
		}
		return openPostgres(ctx, f, db)
	}
	return openFile(f, db, create)
}

// openFile opens a SQLite file. Only the owner can read a file that it creates, because it contains conversations. If
// create is false, a missing file is ErrNoFile, and a file that cannot be written is opened for reading.
func openFile(f *Factory, db string, create bool) (*Database, error) {
	path := db
	if path == "" {
		var err error
		if path, err = f.defaultFile(); err != nil {
			return nil, err
		}
	}
	if create {
		if db == "" {
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				return nil, Usagef("the sessions' folder cannot be created: %w", err)
			}
		}
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, Usagef("the sessions' file cannot be opened: %w", err)
		}
		_ = file.Close()
	} else if _, err := os.Stat(path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, Usagef("%s: %w", path, ErrNoFile)
		}
		return nil, Usage(err)
	}
	store, err := sqlite.Open(path)
	if err != nil && !create {
		if readable, e := sqlite.Open(path, sqlite.ReadOnly()); e == nil {
			store, err = readable, nil
		}
	}
	if err != nil {
		return nil, Usagef("the sessions' file %s cannot be used: %w", path, err)
	}
	return &Database{Store: store, Path: path}, nil
}

// HistoryFile returns the file in which chat keeps typed lines: next to the sessions or, if these are not in a file,
// next to the default database. "" means none.
func HistoryFile(f *Factory, db *Database) string {
	switch {
	case db.Path == MemoryDB:
		return ""
	case !db.Remote:
		return db.Path + ".history"
	}
	path, err := f.defaultFile()
	if err != nil || os.MkdirAll(filepath.Dir(path), 0o700) != nil {
		return "" // chat works without it
	}
	return path + ".history"
}

// Fold reads a session's log and returns its fold.
func (db *Database) Fold(ctx context.Context, key session.Key) (*session.Fold, error) {
	f := &session.Fold{}
	for e, err := range db.Load(ctx, key, 0) {
		if err != nil {
			return nil, err
		}
		f.Apply(e)
	}
	return f, nil
}

// SessionKey returns the key of an id. If the id is empty, it returns the key of a new session.
func SessionKey(id string) (session.Key, error) {
	if id == "" {
		return session.ID("s-" + RandomHex(5)), nil
	}
	return session.ID(id), CheckSession(id)
}

// maxSessionID is the maximal length of a session's id, in bytes.
const maxSessionID = sessionform.MaxID

// CheckSession returns an error if an id cannot be that of a new session.
func CheckSession(id string) error {
	if len(id) > maxSessionID {
		return badID(id)
	}
	return CheckName(id)
}

// CheckName returns an error if a name cannot be that of any session.
func CheckName(id string) error {
	if !utf8.ValidString(id) || strings.TrimSpace(id) != id || id == "" || strings.ContainsFunc(id, unicode.IsControl) {
		return badID(id)
	}
	return nil
}

func badID(id string) error {
	return Usagef("session %q: an id has 1 to %d bytes of text without control characters and without space around it", visible.Cut(id, 40), maxSessionID)
}

// Stored opens the database and finds a session.
func Stored(ctx context.Context, f *Factory, id string) (*Database, session.Info, error) {
	if err := CheckName(id); err != nil {
		return nil, session.Info{}, err
	}
	db, err := f.OpenDB(ctx, false)
	if err != nil {
		return nil, session.Info{}, err
	}
	info, err := db.Find(ctx, id)
	return db, info, err
}

// Find finds a session by its name, which is what sessions ls prints, or only an id. The order is: the session with the
// key app/user/id; the command's own session with the id; the only session of any app and user with it; and a session
// whose id ls prints with escapes.
func (db *Database) Find(ctx context.Context, name string) (none session.Info, err error) {
	if err := CheckName(name); err != nil {
		return none, err
	}
	for _, look := range []func(context.Context, string) ([]session.Info, error){db.byKey, db.byID, db.byPrinted} {
		found, err := look(ctx, name)
		switch {
		case err != nil:
			return none, err
		case len(found) == 1:
			return found[0], nil
		case len(found) > 1:
			var names []string
			for _, s := range found {
				names = append(names, s.Key.String())
			}
			return none, Usagef("%d sessions have the id %q: %s", len(found), name, strings.Join(names, ", "))
		}
	}
	missing := NoSession{ID: name, DB: db.Path}
	latest, err := db.List(ctx, session.Key{}, session.Page{Limit: 1000})
	for _, s := range latest {
		missing.Latest = append(missing.Latest, visible.Line(ShownID(s.Key)))
	}
	return none, cmp.Or(err, Usage(missing))
}

// byKey returns the sessions with the key app/user/id. There are several only if parts of the key contain slashes.
func (db *Database) byKey(ctx context.Context, name string) (found []session.Info, err error) {
	const most = 8 // an id can have more slashes, but apps and users hardly have any
	parts := strings.Split(name, "/")
	for i := 1; i < min(len(parts)-1, most); i++ {
		for j := i + 1; j < min(len(parts), most); j++ {
			key := session.Key{App: strings.Join(parts[:i], "/"), User: strings.Join(parts[i:j], "/"), ID: strings.Join(parts[j:], "/")}
			if key.App == "" || key.User == "" || key.ID == "" { // which would match all
				continue
			}
			some, err := db.List(ctx, key, session.Page{})
			if err != nil {
				return nil, err
			}
			found = append(found, some...)
		}
	}
	return found, nil
}

func (db *Database) byID(ctx context.Context, id string) ([]session.Info, error) {
	found, err := db.List(ctx, session.Key{ID: id}, session.Page{})
	if i := slices.IndexFunc(found, func(s session.Info) bool { return Own(s.Key) }); i >= 0 {
		found = found[i : i+1]
	}
	return found, err
}

func (db *Database) byPrinted(ctx context.Context, name string) ([]session.Info, error) {
	all, err := db.List(ctx, session.Key{}, session.Page{})
	return slices.DeleteFunc(all, func(s session.Info) bool { return visible.Line(ShownID(s.Key)) != name }), err
}

// NoSession is the error of an id without a stored session. It suggests the most similar of the latest sessions.
type NoSession struct {
	ID, DB string
	Latest []string
}

func (e NoSession) Error() string {
	return fmt.Sprintf("there is no session %q in %s%s", e.ID, e.DB, nearest.Hint(e.ID, e.Latest))
}
