package server

import (
	"errors"
	"net/http"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph/graphdraw"
	"github.com/agentarbor/arbor/internal/asked"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/observe/debugbundle"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/internal/front"
)

func (h *Handler) agents(c *front.Call) error {
	last, t := h.reloads.now(), h.currentTree()
	all, tag := render.AgentsOf(t.run.Tree()), t.revision
	if !c.User.May(access.Inspect) {
		last.Problems, all, tag = nil, all.Own(), tag+"-own" // problems contain text of files
	}
	if c.NotModified(last.tag(tag)) {
		return nil
	}
	return c.JSON(http.StatusOK, struct {
		Revision string `json:"revision"`
		reload
		render.Agents
	}{t.revision, last, all})
}

// agentDetails is the configuration of an agent.
type agentDetails struct {
	Name         string              `json:"name"`
	Instructions string              `json:"instructions,omitempty"`
	Policy       transferPolicy      `json:"policy"`
	Guards       []string            `json:"guards"`
	Limits       *debugbundle.Limits `json:"limits"`
	Source       *Source             `json:"source,omitempty"`
	// View is the request to the agent's model in a session without events, nil if the agent has no model.
	View *asked.View `json:"view,omitempty"`
	// Workshop is nil if the caller may not use a workshop, and for an agent that is not an llmagent.Agent.
	Workshop *workshopInfo `json:"workshop,omitempty"`
}

type transferPolicy struct {
	ToParent      bool `json:"toParent"`
	ToPeers       bool `json:"toPeers"`
	ToHuman       bool `json:"toHuman"`
	HoldOnArrival bool `json:"holdOnArrival"`
}

func (h *Handler) agent(c *front.Call) error {
	t := h.currentTree()
	n := t.run.Tree().Node(c.R.PathValue("agent"))
	if n == nil {
		return front.Missing("the tree has no agent with this name")
	}
	key, err := c.Key("new")
	if err != nil {
		return err
	}
	p := n.Properties.Policy
	l := t.run.Limits()
	a := agentDetails{Name: n.Agent.Name(), Guards: []string{}, Source: h.reloads.source(n.Agent.Name()),
		Policy: transferPolicy{p.AllowTransferToParent, p.AllowTransferToPeers, !p.NoHuman, p.HoldOnArrival},
		Limits: &debugbundle.Limits{Transfers: l.Transfers, ModelCalls: l.ModelCalls, ToolCalls: l.ToolCalls, Steps: l.Steps, Seconds: l.Time.Seconds()}}
	for _, g := range n.Guards() {
		a.Guards = append(a.Guards, g.Name)
	}
	if own, ok := agent.As[*llmagent.Agent](n.Agent); ok {
		a.Instructions, a.Workshop = own.Instructions(), h.workshopOf(c, own)
	}
	if a.View, err = asked.ViewOf(c.R.Context(), t.run, key, 0, n, h.prices); err != nil {
		return err
	}
	if a.View != nil {
		a.View.Revision = t.revision
	}
	return c.JSON(http.StatusOK, a)
}

func (h *Handler) drawing(c *front.Call) error {
	t := h.currentTree()
	n := t.run.Tree().Node(c.R.PathValue("agent"))
	if n == nil {
		return front.Missing("the tree has no agent with this name")
	}
	p, err := render.Drawing(n)
	switch {
	case errors.Is(err, render.ErrNoDrawing):
		return front.Missing(err.Error())
	case errors.Is(err, graphdraw.ErrTooLarge):
		return front.Unprocessable("too_large_to_draw", err.Error())
	case err != nil:
		return err
	case c.NotModified(t.revision):
		return nil
	}
	return c.JSON(http.StatusOK, p)
}
