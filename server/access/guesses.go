package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	maxGuesses   = 20
	guessWindow  = time.Minute
	maxAddresses = 4096 // of one generation; there are two
)

// Guesses limits the wrong credentials from one address to 20 a minute. Then it refuses all requests from this address
// for a minute. It does not limit loopback and requests whose address is unknown. An IPv6 network with a prefix of 64
// bits counts as one address, because it usually belongs to one client. Behind a proxy on another machine, all clients
// have the proxy's address.
//
// It remembers a limited number of addresses, and forgets the oldest first. The zero value is ready to use. It is safe for
// concurrent use.
type Guesses struct {
	mu          sync.Mutex
	new, before map[netip.Prefix]guesses
}

// guesses are the wrong credentials from one address.
type guesses struct {
	n     int
	until time.Time // the end of the window or of the refusal
}

// Limit returns an authenticator that calls another one within the limit. Above the limit, the error is a *[RefusedError]
// with status 429.
func (g *Guesses) Limit(a Authenticator) Authenticator { return limited{g, a} }

type limited struct {
	guesses *Guesses
	Authenticator
}

func (l limited) Authenticate(ctx context.Context, c Credentials) (User, error) {
	return l.guesses.count(c.Remote, func() (User, error) { return l.Authenticator.Authenticate(ctx, c) })
}

// count calls check unless the address is above the limit, and counts errors of wrong credentials.
func (g *Guesses) count(addr netip.Addr, check func() (User, error)) (User, error) {
	addr = addr.Unmap()
	if !addr.IsValid() || addr.IsLoopback() {
		return check()
	}
	bits := 64
	if addr.Is4() {
		bits = 32
	}
	from, _ := addr.WithZone("").Prefix(bits) // cannot fail: bits fits the address family
	if wait := g.refused(from); wait > 0 {
		return User{}, &RefusedError{Status: http.StatusTooManyRequests, RetryAfter: wait,
			Message: fmt.Sprintf("too many wrong credentials came from this address: retry in %s", wait.Round(time.Second))}
	}
	user, err := check()
	if errors.Is(err, ErrUnauthenticated) && !errors.Is(err, ErrNoCredentials) && !errors.Is(err, errSignedOut) {
		g.wrong(from)
	}
	return user, err
}

// refused returns for how long requests from an address are still refused.
func (g *Guesses) refused(from netip.Prefix) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if known := g.of(from); known.n >= maxGuesses {
		return time.Until(known.until)
	}
	return 0
}

func (g *Guesses) of(from netip.Prefix) guesses {
	if known, ok := g.new[from]; ok {
		return known
	}
	return g.before[from]
}

// wrong counts wrong credentials.
func (g *Guesses) wrong(from netip.Prefix) {
	g.mu.Lock()
	defer g.mu.Unlock()
	known, now := g.of(from), time.Now()
	if !now.Before(known.until) {
		known = guesses{until: now.Add(guessWindow)}
	}
	if known.n++; known.n == maxGuesses {
		known.until = now.Add(guessWindow)
	}
	if g.new == nil || len(g.new) >= maxAddresses {
		g.before, g.new = g.new, make(map[netip.Prefix]guesses)
	}
	g.new[from] = known
}
