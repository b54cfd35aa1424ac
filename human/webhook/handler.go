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

// Handler takes what the desk says: a POST of JSON with the type "handoff.event" and, as data, an
// event and the session that it is for, signed with one of the secrets within five minutes of
// now. It calls deliver, whose context ends with the server and not when the desk hangs up.
//
// It answers 204 if the word was delivered, now or before. The desk sends the same again after
// 503, with Retry-After, and after 500. It does not after 409, which is a status that cannot
// follow, and 410, a handoff that is over; after 400, 401, 405, 408 and 413 the request is wrong. A body has a minute to arrive, which is 408.
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
		return session, e, errors.New("data.session must have app, user and id, as in what was posted to the desk")
	}
	return to.Session, e, nil
}

// refuse answers after a failed delivery. The words of an error that nobody expected stay here.
func (d *Desk) refuse(w http.ResponseWriter, session agent.SessionKey, e human.Event, err error) {
	code, says := http.StatusInternalServerError, "the word could not be delivered"
	switch {
	case errors.Is(err, human.ErrGone):
		code, says = http.StatusGone, "the handoff is over or unknown"
	case errors.Is(err, human.ErrTransition):
		code, says = http.StatusConflict, "the handoff cannot become that from its present status"
	case errors.Is(err, agent.ErrBadInput):
		code, says = http.StatusBadRequest, "no session here can take it"
	case errors.Is(err, agent.ErrSessionBusy), errors.Is(err, agent.ErrConflict):
		w.Header().Set("Retry-After", "1")
		code, says = http.StatusServiceUnavailable, "the session is busy: send it again"
	}
	d.log.Warn("a message of the desk was not delivered", "session", session.String(), "handoff", e.HandoffID, "event", e.ID, "status", code, "error", err)
	http.Error(w, says, code)
}
