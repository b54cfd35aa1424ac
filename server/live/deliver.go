package live

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/session"
)

// DeliverOnce delivers a person's message at the desk to a session, as [runner.Runner.Deliver] does, for a request
// that may be sent twice. A repeated request with the same content changes nothing. The request's ID replaces the ID
// of the message. Only ID and Wait of the request are used. In addition to the errors of Deliver it returns
// [ErrMismatch].
//
// [runner.Runner.Deliver]: https://pkg.go.dev/github.com/agentarbor/arbor/runner#Runner.Deliver
func (t *Turns) DeliverOnce(ctx context.Context, key session.Key, req Request, msg human.Event) error {
	name := requestName(msg.HandoffID, rand.Text())
	if req.ID != "" {
		name = requestName(msg.HandoffID, req.ID)
	}
	msg.ID = ""
	said, err := json.Marshal(msg)
	if err != nil {
		return err
	}
	msg.ID = name + requestName(msg.HandoffID, string(said))
	_, err = t.retryBusy(ctx, key, req, func(refused error) (*Begun, error) {
		unlock, err := t.Lock(ctx, key, nil)
		if err != nil {
			return nil, err
		}
		defer unlock()
		if req.ID != "" {
			if known, err := t.delivered(ctx, key, name, msg); known || err != nil {
				return nil, err
			}
			if refused != nil {
				return nil, refused
			}
		}
		run, err := t.RunnerOf(key)
		if err != nil {
			return nil, err
		}
		return nil, run.Deliver(ctx, key, msg)
	})
	return err
}

// delivered reports whether the log of the handoff has the message. It returns ErrMismatch if the log has another
// message with the name of the request.
func (l *logs) delivered(ctx context.Context, key session.Key, name string, msg human.Event) (bool, error) {
	info, _, err := session.Find(ctx, l.store, key)
	if err != nil {
		return false, err
	}
	for e, err := range session.Backward(ctx, l.store, key, info.Seq+1) {
		if err != nil {
			return false, err
		}
		s, ok := e.Data.(*event.HandoffStatus)
		switch {
		case !ok:
		case s.HandoffID != msg.HandoffID:
			return false, nil
		case s.DeskEventID == msg.ID:
			return true, nil
		case strings.HasPrefix(s.DeskEventID, name):
			return false, ErrMismatch
		}
	}
	return false, nil
}
