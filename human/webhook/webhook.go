// Package webhook is a desk behind HTTP: what persons need to know is posted to a URL, and what
// they say is posted back to a [Desk.Handler]. Both ways are signed after Standard Webhooks, by
// libraries that exist for most languages.
//
//	desk, err := webhook.New("https://desk.example.com/handoffs", secret)
//	...
//	mux.Handle("POST /desk", desk.Handler(deliver))
//
// The package keeps nothing but the IDs of requests that were delivered lately. Nothing is posted to an address that is
// not public unless an option allows it.
//
// The package needs no runner.
package webhook

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/human/internal/signed"
	"github.com/agentarbor/arbor/internal/dialguard"
	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/internal/outbound"
	"github.com/agentarbor/arbor/server/access"
)

// The types of what is posted: the first three to the desk, the last by it.
const (
	TypeRequested = "handoff.requested"
	TypeMessage   = "handoff.message"
	TypeCancelled = "handoff.cancelled"
	TypeEvent     = "handoff.event"
)

// Desk is a [human.Desk] behind a URL. It is safe for concurrent use.
type Desk struct {
	to, host string
	secrets  []string
	keys     signed.Keys
	bodies   *access.Guard
	http     bool
	guard    []dialguard.Option
	tls      *tls.Config
	giveUp   time.Duration
	poster   *outbound.Poster
	log      *slog.Logger
}

// Option configures a [Desk].
type Option func(*Desk)

// WithSecrets adds secrets, to change the first without a break: what is posted is signed with
// all of them, and what is signed with one of them is accepted.
func WithSecrets(secrets ...string) Option {
	return func(d *Desk) { d.secrets = append(d.secrets, secrets...) }
}

// WithHTTP allows a URL of http: conversations can then be read on the way.
func WithHTTP() Option { return func(d *Desk) { d.http = true } }

// WithLoopback allows a desk on this machine.
func WithLoopback() Option {
	return func(d *Desk) { d.guard = append(d.guard, dialguard.AllowLoopback()) }
}

// WithAddresses allows a desk at these addresses even if they are not public.
func WithAddresses(p ...netip.Prefix) Option {
	return func(d *Desk) { d.guard = append(d.guard, dialguard.AllowPrefix(p...)) }
}

// WithTLS sets the TLS configuration of connections to the desk, as for a private certificate authority. Defaults to
// that of the system, also if c is nil.
func WithTLS(c *tls.Config) Option { return func(d *Desk) { d.tls = c } }

// WithGiveUpAfter bounds all attempts to post one thing, 10 seconds without this option. The
// user waits that long at most.
func WithGiveUpAfter(t time.Duration) Option { return func(d *Desk) { d.giveUp = t } }

// WithLogger logs words that could not be delivered, without what they say. Nil logs nothing.
func WithLogger(l *slog.Logger) Option { return func(d *Desk) { d.log = l } }

// New makes a desk of a URL and a secret, which is base64 of 24 to 64 bytes with or without
// "whsec_" before it. The errors say what is wrong and hold neither.
func New(to, secret string, opts ...Option) (*Desk, error) {
	d := &Desk{to: to, secrets: []string{secret}, giveUp: 10 * time.Second}
	if err := option.Apply(d, opts); err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	var err error
	if d.host, err = outbound.Host(to, d.http); err != nil {
		return nil, fmt.Errorf("webhook: the URL %w", err)
	}
	if d.giveUp <= 0 {
		return nil, errors.New("webhook: the time to give up after must be above 0")
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	if d.keys, err = signed.NewKeys(d.secrets...); err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	if d.bodies, err = access.New(access.Options{MaxBody: maxBody}); err != nil {
		return nil, err
	}
	d.poster = outbound.New(dialguard.New(d.guard...), d.giveUp, d.giveUp, d.tls, nil)
	d.poster.Answer = 64 << 10
	return d, nil
}

// said is what is posted to the desk.
type said struct {
	human.Request
	Message *human.Message `json:"message,omitempty"`
}

// RequestTransfer posts the request. The desk may answer with an update as JSON. A desk that
// refuses is [human.ErrUnavailable].
func (d *Desk) RequestTransfer(ctx context.Context, r human.Request) (human.Update, error) {
	answer, err := d.post(ctx, TypeRequested, said{Request: r})
	status, refused := errors.AsType[*outbound.StatusError](err)
	_, guarded := errors.AsType[*dialguard.Error](err)
	if guarded || refused && !status.Temporary() {
		return human.Update{}, fmt.Errorf("%w: %w", human.ErrUnavailable, err)
	}
	var u human.Update
	if err == nil && strings.HasPrefix(strings.TrimSpace(string(answer)), "{") {
		if err = json.Unmarshal(answer, &u); err != nil {
			err = fmt.Errorf("webhook: %s answered a request with something else than an update: %w", d.host, err)
		}
	}
	if u.Status == "" && err == nil {
		u.Status = human.Queued
	}
	return u, err
}

// Send posts each message. After an error those that were posted may be sent again.
func (d *Desk) Send(ctx context.Context, leg human.Leg, messages []human.Message) error {
	for i := range messages {
		if _, err := d.post(ctx, TypeMessage, said{human.Request{Leg: leg}, &messages[i]}); err != nil {
			return gone(err)
		}
	}
	return nil
}

// Cancel posts that the user has given the handoff up.
func (d *Desk) Cancel(ctx context.Context, leg human.Leg, reason string) error {
	_, err := d.post(ctx, TypeCancelled, said{Request: human.Request{Leg: leg, Reason: reason}})
	return gone(err)
}

func gone(err error) error {
	if status, ok := errors.AsType[*outbound.StatusError](err); ok && status.Code == http.StatusGone {
		return fmt.Errorf("%w: %w", human.ErrGone, err)
	}
	return err
}

// post signs and posts. The ID of what is posted depends on nothing but what it is, so that it is
// the same on each attempt and after a crash.
func (d *Desk) post(ctx context.Context, what string, v said) ([]byte, error) {
	body, err := json.Marshal(map[string]any{"type": what, "timestamp": d.poster.Now().UTC(), "data": v})
	if err != nil {
		return nil, fmt.Errorf("webhook: %s has no JSON: %w", what, err)
	}
	id := idOf(what, v)
	answer, err := d.poster.Post(ctx, d.to, body, func(h http.Header) {
		h.Set("Content-Type", "application/json")
		d.keys.Sign(h, id, d.poster.Now(), body)
	})
	if err != nil {
		return nil, fmt.Errorf("webhook: %s could not be posted to %s: %w", what, d.host, err)
	}
	return answer, nil
}

// idOf is made of a hash, because IDs of legs and messages are unique in their session only and
// may hold what a header must not.
func idOf(what string, v said) string {
	message := ""
	if v.Message != nil {
		message = v.Message.ID
	}
	k := v.Session
	b, _ := json.Marshal([]string{what, k.App, k.User, k.ID, v.ID, message}) // strings have JSON
	sum := sha256.Sum256(b)
	return "msg_" + hex.EncodeToString(sum[:16])
}
