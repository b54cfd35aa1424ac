// Package lazyregexp has regular expressions for package variables that are compiled
// when they are first used, so that a program that does not use them starts without
// that work. It imports the standard library only.
package lazyregexp

import (
	"regexp"
	"sync"
)

// Regexp is a regular expression that compiles itself at its first use. It is safe for
// concurrent use. Make it with [New].
type Regexp struct {
	source   string
	once     sync.Once
	compiled *regexp.Regexp
}

// New returns the expression of a source in the syntax of package regexp. A source that
// has an error panics at the first use, so that a test has to use each of them.
func New(source string) *Regexp { return &Regexp{source: source} }

// Get returns the compiled expression.
func (r *Regexp) Get() *regexp.Regexp {
	r.once.Do(func() { r.compiled = regexp.MustCompile(r.source) })
	return r.compiled
}

// MatchString is that of the compiled expression.
func (r *Regexp) MatchString(s string) bool { return r.Get().MatchString(s) }

// FindStringSubmatch is that of the compiled expression.
func (r *Regexp) FindStringSubmatch(s string) []string { return r.Get().FindStringSubmatch(s) }
