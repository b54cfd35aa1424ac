package wire

import (
	"context"
	"errors"
	"net/http"
	"strings"
)

// baseKey is the context's key of the base URL by which a request reached the server.
type baseKey struct{}

// WithBase returns a context that has the base URL of its request.
func WithBase(ctx context.Context, base string) context.Context {
	return context.WithValue(ctx, baseKey{}, base)
}

// BaseOf returns the base URL of a request, "" if it is not known.
func BaseOf(ctx context.Context) string {
	base, _ := ctx.Value(baseKey{}).(string)
	return base
}

// RequestBase is the base URL by which a request reached the server itself. What
// proxies say of the request that they got is not believed, because anybody can
// say it: a server behind one is given its public URL.
func RequestBase(r *http.Request) (string, error) {
	if !IsHost(r.Host) {
		return "", errors.New("the Host of the request is not a valid name")
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + strings.ToLower(r.Host), nil
}

// IsHost reports whether a text can be a host and a port, or an address of IPv6 in brackets (RFC 3986, section 3.2.2).
func IsHost(text string) bool {
	odd := strings.ContainsFunc(text, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && !strings.ContainsRune("-._~:[]", c)
	})
	return text != "" && len(text) <= 255 && !odd
}
