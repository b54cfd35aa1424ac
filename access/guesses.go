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

// Guesses bounds how many wrong credentials come from one address: 20 a minute, and then nobody is
// let in from there for a minute. Loopback is not bounded, nor are requests whose address is not
// known. Networks of IPv6 with a prefix of 64 bits, which one client commonly has to itself, count
// as one address. Behind a proxy on another machine all clients have the proxy's address.
//
// It knows a bounded number of addresses, and forgets the oldest ones first. The zero value is
// ready, and safe for concurrent use.
type Guesses struct {
	mu          sync.Mutex
	new, before map[netip.Prefix]guesses
}

// guesses are those of one address.
type guesses struct {
	n     int
	until time.Time // when the window ends, or the refusal
}

// Limit returns an authenticator that asks another one, within the bound. The error of who has
// guessed too often is a *[RefusedError] with the status 429.
func (g *Guesses) Limit(a Authenticator) Authenticator { return limited{g, a} }

type limited struct {
	guesses *Guesses
	Authenticator
}

func (l limited) Authenticate(ctx context.Context, c Credentials) (User, error) {
	return l.guesses.count(c.Remote, func() (User, error) { return l.Authenticator.Authenticate(ctx, c) })
}

// count calls check unless the address has guessed too often, and counts what it refuses.
func (g *Guesses) count(addr netip.Addr, check func() (User, error)) (User, error) {
	addr = addr.Unmap()
	if !addr.IsValid() || addr.IsLoopback() {
		return check()
	}
	bits := 64
	if addr.Is4() {
		bits = 32
	}
	from, _ := addr.WithZone("").Prefix(bits) // never fails: the bits are those of the family
	if wait := g.refused(from); wait > 0 {
		return User{}, &RefusedError{Status: http.StatusTooManyRequests, RetryAfter: wait,
			Message: fmt.Sprintf("too many wrong credentials came from this address: try again in %s", wait.Round(time.Second))}
	}
	user, err := check()
	if errors.Is(err, ErrUnauthenticated) && !errors.Is(err, ErrNoCredentials) && !errors.Is(err, errSignedOut) {
		g.wrong(from)
	}
	return user, err
}

// refused returns how long an address is refused yet.
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

// wrong counts one guess.
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
