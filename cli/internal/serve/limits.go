package serve

import (
	"net/http"
	"time"

	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/server/access"
)

// limitOptions are the limits of clients' requests.
type limitOptions struct {
	turns, userTurns     int
	streams, userStreams int
	open                 *access.Limit // of open streams in all APIs; nil until check
	body                 factory.Size
	bodyTime             time.Duration
}

func (l *limitOptions) flags(fs *pflag.FlagSet) {
	l.body = access.MaxBody
	fs.IntVar(&l.turns, "max-turns", 256, "run at most `N` turns at the same time, for all users together")
	fs.IntVar(&l.userTurns, "max-user-turns", 32, "run at most `N` turns at the same time for one user")
	fs.IntVar(&l.streams, "max-streams", access.MaxAllStreams, "keep at most `N` streams open, for all users together")
	fs.IntVar(&l.userStreams, "max-user-streams", access.MaxStreams, "keep at most `N` streams open for one user")
	fs.Var(&l.body, "max-body", "accept request bodies of at most `SIZE`")
	fs.DurationVar(&l.bodyTime, "body-time", time.Minute, "wait at most `TIME` for the body of a request")
}

func (l *limitOptions) check() error {
	for name, n := range map[string]int{"max-turns": l.turns, "max-user-turns": l.userTurns, "max-streams": l.streams, "max-user-streams": l.userStreams} {
		if err := factory.InRange("--"+name, n, 1, 0); err != nil {
			return err
		}
	}
	if l.bodyTime <= 0 {
		return factory.Usagef("--body-time %s: give a time of more than 0, such as 30s", l.bodyTime)
	}
	l.open = access.NewLimit(l.userStreams, l.streams)
	return nil
}

// of adds the limits to the options of a guard.
func (l *limitOptions) of(o access.Options) access.Options {
	o.Streams, o.MaxBody, o.BodyTimeout = l.open, int64(l.body), l.bodyTime
	return o
}

// a2a returns the limits for clients of A2A.
func (l *limitOptions) a2a() a2aserver.HTTPOptions {
	return a2aserver.HTTPOptions{Streams: l.open, MaxBody: int64(l.body), BodyTimeout: l.bodyTime}
}

// arrives limits the time of bodies at paths without a handler, too, which read none: net/http waits for the rest of a
// body before it closes a connection.
func (l *limitOptions) arrives(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != http.NoBody {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(l.bodyTime))
		}
		next.ServeHTTP(w, r)
	})
}
