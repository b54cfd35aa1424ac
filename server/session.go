package server

import (
	"net/http"
	"strconv"

	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/server/internal/form"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/session"
)

func (d *Door) routes() []front.Route {
	return []front.Route{
		{Method: "GET", Path: "/openapi.json", Open: true, Handle: d.openapi},
		{Method: "GET", Path: "/me", Handle: d.me},
		{Method: "GET", Path: "/agents", Handle: d.agents},
		{Method: "GET", Path: "/agents/{agent}", Needs: access.Inspect, Handle: d.agent},
		{Method: "GET", Path: "/agents/{agent}/drawing", Needs: access.Inspect, Handle: d.drawing},
		{Method: "GET", Path: "/sessions", Handle: d.sessions},
		{Method: "GET", Path: "/sessions/{session}", Handle: d.at(d.session)},
		{Method: "DELETE", Path: "/sessions/{session}", Handle: d.deleteSession},
		{Method: "GET", Path: "/changes", Handle: d.changes},
	}
}

// The bounds of a list: without a limit, at most, and how many one looks at of a status or in a search.
const fewSessions, mostSessions, lookedAt = 50, 200, 500

func (d *Door) sessions(c *front.Call) error {
	key, err := c.Key("any")
	if err != nil {
		return err
	}
	query := c.R.URL.Query()
	page := session.Page{}
	if page.Limit, err = front.Limit(query, fewSessions, mostSessions); err != nil {
		return err
	}
	limit, wanted := page.Limit, live.State(query.Get("state"))
	switch wanted {
	case "":
	case live.Running, live.CutOff: // which of the two, the lease says
		page.Status, page.Limit = session.StatusOpen, lookedAt
	case live.Waiting, live.Done, live.Failed, live.Canceled:
		page.Status = session.Status(wanted)
	default:
		return front.BadRequest("no turn has the state %.40q", wanted)
	}
	find, err := searchOf(query)
	if err != nil {
		return err
	}
	if !find.all() {
		page.Limit = lookedAt
	}
	if query.Get("after") != "" {
		if page.After, err = form.PlaceOf(query.Get("after"), key); err != nil {
			return front.NoPosition("after is no place in the list: use the next of a page")
		}
	}
	infos, err := d.turns.Store().List(c.R.Context(), session.Key{App: key.App, User: key.User}, page)
	if err != nil {
		return err
	}
	answer := struct {
		Sessions []form.Session `json:"sessions"`
		Next     string         `json:"next,omitempty"`
		Searched *searched      `json:"searched,omitempty"`
	}{Sessions: []form.Session{}}
	if !find.all() {
		answer.Searched = &searched{}
	}
	for i, info := range infos {
		if info.Updated.Before(find.since) { // and so are all that follow
			break
		}
		s, err := form.SessionOf(c.R.Context(), d.turns, info)
		if err != nil {
			return err
		}
		fits := wanted == "" || s.State == wanted
		if answer.Searched != nil {
			answer.Searched.Sessions, answer.Searched.Updated = i+1, s.Updated
			if fits {
				if fits, err = find.has(c.R.Context(), d.turns.Store(), info, s); err != nil {
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

func (d *Door) session(c *front.Call, info session.Info, at int64) error {
	answer, err := form.DetailOf(c.R.Context(), d.turns, info, c.R.URL.Query().Has("at"), at)
	if err != nil {
		return err
	}
	c.W.Header().Set("ETag", front.ETag(answer.Seq))
	return c.JSON(http.StatusOK, answer)
}

// at is a route of a stored session at the position that ?at= names, or at the end of its log.
func (d *Door) at(handle func(c *front.Call, info session.Info, at int64) error) func(*front.Call) error {
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

func (d *Door) deleteSession(c *front.Call) error {
	info, err := c.Find(c.R.PathValue("session"))
	if err != nil {
		return err
	}
	if err := front.Delete(c.R.Context(), d.turns.Store(), info.Key); err != nil {
		return err
	}
	c.W.WriteHeader(http.StatusNoContent)
	return nil
}
