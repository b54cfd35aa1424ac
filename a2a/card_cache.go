package a2a

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxCardAge bounds how long a card is used without asking the peer, even if the card's headers allow more.
const maxCardAge = 24 * time.Hour

// WithCardTTL sets how long a fetched card is used before the peer is asked again, if the response's headers set no
// lifetime. Cache-Control or Expires (RFC 9111; A2A 1.0, section 8.6) override it, up to 24 hours. 0 asks before every
// use. A peer that supports conditional requests sends the card only if it has changed. The card is also requested
// again after a failed call. Defaults to 5 minutes.
func WithCardTTL(d time.Duration) Option { return func(r *remote) { r.cards.ttl = d } }

// WithCardTimeout bounds one fetch of the card, and one fetch of a token. It must be positive. Defaults to 10 seconds.
func WithCardTimeout(d time.Duration) Option { return func(r *remote) { r.cards.timeout = d } }

// WithCardVerifier sets a function that verifies cards before they are used, for example their signatures (A2A 1.0,
// section 8.4). After each fetch, f receives the card's bytes as they were received. It must be safe for concurrent
// use. If f returns an error, the card is refused and the error's text is shown.
func WithCardVerifier(f func(ctx context.Context, card []byte) error) Option {
	return func(r *remote) { r.cards.verify = f }
}

// lifetime returns how long a response may be used, counted from the time of the request, and whether its headers may
// be kept for conditional requests (RFC 9111, section 4.2). If the headers set no lifetime, it is ttl.
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
			if explicit { // the shorter one of two
				age = min(age, d)
			}
			d, explicit = age, true
		}
	}
	if expires := h.Get("Expires"); !explicit && expires != "" {
		explicit, d = true, 0 // an invalid date, such as 0, means expired
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

// seconds parses a number of seconds. A number that is too large counts as 68 years, and any other text as 0.
func seconds(s string) time.Duration {
	n, _ := strconv.ParseUint(strings.TrimSpace(s), 10, 31)
	return time.Duration(n) * time.Second
}
