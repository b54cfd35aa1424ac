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
	_, err = t.retryBusy(ctx, key, req, func() (*Begun, error) {
		unlock, err := t.Lock(ctx, key, nil)
		if err != nil {
			return nil, err
		}
		defer unlock()
		if req.ID != "" {
			if err := t.checkUnique(ctx, key, name, msg); err != nil {
				return nil, err
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

// checkUnique returns ErrMismatch if the log of the handoff has another message with the name of the request.
func (t *Turns) checkUnique(ctx context.Context, key session.Key, name string, msg human.Event) error {
	info, _, err := session.Find(ctx, t.store, key)
	if err != nil {
		return err
	}
	for e, err := range session.Backward(ctx, t.store, key, info.Seq+1) {
		if err != nil {
			return err
		}
		s, ok := e.Data.(*event.HandoffStatus)
		switch {
		case !ok:
		case s.HandoffID != msg.HandoffID:
			return nil
		case strings.HasPrefix(s.DeskEventID, name) && s.DeskEventID != msg.ID:
			return ErrMismatch
		}
	}
	return nil
}
