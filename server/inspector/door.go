// Package inspector serves the page of a server to browsers, and signs them in. For now the page
// lists the doors and the caller's sessions, as the native API has them at /api/v1.
//
// It imports access and the frame of all HTTP doors. It knows nothing of sessions: it serves files
// and a sign-in, and the page is a client of the native API as any other.
package inspector

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/server/internal/front"
)

//go:embed page
var page embed.FS

// Policy is what the browser lets the page do: nothing from elsewhere, nothing inline, and no text
// that becomes HTML or a script.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data: blob:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// Door is the handler of the page. It is safe for concurrent use. The zero value is not usable.
type Door struct {
	*front.Door
	settings
}

type settings struct {
	guard  *access.Guard
	files  fs.FS
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
func WithFiles(files fs.FS) Option { return func(s *settings) { s.files = files } }

// New makes the door, below /inspect. The error says which option is wrong.
func New(opts ...Option) (*Door, error) {
	own, err := fs.Sub(page, "page")
	d := &Door{settings: settings{files: own}}
	if err == nil {
		err = option.Apply(&d.settings, opts)
	}
	if err == nil && d.files == nil {
		err = errors.New("the files are nil")
	}
	if err == nil {
		_, err = fs.Stat(d.files, "index.html")
	}
	if err == nil {
		d.Door, err = front.New(front.Config{Bare: true, Name: "inspector", Prefix: "/inspect", Guard: d.guard, Fail: front.FailProblem, Routes: []front.Route{
			{Method: http.MethodGet, Path: "", Open: true, Handle: d.home},
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
	h.Set("Content-Security-Policy", Policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	d.Door.ServeHTTP(w, r)
}

// home sends browsers to where the page's own addresses begin.
func (d *Door) home(c *front.Call) error {
	http.Redirect(c.W, c.R, d.Prefix()+"/", http.StatusPermanentRedirect)
	return nil
}

// typeOf is of the files of pages alone: what machines make of the ends of names differs.
func typeOf(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".png":
		return "image/png"
	case ".woff2":
		return "font/woff2"
	}
	return "application/octet-stream"
}

// file serves a file. The page has addresses of its own: where a browser goes to one that is no
// file, it gets the page.
func (d *Door) file(c *front.Call) error {
	if d.signIn != nil {
		if err := d.signIn.Allow(c.R); err != nil {
			return err
		}
	}
	name := c.R.PathValue("path")
	data, err := []byte(nil), fs.ErrNotExist
	if name != "" && fs.ValidPath(name) && !strings.HasPrefix(name, ".") && !strings.Contains(name, "/.") {
		data, err = fs.ReadFile(d.files, name)
	}
	if err != nil && (name == "" || strings.Contains(c.R.Header.Get("Accept"), "text/html")) {
		name = "index.html"
		data, err = fs.ReadFile(d.files, name)
	}
	if err != nil {
		return front.NotFound()
	}
	sum := sha256.Sum256(data)
	h := c.W.Header()
	h.Set("Content-Type", typeOf(name))
	h.Set("Cache-Control", "no-cache") // asked for each time, and sent only if it has changed
	h.Set("ETag", `"`+hex.EncodeToString(sum[:16])+`"`)
	http.ServeContent(c.W, c.R, name, time.Time{}, bytes.NewReader(data))
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
