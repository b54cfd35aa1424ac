package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Options configure a [Guard]. The zero value does not authenticate requests, and refuses web pages of other origins.
type Options struct {
	// Users authenticates requests. Without it, the guard does not authenticate, and requests have no user.
	Users Authenticator
	// Challenge is the WWW-Authenticate header of answers with status 401. Defaults to Bearer.
	Challenge string
	// Hosts are the names of the server in addition to those of loopback, with or without a port. A server on a loopback
	// address refuses requests for other names; see [Guard.CheckHost].
	Hosts []string
	// Origins are the origins of web pages that may call, as browsers send them, such as https://app.example.com; "*" allows
	// any except "null". Defaults to the server's own.
	Origins []string
	// Expose are the names of answer headers that pages of these origins may read.
	Expose []string
	// MaxBody is the limit of a request's body in bytes. Defaults to [MaxBody].
	MaxBody int64
	// BodyTimeout is the time in which a request's body must arrive. Defaults to a minute.
	BodyTimeout time.Duration
	// WriteTimeout is the time in which a client must accept 64 KiB of an answer; otherwise it is disconnected. Defaults
	// to 30 seconds.
	WriteTimeout time.Duration
	// Streams limits the concurrent streams of a user and of all users. Several guards may share it. Defaults to
	// [MaxStreams] and [MaxAllStreams].
	Streams *Limit
	// Logger logs a line for each request, without bodies, queries and credentials, and errors. By default nothing is
	// logged.
	Logger *slog.Logger
	// Observer receives measurements of requests and streams. Defaults to none.
	Observer Observer
}

// MaxBody is the default limit of a request's body, in bytes. The photo of a phone fits, although base64 makes it a
// third larger.
const MaxBody = 16 << 20

// MaxStreams is the default limit of the concurrent streams of a user, and MaxAllStreams that of all users.
const MaxStreams, MaxAllStreams = 1024, 4096

// Guard authenticates and limits the requests of handlers. It is safe for concurrent use. The zero value is not usable;
// see [New].
type Guard struct{ opts Options }

// New returns a guard. It returns an error if a limit is negative, or if no browser sends one of the origins.
func New(o Options) (*Guard, error) {
	if o.MaxBody < 0 || o.BodyTimeout < 0 || o.WriteTimeout < 0 {
		return nil, errors.New("access: MaxBody, BodyTimeout or WriteTimeout is negative: use 0 for the default")
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
		if !isOrigin(o.Origins[i]) {
			return nil, fmt.Errorf("access: origin %d is not one that a browser sends: write SCHEME://HOST or SCHEME://HOST:PORT without a default port, "+
				"such as https://app.example.com, or * for any", i+1) // it may contain a password
		}
	}
	return &Guard{o}, nil
}

// isOrigin reports whether the header Origin can have this value, or the value allows several origins.
func isOrigin(origin string) bool {
	if origin == "*" || origin == "null" {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Scheme == "http" && u.Port() == "80" || u.Scheme == "https" && u.Port() == "443" {
		return false
	}
	host := u.Hostname() // and then host and port as browsers write them
	odd := func(r rune) bool { return r > unicode.MaxASCII || r == '*' || r == ',' }
	if host == "" || strings.ContainsFunc(host, odd) {
		return false
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is6() && !ip.Is4In6() {
		host = "[" + ip.String() + "]"
	}
	if port, _ := strconv.ParseUint(u.Port(), 10, 16); port != 0 {
		host += ":" + strconv.FormatUint(port, 10)
	}
	return origin == u.Scheme+"://"+host
}

// Logger returns the logger for the handlers that the guard protects. It is never nil.
func (g *Guard) Logger() *slog.Logger { return g.opts.Logger }

// Observer returns the observer for the handlers that the guard protects. It is never nil.
func (g *Guard) Observer() Observer { return g.opts.Observer }

// Stream counts a stream of a user until the caller calls leave. If a limit is reached, it waits as [Limit.Await] does.
// The error is a *[LimitError], or the cause of ctx.
func (g *Guard) Stream(ctx context.Context, user string) (leave func(), err error) {
	if err := g.opts.Streams.Await(ctx, user); err != nil {
		return nil, err
	}
	return func() { g.opts.Streams.Leave(user) }, nil
}

// RefusedError is the reason why a guard refuses a request. The client may see it.
type RefusedError struct {
	// Status is the HTTP status: 400 for an incomplete body, 403 for an origin, 408 for a slow body, 413 for a large body,
	// 415 for a compressed body, 421 for a host, and 429 for too many wrong credentials.
	Status  int
	Message string
	// RetryAfter is how long the client should wait before it retries. 0 gives no advice.
	RetryAfter time.Duration
}

func (e *RefusedError) Error() string { return e.Message }

func refusef(status int, format string, a ...any) error {
	return &RefusedError{Status: status, Message: fmt.Sprintf(format, a...)}
}

// ErrAnswered reports that [Guard.Admit] has answered the request itself.
var ErrAnswered = errors.New("the request was answered")

// Admit makes all checks: it calls [Guard.Open], checks host and origin, and authenticates the request unless open is
// true. The context of the returned request has the user, and its body is limited. The error is a *[RefusedError], that
// of [Guard.Authenticate], or [ErrAnswered] for the preflight request of a browser.
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

// Handler returns a handler that makes all checks, reads the whole body, and calls next. The context of the request has
// the user, and ends when the user is revoked. It answers a refused request with a status and a line of text, and it
// answers the preflight requests of browsers.
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

// Bounded returns a handler that reads the whole body within the limits and calls next. It makes no other checks; use it
// for requests whose body is signed. It answers a refused request as [Guard.Handler] does.
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

// refuse answers with an error. It does not send the text of an error that is not one of this package's.
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

// Open limits the time for each piece of the answer, and the size and the time of the request's body, even if no handler
// reads it. Errors of reading the body are then *[RefusedError]s.
func (g *Guard) Open(w http.ResponseWriter, r *http.Request) *Writer {
	timed := NewWriter(w, g.opts.WriteTimeout)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if r.Body != nil && r.Body != http.NoBody {
		// net/http removes the deadline when the body was read to its end.
		_ = timed.control.SetReadDeadline(time.Now().Add(g.opts.BodyTimeout))
		limited := &body{http.MaxBytesReader(w, r.Body, g.opts.MaxBody), g, nil}
		// Some clients name their charset here.
		if encoding := r.Header.Get("Content-Encoding"); !slices.Contains([]string{"", "identity", "utf-8"}, strings.ToLower(encoding)) {
			limited.refused = refusef(http.StatusUnsupportedMediaType, "the body has the content encoding %.32q; send it without one", encoding)
		} else if r.ContentLength > g.opts.MaxBody {
			limited.refused = g.tooLarge()
		}
		r.Body = limited
	}
	return timed
}

// Authenticate authenticates a request, and returns its context with the user. See the function [Authenticate] for the
// errors.
func (g *Guard) Authenticate(r *http.Request) (context.Context, error) {
	return Authenticate(r.Context(), g.opts.Users, CredentialsOf(r))
}
