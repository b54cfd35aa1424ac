package server

import (
	"context"
	"iter"
	"net/http"
	"strconv"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/server/internal/form"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/internal/logpage"
	"github.com/agentarbor/arbor/server/internal/stream"
	"github.com/agentarbor/arbor/session"
)

// eventRoutes return the events of logs, and the files in them.
func (h *Handler) eventRoutes() []front.Route {
	return []front.Route{
		{Method: "GET", Path: "/sessions/{session}/events", Handle: h.events},
		{Method: "GET", Path: "/sessions/{session}/events/{seq}", Handle: h.event},
		{Method: "GET", Path: "/sessions/{session}/events/{seq}/media/{part}", Handle: h.media},
		{Method: "GET", Path: "/sessions/{session}/turns/{turn}/events", Handle: h.turnEvents},
		{Method: "GET", Path: "/sessions/{session}/files", Handle: h.files},
		{Method: "GET", Path: "/sessions/{session}/files/{digest}", Handle: h.file},
	}
}

func (h *Handler) events(c *front.Call) error {
	info, err := c.Find(c.R.PathValue("session"))
	if err != nil {
		return err
	}
	return h.writeEvents(c, info, 1, info.Seq, func(as logpage.Shape, after session.Position) error {
		return h.stream(c, info.Key, as, func(ctx context.Context) iter.Seq2[session.Entry, error] {
			return h.turns.Follow(ctx, info.Key, after.String())
		})
	})
}

func (h *Handler) turnEvents(c *front.Call) error {
	info, err := c.Find(c.R.PathValue("session"))
	if err != nil {
		return err
	}
	r, err := h.turns.Report(c.R.Context(), info.Key, c.R.PathValue("turn"))
	if err != nil {
		return err
	}
	c.Turn, info.Seq = r.ID, max(info.Seq, r.Seq)
	return h.writeEvents(c, info, r.First, r.Seq, func(as logpage.Shape, after session.Position) error {
		if r.Rests() && after.Seq >= r.Seq {
			c.W.WriteHeader(http.StatusNoContent) // tells an EventSource not to reconnect
			return nil
		}
		return h.streamTurn(c, info.Key, r.First, after, as)
	})
}

// writeEvents answers with the events from first to last, as a page, or with the stream of follow.
func (h *Handler) writeEvents(c *front.Call, info session.Info, first, last int64, follow func(logpage.Shape, session.Position) error) error {
	typ, err := c.Accept(front.JSON, front.NDJSON, front.EventStream)
	if err != nil {
		return err
	}
	query := c.R.URL.Query()
	shape, err := logpage.ShapeOf(query, h.link(c, info.Key).To)
	if err != nil {
		return err
	}
	if typ == front.EventStream {
		after, err := stream.StartPosition(c, info.Seq)
		if err != nil {
			return err
		}
		return c.Then(func() error { return follow(shape, after) })
	}
	page, err := logpage.Read(c.R.Context(), h.turns.Store(), info.Key, first, last, query, shape, c.EventFilter())
	if err != nil {
		return err
	}
	if typ == front.JSON {
		return c.Bytes(http.StatusOK, typ, page.JSON())
	}
	if page.Next != "" {
		query.Del("before")
		query.Set("after", page.Next)
		c.W.Header().Set("Link", "<"+c.R.URL.EscapedPath()+"?"+query.Encode()+`>; rel="next"`)
	}
	return c.Bytes(http.StatusOK, typ, page.NDJSON())
}

// findEvent returns the event at the position of the path, as the caller may see it.
func (h *Handler) findEvent(c *front.Call) (*event.Event, error) {
	key, err := c.Key(c.R.PathValue("session"))
	if err != nil {
		return nil, err
	}
	if seq, err := strconv.ParseInt(c.R.PathValue("seq"), 10, 64); err == nil && seq > 0 {
		for e, err := range h.turns.Store().Load(c.R.Context(), key, seq-1) {
			if err == nil {
				e = c.EventFilter()(e)
			}
			if err != nil || e != nil {
				return e, err
			}
			break
		}
	}
	return nil, front.Missing("the session has no event at this position")
}

func (h *Handler) event(c *front.Call) error {
	e, err := h.findEvent(c)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, e)
}

func (h *Handler) media(c *front.Call) error {
	e, err := h.findEvent(c)
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint(c.R.PathValue("part"), 10, 31)
	if user, ok := e.Data.(*event.User); ok && err == nil && int(n) < len(user.Content.Parts) {
		if media, ok := user.Content.Parts[n].(llm.Media); ok && len(media.Data) > 0 {
			return c.Attach(media.Name, media.MediaType, media.Data)
		}
	}
	return front.Missing("the event has no such part with media")
}

// filesOf returns the files in the log of the path's session.
func (h *Handler) filesOf(c *front.Call) (session.Key, []form.File, error) {
	info, err := c.Find(c.R.PathValue("session"))
	if err != nil {
		return info.Key, nil, err
	}
	files, err := form.FilesOf(c.R.Context(), h.turns.Store(), h.link(c, info.Key))
	return info.Key, files, err
}

func (h *Handler) files(c *front.Call) error {
	_, files, err := h.filesOf(c)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, map[string][]form.File{"files": files})
}

// file answers with the bytes of a file in the session's log. Other files of the store do not exist for it.
func (h *Handler) file(c *front.Call) error {
	key, files, err := h.filesOf(c)
	if err != nil {
		return err
	}
	for _, f := range files {
		if f.Digest != "" && f.Digest == c.R.PathValue("digest") {
			data, err := h.turns.Store().Blob(c.R.Context(), key, f.Digest)
			if err != nil {
				return err
			}
			return c.Attach(f.Name, f.MediaType, data)
		}
	}
	return front.Missing("the session has no such file")
}
