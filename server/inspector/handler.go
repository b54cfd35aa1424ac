// Package inspector serves the page of a server to browsers, and signs them in. The page shows the sessions of a tree. It
// is a client of the native API at /api/v1 like any other, so this package serves only files and the sign-in.
package inspector

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"

	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/internal/front"
)

// policy is the page's Content-Security-Policy: the browser loads nothing from other hosts and runs nothing inline, and
// no text becomes HTML or a script. A picture of another host is in a frame with a separate policy.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data: blob:; " +
	"connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// Handler serves the page. It is safe for concurrent use. The zero value is not usable.
type Handler struct {
	*front.Handler
	settings
	packed map[string]*file // the page of this package, nil if another one is served
}

type settings struct {
	guard  *access.Guard
	files  fs.FS
	others bool // the files are those of another page
	signIn *access.SignIn
}

// Option configures a [Handler].
type Option func(*settings)

// WithGuard sets the guard that admits requests. Its authenticator must accept the sign-in. Without a guard, middleware
// of the program must add the user to the context with access.WithUser.
func WithGuard(g *access.Guard) Option { return func(s *settings) { s.guard = g } }

// WithSignIn sets the sign-in of browsers. Without it, browsers cannot sign in.
func WithSignIn(in *access.SignIn) Option { return func(s *settings) { s.signIn = in } }

// WithFiles serves the files of another page. The handler reads them at each request, so that the page can change while
// it is served. There must be an index.html. Links between the files have the form /inspect/NAME.
func WithFiles(files fs.FS) Option {
	return func(s *settings) { s.files, s.others = files, true }
}

// New returns a handler for the paths below /inspect. The error says which option is wrong.
func New(opts ...Option) (*Handler, error) {
	h := &Handler{}
	err := option.Apply(&h.settings, opts)
	switch {
	case err != nil:
	case !h.others:
		if h.files, err = fs.Sub(built, "dist"); err == nil {
			h.packed, err = pack(h.files)
		}
	case h.files == nil:
		err = errors.New("the files are nil")
	default:
		_, err = fs.Stat(h.files, "index.html")
	}
	if err == nil {
		h.Handler, err = front.New(front.Config{NoTurns: true, Name: "inspector", Prefix: "/inspect", Guard: h.guard, Fail: front.FailProblem, Routes: []front.Route{
			{Method: http.MethodGet, Path: "", Open: true, Handle: h.home},
			{Method: http.MethodGet, Path: "/picture", Open: true, Handle: h.picture},
			{Method: http.MethodGet, Path: "/{path...}", Open: true, Handle: h.file},
			{Method: http.MethodPost, Path: "/sign-in", Open: true, Handle: h.enter},
			{Method: http.MethodPost, Path: "/sign-out", Handle: h.leave},
		}})
	}
	if err != nil {
		return nil, fmt.Errorf("inspector: %w", err)
	}
	return h, nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Handler.ServeHTTP(w, r)
}

// home redirects browsers to the page.
func (h *Handler) home(c *front.Call) error {
	http.Redirect(c.W, c.R, h.Prefix()+"/", http.StatusPermanentRedirect)
	return nil
}

// enter signs a browser in.
func (h *Handler) enter(c *front.Call) error {
	if h.signIn == nil {
		return front.NotFound()
	}
	var in struct{ Code, Token string }
	if err := c.Decode(&in); err != nil {
		return err
	}
	if (in.Code == "") == (in.Token == "") {
		return front.BadRequest("a sign-in is a code or a token")
	}
	grant, err := h.signIn.Open(c.W, c.R, in.Code, in.Token)
	if err != nil {
		return err
	}
	c.User = grant.User
	return c.JSON(http.StatusOK, map[string]any{"user": grant.User.Name, "key": grant.Key, "end": grant.End.UTC()})
}

// leave signs a browser out.
func (h *Handler) leave(c *front.Call) error {
	if h.signIn != nil {
		h.signIn.Close(c.W, c.R)
	}
	c.W.WriteHeader(http.StatusNoContent)
	return nil
}
