// Package dialguard prevents connections to addresses that untrusted URLs must not reach through this program:
// loopback, private networks, link-local addresses with the metadata services of clouds, and everything else that is
// not the public Internet. It checks each address when it is dialed, after names were resolved, so that no name,
// redirect or changing DNS record can bypass it.
//
// The package never resolves names and never dials: use its [Guard.Control] in a net.Dialer. It cannot check the
// connections of a proxy.
package dialguard

import (
	"fmt"
	"net/netip"
	"syscall"
)

// Guard decides which addresses may be dialed: by default only those of the public Internet. It is immutable and safe
// for concurrent use.
type Guard struct {
	kinds    map[Kind]bool
	prefixes []netip.Prefix
}

// Option allows further addresses.
type Option func(*Guard)

// AllowLoopback allows the program's own machine: 127.0.0.0/8 and ::1.
func AllowLoopback() Option { return func(g *Guard) { g.kinds[Loopback] = true } }

// AllowPrivate allows loopback and private networks (RFC 1918, RFC 6598 and RFC
// 4193), but not the metadata services that clouds have put into them, and not
// link-local addresses.
func AllowPrivate() Option {
	return func(g *Guard) { g.kinds[Loopback], g.kinds[Private] = true, true }
}

// AllowPrefix allows all addresses with these prefixes. A prefix of IPv4 also includes the same addresses mapped into
// IPv6.
func AllowPrefix(p ...netip.Prefix) Option {
	return func(g *Guard) { g.prefixes = append(g.prefixes, p...) }
}

// New returns a guard.
func New(opts ...Option) *Guard {
	g := &Guard{kinds: map[Kind]bool{Public: true}}
	for _, o := range opts {
		o(g)
	}
	return g
}

// Control is for the field Control of a net.Dialer, which calls it with every address before it connects. It returns an
// [*Error] if the guard does not allow the address.
func (g *Guard) Control(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return &Error{Kind: Reserved}
	}
	return g.Check(ap.Addr())
}

// Check returns an [*Error] if an address is not allowed.
func (g *Guard) Check(addr netip.Addr) error {
	// A zone only names the interface, and would keep the address out of every prefix.
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
	Address netip.Addr // the zero value if it was not an IP address
	Kind    Kind
}

func (e *Error) Error() string {
	if !e.Address.IsValid() {
		return "connections to something else than an IP address are not allowed"
	}
	return fmt.Sprintf("connections to %s are not allowed: %s", e.Address, e.Kind)
}
