package a2a

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxCardAge bounds how long a card is used without asking the peer, even if its headers
// allow more.
const maxCardAge = 24 * time.Hour

// WithCardTTL sets how long a fetched card is used before the peer is asked again,
// if the card's headers do not say; the default is 5 minutes. They may, with
// Cache-Control or Expires (RFC 9111; A2A 1.0, section 8.6), up to 24 hours. 0 asks for
// every use. Asking fetches the card only if it has changed, where the peer can tell. A card is also
// asked for again after a call failed.
func WithCardTTL(d time.Duration) Option { return func(r *remote) { r.cards.ttl = d } }

// WithCardTimeout bounds one fetch of the card, and one of a token; the default is 10
// seconds.
func WithCardTimeout(d time.Duration) Option { return func(r *remote) { r.cards.timeout = d } }

// WithCardVerifier has f verify cards before they are used, such as their
// signatures (A2A 1.0, section 8.4). It gets the card as it was received whenever
// it was fetched, and must be safe for concurrent use. Its error refuses the card,
// and is shown.
func WithCardVerifier(f func(ctx context.Context, card []byte) error) Option {
	return func(r *remote) { r.cards.verify = f }
}

// lifetime says for how long a response may be used, counted from when it was
// asked for, and whether what is needed to ask for changes may be kept (RFC 9111,
// section 4.2). Without a word about it, it is ttl.
func lifetime(h http.Header, asked time.Time, ttl time.Duration) (d time.Duration, stored bool) {
	d, stored, explicit := ttl, true, false
	fresh := true
	for _, directive := range strings.Split(strings.Join(h.Values("Cache-Control"), ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		switch strings.ToLower(name) {
		case "no-store":
			fresh, stored = false, false
		case "no-cache":
			fresh = false
		case "max-age":
			age := seconds(strings.Trim(value, `"`))
			if explicit { // of two that differ, the cautious one
				age = min(age, d)
			}
			d, explicit = age, true
		}
	}
	if expires := h.Get("Expires"); !explicit && expires != "" {
		explicit, d = true, 0 // what is no date, such as 0, has expired
		if at, err := http.ParseTime(expires); err == nil {
			date, err := http.ParseTime(h.Get("Date"))
			if err != nil {
				date = asked
			}
			d = max(at.Sub(date), 0)
		}
	}
	if !fresh {
		return 0, stored
	}
	if explicit {
		d = min(d-seconds(h.Get("Age")), maxCardAge)
	}
	return max(d, 0), stored
}

// seconds reads a number of seconds. It returns 0 for any other text, and a long time for a number that is too large.
func seconds(s string) time.Duration {
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 31)
	if err != nil {
		if strings.Trim(s, "0123456789") == "" && s != "" {
			n = 1 << 31
		} else {
			n = 0
		}
	}
	return time.Duration(n) * time.Second
}
