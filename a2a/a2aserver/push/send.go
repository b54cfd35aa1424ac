package push

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/internal/outbound"
)

// tokenHeader contains the token of a config. With it, the receiver recognizes notifications that it asked for.
const tokenHeader = "X-A2A-Notification-Token"

// work posts the waiting events of the webhook one after the other, until none is left.
func (p *Sender) work(w *webhook) {
	defer p.wg.Done()
	for {
		e, r, ok := w.next()
		if !ok {
			return
		}
		err := p.deliver(w.ctx, r, e)
		if w.ctx.Err() != nil {
			return // the config was deleted, or the server closes and posts the end after a restart
		}
		if err != nil {
			w.lost()
			host, _ := outbound.Host(r.Config.URL, true)
			p.log.Warn("a push notification could not be delivered", "task", w.task.Task, "config", w.id, "host", host, "error", err)
		}
		if endsTask(e) {
			p.ended(w)
		}
	}
}

// deliver posts one event until the receiver accepts or refuses it, or the time is over.
func (p *Sender) deliver(ctx context.Context, r Record, e sdk.Event) error {
	body, contentType, err := p.encode(r.Protocol, e)
	if err != nil {
		return fmt.Errorf("the event has no JSON form: %w", err)
	}
	_, err = p.poster.Post(ctx, r.Config.URL, body, func(h http.Header) {
		h.Set("Content-Type", contentType)
		if r.Config.Token != "" {
			h.Set(tokenHeader, r.Config.Token)
		}
		if a := r.Config.Auth; a != nil && a.Scheme != "" && a.Credentials != "" {
			h.Set("Authorization", a.Scheme+" "+a.Credentials)
		}
	})
	return err
}

func (p *Sender) encode(v sdk.ProtocolVersion, e sdk.Event) (body []byte, contentType string, err error) {
	if isLegacy(v) {
		if p.legacy == nil {
			return nil, "", errors.New("protocol 0.3 is disabled")
		}
		event, err := p.legacy(e)
		if err != nil {
			return nil, "", err
		}
		body, err = json.Marshal(event)
		return body, "application/json", err
	}
	body, err = json.Marshal(sdk.StreamResponse{Event: e})
	return body, "application/a2a+json", err
}
