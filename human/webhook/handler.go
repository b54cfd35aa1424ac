package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/human"
)

// Handler takes what the desk says: a POST of JSON with the type "handoff.event" and, as data, an
// event and the session that it is for, signed with one of the secrets within five minutes of
// now. It calls deliver, whose context ends with the server and not when the desk hangs up.
//
// It answers 204 if the word was delivered, now or before. The desk sends the same again after
// 503, with Retry-After, and after 500. It does not after 409, which is a status that cannot
// follow, and 410, a handoff that is over; after 400, 401, 405 and 413 the request is wrong.
func (d *Desk) Handler(deliver human.Deliver) http.Handler {
	var done recent
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, "only POST", http.StatusMethodNotAllowed)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			http.Error(w, "the body is too large", http.StatusRequestEntityTooLarge)
			return
		} else if err != nil {
			http.Error(w, "the body cannot be read", http.StatusBadRequest)
			return
		}
		id := r.Header.Get(standardwebhooks.HeaderWebhookID)
		if err := d.verify(body, r.Header); err != nil || len(id) > 256 {
			http.Error(w, refusal(err), http.StatusUnauthorized)
			return
		}
		if !done.has(id, time.Now()) {
			session, e, err := read(body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			if err := deliver(context.WithoutCancel(r.Context()), session, e); err != nil {
				d.refuse(w, session, e, err)
				return
			}
			done.add(id, time.Now())
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

// verify accepts a signature by any of the secrets.
func (d *Desk) verify(body []byte, h http.Header) (err error) {
	for _, k := range d.keys {
		if err = k.Verify(body, h); err == nil {
			return nil
		}
	}
	return err
}

// refusal says why, and nothing about what would be right.
func refusal(err error) string {
	switch {
	case errors.Is(err, standardwebhooks.ErrMessageTooOld), errors.Is(err, standardwebhooks.ErrMessageTooNew):
		return "webhook-timestamp is more than five minutes away"
	case errors.Is(err, standardwebhooks.ErrNoMatchingSignature):
		return "webhook-signature does not match"
	default:
		return "webhook-id, webhook-timestamp or webhook-signature is missing or malformed"
	}
}

func read(body []byte) (session agent.SessionKey, e human.Event, err error) {
	var m struct {
		Type string          `json:"type"`
		Data json.RawMessage `json:"data"`
	}
	var to struct {
		Session key `json:"session"`
	}
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
	return agent.SessionKey(to.Session), e, nil
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
	d.log.Warn("a word of the desk was not delivered", "session", session.String(), "handoff", e.HandoffID, "event", e.ID, "status", code, "error", err)
	http.Error(w, says, code)
}

// recent remembers the IDs of what was delivered for as long as their signatures are accepted,
// the latest 10,000 of them at least. A delivery that comes after that is refused by its
// timestamp, or changes nothing because its event is known.
type recent struct {
	mu       sync.Mutex
	now, old map[string]bool
	since    time.Time
}

const (
	maxBody    = 256 << 10
	remembered = 10000
	tolerance  = 10 * time.Minute // five before and five after
)

func (r *recent) has(id string, at time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn(at)
	return r.now[id] || r.old[id]
}

func (r *recent) add(id string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn(at)
	r.now[id] = true
}

// turn forgets what was delivered before the present generation began, when that is full or old.
func (r *recent) turn(at time.Time) {
	if r.now == nil || len(r.now) >= remembered || at.Sub(r.since) >= tolerance {
		r.now, r.old, r.since = map[string]bool{}, r.now, at
	}
}
