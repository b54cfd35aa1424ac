package access

import (
	"context"
	"time"
)

// Observer receives measurements of servers, for metrics. Implementations must be safe for concurrent use, and
// their methods must return at once. The measurements contain no user names, session ids or paths. An API is named
// as in [WithAPI], such as "openai"; "" is a turn or stream that no API started.
type Observer interface {
	// Request reports an answered request: its method, the pattern of its route, the HTTP status and the duration.
	Request(ctx context.Context, method, route string, status int, took time.Duration)
	// Streams reports a change of the number of open streams of an API: 1 for an opened stream, -1 for a closed one.
	Streams(ctx context.Context, api string, change int)
	// Delta is the time from when the server received text of a model until it sent the text to a client.
	Delta(ctx context.Context, api string, took time.Duration)
	// Running reports a change of the number of running turns that an API started.
	Running(ctx context.Context, api string, change int)
	// Turn reports the outcome of a turn that ended, paused or was interrupted.
	Turn(ctx context.Context, api, outcome string)
}

// unobserved is the default observer. It ignores all measurements.
type unobserved struct{}

func (unobserved) Request(context.Context, string, string, int, time.Duration) {}
func (unobserved) Streams(context.Context, string, int)                        {}
func (unobserved) Delta(context.Context, string, time.Duration)                {}
func (unobserved) Running(context.Context, string, int)                        {}
func (unobserved) Turn(context.Context, string, string)                        {}

type apiContextKey struct{}

// WithAPI returns a context that carries the name of the API that received a request. An [Observer] gets this name.
func WithAPI(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, apiContextKey{}, name)
}

// APIOf returns the name of the API in a context, or "" if the context has none.
func APIOf(ctx context.Context) string {
	name, _ := ctx.Value(apiContextKey{}).(string)
	return name
}
