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

// WithPrivateNetworks lets the interfaces that a card names lead to loopback
// addresses and into private networks. Without it only public addresses are
// connected to, besides the hosts that the developer named: in the card's URL, in
// that of a token endpoint for tokens, and with [WithTrustedOrigin]. Link-local
// addresses and the metadata services of clouds need the latter in any case. The
// address is checked when it is dialed, after the name was resolved.
func WithPrivateNetworks() Option { return func(r *remote) { r.private = true } }

// WithTLSConfig sets the TLS configuration of all connections: authorities, and
// client certificates for mutual TLS. Certificates are shown to the card's origin
// and to trusted origins only.
func WithTLSConfig(c *tls.Config) Option { return func(r *remote) { r.tls = c } }

// WithClientCertificate adds a client certificate for mutual TLS (A2A 1.0, section
// 4.5.6), shown to the card's origin and to trusted origins only.
func WithClientCertificate(c tls.Certificate) Option {
	return func(r *remote) { r.certificates = append(r.certificates, c) }
}

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// dialer decides where connections may lead: to hosts that the developer named
// wherever these are, to others where the guard lets them.
type dialer struct {
	hosts map[string]bool
	guard *dialguard.Guard
	// proxies are the addresses of proxies in use. They are dialed in place of the
	// target, which is then out of the guard's sight.
	proxies sync.Map
}

func newDialer(guard *dialguard.Guard, hosts []string) *dialer {
	d := &dialer{hosts: make(map[string]bool), guard: guard}
	for _, h := range hosts {
		d.hosts[canonicalHost(h)] = true
	}
	return d
}

// dial returns a dial function that uses one of the developer's own, which may be nil.
// What that one connects to is checked afterwards, before anything is sent; else
// it is checked before a connection is made.
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

// check refuses hosts that are written as addresses, before any transport dials them.
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

// loopback is the canonical name of this machine, whether it is written as a name or as an address.
const loopback = "localhost"

// canonicalHost is the form in which hosts are compared.
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

// connections are the ways of a remote agent to others.
type connections struct {
	trusted, others http.RoundTripper // with the client certificates, and without
	dial            dialFunc          // for bindings that are not HTTP
	tls             *tls.Config       // with the client certificates; nil for the system's
	dialer          *dialer
}

// newConnections makes connections, in which the hosts may have any address.
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
		} else { // it was replaced by something that could not be guarded
			t = &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second}
		}
	case *http.Transport:
		t = b.Clone()
		own = ownDial(t)
		// Settings would end HTTP/2 on a transport that had none. One that speaks it
		// has offered it in its TLS configuration by now.
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
	if t.IdleConnTimeout == 0 { // nobody can close the connections of a copy
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
	c.tls.NextProtos = nil // they are HTTP's
	if len(c.tls.Certificates) > 0 || c.tls.GetClientCertificate != nil {
		anonymous := t.Clone()
		anonymous.TLSClientConfig = withoutCertificates(t.TLSClientConfig)
		c.others = anonymous
	}
	return c, nil
}

// ownDial is the dial function that a transport was given, in either form. What is
// deprecated is read so that it is not lost.
func ownDial(t *http.Transport) dialFunc {
	//lint:ignore SA1019 transports of others may still have them
	dial, dialTLS := t.Dial, t.DialTLS
	if dialTLS != nil && t.DialTLSContext == nil {
		t.DialTLSContext = func(_ context.Context, network, addr string) (net.Conn, error) { return dialTLS(network, addr) }
	}
	if dial != nil && t.DialContext == nil {
		return func(_ context.Context, network, addr string) (net.Conn, error) { return dial(network, addr) }
	}
	return t.DialContext
}

// withoutCertificates is a configuration that does not show who we are.
func withoutCertificates(c *tls.Config) *tls.Config {
	if c == nil {
		return nil
	}
	c = c.Clone()
	c.Certificates, c.GetClientCertificate = nil, nil
	// Sessions of the other configuration must not be taken up: they would tell.
	c.ClientSessionCache = nil
	return c
}

// proxyAddr is the address at which a proxy is dialed.
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
