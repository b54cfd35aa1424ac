package a2a

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/httptoken"
)

// WithHeader adds a header, credentials included, to every request to a trusted origin. Trusted are the origin (scheme,
// host, port) of the card's URL and those of [WithTrustedOrigin], wherever the card points.
func WithHeader(name, value string) Option {
	return func(r *remote) { r.credentials.header.Add(name, value) }
}

// WithBearer sends a bearer token (RFC 6750), to the same origins as [WithHeader].
func WithBearer(token string) Option {
	return func(r *remote) { r.credentials.header.Set("Authorization", "Bearer "+token) }
}

// WithAPIKey sends a key under the name that the peer's card specifies: in a header, in the query of every URL, or as a
// cookie (A2A 1.0, section 4.5.2). It goes to the same origins as [WithHeader]. Bindings that do not use HTTP cannot
// send a query.
func WithAPIKey(in sdk.APIKeySecuritySchemeLocation, name, key string) Option {
	return func(r *remote) {
		c := r.credentials
		if name == "" || key == "" {
			c.errs = append(c.errs, errors.New("an API key has no name or no value"))
			return
		}
		switch in {
		case sdk.APIKeySecuritySchemeLocationHeader:
			c.header.Set(name, key)
		case sdk.APIKeySecuritySchemeLocationQuery:
			c.query.Set(name, key)
		case sdk.APIKeySecuritySchemeLocationCookie:
			c.cookies = append(c.cookies, http.Cookie{Name: name, Value: key})
		default:
			c.errs = append(c.errs, errors.New("the location of an API key must be header, query or cookie"))
		}
	}
}

// WithTrustedOrigin allows another origin, such as https://api.example.com, to receive the credentials, client
// certificates included, if the card points there. Its host may have any address. Repeat it to trust several.
func WithTrustedOrigin(origin string) Option {
	return func(r *remote) { r.trusted = append(r.trusted, origin) }
}

// credentials are the credentials of a remote agent and the origins that may receive them.
type credentials struct {
	header  http.Header
	query   url.Values
	cookies []http.Cookie
	tokens  *tokens // nil: no OAuth2
	origins map[string]bool

	errs    []error  // errors of options
	secrets []string // redacted from all messages
}

// check returns an error for credentials that cannot be sent, and notes the secrets. Its errors contain names but never
// values.
func (c *credentials) check() error {
	errs := c.errs
	for name, values := range c.header {
		for _, v := range values {
			if !httptoken.Valid(name) || strings.ContainsFunc(v, isControl) {
				errs = append(errs, fmt.Errorf("the header %q cannot be sent: its name or value has characters that are not allowed in headers", name))
			}
			if scheme, rest, ok := strings.Cut(v, " "); ok && httptoken.Valid(scheme) {
				v = rest
			}
			c.keepSecret(v)
		}
	}
	for _, cookie := range c.cookies {
		if !httptoken.Valid(cookie.Name) || strings.ContainsFunc(cookie.Value, func(r rune) bool { return isControl(r) || strings.ContainsRune(" \",;\\", r) || r > '~' }) {
			errs = append(errs, fmt.Errorf("the cookie %q cannot be sent: its name or value has characters that are not allowed in cookies", cookie.Name))
		}
		c.keepSecret(cookie.Value)
	}
	for _, values := range c.query {
		for _, v := range values {
			c.keepSecret(v)
		}
	}
	if c.tokens != nil {
		c.keepSecret(c.tokens.config.ClientSecret)
		c.keepSecret(base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(c.tokens.config.ClientID) + ":" + url.QueryEscape(c.tokens.config.ClientSecret))))
		if c.header.Get("Authorization") != "" {
			errs = append(errs, errors.New("OAuth2 and another credential both set the Authorization header: use one of them"))
		}
	}
	// The longest first, because a secret may be part of another.
	slices.SortFunc(c.secrets, func(a, b string) int { return len(b) - len(a) })
	return errors.Join(errs...)
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// trusts reports whether the credentials may be sent to a URL.
func (c *credentials) trusts(u *url.URL) bool { return c.origins[origin(u)] }

