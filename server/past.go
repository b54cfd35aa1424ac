package server

import (
	"bufio"
	"cmp"
	"iter"
	"mime"
	"net/http"
	"strconv"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/sessionform"
	"github.com/agentarbor/arbor/server/internal/form"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/session"
)

// The default and the maximum number of checkpoints on a page, and of events of each side of a difference.
const defaultPlaces, maxPlaces = 500, 5000

func (h *Handler) checkpoints(c *front.Call, info session.Info, _ int64) error {
	after, limit, err := front.Page(c.R.URL.Query(), defaultPlaces, maxPlaces)
	if err != nil {
		return err
	}
	page := struct {
		Checkpoints []sessionform.Checkpoint `json:"checkpoints"`
		Next        string                   `json:"next,omitempty"`
	}{Checkpoints: []sessionform.Checkpoint{}}
	for p, err := range sessionform.History(c.R.Context(), h.stored, info, c.EventFilter()) {
		if err != nil {
			return err
		}
		if n := len(page.Checkpoints); n == limit {
			page.Next = strconv.FormatInt(page.Checkpoints[n-1].Seq, 10)
			break
		}
		if p.Seq > after {
			page.Checkpoints = append(page.Checkpoints, p)
		}
	}
	return c.JSON(http.StatusOK, page)
}

func (h *Handler) family(c *front.Call, info session.Info, _ int64) error {
	infos, err := h.stored.Family(c.R.Context(), info.Key)
	if err != nil {
		return err
	}
	all := []form.Session{}
	for _, info := range infos {
		s, err := form.SessionOf(c.R.Context(), h.turns, info)
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	return c.JSON(http.StatusOK, map[string]any{"sessions": all})
}

// diff answers with a page of a difference. The page has the same range of both sides: after is a number of events.
func (h *Handler) diff(c *front.Call, info session.Info, _ int64) error {
	other, err := c.Find(c.R.PathValue("other"))
	if err != nil {
		return err
	}
	after, limit, err := front.Page(c.R.URL.Query(), defaultPlaces, maxPlaces)
	if err != nil {
		return err
	}
	diff, err := h.stored.Diff(c.R.Context(), info.Key, other.Key)
	if err != nil {
		return err
	}
	page := struct {
		sessionform.Diff
		Next string `json:"next,omitempty"`
	}{Diff: sessionform.DiffOf(diff)}
	see := c.EventFilter()
	for _, side := range []*sessionform.Side{&page.A, &page.B} {
		events := []*event.Event{}
		for _, e := range side.Events {
			if e = see(e); e != nil {
				events = append(events, e)
			}
		}
		side.Events = events
		n := int64(len(side.Events))
		from := min(after, n)
		to := min(from+int64(limit), n)
		if side.Events = side.Events[from:to]; to < n {
			page.Next = strconv.FormatInt(to, 10)
		}
	}
	return c.JSON(http.StatusOK, page)
}

func (h *Handler) export(c *front.Call, info session.Info, at int64) error {
	format := cmp.Or(c.R.URL.Query().Get("format"), "jsonl")
	typ, ok := sessionform.Formats()[format]
	if !ok {
		return front.BadRequest("format must be jsonl, md, html, openai or case")
	}
	header := c.W.Header()
	header.Set("Content-Type", typ)
	header.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": event.FileName(info.Key.ID, "session") + "." + format}))
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
	header.Set("Cache-Control", "no-store")
	see := c.EventFilter()
	out := bufio.NewWriterSize(c.W, 32<<10)
	err := sessionform.Export(out, format, info.Key.ID, info.Seq, func() iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			for e, err := range h.stored.Replay(c.R.Context(), info.Key, at) {
				if err == nil {
					e = see(e)
				}
				if (err != nil || e != nil) && !yield(e, err) {
					return
				}
			}
		}
	})
	switch {
	case err == nil:
		return out.Flush()
	case c.W.Status() != 0:
		panic(http.ErrAbortHandler) // else the client would take the part for a complete file
	}
	header.Del("Content-Disposition")
	return err
}
