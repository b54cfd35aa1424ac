package a2a

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/agentarbor/arbor/internal/httptoken"
)

// ClientCredentials configures the client credentials grant of OAuth 2.0 (RFC 6749, section 4.4). Its printed form
// omits the secret.
type ClientCredentials struct {
	// TokenURL is the token endpoint. It is never taken from a card, because a card could name a foreign endpoint.
	TokenURL string
	ID       string
	Secret   string `json:"-"`
	Scopes   []string
	// Params are additional parameters of the token request, such as audience.
	Params url.Values
}

// String implements fmt.Stringer, so that logs do not contain the secret.
func (c ClientCredentials) String() string {
	return fmt.Sprintf("client credentials of %q", c.ID)
}

// GoString implements fmt.GoStringer for the same reason.
func (c ClientCredentials) GoString() string { return c.String() }

// WithClientCredentials fetches access tokens from a token endpoint and sends them as [WithBearer] does. It fetches a
// token before the first request, before the last one expires, and once more if the peer answers 401. Concurrent
// requests share one fetch, which [WithCardTimeout] bounds. The token endpoint receives the client certificate only if
// its origin is trusted. Redirects of the token endpoint are not followed.
func WithClientCredentials(c ClientCredentials) Option {
	return func(r *remote) {
		u, err := url.Parse(c.TokenURL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			r.credentials.errs = append(r.credentials.errs, errors.New("the URL of the token endpoint is not an absolute http or https URL"))
			return
		}
		r.credentials.tokens = &tokens{
			config: clientcredentials.Config{ClientID: c.ID, ClientSecret: c.Secret, TokenURL: c.TokenURL, Scopes: slices.Clone(c.Scopes), EndpointParams: c.Params},
			url:    u,
		}
	}
}

// tokens fetches access tokens and keeps the last one.
type tokens struct {
	config  clientcredentials.Config
	url     *url.URL
	client  *http.Client
	timeout time.Duration

	flight flight[string]
	mu     sync.Mutex
	last   *oauth2.Token
	recent [][]string // the forms of the last tokens, to be redacted
}

func (t *tokens) fresh() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.last.Valid() { // a nil token is not valid
		return ""
	}
	return t.last.Type() + " " + t.last.AccessToken
}

// get returns the value of the Authorization header, and fetches a token if needed.
func (t *tokens) get(ctx context.Context) (string, error) { return t.flight.get(ctx, t.fresh, t.fetch) }

func (t *tokens) fetch(caller context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(caller, t.timeout)
	defer cancel()
	token, err := t.config.Token(context.WithValue(ctx, oauth2.HTTPClient, t.client))
	if err != nil {
		return "", newTokenError(err)
	}
	if strings.ContainsFunc(token.Type()+token.AccessToken, isControl) {
		return "", &tokenError{text: "the token has characters that are not allowed in a header"}
	}
	t.mu.Lock()
	t.last = token
	t.recent = append(t.recent, encodings(token.AccessToken))
	t.recent = t.recent[max(0, len(t.recent)-4):]
	t.mu.Unlock()
	// A token that expires within the margin of Valid is still good for the waiting requests.
	return token.Type() + " " + token.AccessToken, nil
}

// refused drops the token of a header, unless it was already replaced.
func (t *tokens) refused(header string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last != nil && header == t.last.Type()+" "+t.last.AccessToken {
		t.last = nil
	}
}

func (t *tokens) secrets() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Concat(t.recent...)
}

// tokenError reports that no token could be fetched. Of the endpoint's answer it contains only the HTTP status and the
// error code, because answers may repeat the request.
type tokenError struct {
	status int
	text   string
	err    error
}

func (e *tokenError) Error() string { return "cannot fetch an access token: " + e.text }

func (e *tokenError) Unwrap() error { return e.err }

func newTokenError(err error) *tokenError {
	var answer *oauth2.RetrieveError
	if errors.As(err, &answer) {
		e := &tokenError{}
		if answer.Response != nil {
			e.status = answer.Response.StatusCode
		}
		e.text = fmt.Sprintf("the token endpoint returned HTTP status %d", e.status)
		if httptoken.Valid(answer.ErrorCode) && len(answer.ErrorCode) <= 64 {
			e.text += ", " + answer.ErrorCode
		}
		return e
	}
	var call *url.Error
	if !errors.As(err, &call) {
		// The library's other errors concern unreadable answers, and may quote them.
		return &tokenError{text: "the token endpoint's answer is not a valid OAuth 2.0 response"}
	}
	for errors.As(err, &call) {
		err = call.Err
	}
	return &tokenError{text: err.Error(), err: err}
}
