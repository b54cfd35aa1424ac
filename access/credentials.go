package access

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"net/netip"
)

// Credentials is what a request brought along to prove who sends it, whatever the protocol.
// A function that is nil says that the protocol has no such place.
type Credentials struct {
	// Header returns the values of a header (in gRPC: of a metadata entry) by its
	// case-insensitive name.
	Header func(name string) []string
	// Query returns a parameter of the URL, "" if it is missing or there are several.
	Query func(name string) string
	// Cookie returns a cookie's value, "" if it is missing or there are several.
	Cookie func(name string) string
	// Certificates is the client's certificate chain, its own first, after the TLS layer
	// verified it against the authorities that the server trusts. It is empty for a
	// certificate that was presented and not verified.
	Certificates []*x509.Certificate
	// Remote is the address of whoever sent the request, which may be a proxy; the zero value if
	// it is not known.
	Remote netip.Addr
}

// CredentialsOf reads an HTTP request. Cookies count only if no page of another origin has made
// the browser send them.
func CredentialsOf(r *http.Request) Credentials {
	c := Credentials{
		Header: func(name string) []string { return r.Header.Values(name) },
		Query: func(name string) string {
			if values := r.URL.Query()[name]; len(values) == 1 {
				return values[0]
			}
			return ""
		},
		Cookie: func(name string) string {
			if cookies := r.CookiesNamed(name); len(cookies) == 1 {
				return cookies[0].Value
			}
			return ""
		},
	}
	if !sameOrigin(r) {
		c.Cookie = nil
	}
	if from, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		c.Remote = from.Addr()
	}
	// PeerCertificates holds what the client sent, verified or not.
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		c.Certificates = r.TLS.VerifiedChains[0]
	}
	return c
}

// header returns the only value of a header; several are refused, because parties on the way
// may each believe another one.
func (c Credentials) header(name string) (value string, ok bool, err error) {
	if c.Header == nil {
		return "", false, nil
	}
	switch values := c.Header(name); len(values) {
	case 0:
		return "", false, nil
	case 1:
		return values[0], true, nil
	default:
		return "", false, fmt.Errorf("%w: the request has the header %s several times", ErrUnauthenticated, name)
	}
}