// headers returns the headers to send to a target, or nil if it is not trusted.
func (c *credentials) headers(ctx context.Context, target *url.URL) (http.Header, error) {
	if !c.trusts(target) {
		return nil, nil
	}
	h := c.header.Clone()
	if h == nil {
		h = make(http.Header)
	}
	for _, cookie := range c.cookies {
		addCookie(h, cookie.Name+"="+cookie.Value)
	}
	if c.tokens != nil {
		token, err := c.tokens.get(ctx)
		if err != nil {
			return nil, err
		}
		h.Set("Authorization", token)
	}
	return h, nil
}

// addCookie adds a cookie to the only Cookie header that a request may have (RFC 6265).
func addCookie(h http.Header, pair string) {
	if others := h.Get("Cookie"); others != "" {
		pair = others + "; " + pair
	}
	h.Set("Cookie", pair)
}

// sign returns a copy of the request with all credentials for its target, which must be trusted. It does not change
// req, because errors contain the URL of req.
func (c *credentials) sign(req *http.Request) (*http.Request, error) {
	h, err := c.headers(req.Context(), req.URL)
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	if cookies := h.Get("Cookie"); cookies != "" {
		addCookie(req.Header, cookies)
		h.Del("Cookie")
	}
	maps.Copy(req.Header, h)
	if len(c.query) > 0 {
		q := req.URL.Query()
		maps.Copy(q, c.query)
		req.URL.RawQuery = q.Encode()
	}
	return req, nil
}

// refused drops the token of a request that the peer did not accept, so that the next request fetches a new one.
func (c *credentials) refused(h http.Header) {
	if c.tokens != nil {
		c.tokens.refused(h.Get("Authorization"))
	}
}

// minSecret is the minimum length in bytes of a secret that is redacted from errors. Shorter ones would match
// everywhere.
const minSecret = 5

// keepSecret adds a secret to those that are redacted.
func (c *credentials) keepSecret(s string) {
	if len(s) >= minSecret {
		c.secrets = append(c.secrets, encodings(s)...)
	}
}

// encodings returns the forms in which a message might repeat a secret: as it is, escaped in a URL, and escaped in JSON
// with and without HTML escapes.
func encodings(secret string) []string {
	html, _ := json.Marshal(secret) // encoding a string cannot fail
	plain, _ := event.Marshal(secret)
	return slices.Compact([]string{url.QueryEscape(secret), url.PathEscape(secret), secret,
		string(plain[1 : len(plain)-1]), string(html[1 : len(html)-1])})
}

// redact removes credentials from a text. A peer's error may repeat what it received.
func (c *credentials) redact(text string) string { return redactAll(text, c.longSecrets(minSecret)) }

func redactAll(text string, secrets []string) string {
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, "[redacted]")
	}
	return text
}

// minAnswerSecret is the minimum length in bytes of a secret that is redacted from a peer's answers. Shorter values of
// headers can be ordinary words, such as the name of a tenant.
const minAnswerSecret = 16

// redactAnswer removes credentials from a peer's answer.
func (c *credentials) redactAnswer(text string) string {
	return redactAll(text, c.longSecrets(minAnswerSecret))
}

// partialSecret returns the number of bytes at the end of a text that may be the beginning of a secret.
func (c *credentials) partialSecret(text string) (longest int) {
	for _, s := range c.longSecrets(minAnswerSecret) {
		n := min(len(s)-1, len(text))
		for n > longest && !strings.HasSuffix(text, s[:n]) {
			n--
		}
		longest = max(longest, n)
	}
	return longest
}

// longSecrets returns the secrets of at least the given length in bytes. It returns none if c is nil.
func (c *credentials) longSecrets(least int) (secrets []string) {
	if c == nil {
		return nil
	}
	secrets = c.secrets
	if c.tokens != nil {
		secrets = slices.Concat(secrets, c.tokens.secrets())
	}
	return slices.DeleteFunc(slices.Clone(secrets), func(s string) bool { return len(s) < least })
}
