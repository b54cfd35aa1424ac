package cassette

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
)

const redacted = "[redacted]"

// secrets are values that must not be recorded, the longest first.
type secrets []string

// sensitive are parts of the names of headers and query parameters whose values are secrets or identify a person. Any
// other long value counts as a secret, too.
var sensitive = []string{"auth", "cookie", "key", "token", "secret", "password", "credential", "signature", "organization", "project", "user", "account", "email"}

// harmless are headers whose values are never secret.
var harmless = []string{"Idempotency-Key", "User-Agent"}

// A value that is shorter than short is not a secret, because it occurs in many texts. A value of at least long is a
// secret unless its header is harmless.
const (
	short = 6
	long  = 24
)

// secretsOf returns the secrets in the headers of a request, in its query and in the user of its URL.
func secretsOf(r *http.Request) (s secrets) {
	add := func(name, value string) {
		secret := slices.ContainsFunc(sensitive, func(part string) bool { return strings.Contains(strings.ToLower(name), part) })
		if len(value) >= short && (secret || len(value) >= long && !strings.ContainsAny(value, " /;,")) {
			s = append(s, value)
		}
	}
	for name, values := range r.Header {
		if slices.Contains(harmless, name) {
			continue
		}
		for _, v := range values {
			_, token, _ := strings.Cut(v, " ") // after Bearer
			add(name, v)
			add(name, token)
		}
	}
	for name, values := range r.URL.Query() {
		for _, v := range values {
			add(name, v)
		}
	}
	if r.URL.User != nil {
		password, _ := r.URL.User.Password()
		add("user", r.URL.User.Username())
		add("password", password)
	}
	slices.SortFunc(s, func(a, b string) int { return len(b) - len(a) })
	return s
}

func (s secrets) text(text string) string { return string(s.bytes([]byte(text))) }

// bytes returns a copy of b with the secrets replaced.
func (s secrets) bytes(b []byte) []byte {
	b = bytes.Clone(b)
	for _, v := range s {
		b = bytes.ReplaceAll(b, []byte(v), []byte(redacted))
	}
	return b
}
