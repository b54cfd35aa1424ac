package a2a

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/idna"

	"github.com/agentarbor/arbor/internal/dialguard"
)

// WithPrivateNetworks allows the interfaces that a card names to have loopback and private addresses. Without it, only
// public addresses are allowed, except for hosts that the developer named: in the card's URL, in the URL of the token
// endpoint for tokens, and with [WithTrustedOrigin]. Link-local addresses and the metadata services of clouds always
// need [WithTrustedOrigin]. Addresses are checked when they are dialed, after name resolution.
func WithPrivateNetworks() Option { return func(r *remote) { r.private = true } }

// WithTLSConfig sets the TLS configuration of all connections: certificate authorities, and client certificates for
// mutual TLS. Only the card's origin and trusted origins receive a client certificate.
func WithTLSConfig(c *tls.Config) Option { return func(r *remote) { r.tls = c } }

// WithClientCertificate adds a client certificate for mutual TLS (A2A 1.0, section 4.5.6). Only the card's origin and
// trusted origins receive it.
func WithClientCertificate(c tls.Certificate) Option {
	return func(r *remote) { r.certificates = append(r.certificates, c) }
}

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// dialer restricts connections: hosts that the developer named may have any address, others only addresses that the
// guard allows.
type dialer struct {
	hosts map[string]bool
	guard *dialguard.Guard
	// proxies are the addresses of the proxies in use. They are dialed instead of the target, so that the guard does
	// not see the target.
	proxies sync.Map
}

func newDialer(guard *dialguard.Guard, hosts []string) *dialer {
	d := &dialer{hosts: make(map[string]bool), guard: guard}
	for _, h := range hosts {
		d.hosts[canonicalHost(h)] = true
	}
	return d
}

// dial returns a dial function that applies the guard. own is the developer's dial function, or nil. An address that
// own connected to is checked before anything is sent; without own, an address is checked before connecting.
func (d *dialer) dial(own dialFunc) dialFunc {
	free, guarded := own, d.checked(own)
	if own == nil {
		plain := net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
		withGuard := plain
		withGuard.Control = d.guard.Control
		free, guarded = plain.DialContext, withGuard.DialContext
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, errors.New("the address to connect to has no port")
		}
		if _, proxy := d.proxies.Load(addr); proxy || d.hosts[canonicalHost(host)] {
			return free(ctx, network, addr)
		}
		return guarded(ctx, network, addr)
	}
}

func (d *dialer) checked(own dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := own(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if tcp, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
			if err := d.guard.Check(tcp.AddrPort().Addr()); err != nil {
				_ = conn.Close()
				return nil, err
			}
		}
		return conn, nil
	}
}

// check refuses hosts that are written as forbidden addresses, before any transport dials them.
func (d *dialer) check(host string) error {
	if d.hosts[canonicalHost(host)] {
		return nil
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return nil
	}
	return d.guard.Check(addr)
}

// loopback is the canonical host of this machine, for its name and its loopback addresses.
const loopback = "localhost"

// canonicalHost returns the form in which hosts are compared.
func canonicalHost(host string) string {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr = addr.Unmap(); addr.IsLoopback() {
			return loopback
		}
		return addr.String()
	}
	if ascii, err := idna.Lookup.ToASCII(host); err == nil {
		return ascii
	}
	return host
}

// maxHeader bounds the headers of a response in bytes.
const maxHeader = 256 << 10

// connections are the transports and dial settings of a remote agent.
type connections struct {
	trusted, others http.RoundTripper // with the client certificates, and without
	dial            dialFunc          // for bindings that are not HTTP
	tls             *tls.Config       // with the client certificates; nil for the system's
	dialer          *dialer
}

