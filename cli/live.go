package cli

import (
	"context"
	"log/slog"
	"time"

	"github.com/agentarbor/arbor/session"
)

// Redis puts a live tail, through a server at a URL, around a store, as package
// session/redis does: it looks every poll interval whether something was missed, and says
// to the logger, at levels from info on, what people should know.
type Redis func(ctx context.Context, url string, store session.Store, poll time.Duration, logger *slog.Logger) (session.Store, error)

// WithRedis gives commands the flag --redis.
func WithRedis(r Redis) Option { return func(p *program) { p.redis = r } }

// goLive puts the live tail of --redis around the database.
func (p *program) goLive(ctx context.Context, db *database) error {
	if p.flags.redis == "" {
		return nil
	}
	tail, err := p.redis(ctx, p.flags.redis, db.Store, pollInterval, slog.New(sayer{p}))
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
	told := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "error" {
			told += ": " + a.Value.String()
		}
		return true
	})
	s.p.say("%s", told)
	return nil
}

func (s sayer) WithAttrs([]slog.Attr) slog.Handler { return s }
func (s sayer) WithGroup(string) slog.Handler      { return s }
