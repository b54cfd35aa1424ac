package factory

import (
	"context"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/session"
)

// serverFlags name the server whose sessions are used.
type serverFlags struct{ URL, TokenFile string }

// Words returns the flags that name the same server.
func (f serverFlags) Words() []string {
	words := []string{"--server", QuoteArg(f.URL)}
	if f.TokenFile != "" {
		words = append(words, "--token-file", QuoteArg(f.TokenFile))
	}
	return words
}

// TokenVariable is the environment variable that holds the owner's token of serve.
const TokenVariable = "ARBOR_TOKEN"

// maxSecretFile is the maximal size of the files with the token and the key, in bytes.
const maxSecretFile = 64 << 10

// Owner is the user whose sessions all commands use. It has all rights.
var Owner = access.User{Name: session.DefaultUser, Rights: access.All | access.Owner}

// ReadSecret reads a file with one secret. No error contains the file's content.
func (s Streams) ReadSecret(flag, name string) (string, error) {
	data, err := s.Read(flag, name, maxSecretFile)
	text := strings.TrimSpace(string(data))
	if err == nil && text == "" {
		err = Usagef("%s %s: the file is empty", flag, name)
	}
	return text, err
}

// UsersFlag adds --users.
func UsersFlag(f *Factory, fs *pflag.FlagSet, file *string) {
	fs.StringVar(file, "users", "", "read the users and their rights from `FILE` (default "+f.Name+"/users.yaml in the state directory)")
}

// UsersPath returns the users file that a flag names, or the default one.
func (f *Factory) UsersPath(file string) (string, error) {
	if file != "" {
		return file, nil
	}
	db, err := f.defaultFile()
	return filepath.Join(filepath.Dir(db), "users.yaml"), err
}

// openPostgres connects to the database of an address.
func openPostgres(ctx context.Context, f *Factory, address string) (*Database, error) {
	shown := WithoutPassword(address)
	if f.Postgres == nil {
		return nil, Usagef("--db %s: this program has no PostgreSQL in it; the option cli.WithPostgres adds it", shown)
	}
	store, err := f.Postgres(ctx, address)
	if err != nil {
		return nil, Usagef("the sessions' database %s cannot be used: %w", shown, err)
	}
	return &Database{Store: store, Path: shown, Remote: true}, nil
}

// WithoutPassword returns the address of a server for messages. It hides a text that it cannot parse as an address.
func WithoutPassword(address string) string {
	scheme, _, ok := strings.Cut(address, "://")
	if !ok {
		return address // a file
	}
	u, err := url.Parse(address)
	if err != nil {
		return scheme + "://…"
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
		if u.User.Username() == "" {
			u.User = nil
		}
	}
	query := u.Query()
	for name := range query {
		if strings.Contains(strings.ToLower(name), "pass") {
			query.Del(name)
		}
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// Redis adds a live tail, which uses a server at a URL, to a store; package session/redis implements it. It checks
// every poll interval for missed events, and logs messages for people from level info on.
type Redis func(ctx context.Context, url string, store session.Store, poll time.Duration, logger *slog.Logger) (session.Store, error)

// RedisFlag adds --redis.
func (f *Factory) RedisFlag(fs *pflag.FlagSet) {
	if f.Redis == nil {
		return
	}
	fs.StringVar(&f.Place.Redis, "redis", "", "stream sessions between servers through Redis at `URL` (redis://…)")
}

// goLive adds the live tail of --redis to the database.
func goLive(ctx context.Context, f *Factory, db *Database) error {
	if f.Place.Redis == "" {
		return nil
	}
	tail, err := f.Redis(ctx, f.Place.Redis, db.Store, PollInterval, slog.New(sayer{&f.Output}))
	if err != nil {
		return Usagef("--redis: %w", err)
	}
	db.Store = tail
	return nil
}

// sayer is a log handler that prints warnings, and that a problem is over, as messages of the command. Of the
// attributes it prints only the error.
type sayer struct{ o *Output }

func (s sayer) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (s sayer) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "error" {
			text += ": " + a.Value.String()
		}
		return true
	})
	s.o.Say("%s", text)
	return nil
}

func (s sayer) WithAttrs([]slog.Attr) slog.Handler { return s }

func (s sayer) WithGroup(string) slog.Handler { return s }
