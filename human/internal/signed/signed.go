// Package signed signs requests to webhooks, and accepts requests to this program only if they are signed, both by
// Standard Webhooks.
package signed

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Keys are secrets that both sides know. Requests are signed with all of them, and accepted if they are signed with one
// of them. They are safe for concurrent use.
type Keys []*standardwebhooks.Webhook

// NewKeys parses secrets, each base64 of 24 to 64 bytes with or without the prefix "whsec_". The error has the number
// of an invalid secret, but not its text.
func NewKeys(secrets ...string) (Keys, error) {
	var keys Keys
	for i, s := range secrets {
		raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(s, "whsec_"))
		key, failed := standardwebhooks.NewWebhookRaw(raw)
		if err != nil || failed != nil || len(raw) < 24 || len(raw) > 64 {
			return nil, fmt.Errorf("secret %d must be base64 of 24 to 64 bytes, with or without whsec_ before it", i+1)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// Sign sets the headers with the id, the time and the signatures of a body.
func (k Keys) Sign(h http.Header, id string, at time.Time, body []byte) {
	var signatures []string
	for _, key := range k {
		if s, err := key.Sign(id, at, body); err == nil { // it never fails
			signatures = append(signatures, s)
		}
	}
	h.Set(standardwebhooks.HeaderWebhookID, id)
	h.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(at.Unix(), 10))
	h.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
}

// verify returns nil if a body is signed with one of the keys, within five minutes of now.
func (k Keys) verify(body []byte, h http.Header) (err error) {
	for _, key := range k {
		if err = key.Verify(body, h); err == nil {
			return nil
		}
	}
	return err
}

// Handler calls take with the bodies of POST requests that are signed with one of the keys within five minutes of now.
// If take returns true, Handler answers 204; otherwise take has answered. Handler answers 204 at once to a repetition
// of an accepted request, 401 or 405 to a request that is not signed, and 400 to an incomplete one. The caller limits
// the body.
func (k Keys) Handler(take func(w http.ResponseWriter, r *http.Request, body []byte) bool) http.Handler {
	var taken recent
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, "only POST", http.StatusMethodNotAllowed)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, "the body cannot be read", http.StatusBadRequest)
			return
		}
		id := r.Header.Get(standardwebhooks.HeaderWebhookID)
		if err := k.verify(body, r.Header); err != nil || len(id) > maxID {
			http.Error(w, refusal(err), http.StatusUnauthorized)
			return
		}
		if !taken.has(id, time.Now()) {
			if !take(w, r, body) {
				return
			}
			taken.add(id, time.Now())
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

// refusal returns the reason, without the expected values.
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

// recent contains the ids of accepted requests as long as their signatures are valid, at least the latest 10,000 of
// them. A repetition after that is refused by its timestamp, or accepted again.
type recent struct {
	mu       sync.Mutex
	now, old map[string]bool
	since    time.Time
}

const (
	maxID      = 256 // bytes
	remembered = 10000
	tolerance  = 10 * time.Minute // five minutes before and five after
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

// turn drops the ids before the current generation, if that is full or old.
func (r *recent) turn(at time.Time) {
	if r.now == nil || len(r.now) >= remembered || at.Sub(r.since) >= tolerance {
		r.now, r.old, r.since = map[string]bool{}, r.now, at
	}
}
