// Package inspector serves the page of a server to browsers, and signs them in. The page shows the
// sessions of a tree, as the native API has them at /api/v1.
//
// It imports access and the frame of all HTTP doors. It knows nothing of sessions: it serves files
// and a sign-in, and the page is a client of the native API as any other.
package inspector

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"

	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/server/internal/front"
)

// policy is what the browser lets the page do: nothing from elsewhere, nothing inline, and no text
// that becomes HTML or a script. A picture from elsewhere is in a frame with a policy of its own.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data: blob:; " +
	"connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// Door is the handler of the page. It is safe for concurrent use. The zero value is not usable.
type Door struct {
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

// Option configures a [Door].
type Option func(*settings)

// WithGuard sets who is let in, from where. Its authenticator must accept the sign-in. Without it
// the program's own middleware must have put the user into the context, with access.WithUser.
func WithGuard(g *access.Guard) Option { return func(s *settings) { s.guard = g } }

// WithSignIn sets what signs browsers in. Without it nobody can sign in here.
func WithSignIn(in *access.SignIn) Option { return func(s *settings) { s.signIn = in } }

// WithFiles serves the files of another page. They are read at each request, so that a page can be
// changed while it is served. They must have an index.html, and name each other as /inspect/NAME.
func WithFiles(files fs.FS) Option {
	return func(s *settings) { s.files, s.others = files, true }
}

// New makes the door, below /inspect. The error says which option is wrong.
func New(opts ...Option) (*Door, error) {
	d := &Door{}
	err := option.Apply(&d.settings, opts)
	switch {
	case err != nil:
	case !d.others:
		if d.files, err = fs.Sub(built, "dist"); err == nil {
			d.packed, err = pack(d.files)
		}
	case d.files == nil:
		err = errors.New("the files are nil")
	default:
		_, err = fs.Stat(d.files, "index.html")
	}
	if err == nil {
		d.Handler, err = front.New(front.Config{NoTurns: true, Name: "inspector", Prefix: "/inspect", Guard: d.guard, Fail: front.FailProblem, Routes: []front.Route{
			{Method: http.MethodGet, Path: "", Open: true, Handle: d.home},
			{Method: http.MethodGet, Path: "/picture", Open: true, Handle: d.picture},
			{Method: http.MethodGet, Path: "/{path...}", Open: true, Handle: d.file},
			{Method: http.MethodPost, Path: "/sign-in", Open: true, Handle: d.enter},
			{Method: http.MethodPost, Path: "/sign-out", Handle: d.leave},
		}})
	}
	if err != nil {
		return nil, fmt.Errorf("inspector: %w", err)
	}
	return d, nil
}

// ServeHTTP implements http.Handler.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	d.Handler.ServeHTTP(w, r)
}

// home sends browsers to where the page's own addresses begin.
func (d *Door) home(c *front.Call) error {
	http.Redirect(c.W, c.R, d.Prefix()+"/", http.StatusPermanentRedirect)
	return nil
}

// enter signs a browser in.
func (d *Door) enter(c *front.Call) error {
	if d.signIn == nil {
		return front.NotFound()
	}
	var in struct{ Code, Token string }
	if err := c.Decode(&in); err != nil {
		return err
	}
	if (in.Code == "") == (in.Token == "") {
		return front.BadRequest("a sign-in is a code or a token")
	}
	grant, err := d.signIn.Open(c.W, c.R, in.Code, in.Token)
	if err != nil {
		return err
	}
	c.User = grant.User
	return c.JSON(http.StatusOK, map[string]any{"user": grant.User.Name, "key": grant.Key, "end": grant.End.UTC()})
}

// leave signs a browser out.
func (d *Door) leave(c *front.Call) error {
	if d.signIn != nil {
		d.signIn.Close(c.W, c.R)
	}
	c.W.WriteHeader(http.StatusNoContent)
	return nil
}
