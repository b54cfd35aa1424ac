package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/server/internal/form"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/internal/logpage"
	"github.com/agentarbor/arbor/server/internal/stream"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
)

// turnRoutes start turns, and decide about, stop, resume and cancel them.
func (h *Handler) turnRoutes() []front.Route {
	return []front.Route{
		{Method: "POST", Path: "/sessions", Handle: h.createSession},
		{Method: "GET", Path: "/sessions/{session}/turns", Handle: h.turnList},
		{Method: "POST", Path: "/sessions/{session}/turns", Handle: h.createTurn},
		{Method: "GET", Path: "/sessions/{session}/turns/{turn}", Handle: h.turn},
		{Method: "POST", Path: "/sessions/{session}/turns/{turn}/decisions", Handle: h.decide},
		{Method: "GET", Path: "/approvals", Handle: h.approvals},
		{Method: "POST", Path: "/sessions/{session}/turns/{turn}/stop", Handle: h.stop},
		{Method: "POST", Path: "/sessions/{session}/turns/{turn}/resume", Handle: h.resume},
		{Method: "POST", Path: "/sessions/{session}/turns/{turn}/cancel", Handle: h.cancel},
	}
}

// createSession creates a session by its first turn. If the body has no id, the id is derived from the request's
// Idempotency-Key, so that a repeated request finds the session.
func (h *Handler) createSession(c *front.Call) error {
	var body struct {
		ID *string `json:"id"`
		front.MessageBody
	}
	if err := c.Decode(&body); err != nil {
		return err
	}
	name, err := c.IdempotencyKey()
	if err != nil {
		return err
	}
	var id string
	switch {
	case body.ID != nil:
		id = *body.ID
	case name != "":
		sum := sha256.Sum256([]byte(c.User.Name + "\x00" + name))
		id = hex.EncodeToString(sum[:16])
	default:
		id = strings.ToLower(rand.Text())
	}
	key, err := c.Key(id)
	if fault := front.FaultOf(err); err != nil && fault.Code == "not_found" {
		return front.InvalidValue("id", "must be 1 to 255 bytes of UTF-8, without NUL")
	}
	if err != nil {
		return err
	}
	err = h.startTurn(c, key, body.MessageBody, new(int64))
	if fault := front.FaultOf(err); err != nil && (fault.Code == "position_moved" || fault.Code == "session_busy" && name == "") {
		return front.Conflict("exists", fmt.Sprintf("session %q exists: continue it with POST …/sessions/{session}/turns, or give another id", id))
	}
	return err
}

func (h *Handler) createTurn(c *front.Call) error {
	info, err := c.Find(c.R.PathValue("session"))
	if err != nil {
		return err
	}
	var body front.MessageBody
	if err := c.Decode(&body); err != nil {
		return err
	}
	return h.startTurn(c, info.Key, body, c.IfMatch())
}

// startTurn starts a turn. If at is not nil, the log must end at that position.
func (h *Handler) startTurn(c *front.Call, key session.Key, body front.MessageBody, at *int64) error {
	msg, metadata, err := body.Message()
	if err == nil {
		err = c.Acceptable()
	}
	if err != nil {
		return err
	}
	name, err := c.IdempotencyKey()
	if err != nil {
		return err
	}
	b, err := h.turns.BeginOnce(c.R.Context(), key, msg, live.Request{ID: name, At: at, Wait: c.PreferredWait(), Metadata: metadata})
	if at != nil && errors.Is(err, agent.ErrConflict) {
		fault := front.FaultOf(err)
		if info, ok, err := session.Find(c.R.Context(), h.turns.Store(), key); ok && err == nil {
			fault.Seq = info.Seq
		}
		return fault
	}
	if err != nil {
		return err
	}
	return h.writeTurn(c, key, b)
}

// writeTurn answers with a turn that a request started or continued: with a stream of its events, or as JSON. The
// caller must have checked Acceptable before it started the turn.
func (h *Handler) writeTurn(c *front.Call, key session.Key, b *live.Begun) error {
	c.Turn = b.ID
	if typ, _ := c.Accept(front.JSON, front.EventStream); typ == front.EventStream {
		after := session.Position{Seq: b.From}
		if b.Repeated && c.R.Header.Get("Last-Event-Id") != "" {
			info, _, err := session.Find(c.R.Context(), h.turns.Store(), key)
			if err == nil {
				after, err = stream.StartPosition(c, info.Seq)
			}
			if err != nil {
				return err
			}
		}
		c.W.Header().Set("Location", h.link(c, key).To("turns", b.ID))
		first := b.First
		return c.Then(func() error { return h.streamTurn(c, key, first, after, logpage.Shape{}) })
	}
	return h.waitForTurn(c, key, b)
}

// waitForTurn answers with a turn as JSON, after it has ended or paused, or after the time of the Prefer header.
func (h *Handler) waitForTurn(c *front.Call, key session.Key, b *live.Begun) error {
	header := c.W.Header()
	var r *live.Report
	wait := c.PreferredWait()
	switch {
	case wait > 0 && b.Turn != nil:
		select {
		case <-b.Turn.Done():
			r = b.Turn.Report()
		case <-time.After(wait):
		case <-c.R.Context().Done():
		}
	case wait > 0:
		ctx, cancel := context.WithTimeout(c.R.Context(), wait)
		defer cancel()
		for _, err := range h.turns.Watch(ctx, key, b.First, session.Position{Seq: b.From}.String()) {
			if err != nil {
				break
			}
		}
	}
	if r == nil {
		var err error
		if r, err = h.turns.Report(c.R.Context(), key, b.ID); err != nil {
			return err
		}
	}
	status := http.StatusAccepted
	if wait > 0 {
		header.Set("Preference-Applied", "wait="+strconv.Itoa(int(wait/time.Second)))
		if r.State != live.Running {
			status = http.StatusOK
		}
	}
	t := form.TurnOf(r, h.link(c, key))
	header.Set("Location", t.Links.Self)
	return c.JSON(status, t)
}

func (h *Handler) turn(c *front.Call) error {
	key, err := c.Key(c.R.PathValue("session"))
	if err != nil {
		return err
	}
	r, err := h.turns.Report(c.R.Context(), key, c.R.PathValue("turn"))
	if err != nil {
		return err
	}
	c.Turn = r.ID
	return c.JSON(http.StatusOK, form.TurnOf(r, h.link(c, key)))
}

// The default and the maximum number of turns on a page.
const defaultTurns, maxTurns = 20, 200

func (h *Handler) turnList(c *front.Call) error {
	info, err := c.Find(c.R.PathValue("session"))
	if err != nil {
		return err
	}
	query := c.R.URL.Query()
	limit, err := front.Limit(query, defaultTurns, maxTurns)
	if err != nil {
		return err
	}
	before := info.Seq + 1
	if after := query.Get("after"); after != "" {
		if before, err = strconv.ParseInt(after, 10, 64); err != nil || before < 1 {
			return front.NoPage()
		}
	}
	answer := struct {
		Turns []*form.Turn `json:"turns"`
		Next  string       `json:"next,omitempty"`
	}{Turns: []*form.Turn{}}
	for r, err := range h.turns.Reports(c.R.Context(), info.Key, min(before, info.Seq+1)) {
		if err != nil {
			return err
		}
		if len(answer.Turns) == limit {
			answer.Next = strconv.FormatInt(answer.Turns[limit-1].First, 10)
			break
		}
		answer.Turns = append(answer.Turns, form.TurnOf(r, h.link(c, info.Key)))
	}
	return c.JSON(http.StatusOK, answer)
}
