package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Options say who may reach a server, from where, and how much they may send. The zero value
// is safe: it asks nobody who they are, and lets in no web pages of other origins.
type Options struct {
	// Users tells who calls. Without it nobody is asked, and requests have no user.
	Users Authenticator
	// Challenge is what an answer with the status 401 asks for in WWW-Authenticate; "" is
	// Bearer.
	Challenge string
	// Hosts are names under which the server is reached, with or without a port, besides
	// those of loopback. A server that listens on loopback refuses requests for others,
	// because a page in a browser can point a name of its own at it.
	Hosts []string
	// Origins are the origins of web pages that may call, such as
	// https://app.example.com; "*" is any. By default only the server's own may.
	Origins []string
	// Expose names the headers of answers that such pages may read.
	Expose []string
	// MaxBody bounds the body of a request in bytes; 0 is [MaxBody].
	MaxBody int64
	// BodyTimeout bounds the time that a request's body takes to arrive; 0 is a minute.
	BodyTimeout time.Duration
	// WriteTimeout bounds the time that a client takes to accept 64 KiB of an answer; 0 is
	// 30 s. A slower one is disconnected.
	WriteTimeout time.Duration
	// Streams bounds the streams that a user has open at the same time, and those of all users; guards may
	// share it. nil is [MaxStreams] and [MaxAllStreams].
	Streams *Limit
	// Logger hears of each request in one line, without bodies, queries and credentials, and of
	// what failed; by default nothing is logged.
	Logger *slog.Logger
	// Observer hears of requests and streams; nil is nobody.
	Observer Observer
}

// MaxBody is the default limit of a request's body, in bytes. The photo of a phone fits, although base64 makes it a third
// larger.
const MaxBody = 16 << 20

// MaxStreams is the default limit of the streams that a user has open at the same time, and MaxAllStreams that of the
// streams of all users.
const MaxStreams, MaxAllStreams = 1024, 4096

// Guard stands before a handler. It is safe for concurrent use.
type Guard struct{ opts Options }

// New makes a guard. It is an error if a bound is negative.
func New(o Options) (*Guard, error) {
	if o.MaxBody < 0 || o.BodyTimeout < 0 || o.WriteTimeout < 0 {
		return nil, errors.New("access: a bound is negative; 0 is its default")
	}
	o.Challenge = cmp.Or(o.Challenge, "Bearer")
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Observer == nil {
		o.Observer = unobserved{}
	}
	o.MaxBody = cmp.Or(o.MaxBody, MaxBody)
	o.BodyTimeout = cmp.Or(o.BodyTimeout, time.Minute)
	if o.Streams == nil {
		o.Streams = NewLimit(MaxStreams, MaxAllStreams)
	}
	o.Hosts = slices.Clone(o.Hosts)
	for i, host := range o.Hosts {
		o.Hosts[i] = hostName(host)
	}
	o.Origins = slices.Clone(o.Origins)
	for i, origin := range o.Origins {
		o.Origins[i] = strings.ToLower(strings.TrimSuffix(origin, "/"))
	}
	return &Guard{o}, nil
}

// Logger returns the logger of those who serve behind the guard.
func (g *Guard) Logger() *slog.Logger { return g.opts.Logger }

// Observer returns who hears what servers behind the guard do, never nil.
func (g *Guard) Observer() Observer { return g.opts.Observer }

// Stream counts a stream of a user until leave is called. At a limit it waits as [Limit.Await] does. The error
// is a *[LimitError] if there are too many, or why ctx ended.
func (g *Guard) Stream(ctx context.Context, user string) (leave func(), err error) {
	if err := g.opts.Streams.Await(ctx, user); err != nil {
		return nil, err
	}
	return func() { g.opts.Streams.Leave(user) }, nil
}

// RefusedError says why a request is refused, in words that its client may see.
type RefusedError struct {
	// Status is that of HTTP: 400 for a body that broke off, 403 for an origin, 408 for a body
	// that is too slow, 413 for one that is too large, 421 for a host, 429 for who has guessed
	// too often.
	Status  int
	Message string
	// RetryAfter is when it may be tried again; 0 says nothing.
	RetryAfter time.Duration
}

