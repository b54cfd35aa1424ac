package dialguard

import (
	"net/netip"
	"slices"
	"sync"
)

// Kind is the purpose of an address.
type Kind string

// The kinds of addresses. Only [Public] is reachable by default.
const (
	Public      Kind = "a public address"
	Loopback    Kind = "a loopback address"
	Private     Kind = "an address of a private network"
	LinkLocal   Kind = "a link-local address"
	Metadata    Kind = "the address of a cloud's metadata service"
	Multicast   Kind = "a multicast address"
	Unspecified Kind = "the unspecified address"
	Reserved    Kind = "a reserved address"
)

type entry struct {
	prefix netip.Prefix
	kind   Kind
}

func entries(kind Kind, prefixes ...string) []entry {
	list := make([]entry, len(prefixes))
	for i, p := range prefixes {
		list[i] = entry{netip.MustParsePrefix(p), kind}
	}
	return list
}

// special are the addresses that are not public: those in the registries of special-purpose addresses (RFC 6890, kept
// by IANA) that are not globally reachable, and the services from which any client in a cloud can get credentials. The
// first matching entry counts.
var special = sync.OnceValue(func() []entry {
	return slices.Concat(
		// AWS and compatible clouds, EKS, Google, Scaleway, Alibaba, Azure, Oracle.
		entries(Metadata, "169.254.169.254/32", "169.254.170.2/32", "fd00:ec2::/32", "fd20:ce::254/128", "fd00:42::42/128",
			"100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32"),
		entries(Unspecified, "0.0.0.0/32", "::/128"),
		entries(Loopback, "127.0.0.0/8", "::1/128"),
		entries(Private, "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7", "fec0::/10"),
		entries(LinkLocal, "169.254.0.0/16", "fe80::/10"),
		entries(Multicast, "224.0.0.0/4", "ff00::/8"),
		entries(Reserved, "0.0.0.0/8", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24",
			"203.0.113.0/24", "240.0.0.0/4",
			// Addresses of IPv4 within IPv6 that are obsolete, or that a translator of the local network may interpret
			// in its own way.
			"::/96", "::ffff:0:0:0/96", "64:ff9b:1::/48",
			"100::/64", "100:0:0:1::/64", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16"),
	)
})

var (
	nat64  = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052
	sixTo4 = netip.MustParsePrefix("2002::/16")    // RFC 3056
)

// KindOf returns the kind of an address. An IPv6 address that a translator or a tunnel maps to an IPv4 address has the
// kind of that address.
func KindOf(addr netip.Addr) Kind {
	addr = addr.Unmap().WithZone("")
	if !addr.IsValid() {
		return Reserved
	}
	for _, e := range special() {
		if e.prefix.Contains(addr) {
			return e.kind
		}
	}
	if addr.Is4() {
		return Public
	}
	b := addr.As16()
	switch {
	case nat64.Contains(addr):
		return KindOf(netip.AddrFrom4([4]byte(b[12:16])))
	case sixTo4.Contains(addr):
		return KindOf(netip.AddrFrom4([4]byte(b[2:6])))
	case b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe: // ISATAP, RFC 5214
		return KindOf(netip.AddrFrom4([4]byte(b[12:16])))
	}
	return Public
}
