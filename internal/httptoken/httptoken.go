// Package httptoken checks HTTP tokens: the form of header names, methods and authentication schemes.
package httptoken

import "strings"

// Valid reports whether s is a token of RFC 9110, section 5.6.2.
func Valid(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}