func (e *RefusedError) Error() string { return e.Message }

func refusef(status int, format string, a ...any) error {
	return &RefusedError{Status: status, Message: fmt.Sprintf(format, a...)}
}

// ErrAnswered says that [Guard.Admit] has answered the request itself.
var ErrAnswered = errors.New("the request was answered")

// Admit makes all checks: it begins the answer, checks host and origin, and asks who calls. The
// request that it returns carries the user, and its body is bounded. The error is a
// *[RefusedError], that of [Guard.Authenticate], or [ErrAnswered] for a request in which a
// browser asks whether a page may call. An open route is one for everybody: nobody is asked who
// they are.
func (g *Guard) Admit(bare http.ResponseWriter, r *http.Request, open bool) (*Writer, *http.Request, error) {
	w := g.Open(bare, r)
	err := g.CheckHost(r)
	if err == nil {
		err = g.CheckOrigin(w, r)
	}
	if err != nil {
		return w, r, err
	}
	if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
		g.Preflight(w, r, "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
		return w, r, ErrAnswered
	}
	if !open {
		ctx, err := g.Authenticate(r)
		if err != nil {
			if errors.Is(err, ErrUnauthenticated) {
				w.Header().Set("WWW-Authenticate", g.opts.Challenge)
			}
			return w, r, err
		}
		r = r.WithContext(ctx)
	}
	return w, r, nil
}

// Handler makes all checks before it hands a request on. The context carries the user and ends when the user
// is revoked. The body has arrived as a whole. Handler answers a refused request with a status and a line of
// text, and it answers requests in which a browser asks whether a page may call.
func (g *Guard) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(bare http.ResponseWriter, r *http.Request) {
		w, r, err := g.Admit(bare, r, false)
		if err == nil {
			r, err = received(r)
		}
		switch {
		case err == nil:
			ctx, stop := UntilRevoked(r.Context())
			defer stop()
			next.ServeHTTP(w, r.WithContext(ctx))
		case !errors.Is(err, ErrAnswered):
			refuse(w, err)
		}
	})
}

// Bounded hands a request on once its body has arrived as a whole. It checks nothing else, for requests that
// prove by a signature of their body where they come from. Bounded answers a refused request as
// [Guard.Handler] does.
func (g *Guard) Bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(bare http.ResponseWriter, r *http.Request) {
		w := g.Open(bare, r)
		r, err := received(r)
		if err != nil {
			refuse(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refuse answers with an error. What is none of this package's is not told.
func refuse(w http.ResponseWriter, err error) {
	status, message := http.StatusInternalServerError, "the credentials could not be checked"
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		status, message = refused.Status, refused.Message
		if refused.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(refused.RetryAfter.Seconds()))))
		}
	case errors.Is(err, ErrUnauthenticated):
		status, message = http.StatusUnauthorized, err.Error()
	case errors.Is(err, ErrForbidden):
		status, message = http.StatusForbidden, err.Error()
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, message, status)
}

// Open begins an answer: it bounds the time of each piece of the answer, and the size and the time of the
// request's body, even if no handler reads it. From then on reading the body returns a *[RefusedError] if it fails.
func (g *Guard) Open(w http.ResponseWriter, r *http.Request) *Writer {
	timed := NewWriter(w, g.opts.WriteTimeout)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if r.Body != nil && r.Body != http.NoBody {
		// Once the body was read to its end net/http takes the deadline away.
		_ = timed.control.SetReadDeadline(time.Now().Add(g.opts.BodyTimeout))
		r.Body = &body{http.MaxBytesReader(w, r.Body, g.opts.MaxBody), g, r.ContentLength > g.opts.MaxBody}
	}
	return timed
}

// Authenticate asks who calls, and returns the request's context with the user. The error is
// that of the authenticator.
func (g *Guard) Authenticate(r *http.Request) (context.Context, error) {
	return Authenticate(r.Context(), g.opts.Users, CredentialsOf(r))
}
