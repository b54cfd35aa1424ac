package agui

import (
	"fmt"
	"net/http"

	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session/checkpoint"
)

// Handler serves AG-UI. It is an http.Handler and safe for concurrent use. The zero value is not usable; see [New].
type Handler struct {
	*front.Handler
	settings
	turns    *live.Turns
	sessions *checkpoint.Sessions
}

// Option configures a [Handler].
type Option func(*settings)

type settings struct {
	front       front.Config
	reasoning   bool
	clientTools front.ClientTools
	pageState   []string
}

// WithGuard sets the guard that authenticates requests. Without a guard, middleware of the program must put the user
// into the context with access.WithUser; requests without a user are refused.
func WithGuard(g *access.Guard) Option { return func(s *settings) { s.front.Guard = g } }

// WithApp sets the app in the keys of sessions; see live.Turns.RunnerOf. Defaults to session.DefaultApp.
func WithApp(app string) Option { return func(s *settings) { s.front.App = app } }

// WithPrefix sets the path to which pages post runs. Defaults to /agui.
func WithPrefix(path string) Option { return func(s *settings) { s.front.Prefix = path } }

// WithReasoning sends the reasoning that models disclose to every client, also for users without the right
// [access.Inspect]. Defaults to sending none.
func WithReasoning() Option { return func(s *settings) { s.reasoning = true } }

// WithClientTools sets which agents can call the tools that pages send; without names, no agent can. Defaults to every
// agent that answers the user.
func WithClientTools(agents ...string) Option {
	return func(s *settings) { s.clientTools = front.ClientTools{Only: agents, Limited: true} }
}

// WithPageState sets the keys of the session's state that pages can write. Keys of other scopes, such as user:name, are
// not allowed. Defaults to none, because agents, conditions and instructions may rely on the state.
func WithPageState(keys ...string) Option { return func(s *settings) { s.pageState = keys } }

// New returns a handler that serves turns. The caller closes the turns after the last request. The error names the
// invalid option.
func New(turns *live.Turns, opts ...Option) (*Handler, error) {
	h := &Handler{turns: turns, settings: settings{front: front.Config{Turns: turns, Prefix: "/agui", Fail: fail}}}
	h.front.Routes = []front.Route{{Method: http.MethodPost, Path: "", Handle: h.run}, {Method: http.MethodPost, Path: "/connect", Handle: h.connect}}
	err := option.Apply(&h.settings, opts)
	if err == nil {
		h.Handler, err = front.New(h.front)
	}
	if err == nil {
		err = h.clientTools.Check(turns.Runner().Tree())
	}
	if err == nil {
		err = checkKeys(h.pageState)
	}
	if err == nil {
		h.sessions, err = checkpoint.New(turns.Store())
	}
	if err != nil {
		return nil, fmt.Errorf("agui: %w", err)
	}
	return h, nil
}

// fail answers with the members of a RUN_ERROR event, which the official client shows.
func fail(c *front.Call, f *front.Fault) {
	_ = c.JSON(f.Status, struct {
		lifeEvent
		Problems []front.Problem `json:"problems,omitempty"`
	}{lifeEvent{head: head{Type: "RUN_ERROR"}, Message: f.Detail, Code: f.Code}, f.Problems})
}
