package wire

import (
	"context"
	"errors"
	"net/http"
	"strings"
)

// baseKey is the context key of a request's base URL.
type baseKey struct{}

// WithBase returns a context with the base URL of its request.
func WithBase(ctx context.Context, base string) context.Context {
	return context.WithValue(ctx, baseKey{}, base)
}

// BaseOf returns the base URL of a request, or "" if it is unknown.
func BaseOf(ctx context.Context) string {
	base, _ := ctx.Value(baseKey{}).(string)
	return base
}

// RequestBase returns the base URL with which a request reached the server itself. It ignores the headers of proxies,
// because any client can set them: a server after a proxy needs a configured public URL.
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

// IsHost reports whether a text may be a host with an optional port, or an IPv6 address in brackets (RFC 3986, section
// 3.2.2).
func IsHost(text string) bool {
	odd := strings.ContainsFunc(text, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && !strings.ContainsRune("-._~:[]", c)
	})
	return text != "" && len(text) <= 255 && !odd
}