// newConnections returns connections that allow any address for the given hosts.
func (r *remote) newConnections(hosts ...string) (*connections, error) {
	var opts []dialguard.Option
	if r.private {
		opts = append(opts, dialguard.AllowPrivate())
	}
	d := newDialer(dialguard.New(opts...), hosts)
	var base http.RoundTripper
	if r.base != nil {
		base = r.base.Transport
	}
	t, own := &http.Transport{}, dialFunc(nil)
	switch b := base.(type) {
	case nil:
		if def, ok := http.DefaultTransport.(*http.Transport); ok {
			t = def.Clone()
		} else { // the default was replaced by a type that cannot be guarded
			t = &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second}
		}
	case *http.Transport:
		t = b.Clone()
		own = ownDial(t)
		// net/http turns HTTP/2 off for a transport with a dial function or a TLS configuration, unless this is set. A
		// transport that already speaks HTTP/2 has h2 in its TLS configuration.
		t.ForceAttemptHTTP2 = t.ForceAttemptHTTP2 || t.TLSClientConfig != nil && slices.Contains(t.TLSClientConfig.NextProtos, "h2")
	default:
		if r.tls != nil || len(r.certificates) > 0 {
			return nil, errors.New("a TLS configuration or a client certificate needs an HTTP client whose transport is an *http.Transport")
		}
		return &connections{trusted: base, others: base, dial: d.dial(nil), dialer: d}, nil
	}
	t.DialContext = d.dial(own)
	if t.MaxResponseHeaderBytes == 0 {
		t.MaxResponseHeaderBytes = maxHeader
	}
	if t.IdleConnTimeout == 0 { // no caller can close the idle connections of a copy
		t.IdleConnTimeout = 90 * time.Second
	}
	if t.DialTLSContext != nil {
		t.DialTLSContext = d.dial(t.DialTLSContext)
	}
	if proxy := t.Proxy; proxy != nil {
		t.Proxy = func(req *http.Request) (*url.URL, error) {
			u, err := proxy(req)
			if err == nil && u != nil {
				d.proxies.Store(proxyAddr(u), struct{}{})
			}
			return u, err
		}
	}
	if r.tls != nil {
		t.TLSClientConfig = r.tls.Clone()
	}
	if len(r.certificates) > 0 {
		if t.TLSClientConfig == nil {
			t.TLSClientConfig = &tls.Config{}
		}
		t.TLSClientConfig.Certificates = slices.Concat(t.TLSClientConfig.Certificates, r.certificates)
	}
	c := &connections{trusted: t, others: t, dial: t.DialContext, dialer: d}
	if t.TLSClientConfig == nil {
		return c, nil
	}
	c.tls = t.TLSClientConfig.Clone()
	c.tls.NextProtos = nil // they are for HTTP
	if len(c.tls.Certificates) > 0 || c.tls.GetClientCertificate != nil {
		anonymous := t.Clone()
		anonymous.TLSClientConfig = withoutCertificates(t.TLSClientConfig)
		c.others = anonymous
	}
	return c, nil
}

// ownDial returns the dial function of a transport, from the current or the deprecated field, and converts a deprecated
// DialTLS.
func ownDial(t *http.Transport) dialFunc {
	//lint:ignore SA1019 a caller's transport may still use them
	dial, dialTLS := t.Dial, t.DialTLS
	if dialTLS != nil && t.DialTLSContext == nil {
		t.DialTLSContext = func(_ context.Context, network, addr string) (net.Conn, error) { return dialTLS(network, addr) }
	}
	if dial != nil && t.DialContext == nil {
		return func(_ context.Context, network, addr string) (net.Conn, error) { return dial(network, addr) }
	}
	return t.DialContext
}

// withoutCertificates returns a copy of a configuration without client certificates.
func withoutCertificates(c *tls.Config) *tls.Config {
	if c == nil {
		return nil
	}
	c = c.Clone()
	c.Certificates, c.GetClientCertificate = nil, nil
	// Sessions of the original configuration must not be resumed, because they identify the client.
	c.ClientSessionCache = nil
	return c
}

// proxyAddr returns the address at which a proxy is dialed.
func proxyAddr(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[u.Scheme]
	}
	host := u.Hostname()
	if ascii, err := idna.Lookup.ToASCII(host); err == nil {
		host = ascii
	}
	return net.JoinHostPort(host, port)
}
