package cli

import (
	"context"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/session"
)

// WithPostgres lets --db be the postgres:// address of a database, which open connects to,
// as package session/postgres does.
func WithPostgres(open func(ctx context.Context, address string) (session.Store, error)) Option {
	return func(p *program) { p.postgres = open }
}

// openPostgres connects to the database of an address.
func (p *program) openPostgres(ctx context.Context, address string) (*database, error) {
	shown := withoutPassword(address)
	if p.postgres == nil {
		return nil, usagef("--db %s: this program has no PostgreSQL in it; the option cli.WithPostgres adds it", shown)
	}
	store, err := p.postgres(ctx, address)
	if err != nil {
		return nil, usagef("the sessions' database %s cannot be used: %w", shown, err)
	}
	return &database{Store: store, path: shown, remote: true}, nil
}

// withoutPassword returns the address of a server as messages show it. What cannot
// be read as an address is not shown.
func withoutPassword(address string) string {
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

// Redis puts a live tail, through a server at a URL, around a store, as package
// session/redis does: it looks every poll interval whether something was missed, and says
// to the logger, at levels from info on, what people should know.
type Redis func(ctx context.Context, url string, store session.Store, poll time.Duration, logger *slog.Logger) (session.Store, error)

// WithRedis gives commands the flag --redis.
func WithRedis(r Redis) Option { return func(p *program) { p.redis = r } }

// redisFlag adds --redis.
func (p *program) redisFlag(fs *pflag.FlagSet) {
	if p.redis == nil {
		return
	}
	fs.StringVar(&p.place.redis, "redis", "", "stream sessions between servers through Redis at `URL` (redis://…)")
}

// goLive puts the live tail of --redis around the database.
func (p *program) goLive(ctx context.Context, db *database) error {
	if p.place.redis == "" {
		return nil
	}
	tail, err := p.redis(ctx, p.place.redis, db.Store, pollInterval, slog.New(sayer{p}))
	if err != nil {
		return usagef("--redis: %w", err)
	}
	db.Store = tail
	return nil
}

// sayer is a handler of log records that says warnings, and that something is well
// again, as the command says things. Attributes but the error are left out.
type sayer struct{ p *program }

func (s sayer) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (s sayer) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "error" {
			text += ": " + a.Value.String()
		}
		return true
	})
	s.p.say("%s", text)
	return nil
}

func (s sayer) WithAttrs([]slog.Attr) slog.Handler { return s }
func (s sayer) WithGroup(string) slog.Handler      { return s }
