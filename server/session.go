package server

import (
	"net/http"
	"strconv"

	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/internal/form"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
)

func (h *Handler) routes() []front.Route {
	return []front.Route{
		{Method: "GET", Path: "/openapi.json", Open: true, Handle: h.openapi},
		{Method: "GET", Path: "/me", Handle: h.me},
		{Method: "GET", Path: "/agents", Handle: h.agents},
		{Method: "GET", Path: "/agents/{agent}", Needs: access.Inspect, Handle: h.agent},
		{Method: "GET", Path: "/agents/{agent}/drawing", Needs: access.Inspect, Handle: h.drawing},
		{Method: "GET", Path: "/sessions", Handle: h.sessions},
		{Method: "GET", Path: "/sessions/{session}", Handle: h.sessionAt(h.session)},
		{Method: "DELETE", Path: "/sessions/{session}", Handle: h.deleteSession},
		{Method: "GET", Path: "/changes", Handle: h.changes},
	}
}

// The default and the maximum number of sessions on a page, and how many one request reads to find those of a state
// or of a search.
const defaultSessions, maxSessions, maxScanned = 50, 200, 500

func (h *Handler) sessions(c *front.Call) error {
	key, err := c.Key("any")
	if err != nil {
		return err
	}
	query := c.R.URL.Query()
	page := session.Page{}
	if page.Limit, err = front.Limit(query, defaultSessions, maxSessions); err != nil {
		return err
	}
	limit, wanted := page.Limit, live.State(query.Get("state"))
	switch wanted {
	case "":
	case live.Running, live.CutOff: // the status of both is open; the lease tells them apart
		page.Status, page.Limit = session.StatusOpen, maxScanned
	case live.Waiting, live.Done, live.Failed, live.Canceled:
		page.Status = session.Status(wanted)
	default:
		return front.BadRequest("state must be running, waiting, cut_off, done, failed or canceled, not %.40q", wanted)
	}
	find, err := searchOf(query)
	if err != nil {
		return err
	}
	if !find.isZero() {
		page.Limit = maxScanned
	}
	if after := query.Get("after"); after != "" {
		var ok bool
		if page.After, ok = form.ParseCursor(after, key); !ok {
			return front.NoPage()
		}
	}
	infos, err := h.turns.Store().List(c.R.Context(), session.Key{App: key.App, User: key.User}, page)
	if err != nil {
		return err
	}
	answer := struct {
		Sessions []form.Session  `json:"sessions"`
		Next     string          `json:"next,omitempty"`
		Searched *searchProgress `json:"searched,omitempty"`
	}{Sessions: []form.Session{}}
	if !find.isZero() {
		answer.Searched = &searchProgress{}
	}
	for i, info := range infos {
		if info.Updated.Before(find.since) { // all that follow are older
			break
		}
		s, err := form.SessionOf(c.R.Context(), h.turns, info)
		if err != nil {
			return err
		}
		fits := wanted == "" || s.State == wanted
		if answer.Searched != nil {
			answer.Searched.Sessions, answer.Searched.Updated = i+1, s.Updated
			if fits {
				if fits, err = find.matches(c.R.Context(), h.turns.Store(), info, s); err != nil {
					return err
				}
			}
		}
		if fits {
			answer.Sessions = append(answer.Sessions, s)
		}
		if last := i+1 == len(infos); last && len(infos) == page.Limit || !last && len(answer.Sessions) == limit {
			answer.Next = form.CursorOf(info.Place())
			break
		}
	}
	return c.JSON(http.StatusOK, answer)
}

func (h *Handler) session(c *front.Call, info session.Info, at int64) error {
	answer, err := form.DetailOf(c.R.Context(), h.turns, info, c.R.URL.Query().Has("at"), at)
	if err != nil {
		return err
	}
	c.W.Header().Set("ETag", front.ETag(answer.Seq))
	return c.JSON(http.StatusOK, answer)
}

// sessionAt returns a route of a stored session at the position ?at=, or at the end of its log.
func (h *Handler) sessionAt(handle func(c *front.Call, info session.Info, at int64) error) func(*front.Call) error {
	return func(c *front.Call) error {
		info, err := c.Find(c.R.PathValue("session"))
		at := info.Seq
		if query := c.R.URL.Query(); err == nil && query.Get("at") != "" {
			if at, err = strconv.ParseInt(query.Get("at"), 10, 64); err != nil || at < 0 {
				err = front.BadRequest("at must be a position of the session, from 0 to %d", info.Seq)
			} else {
				err = front.CheckPosition(at, info.Seq)
			}
		}
		if err != nil {
			return err
		}
		return handle(c, info, at)
	}
}

func (h *Handler) deleteSession(c *front.Call) error {
	info, err := c.Find(c.R.PathValue("session"))
	if err != nil {
		return err
	}
	if err := front.Delete(c.R.Context(), h.turns.Store(), info.Key); err != nil {
		return err
	}
	c.W.WriteHeader(http.StatusNoContent)
	return nil
}
