// Package signed signs what is posted to webhooks, and takes what is posted to this program only
// if it is signed, both after Standard Webhooks.
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

// Keys are secrets that both sides know. What is posted is signed with all of them, and what is
// signed with one of them is taken. They are safe for concurrent use.
type Keys []*standardwebhooks.Webhook

// NewKeys reads secrets, each base64 of 24 to 64 bytes with or without "whsec_" before it. The
// error says which one is wrong and does not hold it.
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

// Sign sets the headers that say what a body is, when it was sent, and by whom.
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

// verify returns nil if a body is signed with any of the keys, within five minutes of now.
func (k Keys) verify(body []byte, h http.Header) (err error) {
	for _, key := range k {
		if err = key.Verify(body, h); err == nil {
			return nil
		}
	}
	return err
}

// Handler gives take the bodies of POSTs that are signed with one of the keys within five minutes
// of now, and answers 204 if it returns true; else take has answered. What was taken lately is
// answered with 204 at once when it comes again. What is not signed gets 401 or 405, or 400 if it
// does not arrive as a whole. The caller bounds the body.
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

// recent remembers the IDs of what was taken for as long as their signatures are accepted, the
// latest 10,000 of them at least. What comes again after that is refused by its timestamp, or is
// taken once more.
type recent struct {
	mu       sync.Mutex
	now, old map[string]bool
	since    time.Time
}

const (
	maxID      = 256 // bytes
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

// turn forgets what was taken before the present generation began, when that is full or old.
func (r *recent) turn(at time.Time) {
	if r.now == nil || len(r.now) >= remembered || at.Sub(r.since) >= tolerance {
		r.now, r.old, r.since = map[string]bool{}, r.now, at
	}
}
