package server

import (
	"net/http"

	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/checkpoint"
	"github.com/agentarbor/arbor/debugbundle"
	"github.com/agentarbor/arbor/internal/asked"
	"github.com/agentarbor/arbor/internal/sessionform"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/server/internal/form"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/session"
)

// reading is what the routes need that look at trees and into the past.
type reading struct {
	stored   *checkpoint.Sessions
	prices   llm.Prices
	requests *asked.Requests
	reloads  *Reloads      // nil if nobody watches the tree's files
	sampling *access.Limit // of requests for samples
}

// WithPrices sets the prices of models, for the routes that return costs. Defaults to none.
func WithPrices(p llm.Prices) Option { return func(s *settings) { s.prices = p } }

// Requests keeps the last requests to models as they were really sent, in memory. It is an
// interceptor for runner.WithInterceptors, to be the last one, so that it sees what the others have
// changed. It is safe for concurrent use.
type Requests = asked.Requests

// KeepRequests returns a store in memory for requests, which holds at most this many bytes and drops the oldest
// requests first. The error reports a number that is not above 0.
func KeepRequests(bytes int64) (*Requests, error) { return asked.Keep(bytes) }

// WithRequests shows clients the requests that [KeepRequests] has kept, next to the views that the server computes.
// Defaults to none.
func WithRequests(kept *Requests) Option { return func(s *settings) { s.requests = kept } }

// pastHandlers look into the past of sessions, and make new sessions of it.
type pastHandlers struct{ door *Door }

func (h pastHandlers) routes() []front.Route {
	const of = "/sessions/{session}"
	return []front.Route{
		{Method: "GET", Path: of + "/checkpoints", Handle: h.door.at(h.checkpoints)},
		{Method: "POST", Path: of + "/forks", Handle: h.door.at(h.fork)},
		{Method: "POST", Path: of + "/edits", Handle: h.door.at(h.edit)},
		{Method: "GET", Path: of + "/family", Handle: h.door.at(h.family)},
		{Method: "GET", Path: of + "/diff/{other}", Handle: h.door.at(h.diff)},
		{Method: "GET", Path: of + "/views/{agent}", Needs: access.Inspect, Handle: h.door.at(h.view)},
		{Method: "POST", Path: of + "/samples", Needs: access.Inspect, Handle: h.door.at(h.samples)},
		{Method: "GET", Path: of + "/usage", Handle: h.door.at(h.usage)},
		{Method: "GET", Path: of + "/graphs", Needs: access.Inspect, Handle: h.door.at(h.graphs)},
		{Method: "GET", Path: of + "/debug", Needs: access.Inspect, Handle: h.door.at(h.debug)},
		{Method: "GET", Path: of + "/export", Handle: h.door.at(h.export)},
		{Method: "POST", Path: "/imports", Handle: h.imports},
	}
}

func (h pastHandlers) usage(c *front.Call, info session.Info, at int64) error {
	if c.R.URL.Query().Has("at") {
		f, _, err := form.Past(c.R.Context(), h.door.turns.Store(), info.Key, at)
		if err != nil {
			return err
		}
		return c.JSON(http.StatusOK, sessionform.UsageOf(f, h.door.prices))
	}
	var now sessionform.Usage // without reading the log anew
	err := h.door.turns.Runner().Glance(c.R.Context(), info.Key, func(f *session.Fold) error {
		now = sessionform.UsageOf(f, h.door.prices)
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

func (h pastHandlers) graphs(c *front.Call, info session.Info, at int64) error {
	all := []graphRun{}
	for n := range h.door.treeNow().run.Tree().Walk() {
		g, ok := agent.As[*agentgraph.Agent](n.Agent)
		if !ok {
			continue
		}
		runs, err := g.Runs(h.door.stored.Replay(c.R.Context(), info.Key, at))
		if err != nil {
			return err
		}
		for _, r := range runs {
			all = append(all, graphRun{g.Name(), r})
		}
	}
	return c.JSON(http.StatusOK, map[string]any{"seq": at, "runs": all})
}

func (h pastHandlers) debug(c *front.Call, info session.Info, _ int64) error {
	b, err := debugbundle.New(c.R.Context(), h.door.treeNow().run, info.Key, debugbundle.Options{})
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, b)
}
