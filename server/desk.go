package server

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
)

// deskRoutes are for the people who answer handoffs.
func (h *Handler) deskRoutes() []front.Route {
	const handoff = "/desk/handoffs/{handoff}"
	return []front.Route{
		{Method: "GET", Path: "/desk/handoffs", Needs: access.Desk, Handle: h.handoffs},
		{Method: "POST", Path: handoff + "/accept", Needs: access.Desk, Handle: h.deskRoute(accept)},
		{Method: "POST", Path: handoff + "/hold", Needs: access.Desk, Handle: h.deskRoute(hold)},
		{Method: "POST", Path: handoff + "/messages", Needs: access.Desk, Handle: h.deskRoute(message)},
		{Method: "POST", Path: handoff + "/complete", Needs: access.Desk, Handle: h.deskRoute(complete)},
	}
}

// The following functions read the event of a desk route.
func accept(c *front.Call) (e human.Event, err error) {
	e.Status, e.TargetAgent = human.Connected, c.User.Name
	return e, nil
}

func hold(*front.Call) (e human.Event, err error) {
	e.Status = human.OnHold
	return e, nil
}

func message(c *front.Call) (e human.Event, err error) {
	var b struct {
		Text string `json:"text"`
	}
	if err = c.Decode(&b); err == nil && strings.TrimSpace(b.Text) == "" {
		err = front.ProblemAt("text", "is missing")
	}
	e.Text = b.Text
	return e, err
}

func complete(c *front.Call) (e human.Event, err error) {
	b := struct {
		Status human.Status `json:"status"`
		To     string       `json:"to"`
		Reason string       `json:"reason"`
	}{Status: human.Completed}
	if err = c.Decode(&b); err == nil && !b.Status.Final() {
		err = front.ProblemAt("status", "must be completed, ended, cancelled or failed")
	}
	e.Status, e.TargetAgent, e.Reason = b.Status, b.To, b.Reason
	return e, err
}

// openHandoffs returns the open handoffs, oldest first.
func (h *Handler) openHandoffs(c *front.Call) ([]human.Handoff, error) {
	state, err := h.turns.Store().SharedState(c.R.Context(), session.Key{App: h.App(), User: c.User.Name, ID: "desk"})
	return append([]human.Handoff{}, human.Handoffs(state)...), err
}

func (h *Handler) handoffs(c *front.Call) error {
	all, err := h.openHandoffs(c)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, map[string]any{"handoffs": all})
}

// deskRoute returns a route that delivers the event of a person to a handoff, and answers with the handoff.
func (h *Handler) deskRoute(read func(*front.Call) (human.Event, error)) func(*front.Call) error {
	return func(c *front.Call) error {
		all, err := h.openHandoffs(c)
		if err != nil {
			return err
		}
		is := func(h human.Handoff) bool { return h.ID == c.R.PathValue("handoff") }
		i := slices.IndexFunc(all, is)
		if i < 0 {
			return front.Missing("no open handoff has this id")
		}
		e, err := read(c)
		if err != nil {
			return err
		}
		name, err := c.IdempotencyKey()
		if err != nil {
			return err
		}
		now := all[i]
		key := session.Key{App: h.App(), User: now.User, ID: now.Session}
		c.Session, e.HandoffID = key.ID, now.ID
		switch err := h.turns.DeliverOnce(c.R.Context(), key, live.Request{ID: name, Wait: c.PreferredWait()}, e); {
		case errors.Is(err, human.ErrGone):
			return front.Missing("no open handoff has this id")
		case errors.Is(err, human.ErrTransition):
			return front.Conflict("not_a_step", err.Error())
		case err != nil:
			return err
		case e.Status != "":
			now.Status = e.Status
		}
		if all, err = h.openHandoffs(c); err != nil {
			return err
		}
		if i = slices.IndexFunc(all, is); i >= 0 { // a handoff that is over is no longer listed
			now = all[i]
		}
		return c.JSON(http.StatusOK, now)
	}
}
