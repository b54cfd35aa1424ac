package server

import (
	"net/http"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/internal/asked"
	"github.com/agentarbor/arbor/internal/sessionform"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/observe/debugbundle"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/internal/form"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/checkpoint"
)

// reading are the settings of the routes that read trees and earlier states of sessions.
type reading struct {
	stored   *checkpoint.Sessions
	prices   llm.Prices
	requests *asked.Requests
	reloads  *Reloads      // nil if the program does not watch the tree's files
	sampling *access.Limit // limits the requests for samples
}

// WithPrices sets the prices of models, for the routes that return costs. Defaults to none.
func WithPrices(p llm.Prices) Option { return func(s *settings) { s.prices = p } }

// Requests keeps the last requests to models in memory, as they were sent. It is an interceptor for
// runner.WithInterceptors. Pass it as the last one, so that it records the changes of the others. It is safe for
// concurrent use.
type Requests = asked.Requests

// KeepRequests returns a store of requests in memory. It contains at most this many bytes, and drops the oldest
// requests first. KeepRequests returns an error if bytes is not above 0.
func KeepRequests(bytes int64) (*Requests, error) { return asked.Keep(bytes) }

// WithRequests returns the requests of [KeepRequests] to clients, in addition to the views that the server computes.
// Defaults to none.
func WithRequests(kept *Requests) Option { return func(s *settings) { s.requests = kept } }

// pastRoutes read earlier states of sessions, and create new sessions from them.
func (h *Handler) pastRoutes() []front.Route {
	const of = "/sessions/{session}"
	return []front.Route{
		{Method: "GET", Path: of + "/checkpoints", Handle: h.sessionAt(h.checkpoints)},
		{Method: "POST", Path: of + "/forks", Handle: h.sessionAt(h.fork)},
		{Method: "POST", Path: of + "/edits", Handle: h.sessionAt(h.edit)},
		{Method: "GET", Path: of + "/family", Handle: h.sessionAt(h.family)},
		{Method: "GET", Path: of + "/diff/{other}", Handle: h.sessionAt(h.diff)},
		{Method: "GET", Path: of + "/views/{agent}", Needs: access.Inspect, Handle: h.sessionAt(h.view)},
		{Method: "POST", Path: of + "/samples", Needs: access.Inspect, Handle: h.sessionAt(h.samples)},
		{Method: "GET", Path: of + "/usage", Handle: h.sessionAt(h.usage)},
		{Method: "GET", Path: of + "/graphs", Needs: access.Inspect, Handle: h.sessionAt(h.graphs)},
		{Method: "GET", Path: of + "/debug", Needs: access.Inspect, Handle: h.sessionAt(h.debug)},
		{Method: "GET", Path: of + "/export", Handle: h.sessionAt(h.export)},
		{Method: "POST", Path: "/imports", Handle: h.imports},
	}
}

func (h *Handler) usage(c *front.Call, info session.Info, at int64) error {
	if c.R.URL.Query().Has("at") {
		f, _, err := form.Past(c.R.Context(), h.turns.Store(), info.Key, at)
		if err != nil {
			return err
		}
		return c.JSON(http.StatusOK, sessionform.UsageOf(f, h.prices))
	}
	var now sessionform.Usage // ReadFold does not read the whole log
	err := h.turns.Runner().ReadFold(c.R.Context(), info.Key, func(f *session.Fold) error {
		now = sessionform.UsageOf(f, h.prices)
		return nil
	})
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, now)
}

type graphRun struct {
	Agent string `json:"agent"`
	agentgraph.Run
}

func (h *Handler) graphs(c *front.Call, info session.Info, at int64) error {
	all := []graphRun{}
	for n := range h.currentTree().run.Tree().Walk() {
		g, ok := agent.As[*agentgraph.Agent](n.Agent)
		if !ok {
			continue
		}
		runs, err := g.Runs(h.stored.Replay(c.R.Context(), info.Key, at))
		if err != nil {
			return err
		}
		for _, r := range runs {
			all = append(all, graphRun{g.Name(), r})
		}
	}
	return c.JSON(http.StatusOK, map[string]any{"seq": at, "runs": all})
}

func (h *Handler) debug(c *front.Call, info session.Info, _ int64) error {
	b, err := debugbundle.New(c.R.Context(), h.currentTree().run, info.Key, debugbundle.Options{})
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, b)
}
