package server

import (
	"bytes"
	_ "embed"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/checkpoint"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/server/internal/form"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/session"
)

// Door serves the native API. It is an http.Handler and safe for concurrent use. The zero value
// is not usable.
type Door struct {
	*front.Door
	settings
	turns    *live.Turns
	document []byte
	tree     atomic.Pointer[tree]
}

type settings struct {
	front   front.Config
	version string
	doors   []string
	reading
	workshop *Workshop // nil: none
}

// Option configures a Door.
type Option func(*settings)

// WithGuard sets the guard that authenticates requests. Without a guard, middleware of the program must put the user
// into the context with access.WithUser; requests without a user are refused.
func WithGuard(g *access.Guard) Option { return func(s *settings) { s.front.Guard = g } }

// WithApp sets the app in the keys of sessions. Defaults to session.DefaultApp.
func WithApp(app string) Option { return func(s *settings) { s.front.App = app } }

// WithPrefix sets the prefix of all paths. Defaults to /api/v1.
func WithPrefix(prefix string) Option { return func(s *settings) { s.front.Prefix = prefix } }

// WithVersion sets the program's version, which clients can read. Defaults to "".
func WithVersion(version string) Option { return func(s *settings) { s.version = version } }

// WithDoors sets the names of the APIs that the program serves, this one included, which clients can read. Defaults
// to "api".
func WithDoors(names ...string) Option { return func(s *settings) { s.doors = names } }

//go:embed openapi.json
var document []byte

// New makes the door of the turns, which stay the caller's. The error says which option is wrong.
func New(turns *live.Turns, opts ...Option) (*Door, error) {
	d := &Door{turns: turns, settings: settings{doors: []string{"api"}, reading: reading{sampling: access.NewLimit(mostSampling, 0)}}}
	d.front = front.Config{Turns: turns, Prefix: "/api/v1", Name: "api", Fail: front.FailProblem}
	d.front.Routes = slices.Concat(d.routes(), turnHandlers{d}.routes(), eventHandlers{d}.routes(), pastHandlers{d}.routes(), deskHandlers{d}.routes())
	err := option.Apply(&d.settings, opts)
	if err == nil && turns != nil {
		d.stored, err = checkpoint.New(turns.Store())
	}
	if err == nil {
		d.front.Routes = append(d.front.Routes, d.workshopRoutes()...)
		d.Door, err = front.New(d.front)
	}
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	d.document = bytes.Replace(document, []byte(`"url": "/api/v1"`), append([]byte(`"url": `), event.EncodeJSON(d.Prefix())...), 1)
	return d, nil
}

func (d *Door) openapi(c *front.Call) error { return c.Bytes(http.StatusOK, front.JSON, d.document) }

func (d *Door) me(c *front.Call) error {
	type named struct {
		Root     string `json:"root"`
		Revision string `json:"revision"`
	}
	t := d.treeNow()
	return c.JSON(http.StatusOK, struct {
		User    string   `json:"user"`
		Rights  []string `json:"rights"`
		App     string   `json:"app"`
		Version string   `json:"version"`
		Doors   []string `json:"doors"`
		Tree    named    `json:"tree"`
		Desk    bool     `json:"desk"`
		Decides bool     `json:"decides"`
		// Workshop reports whether the caller may use a workshop.
		Workshop bool `json:"workshop"`
	}{c.User.Name, c.User.RightNames(), d.App(), d.version, d.doors, named{t.run.Tree().Root().Agent.Name(), t.revision}, t.run.Tree().Node(agent.Human) != nil, c.User.Decides(), d.workshop != nil && c.User.May(access.Owner)})
}

// link links to what is of a session, as the caller may ask for it.
func (d *Door) link(c *front.Call, key session.Key) form.Link {
	may := func(q *event.Relay) bool { return d.turns.MayDecide(c.R.Context(), key, q) }
	return form.Link{Prefix: d.Prefix(), Caller: c.User.Name, Key: key, May: may, Inspects: c.User.May(access.Inspect)}
}
