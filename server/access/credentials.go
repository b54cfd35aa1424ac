package access

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"net/netip"
)

// Credentials are the parts of a request that can authenticate it, for any protocol. A function is nil if the protocol
// does not have such a part.
type Credentials struct {
	// Header returns the values of a header, or of a metadata entry in gRPC. Names are case-insensitive.
	Header func(name string) []string
	// Query returns a URL parameter, or "" if the request has none or several with this name.
	Query func(name string) string
	// Cookie returns the value of a cookie, or "" if the request has none or several with this name.
	Cookie func(name string) string
	// Certificates is the verified certificate chain of the client, with its own certificate first. It is empty if the TLS
	// layer has not verified the certificate.
	Certificates []*x509.Certificate
	// Remote is the address of the sender, which may be a proxy. It is the zero value if the address is unknown.
	Remote netip.Addr
}

// CredentialsOf returns the credentials of an HTTP request. It ignores cookies if a page of another origin made the
// browser send the request.
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
	// PeerCertificates may contain certificates that are not verified.
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		c.Certificates = r.TLS.VerifiedChains[0]
	}
	return c
}

// header returns the value of a header. Several values are an error, because proxies and this server might use different
// ones.
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
