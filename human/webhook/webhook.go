// Package webhook implements a [human.Desk] over HTTP. It posts requests and messages to the URL of a desk, and
// [Desk.Handler] receives what people answer. Both sides sign by Standard Webhooks, for which most languages have a
// library.
//
//	desk, err := webhook.New("https://desk.example.com/handoffs", secret)
//	...
//	mux.Handle("POST /desk", desk.Handler(deliver))
//
// The package keeps only the ids of recently accepted requests. It posts only to public addresses, unless an option
// allows others. It needs no runner.
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

// The types of posts. The desk receives the first three, and sends the last.
const (
	TypeRequested = "handoff.requested"
	TypeMessage   = "handoff.message"
	TypeCancelled = "handoff.cancelled"
	TypeEvent     = "handoff.event"
)

// Desk is a [human.Desk] that receives posts at a URL. It is safe for concurrent use.
type Desk struct {
	url, host   string
	secrets     []string
	keys        signed.Keys
	bodies      *access.Guard // limits the bodies of received posts
	allowHTTP   bool
	addresses   []dialguard.Option
	tls         *tls.Config
	giveUpAfter time.Duration
	poster      *outbound.Poster
	logger      *slog.Logger
}

// Option configures a [Desk].
type Option func(*Desk)

// WithSecrets adds secrets, so that the first can be replaced without an interruption. The desk's posts have signatures
// with all secrets, and the handler accepts posts that are signed with one of them.
func WithSecrets(secrets ...string) Option {
	return func(d *Desk) { d.secrets = append(d.secrets, secrets...) }
}

// WithHTTP allows an http URL. Others on the network can then read conversations.
func WithHTTP() Option { return func(d *Desk) { d.allowHTTP = true } }

// WithLoopback allows a desk on this machine.
func WithLoopback() Option {
	return func(d *Desk) { d.addresses = append(d.addresses, dialguard.AllowLoopback()) }
}

// WithAddresses allows a desk at these addresses even if they are not public.
func WithAddresses(p ...netip.Prefix) Option {
	return func(d *Desk) { d.addresses = append(d.addresses, dialguard.AllowPrefix(p...)) }
}

// WithTLS sets the TLS configuration of connections to the desk, for example with a private certificate authority.
// Defaults to the system's, also if c is nil.
func WithTLS(c *tls.Config) Option { return func(d *Desk) { d.tls = c } }

// WithGiveUpAfter limits the time for all attempts at one post, for which the user waits. It must be above 0.
// Defaults to 10 seconds.
func WithGiveUpAfter(t time.Duration) Option { return func(d *Desk) { d.giveUpAfter = t } }

// WithLogger sets the logger for events of the desk that could not be delivered; their texts are not logged.
// Defaults to none, also if l is nil.
func WithLogger(l *slog.Logger) Option { return func(d *Desk) { d.logger = l } }

// New returns the desk at a URL. The secret is base64 of 24 to 64 bytes, with or without the prefix "whsec_". The
// errors contain neither the URL nor a secret.
func New(url, secret string, opts ...Option) (*Desk, error) {
	d := &Desk{url: url, secrets: []string{secret}, giveUpAfter: 10 * time.Second}
	if err := option.Apply(d, opts); err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	var err error
	if d.host, err = outbound.Host(url, d.allowHTTP); err != nil {
		return nil, fmt.Errorf("webhook: the URL %w", err)
	}
	if d.giveUpAfter <= 0 {
		return nil, errors.New("webhook: the time of WithGiveUpAfter must be above 0")
	}
	if d.logger == nil {
		d.logger = slog.New(slog.DiscardHandler)
	}
	if d.keys, err = signed.NewKeys(d.secrets...); err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	if d.bodies, err = access.New(access.Options{MaxBody: maxBody}); err != nil {
		return nil, err
	}
	d.poster = outbound.New(dialguard.New(d.addresses...), d.giveUpAfter, d.giveUpAfter, d.tls, nil)
	d.poster.Answer = 64 << 10
	return d, nil
}

// postData is the data of a post to the desk.
type postData struct {
	human.Request
	Message *human.Message `json:"message,omitempty"`
}

// RequestTransfer posts the request. The desk may answer with a [human.Update] as JSON; otherwise the status is
// [human.Queued]. The error of a desk that refuses is [human.ErrUnavailable].
func (d *Desk) RequestTransfer(ctx context.Context, r human.Request) (human.Update, error) {
	answer, err := d.post(ctx, TypeRequested, postData{Request: r})
	status, refused := errors.AsType[*outbound.StatusError](err)
	_, guarded := errors.AsType[*dialguard.Error](err)
	if guarded || refused && !status.Temporary() {
		return human.Update{}, fmt.Errorf("%w: %w", human.ErrUnavailable, err)
	}
	var u human.Update
	if err == nil && strings.HasPrefix(strings.TrimSpace(string(answer)), "{") {
		if err = json.Unmarshal(answer, &u); err != nil {
			err = fmt.Errorf("webhook: %s answered a request for a person with JSON that is not an update: %w", d.host, err)
		}
	}
	if u.Status == "" && err == nil {
		u.Status = human.Queued
	}
	return u, err
}

// Send posts each message. After an error, the caller may send all of them again.
func (d *Desk) Send(ctx context.Context, leg human.Leg, messages []human.Message) error {
	for i := range messages {
		if _, err := d.post(ctx, TypeMessage, postData{human.Request{Leg: leg}, &messages[i]}); err != nil {
			return gone(err)
		}
	}
	return nil
}

// Cancel posts that the user has cancelled the handoff.
func (d *Desk) Cancel(ctx context.Context, leg human.Leg, reason string) error {
	_, err := d.post(ctx, TypeCancelled, postData{Request: human.Request{Leg: leg, Reason: reason}})
	return gone(err)
}

func gone(err error) error {
	if status, ok := errors.AsType[*outbound.StatusError](err); ok && status.Code == http.StatusGone {
		return fmt.Errorf("%w: %w", human.ErrGone, err)
	}
	return err
}

// post signs and posts data. Its id is the same for each attempt, also after a crash.
func (d *Desk) post(ctx context.Context, typ string, v postData) ([]byte, error) {
	body, err := json.Marshal(map[string]any{"type": typ, "timestamp": d.poster.Now().UTC(), "data": v})
	if err != nil {
		return nil, fmt.Errorf("webhook: %s cannot be encoded as JSON: %w", typ, err)
	}
	id := messageID(typ, v)
	answer, err := d.poster.Post(ctx, d.url, body, func(h http.Header) {
		h.Set("Content-Type", "application/json")
		d.keys.Sign(h, id, d.poster.Now(), body)
	})
	if err != nil {
		return nil, fmt.Errorf("webhook: %s could not be posted to %s: %w", typ, d.host, err)
	}
	return answer, nil
}

// messageID returns the Webhook-Id of a post. It is a hash, because the ids of legs and messages are unique only in
// their session, and may contain characters that a header must not.
func messageID(typ string, v postData) string {
	message := ""
	if v.Message != nil {
		message = v.Message.ID
	}
	k := v.Session
	b, _ := json.Marshal([]string{typ, k.App, k.User, k.ID, v.ID, message}) // encoding strings cannot fail
	sum := sha256.Sum256(b)
	return "msg_" + hex.EncodeToString(sum[:16])
}
