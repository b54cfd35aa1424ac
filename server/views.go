package server

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/asked"
	"github.com/agentarbor/arbor/server/internal/form"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/session"
)

func (h *Handler) view(c *front.Call, info session.Info, at int64) error {
	t := h.currentTree()
	n := t.run.Tree().Node(c.R.PathValue("agent"))
	if n == nil {
		return front.Missing("the tree has no such agent")
	}
	v, err := asked.ViewOf(c.R.Context(), t.run, info.Key, at, n, h.prices)
	switch {
	case err != nil:
		return err
	case v == nil:
		return front.Missing("the agent has no model, so it has no view")
	}
	v.Revision, v.Sent = t.revision, h.requests.Find(info.Key, v.Agent, at)
	return c.JSON(http.StatusOK, v)
}

// maxSamples is the limit of answers for one request, and maxSampling that of the concurrent requests of a user. The
// limits of turns do not apply to samples.
const maxSamples, maxSampling = 10, 4

func (h *Handler) samples(c *front.Call, info session.Info, _ int64) error {
	b := struct {
		At    int64  `json:"at"`
		Agent string `json:"agent"`
		N     int    `json:"n"`
	}{At: info.Seq, N: 1}
	if err := c.Decode(&b); err != nil {
		return err
	}
	t := h.currentTree()
	run := t.run
	switch {
	case b.At > info.Seq:
		return front.CheckPosition(b.At, info.Seq)
	case b.At < 0:
		return front.ProblemAt("at", fmt.Sprintf("must be a position of the session, from 0 to %d", info.Seq))
	case b.N < 1 || b.N > maxSamples:
		return front.ProblemAt("n", fmt.Sprintf("must be a number from 1 to %d", maxSamples))
	case b.Agent == "":
		f, _, err := form.Past(c.R.Context(), h.turns.Store(), info.Key, b.At)
		if err != nil {
			return err
		}
		b.Agent = cmp.Or(f.Active(), run.Tree().Root().Agent.Name())
	}
	if err := h.sampling.Enter(c.User.Name); err != nil {
		return err
	}
	defer h.sampling.Leave(c.User.Name)
	s, err := asked.SamplesOf(c.R.Context(), run, info.Key, b.At, b.Agent, b.N, h.prices)
	if errors.Is(err, agent.ErrBadInput) {
		return front.InvalidValue("agent", "must be an agent of the tree that has a model")
	}
	if err != nil {
		return err
	}
	s.Revision = t.revision
	return c.JSON(http.StatusOK, s)
}
