package server

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/session"
)

// deskHandlers serve the people at a desk.
type deskHandlers struct{ door *Door }

func (h deskHandlers) routes() []front.Route {
	const handoff = "/desk/handoffs/{handoff}"
	return []front.Route{
		{Method: "GET", Path: "/desk/handoffs", Needs: access.Desk, Handle: h.handoffs},
		{Method: "POST", Path: handoff + "/accept", Needs: access.Desk, Handle: h.atDesk(accept)},
		{Method: "POST", Path: handoff + "/hold", Needs: access.Desk, Handle: h.atDesk(hold)},
		{Method: "POST", Path: handoff + "/messages", Needs: access.Desk, Handle: h.atDesk(message)},
		{Method: "POST", Path: handoff + "/complete", Needs: access.Desk, Handle: h.atDesk(complete)},
	}
}

// What persons say at the desk, each by a route of its own.
func accept(c *front.Call) (word human.Event, err error) {
	word.Status, word.TargetAgent = human.Connected, c.User.Name
	return word, nil
}

func hold(*front.Call) (word human.Event, err error) {
	word.Status = human.OnHold
	return word, nil
}

func message(c *front.Call) (word human.Event, err error) {
	var b struct {
		Text string `json:"text"`
	}
	if err = c.Decode(&b); err == nil && strings.TrimSpace(b.Text) == "" {
		err = front.ProblemAt("text", "is missing")
	}
	word.Text = b.Text
	return word, err
}

func complete(c *front.Call) (word human.Event, err error) {
	b := struct {
		Status human.Status `json:"status"`
		To     string       `json:"to"`
		Reason string       `json:"reason"`
	}{Status: human.Completed}
	if err = c.Decode(&b); err == nil && !b.Status.Final() {
		err = front.ProblemAt("status", "must be completed, ended, cancelled or failed")
	}
	word.Status, word.TargetAgent, word.Reason = b.Status, b.To, b.Reason
	return word, err
}

// underWay returns the handoffs that are under way, the oldest first.
func (h deskHandlers) underWay(c *front.Call) ([]human.Handoff, error) {
	state, err := h.door.turns.Store().SharedState(c.R.Context(), session.Key{App: h.door.App(), User: c.User.Name, ID: "desk"})
	return append([]human.Handoff{}, human.Handoffs(state)...), err
}

func (h deskHandlers) handoffs(c *front.Call) error {
	all, err := h.underWay(c)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, map[string]any{"handoffs": all})
}

// atDesk is a route by which a person says something in a handoff. It answers with how that stands.
func (h deskHandlers) atDesk(said func(*front.Call) (human.Event, error)) func(*front.Call) error {
	return func(c *front.Call) error {
		all, err := h.underWay(c)
		if err != nil {
			return err
		}
		is := func(h human.Handoff) bool { return h.ID == c.R.PathValue("handoff") }
		i := slices.IndexFunc(all, is)
		if i < 0 {
			return front.Missing("no such handoff is under way")
		}
		word, err := said(c)
		if err != nil {
			return err
		}
		name, err := c.IdempotencyKey()
		if err != nil {
			return err
		}
		now := all[i]
		key := session.Key{App: h.door.App(), User: now.User, ID: now.Session}
		c.Session, word.HandoffID = key.ID, now.ID
		switch err := h.door.turns.DeliverOnce(c.R.Context(), key, live.Request{ID: name, Wait: c.Prefer()}, word); {
		case errors.Is(err, human.ErrGone):
			return front.Missing("no such handoff is under way")
		case errors.Is(err, human.ErrTransition):
			return front.Conflict("not_a_step", err.Error())
		case err != nil:
			return err
		case word.Status != "":
			now.Status = word.Status
		}
		if all, err = h.underWay(c); err != nil {
			return err
		}
		if i = slices.IndexFunc(all, is); i >= 0 { // else it is over
			now = all[i]
		}
		return c.JSON(http.StatusOK, now)
	}
}
