package analytics

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
)

// Sink receives the events. One goroutine, never that of a turn, calls it for one event at a time. If it returns an
// error or panics, the event is lost and counted. The context ends when Close runs out of time. The maps and slices of
// an event are shared with the log: a sink must not change them.
type Sink interface {
	Record(ctx context.Context, e Event) error
}

// SinkFunc is a function that implements [Sink].
type SinkFunc func(ctx context.Context, e Event) error

// Record implements Sink.
func (f SinkFunc) Record(ctx context.Context, e Event) error { return f(ctx, e) }

// JSONLines returns a sink that writes each event as one line of JSON, with one call of Write.
func JSONLines(w io.Writer) Sink {
	lines := json.NewEncoder(w)
	return SinkFunc(func(_ context.Context, e Event) error { return lines.Encode(e) })
}

// Slog returns a sink that logs each event at level info. The message is the event's type, and the attribute "event" is
// the whole event.
func Slog(l *slog.Logger) Sink {
	return SinkFunc(func(ctx context.Context, e Event) error {
		l.LogAttrs(ctx, slog.LevelInfo, e.Type, slog.Any("event", e))
		return nil
	})
}
