package openaiapi

import (
	"net/http"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/session"
)

type wireModel struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

// models lists the agents, the root first. All of them are as old as the tree, which has no date.
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

// agent finds the agent that a model is.
func (h *Handler) agent(model string) (*agent.Node, error) {
	for n := range h.turns.Runner().Tree().Walk() {
		if n.Path == model {
			return n, nil
		}
	}
	return nil, &front.Fault{Status: http.StatusNotFound, Code: "model_not_found", Detail: "there is no such model; /models lists them",
		Problems: []front.Problem{{Path: "model", Message: "is no agent's path"}}}
}

// key names a session of the caller in which an agent answers, with those below it. Sessions of an agent that is
// not the root have an app of their own, so that none of them goes on above it.
func (h *Handler) key(c *front.Call, n *agent.Node, id string) (session.Key, error) {
	key, err := c.Key(id)
	if _, below, ok := strings.Cut(n.Path, "/"); ok {
		key.App += ":" + below
	}
	return key, err
}
