package a2agrpc

import (
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// target is the address of a gRPC server from a card.
type target struct {
	address string // host:port
	secure  bool
}

var errNoAddress = errors.New("its URL is not a gRPC address such as agents.example.com:443 or https://agents.example.com")

// parseTarget parses the address of an interface: host:port with or without a scheme. It accepts only TCP hosts and the
// system's name resolution, because a foreign card must not lead to sockets of this machine.
func parseTarget(raw string, plain bool) (target, error) {
	scheme, rest, found := strings.Cut(raw, "://")
	if !found {
		rest = strings.TrimPrefix(raw, "dns:")
		scheme = "grpc"
	}
	scheme = strings.ToLower(scheme)
	if scheme == "dns" { // dns:///host:port; a name between the slashes would be a DNS server
		var ok bool
		if rest, ok = strings.CutPrefix(rest, "/"); !ok {
			return target{}, errNoAddress
		}
	}
	u, err := url.Parse("grpc://" + rest)
	if err != nil || !isHost(u.Hostname()) || !found && u.Path != "" {
		// A parse error's text would repeat the address with its credentials.
		return target{}, errNoAddress
	}
	t := target{}
	switch scheme {
	case "https", "grpcs":
		t.secure = true
	case "grpc", "dns":
		t.secure = !plain && !loopback(u.Hostname())
	case "http":
		if !plain && !loopback(u.Hostname()) {
			return target{}, errors.New("its URL requires a connection without TLS; a2agrpc.WithPlaintext allows that")
		}
	default:
		return target{}, errNoAddress
	}
	port := u.Port()
	if port == "" {
		port = map[bool]string{true: "443", false: "80"}[t.secure]
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return target{}, errNoAddress
	}
	t.address = net.JoinHostPort(u.Hostname(), port)
	return t, nil
}

// bareAddress returns the address in an http or https URL in the form that gRPC expects. It returns any other text
// unchanged.
func bareAddress(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" {
		return raw
	}
	port := map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
	if port == "" {
		return raw
	}
	if u.Port() != "" {
		port = u.Port()
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// isHost reports whether a name is an IP address or contains only characters of host names.
func isHost(name string) bool {
	if net.ParseIP(name) != nil {
		return true
	}
	odd := strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '.' && r != '_'
	})
	return name != "" && !odd
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// url returns the target as a URL whose origin the credentials are bound to.
func (t target) url() *url.URL {
	return &url.URL{Scheme: map[bool]string{true: "https", false: "http"}[t.secure], Host: t.address}
}
