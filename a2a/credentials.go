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

// WithHeader sends a header with every request, credentials included. It goes to
// the origin (scheme, host, port) of the card's URL and to trusted origins,
// wherever the card may point.
func WithHeader(name, value string) Option {
	return func(r *remote) { r.credentials.header.Add(name, value) }
}

// WithBearer sends a bearer token (RFC 6750), as WithHeader does.
func WithBearer(token string) Option {
	return func(r *remote) { r.credentials.header.Set("Authorization", "Bearer "+token) }
}

// WithAPIKey sends a key under a name that the peer's card tells, in a header, in
// the query of every URL, or as a cookie (A2A 1.0, section 4.5.2). It goes where
// headers of WithHeader go. Bindings that are not HTTP cannot send a query.
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
			c.errs = append(c.errs, errors.New("an API key goes into header, query or cookie"))
		}
	}
}

// WithTrustedOrigin lets credentials, client certificates included, go to another
// origin too, such as https://api.example.com, for cards that point elsewhere. Its
// host may have any address.
func WithTrustedOrigin(origin string) Option {
	return func(r *remote) { r.trusted = append(r.trusted, origin) }
}

// credentials are what a remote agent shows to those whom it trusts.
type credentials struct {
	header  http.Header
	query   url.Values
	cookies []http.Cookie
	tokens  *tokens // nil: no OAuth2
	origins map[string]bool

	errs    []error  // of options
	secrets []string // what no message may hold
}

// check finds what cannot be sent, and notes the secrets. The errors name names
// and never values.
func (c *credentials) check() error {
	errs := c.errs
	for name, values := range c.header {
		for _, v := range values {
			if !httptoken.Valid(name) || strings.ContainsFunc(v, isControl) {
				errs = append(errs, fmt.Errorf("the header %q cannot be sent: its name or its value has characters that headers must not have", name))
			}
			if scheme, rest, ok := strings.Cut(v, " "); ok && httptoken.Valid(scheme) {
				v = rest
			}
			c.keepSecret(v)
		}
	}
	for _, cookie := range c.cookies {
		if !httptoken.Valid(cookie.Name) || strings.ContainsFunc(cookie.Value, func(r rune) bool { return isControl(r) || strings.ContainsRune(" \",;\\", r) || r > '~' }) {
			errs = append(errs, fmt.Errorf("the cookie %q cannot be sent: its name or its value has characters that cookies must not have", cookie.Name))
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
			errs = append(errs, errors.New("both OAuth2 and another credential would be the Authorization header"))
		}
	}
	// A secret may be part of another.
	slices.SortFunc(c.secrets, func(a, b string) int { return len(b) - len(a) })
	return errors.Join(errs...)
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// trusts reports whether credentials may go to a URL.
func (c *credentials) trusts(u *url.URL) bool { return c.origins[origin(u)] }

// headers returns what to send to a target, nil if it is not trusted.
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

// addCookie adds to the one Cookie header that a request has (RFC 6265).
func addCookie(h http.Header, pair string) {
	if others := h.Get("Cookie"); others != "" {
		pair = others + "; " + pair
	}
	h.Set("Cookie", pair)
}

// sign returns the request with all credentials for its target, which must be
// trusted. The request itself stays as it was: its URL gets into errors.
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

// refused has the token of a request that the peer did not accept fetched anew
// when the next request needs one.
func (c *credentials) refused(h http.Header) {
	if c.tokens != nil {
		c.tokens.refused(h.Get("Authorization"))
	}
}

// minSecret is the length below which a secret is not looked for in messages: it
// would be found everywhere.
const minSecret = 5

// keepSecret notes a secret.
func (c *credentials) keepSecret(s string) {
	if len(s) >= minSecret {
		c.secrets = append(c.secrets, forms(s)...)
	}
}

// forms returns a secret as a message might repeat it: alone, in an address, and in JSON with HTML escapes and without.
func forms(secret string) []string {
	html, _ := json.Marshal(secret) // of a text, which never fails
	plain, _ := event.Marshal(secret)
	return slices.Compact([]string{url.QueryEscape(secret), url.PathEscape(secret), secret,
		string(plain[1 : len(plain)-1]), string(html[1 : len(html)-1])})
}

// redact takes credentials out of a text. A peer may repeat in an error what it was
// sent.
func (c *credentials) redact(text string) string { return redactAll(text, c.known(minSecret)) }

func redactAll(text string, secrets []string) string {
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, "[redacted]")
	}
	return text
}

// minSaid is the length below which a secret is not taken out of what a peer says: values of
// headers can be words, such as the name of a tenant.
const minSaid = 16

// redactSaid takes credentials out of what a peer says.
func (c *credentials) redactSaid(text string) string { return redactAll(text, c.known(minSaid)) }

// begun returns how many bytes at the end of a text may be the beginning of a secret that a peer says.
func (c *credentials) begun(text string) (longest int) {
	for _, s := range c.known(minSaid) {
		n := min(len(s)-1, len(text))
		for n > longest && !strings.HasSuffix(text, s[:n]) {
			n--
		}
		longest = max(longest, n)
	}
	return longest
}

// known returns the secrets of at least some length. A nil c has none.
func (c *credentials) known(least int) (secrets []string) {
	if c == nil {
		return nil
	}
	secrets = c.secrets
	if c.tokens != nil {
		secrets = slices.Concat(secrets, c.tokens.known())
	}
	return slices.DeleteFunc(slices.Clone(secrets), func(s string) bool { return len(s) < least })
}
