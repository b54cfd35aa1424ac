// Package front is the part that the handlers of all APIs share. It authenticates requests, routes them, and turns
// every error into a [Fault], which the handler writes in the form of its protocol.
//
// The only protocol that it implements is HTTP.
package front

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
)

// Route is a method and a path, such as /sessions/{id}, below the prefix of a handler.
type Route struct {
	Method, Path string
	// Open routes need no authentication.
	Open bool
	// Needs are the rights that the caller must have. 0 needs none.
	Needs access.Rights
	// Handle answers a request. It returns an error only before it has written an answer; see [FaultOf].
	Handle func(*Call) error
}

// authorized returns Handle with a check of the caller's rights.
func (r Route) authorized() func(*Call) error {
	return func(c *Call) error {
		if !c.User.May(r.Needs) {
			return &Fault{Status: http.StatusForbidden, Code: "forbidden", Detail: fmt.Sprintf("this needs the right %q", cmp.Or(strings.Join(r.Needs.Names(), ", "), "owner"))}
		}
		return r.Handle(c)
	}
}

// Config configures a [Handler].
type Config struct {
	// Turns is required, unless NoTurns is set.
	Turns *live.Turns
	// NoTurns is for a handler that serves no sessions.
	NoTurns bool
	// Guard authenticates requests. Without one, middleware of the program must put the user into the context; see
	// access.FromContext.
	Guard *access.Guard
	// App is the app in the keys of sessions. Defaults to session.DefaultApp.
	App string
	// Name is the name of the API in metrics. Defaults to the prefix with _ for each slash.
	Name string
	// Prefix begins all paths, such as /v1.
	Prefix string
	Routes []Route
	// Fail writes a fault. It is called at most once for a request, before any other part of the answer.
	Fail func(*Call, *Fault)
}

// Handler serves the routes of one API. It is an http.Handler and safe for concurrent use.
type Handler struct {
	config   Config
	mux      *http.ServeMux
	notFound http.Handler // for requests whose path is not clean
	process  string       // a random prefix of request ids
	last     atomic.Int64 // the number of the last request
}

// New returns a handler. The error names the field of the configuration that is missing or invalid.
func New(c Config) (*Handler, error) {
	if c.Turns == nil && !c.NoTurns {
		return nil, errors.New("the turns are nil")
	}
	if c.Prefix == "" || c.Prefix[0] != '/' || strings.HasSuffix(c.Prefix, "/") || strings.ContainsAny(c.Prefix, "{} ") {
		return nil, fmt.Errorf("the prefix %.64q must be a path such as /v1", c.Prefix)
	}
	if c.Guard == nil {
		guard, err := access.New(access.Options{Users: access.FromContext()})
		if err != nil {
			return nil, err
		}
		c.Guard = guard
	}
	c.Name = cmp.Or(c.Name, strings.ReplaceAll(c.Prefix[1:], "/", "_"))
	c.App = cmp.Or(c.App, session.DefaultApp)
	if err := session.CheckKey(session.Key{App: c.App, User: session.DefaultUser, ID: "a"}); err != nil {
		return nil, fmt.Errorf("the app %.64q cannot be in the key of a session", c.App)
	}
	h := &Handler{config: c, mux: http.NewServeMux(), process: strings.ToLower(rand.Text()[:10])}
	for _, r := range c.Routes {
		pattern := r.Method + " " + c.Prefix + r.Path
		handler := h.handler(pattern, r.Open, r.authorized())
		h.mux.Handle(pattern, handler)
		if r.Path == "" && !slices.ContainsFunc(c.Routes, func(o Route) bool { return o.Method == r.Method && strings.HasPrefix(o.Path, "/{") }) {
			h.mux.Handle(pattern+"/{$}", handler) // the address of other AG-UI servers ends in a slash
		}
	}
	h.notFound = h.handler("* "+c.Prefix+"/", false, func(*Call) error { return NotFound() })
	for _, rest := range []string{c.Prefix + "/", c.Prefix} { // without the second, net/http redirects it to the first
		h.mux.Handle(rest, h.handler(rest, false, h.noRoute))
	}
	return h, nil
}

// Prefix returns the prefix of all paths.
func (h *Handler) Prefix() string { return h.config.Prefix }

// Routes returns the routes, whose paths are below the prefix.
func (h *Handler) Routes() []Route { return h.config.Routes }

// App returns the app in the keys of sessions.
func (h *Handler) App() string { return h.config.App }

// ServeHTTP implements http.Handler. It answers 404 to a path that is not clean, such as /a/../b.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p := r.URL.EscapedPath(); p != path.Clean(p) && p != path.Clean(p)+"/" {
		h.notFound.ServeHTTP(w, r)
		return
	}
	h.mux.ServeHTTP(w, r)
}

