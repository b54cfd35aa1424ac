package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/human"
)

const maxBody = 256 << 10

// Handler returns a handler for events of the desk. The desk posts JSON with the type "handoff.event" and, as data, a
// [human.Event] and its session, signed with one of the secrets within five minutes of now. Handler calls deliver with
// a context that does not end when the desk disconnects.
//
// It answers 204 if the event was delivered, now or before. The desk should retry after 503, with Retry-After, and
// after 500, but not after 409, for a status that cannot follow the current one, or 410, for a handoff that has ended.
// With 400, 401, 405, 408 and 413 the request is invalid. A body must arrive within a minute; otherwise the answer is
// 408.
func (d *Desk) Handler(deliver human.Deliver) http.Handler {
	return d.bodies.Bounded(d.keys.Handler(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		session, e, err := read(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return false
		}
		if err := deliver(context.WithoutCancel(r.Context()), session, e); err != nil {
			d.refuse(w, session, e, err)
			return false
		}
		return true
	}))
}

func read(body []byte) (session agent.SessionKey, e human.Event, err error) {
	var m struct {
		Type string          `json:"type"`
		Data json.RawMessage `json:"data"`
	}
	var to human.Leg
	if err = json.Unmarshal(body, &m); err != nil {
		return session, e, errors.New("the body is not a JSON object with type and data")
	}
	if m.Type != TypeEvent {
		return session, e, errors.New(`type must be "` + TypeEvent + `"`)
	}
	if err = json.Unmarshal(m.Data, &e); err != nil {
		return session, e, err
	}
	if err = json.Unmarshal(m.Data, &to); err != nil || to.Session.ID == "" {
		return session, e, errors.New("data.session must have app, user and id, as in the posts to the desk")
	}
	return to.Session, e, nil
}

// refuse answers after a failed delivery. The desk does not receive the text of the error, which may contain secrets.
func (d *Desk) refuse(w http.ResponseWriter, session agent.SessionKey, e human.Event, err error) {
	code, message := http.StatusInternalServerError, "the event could not be delivered: send it again later"
	switch {
	case errors.Is(err, human.ErrGone):
		code, message = http.StatusGone, "the handoff has ended or is unknown"
	case errors.Is(err, human.ErrTransition):
		code, message = http.StatusConflict, "the handoff cannot change to this status from its current one"
	case errors.Is(err, agent.ErrBadInput):
		code, message = http.StatusBadRequest, "no session can accept the event"
	case errors.Is(err, agent.ErrSessionBusy), errors.Is(err, agent.ErrConflict):
		w.Header().Set("Retry-After", "1")
		code, message = http.StatusServiceUnavailable, "the session is busy: send the event again"
	}
	d.logger.Warn("an event of the desk was not delivered", "session", session.String(), "handoff", e.HandoffID, "event", e.ID, "status", code, "error", err)
	http.Error(w, message, code)
}
