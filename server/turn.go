package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/server/internal/form"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/internal/logpage"
	"github.com/agentarbor/arbor/server/internal/stream"
	"github.com/agentarbor/arbor/session"
)

// turnHandlers begin turns, and do what can be done about one: decide, stop, resume and cancel.
type turnHandlers struct{ door *Door }

func (h turnHandlers) routes() []front.Route {
	return []front.Route{
		{Method: "POST", Path: "/sessions", Handle: h.newSession},
		{Method: "GET", Path: "/sessions/{session}/turns", Handle: h.listTurns},
		{Method: "POST", Path: "/sessions/{session}/turns", Handle: h.newTurn},
		{Method: "GET", Path: "/sessions/{session}/turns/{turn}", Handle: h.turn},
		{Method: "POST", Path: "/sessions/{session}/turns/{turn}/decisions", Handle: h.decide},
		{Method: "GET", Path: "/approvals", Handle: h.approvals},
		{Method: "POST", Path: "/sessions/{session}/turns/{turn}/stop", Handle: h.stop},
		{Method: "POST", Path: "/sessions/{session}/turns/{turn}/resume", Handle: h.resume},
		{Method: "POST", Path: "/sessions/{session}/turns/{turn}/cancel", Handle: h.cancel},
	}
}

// newSession begins a session with a turn. Without an id the session has one that is made of the
// request's name, so that a request that is sent again finds it.
func (h turnHandlers) newSession(c *front.Call) error {
	var body struct {
		ID *string `json:"id"`
		front.Words
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
		return front.Unfit("id", "must be 1 to 255 bytes of UTF-8, without NUL")
	}
	if err != nil {
		return err
	}
	err = h.begin(c, key, body.Words, new(int64))
	if fault := front.FaultOf(err); err != nil && (fault.Code == "position_moved" || fault.Code == "session_busy" && name == "") {
		return front.Conflict("exists", "a session of this id exists")
	}
	return err
}

func (h turnHandlers) newTurn(c *front.Call) error {
	info, err := c.Find(c.R.PathValue("session"))
	if err != nil {
		return err
	}
	var body front.Words
	if err := c.Decode(&body); err != nil {
		return err
	}
	return h.begin(c, info.Key, body, c.IfMatch())
}

// begin begins a turn, where the log ends at a position if one is given.
func (h turnHandlers) begin(c *front.Call, key session.Key, body front.Words, at *int64) error {
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
	b, err := h.door.turns.BeginOnce(c.R.Context(), key, msg, live.Request{ID: name, At: at, Wait: c.Prefer(), Metadata: metadata})
	if at != nil && errors.Is(err, agent.ErrConflict) {
		fault := front.FaultOf(err)
		if info, ok, err := session.Find(c.R.Context(), h.door.turns.Store(), key); ok && err == nil {
			fault.Seq = info.Seq
		}
		return fault
	}
	if err != nil {
		return err
	}
	return h.answer(c, key, b)
}

// answer tells of a turn that a request has begun, or gone on with: as it is now, as it is when it
// rests, if the client would wait for that, or by its stream. Whoever began it has asked
// Acceptable before.
func (h turnHandlers) answer(c *front.Call, key session.Key, b *live.Begun) error {
	c.Turn = b.ID
	if typ, _ := c.Accept(front.JSON, front.Stream); typ == front.Stream {
		after := session.Position{Seq: b.From}
		if b.Repeated && c.R.Header.Get("Last-Event-Id") != "" {
			info, _, err := session.Find(c.R.Context(), h.door.turns.Store(), key)
			if err == nil {
				after, err = stream.Place(c, info.Seq)
			}
			if err != nil {
				return err
			}
		}
		c.W.Header().Set("Location", h.door.link(c, key).To("turns", b.ID))
		return h.door.streamTurn(c, key, b.First, after, logpage.Shape{})
	}
	return h.waited(c, key, b)
}

// waited answers with a turn when it rests, or the client would not wait for it any longer.
func (h turnHandlers) waited(c *front.Call, key session.Key, b *live.Begun) error {
	header := c.W.Header()
	var r *live.Report
	wait := c.Prefer()
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
		for _, err := range h.door.turns.Watch(ctx, key, b.First, session.Position{Seq: b.From}.String()) {
			if err != nil {
				break
			}
		}
	}
	if r == nil {
		var err error
		if r, err = h.door.turns.Report(c.R.Context(), key, b.ID); err != nil {
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
	t := form.TurnOf(r, h.door.link(c, key))
	header.Set("Location", t.Links.Self)
	return c.JSON(status, t)
}

func (h turnHandlers) turn(c *front.Call) error {
	key, err := c.Key(c.R.PathValue("session"))
	if err != nil {
		return err
	}
	r, err := h.door.turns.Report(c.R.Context(), key, c.R.PathValue("turn"))
	if err != nil {
		return err
	}
	c.Turn = r.ID
	return c.JSON(http.StatusOK, form.TurnOf(r, h.door.link(c, key)))
}

// The bounds of a list of turns: without a limit, and at most.
const fewTurns, mostTurns = 20, 200

func (h turnHandlers) listTurns(c *front.Call) error {
	info, err := c.Find(c.R.PathValue("session"))
	if err != nil {
		return err
	}
	query := c.R.URL.Query()
	limit, err := front.Limit(query, fewTurns, mostTurns)
	if err != nil {
		return err
	}
	before := info.Seq + 1
	if after := query.Get("after"); after != "" {
		if before, err = strconv.ParseInt(after, 10, 64); err != nil || before < 1 {
			return front.NoPosition("after is no turn: use the next of a page")
		}
	}
	answer := struct {
		Turns []*form.Turn `json:"turns"`
		Next  string       `json:"next,omitempty"`
	}{Turns: []*form.Turn{}}
	for r, err := range h.door.turns.Reports(c.R.Context(), info.Key, min(before, info.Seq+1)) {
		if err != nil {
			return err
		}
		if len(answer.Turns) == limit {
			answer.Next = strconv.FormatInt(answer.Turns[limit-1].First, 10)
			break
		}
		answer.Turns = append(answer.Turns, form.TurnOf(r, h.door.link(c, info.Key)))
	}
	return c.JSON(http.StatusOK, answer)
}
