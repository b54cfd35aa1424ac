package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/internal/form"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
)

func (h *Handler) decide(c *front.Call) error {
	key, err := c.KeyWith(c.R.PathValue("session"), c.User.Decides(), access.Approve)
	if err != nil {
		return err
	}
	if _, err := h.turns.Report(c.R.Context(), key, c.R.PathValue("turn")); err != nil {
		return err
	}
	if err := c.Acceptable(); err != nil {
		return err
	}
	var body struct {
		Decisions []struct {
			CallID   string          `json:"callId"`
			Approved *bool           `json:"approved"`
			Content  json.RawMessage `json:"content"`
			Reason   string          `json:"reason"`
			Digest   string          `json:"digest"`
		} `json:"decisions"`
	}
	if err := c.Decode(&body); err != nil {
		return err
	}
	if len(body.Decisions) == 0 {
		return front.ProblemAt("decisions", "is empty")
	}
	decisions := make([]runner.Decision, len(body.Decisions))
	for i, b := range body.Decisions {
		if b.CallID == "" || b.Approved == nil && b.Content == nil {
			return front.ProblemAt(fmt.Sprintf("decisions[%d]", i), "needs a callId, and approved or content")
		}
		decisions[i] = runner.Decision{CallID: b.CallID, Approved: b.Approved == nil || *b.Approved, Content: b.Content, Reason: b.Reason, Digest: b.Digest}
	}
	name, err := c.IdempotencyKey()
	if err != nil {
		return err
	}
	b, err := h.turns.DecideOnce(c.R.Context(), key, c.R.PathValue("turn"), live.Request{ID: name, Wait: c.PreferredWait()}, decisions...)
	if err != nil {
		return err
	}
	if key.User != c.User.Name && !c.User.May(access.Act) { // the right to decide does not include reading the answer
		c.W.WriteHeader(http.StatusNoContent)
		return nil
	}
	return h.writeTurn(c, key, b)
}

// approval is an open question that the caller may decide, with its session.
type approval struct {
	User     string        `json:"user"`
	Session  string        `json:"session"`
	Title    string        `json:"title,omitempty"` // if the caller may read the session
	Turn     string        `json:"turn"`
	Since    time.Time     `json:"since"`
	Question form.Question `json:"question"`
}

// approvals answers with the open questions that the caller may decide, in their own sessions or in those of all
// users. It also reads running sessions, because a call may ask while other calls of its turn run.
func (h *Handler) approvals(c *front.Call) error {
	ctx, of := c.R.Context(), session.Key{App: h.App(), User: c.User.Name}
	if c.User.Decides() {
		of.User = ""
	}
	var infos []session.Info
	for _, status := range []session.Status{session.StatusWaiting, session.StatusOpen} {
		some, err := h.turns.Store().List(ctx, of, session.Page{Status: status, Limit: maxScanned})
		if err != nil {
			return err
		}
		infos = append(infos, some...)
	}
	slices.SortFunc(infos, session.CompareInfo)
	all := []approval{}
	for _, info := range infos {
		now, err := h.turns.Look(ctx, info.Key)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(now.Pending, func(q *event.Relay) bool { return h.turns.MayDecide(ctx, info.Key, q) }) {
			continue
		}
		r, err := h.turns.Report(ctx, info.Key, "")
		if errors.Is(err, live.ErrNoTurn) { // the session has just been deleted
			continue
		} else if err != nil {
			return err
		}
		title := ""
		if info.Key.User == c.User.Name || c.User.May(access.Inspect) {
			if title, err = form.TitleOf(ctx, h.turns.Store(), info); err != nil {
				return err
			}
		}
		for _, e := range r.Questions() { // calls that a fork copied are decided in the original session
			if q := e.Data.(*event.Relay); q.Kind != event.RelayInput && e.Seq <= info.ParentSeq {
				continue
			}
			if h.turns.MayDecide(ctx, info.Key, e.Data.(*event.Relay)) {
				all = append(all, approval{info.Key.User, info.Key.ID, title, r.ID, e.Time.UTC(), form.QuestionOf(e, true)})
			}
		}
	}
	return c.JSON(http.StatusOK, map[string]any{"approvals": all})
}

// lastTurn returns the turn of the path, which must be the session's last.
func (h *Handler) lastTurn(c *front.Call) (session.Key, *live.Report, error) {
	key, err := c.Key(c.R.PathValue("session"))
	if err != nil {
		return key, nil, err
	}
	r, err := h.turns.Last(c.R.Context(), key, c.R.PathValue("turn"))
	if err == nil {
		c.Turn = r.ID
	}
	return key, r, err
}

// writeReport answers with the current state of a turn.
func (h *Handler) writeReport(c *front.Call, key session.Key, turn string) error {
	r, err := h.turns.Report(c.R.Context(), key, turn)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, form.TurnOf(r, h.link(c, key)))
}

func (h *Handler) stop(c *front.Call) error {
	key, r, err := h.lastTurn(c)
	if err != nil {
		return err
	}
	if err := h.turns.Stop(c.R.Context(), key); err != nil {
		return err
	}
	return h.writeReport(c, key, r.ID)
}

func (h *Handler) resume(c *front.Call) error {
	key, r, err := h.lastTurn(c)
	if err != nil {
		return err
	}
	if err := c.Acceptable(); err != nil {
		return err
	}
	b := &live.Begun{ID: r.ID, First: r.First, From: r.Seq}
	switch {
	case r.State == live.Running: // it continues already
	case r.Rests() && r.State != live.Waiting:
		return front.Conflict("turn_over", errRests.Error())
	default:
		b.Turn, err = h.turns.Resume(c.R.Context(), key)
	}
	if err != nil && !errors.Is(err, agent.ErrSessionBusy) { // busy: another request has just resumed it
		return err
	}
	return h.writeTurn(c, key, b)
}

// errRests stops a cancellation of a turn that is over.
var errRests = errors.New("the turn is over")

func (h *Handler) cancel(c *front.Call) error {
	key, r, err := h.lastTurn(c)
	if err != nil {
		return err
	}
	_, err = h.turns.CancelIf(c.R.Context(), key, func(ctx context.Context) (seq int64, rests bool, err error) {
		now, err := h.turns.Last(ctx, key, r.ID)
		if err != nil {
			return 0, false, err
		}
		if now.Rests() && now.State != live.Waiting {
			return 0, false, errRests
		}
		return now.Seq, now.State == live.Waiting, nil
	})
	if err != nil && !errors.Is(err, errRests) {
		return err
	}
	return h.writeReport(c, key, r.ID)
}
