package cli

import (
	"context"
	"log/slog"

	driver "github.com/redis/go-redis/v9"

	"github.com/agentarbor/arbor/session/redis"
)

// goLive puts the live tail of --redis around the database.
func (p *program) goLive(ctx context.Context, db *database) error {
	if p.flags.redis == "" {
		return nil
	}
	tail, err := redis.New(ctx, p.flags.redis, db.Store, redis.WithPoll(pollInterval), redis.WithLogger(slog.New(sayer{p})))
	if err != nil {
		return usagef("--redis: %w", err)
	}
	db.Store = tail
	return nil
}

// quietRedis keeps the driver from writing to standard error by itself: what people
// should know is said by the tail. The setting is the process's, and so this is for
// Main.
func quietRedis() { driver.SetLogger(silence{}) }

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

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
