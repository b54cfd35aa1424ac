// Package dialguard keeps connections away from addresses that a stranger must not
// reach through this program: loopback, private networks, link-local addresses with
// the metadata services of clouds, and everything else that is not the public
// Internet. It checks each address when it is dialed, after names were resolved, so
// that no name, redirect or record that changes between two look-ups gets around
// it.
//
// It imports the standard library only. It never resolves and never dials: its
// [Guard.Control] belongs into a net.Dialer. It cannot check what a proxy connects
// to on behalf of the program.
package dialguard

import (
	"fmt"
	"net/netip"
	"syscall"
)

// Guard says which addresses may be dialed: by default those of the public Internet
// only. It is immutable and safe for concurrent use.
type Guard struct {
	kinds    map[Kind]bool
	prefixes []netip.Prefix
}

// Option lets a guard allow more.
type Option func(*Guard)

// AllowLoopback allows the program's own machine: 127.0.0.0/8 and ::1.
func AllowLoopback() Option { return func(g *Guard) { g.kinds[Loopback] = true } }

// AllowPrivate allows loopback and private networks (RFC 1918, RFC 6598 and RFC
// 4193), but not the metadata services that clouds have put into them, and not
// link-local addresses.
func AllowPrivate() Option {
	return func(g *Guard) { g.kinds[Loopback], g.kinds[Private] = true, true }
}

// AllowPrefix allows addresses, whatever they are. A prefix of IPv4 also means the
// same addresses mapped into IPv6.
func AllowPrefix(p ...netip.Prefix) Option {
	return func(g *Guard) { g.prefixes = append(g.prefixes, p...) }
}

// New makes a guard.
func New(opts ...Option) *Guard {
	g := &Guard{kinds: map[Kind]bool{Public: true}}
	for _, o := range opts {
		o(g)
	}
	return g
}

// Control is for the field of that name of a net.Dialer, which calls it with every
// address that it is about to connect to. It returns an [*Error] if the guard does
// not allow it.
func (g *Guard) Control(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return &Error{Kind: Reserved}
	}
	return g.Check(ap.Addr())
}

// Check returns an [*Error] if an address is not allowed.
func (g *Guard) Check(addr netip.Addr) error {
	// A zone says through which interface, not where to, and would keep the
	// address out of every prefix.
	addr = addr.Unmap().WithZone("")
	kind := KindOf(addr)
	if g.kinds[kind] {
		return nil
	}
	for _, p := range g.prefixes {
		if p.Contains(addr) {
			return nil
		}
	}
	return &Error{Address: addr, Kind: kind}
}

// Error is an address that a guard did not allow.
type Error struct {
	Address netip.Addr // the zero value if it was none of IP
	Kind    Kind
}

func (e *Error) Error() string {
	if !e.Address.IsValid() {
		return "connections to something else than an IP address are not allowed"
	}
	return fmt.Sprintf("connections to %s are not allowed: %s", e.Address, e.Kind)
}
