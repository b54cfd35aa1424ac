// Package front is what all doors of a server share: a request is let in, finds its route, and
// whatever goes wrong becomes one fault, which the door writes in the form of its protocol.
//
// It imports access, agent, live, runner and session. It knows no protocol but HTTP.
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
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/session"
)

// Route is a method and a path, such as /sessions/{id}, below the prefix of a door.
type Route struct {
	Method, Path string
	// Open routes are for everybody: nobody is asked who they are.
	Open bool
	// Needs are the rights without which a caller is refused.
	Needs  access.Rights
	Handle func(*Call) error
}

// needs is the handler of the route for callers who have its rights.
func (r Route) needs() func(*Call) error {
	return func(c *Call) error {
		if !c.User.May(r.Needs) {
			return &Fault{Status: http.StatusForbidden, Code: "forbidden", Detail: fmt.Sprintf("this needs the right %q", cmp.Or(strings.Join(r.Needs.Names(), ", "), "owner"))}
		}
		return r.Handle(c)
	}
}

// Config is what a door is made of.
type Config struct {
	Turns *live.Turns
	// Bare says that the door has nothing to do with sessions, and needs no turns.
	Bare bool
	// Guard lets requests in. Without one the program's own middleware must have put the user
	// into the context; see access.FromContext.
	Guard *access.Guard
	// App is the app part of the keys of sessions; "" is that of the turns' tree.
	App string
	// Name is the door's in metrics; "" is made of the prefix.
	Name string
	// Prefix begins all paths, such as /v1.
	Prefix string
	Routes []Route
	// Fail writes a fault. Nothing was answered before.
	Fail func(*Call, *Fault)
}

// Door is a handler for the routes of one protocol.
type Handler struct {
	config Config
	mux    *http.ServeMux
	lost   http.Handler // of requests that have no clean path
	name   string       // of this process, in the ids of requests
	last   atomic.Int64
}

// New makes a door. The error says what is missing.
func New(c Config) (*Handler, error) {
	if c.Turns == nil && !c.Bare {
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
	h := &Handler{config: c, mux: http.NewServeMux(), name: strings.ToLower(rand.Text()[:10])}
	for _, r := range c.Routes {
		pattern := r.Method + " " + c.Prefix + r.Path
		h.mux.Handle(pattern, h.handler(pattern, r.Open, r.needs()))
	}
	h.lost = h.handler("* "+c.Prefix+"/", false, func(*Call) error { return NotFound() })
	for _, rest := range []string{c.Prefix + "/", c.Prefix} { // else net/http redirects from the second to the first
		h.mux.Handle(rest, h.handler(rest, false, h.nowhere))
	}
	return h, nil
}

// Prefix is what the paths of the door begin with.
func (h *Handler) Prefix() string { return h.config.Prefix }

// Routes are the routes of the door, below its prefix.
func (h *Handler) Routes() []Route { return h.config.Routes }

// App is the app part of the keys of the door's sessions.
func (h *Handler) App() string { return h.config.App }

// ServeHTTP implements http.Handler. A path that leads elsewhere, such as /a/../b, is none.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p := r.URL.EscapedPath(); p != path.Clean(p) && p != path.Clean(p)+"/" {
		h.lost.ServeHTTP(w, r)
		return
	}
	h.mux.ServeHTTP(w, r)
}

// nowhere answers requests that no route fits.
func (h *Handler) nowhere(c *Call) error {
	var allow []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		other := &http.Request{Method: method, URL: c.R.URL, Host: c.R.Host}
		if _, pattern := h.mux.Handler(other); strings.HasPrefix(pattern, method+" ") {
			allow = append(allow, method)
		}
	}
	if len(allow) == 0 {
		return &Fault{Status: http.StatusNotFound, Code: "not_found", Detail: "no route matches this path"}
	}
	c.W.Header().Set("Allow", strings.Join(allow, ", "))
	return &Fault{Status: http.StatusMethodNotAllowed, Code: "method_not_allowed", Detail: "this path is for " + strings.Join(allow, ", ")}
}

func (h *Handler) handler(pattern string, open bool, handle func(*Call) error) http.Handler {
	return http.HandlerFunc(func(bare http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		c, err := h.admit(bare, r, open)
		if err == nil {
			until, stop := access.UntilRevoked(c.R.Context())
			defer stop()
			c.R = c.R.WithContext(until)
			err = c.run(handle)
		}
		if err == nil && c.then != nil {
			err = c.run(c.then)
		}
		c.settle(err)
		c.told(pattern, time.Since(begun))
	})
}

// admit lets a request in.
func (h *Handler) admit(bare http.ResponseWriter, r *http.Request, open bool) (c *Call, err error) {
	c = &Call{handler: h, ID: h.name + "-" + strconv.FormatInt(h.last.Add(1), 10)}
	bare.Header().Set("X-Request-Id", c.ID)
	if c.W, c.R, err = h.config.Guard.Admit(bare, r.WithContext(access.WithAPI(r.Context(), h.config.Name)), open); err == nil {
		c.User = access.UserOf(c.R.Context())
	}
	return c, err
}

// told tells the observer and the log of a request that is over.
func (c *Call) told(pattern string, took time.Duration) {
	ctx := context.WithoutCancel(c.R.Context())
	c.handler.config.Guard.Observer().Request(ctx, c.R.Method, pattern[strings.IndexByte(pattern, '/'):], c.W.Status(), took)
	if l := c.handler.config.Guard.Logger(); l.Enabled(ctx, slog.LevelInfo) {
		l.LogAttrs(ctx, slog.LevelInfo, "request", slog.String("method", c.R.Method), slog.String("route", pattern), slog.Int("status", c.W.Status()),
			slog.Duration("took", took), slog.String("user", c.User.Name), slog.String("session", c.Session), slog.String("turn", c.Turn), slog.String("request", c.ID))
	}
}

// run calls a handler. What panics is a fault of the server.
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

// Why returns err, or access.ErrRevoked if ctx ended because the user was revoked. A nil error stays nil.
func Why(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), access.ErrRevoked) {
		return access.ErrRevoked
	}
	return err
}

// settle writes what went wrong, unless an answer was begun or nobody is there to read it.
func (c *Call) settle(err error) {
	if err == nil || errors.Is(err, access.ErrAnswered) {
		return
	}
	err = Why(c.R.Context(), err)
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
