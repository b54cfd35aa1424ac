package openaiapi

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/session"
)

type wireModel struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

// models lists the agents, root first. Their creation time is 0, because a tree has no date.
func (h *Handler) models(c *front.Call) error {
	list := []wireModel{}
	for n := range h.turns.Runner().Tree().Walk() {
		list = append(list, wireModel{ID: n.Path, Object: "model", OwnedBy: "arbor"})
	}
	return c.JSON(http.StatusOK, map[string]any{"object": "list", "data": list})
}

func (h *Handler) model(c *front.Call) error {
	n, err := h.agent(c.R.PathValue("model"))
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, wireModel{ID: n.Path, Object: "model", OwnedBy: "arbor"})
}

// agent returns the agent whose path is the name of a model.
func (h *Handler) agent(model string) (*agent.Node, error) {
	var known []string
	for n := range h.turns.Runner().Tree().Walk() {
		if n.Path == model {
			return n, nil
		}
		known = append(known, n.Path)
	}
	return nil, &front.Fault{Status: http.StatusNotFound, Code: "model_not_found", Detail: "the model does not exist; /models lists all models",
		Problems: []front.Problem{{Path: "model", Message: fmt.Sprintf("no agent has the path %q%s", model, nearest.Listed(model, known))}}}
}

// key returns the key of a caller's session in which an agent, or those below it, answer. Sessions of an agent that is
// not the root have an app of their own, so that no agent above it continues them.
func (h *Handler) key(c *front.Call, n *agent.Node, id string) (session.Key, error) {
	key, err := c.Key(id)
	if _, below, ok := strings.Cut(n.Path, "/"); ok {
		key.App += ":" + below
	}
	return key, err
}