// noRoute answers requests that no route matches: 405 if the path has other methods, and 404 otherwise.
func (h *Handler) noRoute(c *Call) error {
	var allow []string
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		other := &http.Request{Method: method, URL: c.R.URL, Host: c.R.Host}
		if _, pattern := h.mux.Handler(other); strings.Contains(pattern, " ") { // the pattern of a route has a method
			allow = append(allow, method)
		}
	}
	if len(allow) == 0 {
		return &Fault{Status: http.StatusNotFound, Code: "not_found", Detail: "no route matches this path"}
	}
	c.W.Header().Set("Allow", strings.Join(allow, ", "))
	return &Fault{Status: http.StatusMethodNotAllowed, Code: "method_not_allowed", Detail: "this path allows only " + strings.Join(allow, ", ")}
}

func (h *Handler) handler(pattern string, open bool, handle func(*Call) error) http.Handler {
	return http.HandlerFunc(func(bare http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		c, err := h.admit(bare, r, open)
		if err == nil {
			err = c.runUntilRevoked(handle)
		}
		if err == nil && c.then != nil {
			err = c.run(c.then)
		}
		c.writeError(err)
		c.observe(pattern, time.Since(begun))
	})
}

// admit creates the call of a request, and authenticates it.
func (h *Handler) admit(bare http.ResponseWriter, r *http.Request, open bool) (c *Call, err error) {
	c = &Call{handler: h, ID: h.process + "-" + strconv.FormatInt(h.last.Add(1), 10)}
	bare.Header().Set("X-Request-Id", c.ID)
	if c.W, c.R, err = h.config.Guard.Admit(bare, r.WithContext(access.WithAPI(r.Context(), h.config.Name)), open); err == nil {
		c.User = access.UserOf(c.R.Context())
	}
	return c, err
}

// observe reports an answered request to the observer and the log.
func (c *Call) observe(pattern string, took time.Duration) {
	ctx := context.WithoutCancel(c.R.Context())
	c.handler.config.Guard.Observer().Request(ctx, c.R.Method, pattern[strings.IndexByte(pattern, '/'):], c.W.Status(), took)
	if l := c.handler.config.Guard.Logger(); l.Enabled(ctx, slog.LevelInfo) {
		l.LogAttrs(ctx, slog.LevelInfo, "request", slog.String("method", c.R.Method), slog.String("route", pattern), slog.Int("status", c.W.Status()),
			slog.Duration("took", took), slog.String("user", c.User.Name), slog.String("session", c.Session), slog.String("turn", c.Turn), slog.String("request", c.ID))
	}
}

// run calls a handler. It returns an error if the handler panics.
func (c *Call) run(handle func(*Call) error) (err error) {
	defer func() {
		if p := recover(); p == http.ErrAbortHandler {
			panic(p)
		} else if p != nil {
			c.handler.config.Guard.Logger().Error("a handler panicked", "request", c.ID, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("a handler panicked: %v", p)
		}
	}()
	return handle(c)
}

// runUntilRevoked calls a handler with a request whose context also ends when the user is revoked. What runs after it
// streams, and a stream has such a context itself.
func (c *Call) runUntilRevoked(handle func(*Call) error) error {
	admitted := c.R
	until, stop := access.UntilRevoked(admitted.Context())
	defer stop()
	c.R = admitted.WithContext(until)
	err := CauseOf(until, c.run(handle))
	c.R = admitted
	return err
}

// CauseOf returns err, or access.ErrRevoked if ctx ended because the user was revoked. A nil error stays nil.
func CauseOf(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), access.ErrRevoked) {
		return access.ErrRevoked
	}
	return err
}

// writeError logs errors of the server, and answers with the fault of an error unless the handler has begun an answer
// or the client has disconnected.
func (c *Call) writeError(err error) {
	if err == nil || errors.Is(err, access.ErrAnswered) {
		return
	}
	err = CauseOf(c.R.Context(), err)
	// net/http also ends the context of a request whose body does not arrive.
	gone := c.R.Context().Err() != nil && !errors.Is(err, access.ErrRevoked) && !errors.As(err, new(*access.RefusedError))
	f := FaultOf(err)
	if !(gone && errors.Is(err, context.Canceled)) && (f.Status == http.StatusInternalServerError || errors.Is(err, session.ErrUnavailable)) {
		c.handler.config.Guard.Logger().Error("a request failed", "request", c.ID, "error", err)
	}
	if c.W.Status() != 0 || gone {
		return
	}
	c.W.Header().Set("Cache-Control", "no-store")
	if f.RetryAfter > 0 {
		c.W.Header().Set("Retry-After", strconv.Itoa(int((f.RetryAfter+time.Second-1)/time.Second)))
	}
	c.handler.config.Fail(c, f)
}
