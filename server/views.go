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

func (h pastHandlers) view(c *front.Call, info session.Info, at int64) error {
	t := h.door.treeNow()
	n := t.run.Tree().Node(c.R.PathValue("agent"))
	if n == nil {
		return front.Missing("the tree has no such agent")
	}
	v, err := asked.ViewOf(c.R.Context(), t.run, info.Key, at, n, h.door.prices)
	switch {
	case err != nil:
		return err
	case v == nil:
		return front.Missing("the agent has no model of its own, and so no view")
	}
	v.Revision, v.Sent = t.revision, h.door.requests.Find(info.Key, v.Agent, at)
	return c.JSON(http.StatusOK, v)
}

// mostSamples bounds the answers of one request, and mostSampling the requests of a user at once:
// no bound of turns holds here.
const mostSamples, mostSampling = 10, 4

func (h pastHandlers) samples(c *front.Call, info session.Info, _ int64) error {
	b := struct {
		At    int64  `json:"at"`
		Agent string `json:"agent"`
		N     int    `json:"n"`
	}{At: info.Seq, N: 1}
	if err := c.Decode(&b); err != nil {
		return err
	}
	t := h.door.treeNow()
	run := t.run
	switch {
	case b.At > info.Seq:
		return front.CheckPosition(b.At, info.Seq)
	case b.At < 0:
		return front.ProblemAt("at", fmt.Sprintf("must be a position of the session, from 0 to %d", info.Seq))
	case b.N < 1 || b.N > mostSamples:
		return front.ProblemAt("n", fmt.Sprintf("must be a number from 1 to %d", mostSamples))
	case b.Agent == "":
		f, _, err := form.Past(c.R.Context(), h.door.turns.Store(), info.Key, b.At)
		if err != nil {
			return err
		}
		b.Agent = cmp.Or(f.Active(), run.Tree().Root().Agent.Name())
	}
	if err := h.door.sampling.Enter(c.User.Name); err != nil {
		return err
	}
	defer h.door.sampling.Leave(c.User.Name)
	s, err := asked.SamplesOf(c.R.Context(), run, info.Key, b.At, b.Agent, b.N, h.door.prices)
	if errors.Is(err, agent.ErrBadInput) {
		return front.Unfit("agent", "must be an agent of the tree with a model of its own")
	}
	if err != nil {
		return err
	}
	s.Revision = t.revision
	return c.JSON(http.StatusOK, s)
}
