package analytics

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
)

// Sink is where events go. One goroutine calls it for one event after the other, never that of a turn. An event that it
// returns an error for, or panics at, is lost and counted. The context ends when Close has no more time. The maps and
// slices of an event are shared with the log: a sink must not change them.
type Sink interface {
	Record(ctx context.Context, e Event) error
}

// SinkFunc is a function as a sink.
type SinkFunc func(ctx context.Context, e Event) error

// Record implements Sink.
func (f SinkFunc) Record(ctx context.Context, e Event) error { return f(ctx, e) }

// JSONLines is a sink that writes one line of JSON for each event, by one call of Write.
func JSONLines(w io.Writer) Sink {
	lines := json.NewEncoder(w)
	return SinkFunc(func(_ context.Context, e Event) error { return lines.Encode(e) })
}

// Slog is a sink that logs each event at the level of information: its type is the message, and the attribute "event"
// has all of it.
func Slog(l *slog.Logger) Sink {
	return SinkFunc(func(ctx context.Context, e Event) error {
		l.LogAttrs(ctx, slog.LevelInfo, e.Type, slog.Any("event", e))
		return nil
	})
}
