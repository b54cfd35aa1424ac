package openai

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"html"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

func secretsOf(c *config, u *url.URL) []string {
	var s []string
	add := func(secret string) {
		if len(secret) >= 4 { // removing shorter ones would damage texts, and hide little
			s = append(s, secret)
		}
	}
	add(c.key)
	if name := u.User.Username(); u.User != nil {
		password, _ := u.User.Password()
		add(password)
		// Some addresses have a token in place of a user. Shorter names, such as user, admin and username, are words of errors.
		if len(name) >= 10 {
			add(name)
		}
		add(base64.StdEncoding.EncodeToString([]byte(name + ":" + password))) // as the request has it
	}
	for _, values := range u.Query() {
		for _, v := range values {
			add(v)
		}
	}
	for name, values := range c.header {
		if !secretHeader(name) {
			continue
		}
		for _, v := range values {
			add(v)
			if _, token, ok := strings.Cut(v, " "); ok {
				add(token) // of "Bearer TOKEN"
			}
		}
	}
	return withEscapedForms(s)
}

const redacted = "[secret]"

func (c *client) redact(s string) string {
	for _, secret := range c.secrets {
		s = strings.ReplaceAll(s, secret, redacted)
	}
	return s
}

// redactCause returns err, or an error with the same text without secrets.
func (c *client) redactCause(err error) error {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err // the rest repeats the address with its query
	}
	if err == nil {
		return nil
	}
	if s := err.Error(); c.redact(s) != s {
		return errors.New(c.redact(s))
	}
	return err
}

// withEscapedForms adds the escaped forms of secrets that an endpoint may return. It puts longer ones first, so that no
// part of a secret remains.
func withEscapedForms(secrets []string) []string {
	all := slices.Clone(secrets)
	for _, s := range secrets {
		plain := strconv.Quote(s)
		escaped, _ := json.Marshal(s) // encoding a string cannot fail
		all = append(all, plain[1:len(plain)-1], string(escaped[1:len(escaped)-1]),
			url.QueryEscape(s), url.PathEscape(s), html.EscapeString(s))
	}
	slices.SortFunc(all, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	return slices.Compact(all)
}

func secretHeader(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"auth", "key", "token", "secret", "cookie", "password"}, func(word string) bool {
		return strings.Contains(name, word)
	})
}
