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

// DeliverOnce delivers to a session what a person writes at the desk, as [runner.Runner.Deliver] does, for
// a request that may be sent twice. A repeated request changes nothing if it says the same. The request's
// ID replaces the ID of the message. Only ID and Wait of the request are used. In addition to the errors of
// Deliver it returns [ErrMismatch].
//
// [runner.Runner.Deliver]: https://pkg.go.dev/github.com/agentarbor/arbor/runner#Runner.Deliver
func (t *Turns) DeliverOnce(ctx context.Context, key session.Key, req Request, word human.Event) error {
	name := requestName(word.HandoffID, rand.Text())
	if req.ID != "" {
		name = requestName(word.HandoffID, req.ID)
	}
	word.ID = ""
	said, err := json.Marshal(word)
	if err != nil {
		return err
	}
	word.ID = name + requestName(word.HandoffID, string(said))
	_, err = t.patiently(ctx, key, req, func() (*Begun, error) {
		unlock, err := t.Lock(ctx, key, nil)
		if err != nil {
			return nil, err
		}
		defer unlock()
		if req.ID != "" {
			if err := t.unheard(ctx, key, name, word); err != nil {
				return nil, err
			}
		}
		run, err := t.RunnerOf(key)
		if err != nil {
			return nil, err
		}
		return nil, run.Deliver(ctx, key, word)
	})
	return err
}

// unheard returns an error if another word with the name of a request is in the log of its handoff.
func (t *Turns) unheard(ctx context.Context, key session.Key, name string, word human.Event) error {
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
		case s.HandoffID != word.HandoffID:
			return nil
		case strings.HasPrefix(s.DeskEventID, name) && s.DeskEventID != word.ID:
			return ErrMismatch
		}
	}
	return nil
}
