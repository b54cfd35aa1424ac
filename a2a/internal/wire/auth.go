package wire

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/server/access"
)

// Authenticator is the interface of package a2aserver.
type Authenticator interface {
	access.Authenticator
	Schemes() map[sdk.SecuritySchemeName]sdk.SecurityScheme
}

// Authenticate returns a context with the caller. Without an authenticator it returns ctx. The error is a protocol
// error, or the reason why the credentials could not be checked.
func Authenticate(ctx context.Context, a Authenticator, c access.Credentials) (context.Context, error) {
	if a == nil {
		return ctx, nil
	}
	ctx, err := access.Authenticate(ctx, a, c)
	var refused *access.RefusedError
	switch {
	case errors.As(err, &refused) && refused.Status == http.StatusTooManyRequests:
		err = tooMany("TOO_MANY_ATTEMPTS", refused.RetryAfter, refused.Message)
	case errors.Is(err, access.ErrUnauthenticated):
		err = refusedCaller{err, sdk.ErrUnauthenticated}
	case errors.Is(err, access.ErrForbidden):
		err = refusedCaller{err, sdk.ErrUnauthorized}
	}
	return ctx, err
}

// refusedCaller is an authenticator's error that maps to a protocol error.
type refusedCaller struct {
	error
	kind error
}

func (e refusedCaller) Unwrap() []error { return []error{e.kind, e.error} }

// challenges returns the values of WWW-Authenticate for the schemes of a card (RFC 9110, section 11.6.1, and RFC 6750,
// section 3). API keys and client certificates have no registered scheme; their values describe what to send.
func challenges(a Authenticator, err error) []string {
	if a == nil {
		return nil
	}
	schemes := a.Schemes()
	var all []string
	for _, name := range slices.Sorted(maps.Keys(schemes)) {
		bearer := ""
		switch s := schemes[name].(type) {
		case sdk.HTTPAuthSecurityScheme:
			if !strings.EqualFold(s.Scheme, "Bearer") {
				all = append(all, s.Scheme+` realm="a2a"`)
				continue
			}
			bearer = `Bearer realm="a2a"`
		case sdk.OAuth2SecurityScheme, sdk.OpenIDConnectSecurityScheme:
			bearer = `Bearer realm="a2a"`
		case sdk.APIKeySecurityScheme:
			all = append(all, fmt.Sprintf(`ApiKey realm="a2a", in=%q, name=%q`, s.Location, s.Name))
			continue
		case sdk.MutualTLSSecurityScheme:
			all = append(all, `ClientCertificate realm="a2a"`)
			continue
		default:
			continue
		}
		switch {
		case errors.Is(err, sdk.ErrUnauthorized):
			bearer += `, error="insufficient_scope"`
		case !errors.Is(err, access.ErrNoCredentials):
			bearer += `, error="invalid_token"`
		}
		all = append(all, bearer)
	}
	return slices.Compact(all)
}
