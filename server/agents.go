package server

import (
	"errors"
	"net/http"

	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/agentgraph/graphdraw"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/server/internal/front"
)

func (d *Door) agents(c *front.Call) error {
	last, t := d.reloads.now(), d.treeNow()
	all, tag := render.AgentsOf(t.run.Tree()), t.revision
	if !c.User.May(access.Inspect) {
		last.Problems, all, tag = nil, all.Own(), tag+"-own" // problems quote files
	}
	if c.Fresh(last.tag(tag)) {
		return nil
	}
	return c.JSON(http.StatusOK, struct {
		Revision string `json:"revision"`
		reload
		render.Agents
	}{t.revision, last, all})
}

func (d *Door) drawing(c *front.Call) error {
	t := d.treeNow()
	n := t.run.Tree().Node(c.R.PathValue("agent"))
	if n == nil {
		return front.Missing("the tree has no such agent")
	}
	p, err := render.Drawing(n)
	switch {
	case errors.Is(err, render.ErrNoDrawing):
		return front.Missing(err.Error())
	case errors.Is(err, graphdraw.ErrTooLarge):
		return front.Unprocessable("too_large_to_draw", err.Error())
	case err != nil:
		return err
	case c.Fresh(t.revision):
		return nil
	}
	return c.JSON(http.StatusOK, p)
}
