package server

import (
	"bytes"
	_ "embed"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/internal/form"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/checkpoint"
)

// Handler serves the native API. It is an http.Handler and safe for concurrent use. The zero value is not usable; see
// [New].
type Handler struct {
	*front.Handler
	settings
	turns    *live.Turns
	document []byte
	tree     atomic.Pointer[tree]
}

type settings struct {
	front   front.Config
	version string
	apis    []string
	reading
	workshop *Workshop // nil: no workshop
}

// Option configures a [Handler].
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

// WithAPIs sets the names of the APIs that the program serves, this one included, which clients can read. Defaults
// to "api".
func WithAPIs(names ...string) Option { return func(s *settings) { s.apis = names } }

//go:embed openapi.json
var document []byte

// New returns a handler that serves turns. The caller closes the turns after the last request. The error names the
// invalid option.
func New(turns *live.Turns, opts ...Option) (*Handler, error) {
	h := &Handler{turns: turns, settings: settings{apis: []string{"api"}, reading: reading{sampling: access.NewLimit(maxSampling, 0)}}}
	h.front = front.Config{Turns: turns, Prefix: "/api/v1", Name: "api", Fail: front.FailProblem}
	h.front.Routes = slices.Concat(h.routes(), h.turnRoutes(), h.eventRoutes(), h.pastRoutes(), h.deskRoutes())
	err := option.Apply(&h.settings, opts)
	if err == nil && turns != nil {
		h.stored, err = checkpoint.New(turns.Store())
	}
	if err == nil {
		h.front.Routes = append(h.front.Routes, h.workshopRoutes()...)
		h.Handler, err = front.New(h.front)
	}
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	h.document = bytes.Replace(document, []byte(`"url": "/api/v1"`), append([]byte(`"url": `), event.EncodeJSON(h.Prefix())...), 1)
	return h, nil
}

func (h *Handler) openapi(c *front.Call) error { return c.Bytes(http.StatusOK, front.JSON, h.document) }

func (h *Handler) me(c *front.Call) error {
	type named struct {
		Root     string `json:"root"`
		Revision string `json:"revision"`
	}
	t := h.currentTree()
	return c.JSON(http.StatusOK, struct {
		User    string   `json:"user"`
		Rights  []string `json:"rights"`
		App     string   `json:"app"`
		Version string   `json:"version"`
		APIs    []string `json:"apis"`
		Tree    named    `json:"tree"`
		Desk    bool     `json:"desk"`
		Decides bool     `json:"decides"`
		// Workshop reports whether the caller may use a workshop.
		Workshop bool `json:"workshop"`
	}{c.User.Name, c.User.RightNames(), h.App(), h.version, h.apis, named{t.run.Tree().Root().Agent.Name(), t.revision}, t.run.Tree().Node(agent.Human) != nil, c.User.Decides(), h.workshop != nil && c.User.May(access.Owner)})
}

// link returns the builder of links to a session for the caller.
func (h *Handler) link(c *front.Call, key session.Key) form.Link {
	may := func(q *event.Relay) bool { return h.turns.MayDecide(c.R.Context(), key, q) }
	return form.Link{Prefix: h.Prefix(), Caller: c.User.Name, Key: key, May: may, Inspects: c.User.May(access.Inspect)}
}
