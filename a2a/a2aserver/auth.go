package a2aserver

import (
	"context"
	"crypto/x509"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

// Credentials is what a request brought along to prove who sends it, whatever the binding.
// A function that is nil says that the binding has no such place; an [Authenticator] reads
// through the methods of [Credentials], which answer nothing then.
type Credentials struct {
	// Header returns the values of a header (in gRPC: of a metadata entry) by its
	// case-insensitive name.
	Header func(name string) []string
	// Query returns a parameter of the URL, "" if it is missing or there are several.
	Query func(name string) string
	// Cookie returns a cookie's value, "" if it is missing or there are several.
	Cookie func(name string) string
	// Certificates is the client's certificate chain, its own first, after the TLS layer
	// verified it against the authorities that the server trusts. A binding leaves it empty
	// for a certificate that was presented and not verified.
	Certificates []*x509.Certificate
}

// Authenticator tells who sends a request. The schemes it accepts stand in the agent card
// (A2A 1.0, section 7). Implementations are called concurrently.
type Authenticator interface {
	// Authenticate returns the name of the caller, which owns the tasks that it begins and
	// sees no one else's. The error is a2a.ErrUnauthenticated if the credentials are missing
	// or wrong, a2a.ErrUnauthorized if they are right and do not suffice, and any other error
	// if they could not be checked; the request is refused in each case. Errors never repeat
	// the credentials.
	Authenticate(ctx context.Context, c Credentials) (caller string, err error)
	// Schemes returns what the card declares, by name. Each is an alternative.
	Schemes() map[sdk.SecuritySchemeName]sdk.SecurityScheme
}

// callerKey is the context's key of the caller's name.
type callerKey struct{}

// withCaller returns a context that carries the authenticated caller's name.
func withCaller(ctx context.Context, caller string) context.Context {
	return context.WithValue(ctx, callerKey{}, caller)
}

// callerOf returns the caller's name, "" if nobody was asked for credentials.
func callerOf(ctx context.Context) string {
	caller, _ := ctx.Value(callerKey{}).(string)
	return caller
}
