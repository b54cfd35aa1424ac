// Package redact removes secrets from texts that programs write.
package redact

import (
	"net/url"
	"strings"

	"github.com/agentarbor/arbor/internal/lazyregexp"
)

var (
	addresses = lazyregexp.New(`[a-zA-Z][a-zA-Z0-9+.-]*://[^\s"'<>]+`)
	schemes   = lazyregexp.New(`(?i)\b(bearer|basic|digest|negotiate)\s+[\w.~+/=-]{8,}`)
	named     = lazyregexp.New(`(?i)((?:[\w-]*(?:api[-_ ]?key|token|secret|passw(?:or)?d|pwd|credentials?|authorization|cookie)|\bpass)["']?\s*[:=]\s*)("[^"]*"|'[^']*'|[^\s"',;&]+)`)
	mail      = lazyregexp.New(`[\w.+%-]+@[\w-]+(?:\.[\w-]+)+`)
	words     = lazyregexp.New(`[\w.~+/=-]{16,}`)
	keys      = lazyregexp.New(`^(?:(?:sk|pk|rk|gh[opsru]|github_pat|glpat|hf|npm|pypi|dop|shpat|whsec|xox[abeprs])[-_]|AKIA|ASIA|AIza|ya29\.|eyJ)`)
)

// Redacted replaces a removed text.
const Redacted = "[redacted]"

// Text takes out of a text what looks like a secret or like personal data:
//
//   - user, password, query and fragment of URLs;
//   - what follows "Bearer", "Basic" and the like, and what is given to a name such as
//     password, token, secret or api_key;
//   - words of the form of keys, such as sk-…, ghp_…, AKIA… and JSON Web Tokens, and words of 32 and more
//     letters and digits together;
//   - e-mail addresses.
//
// It is for texts that programs write about what they do, such as reasons and messages of
// errors: of what people say it finds little.
func Text(text string) string {
	if text == "" {
		return ""
	}
	text = addresses.Get().ReplaceAllStringFunc(text, shown)
	text = schemes.Get().ReplaceAllString(text, "$1 "+Redacted)
	text = named.Get().ReplaceAllString(text, "${1}"+Redacted)
	text = mail.Get().ReplaceAllString(text, Redacted)
	return words.Get().ReplaceAllStringFunc(text, func(word string) string {
		for _, part := range strings.FieldsFunc(word, func(c rune) bool { return strings.ContainsRune("/=.", c) }) {
			if keys.MatchString(part) || random(part) {
				return Redacted
			}
		}
		return word
	})
}

// random reports whether a word is as long as keys are and has both letters and digits. Ids with dashes do not match.
func random(word string) bool {
	for part := range strings.SplitSeq(word, "-") {
		if len(part) >= 32 && strings.ContainsAny(part, "0123456789") && strings.ContainsFunc(part, func(c rune) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }) {
			return true
		}
	}
	return false
}

func shown(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		scheme, _, _ := strings.Cut(text, "://")
		return scheme + "://" + Redacted
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
