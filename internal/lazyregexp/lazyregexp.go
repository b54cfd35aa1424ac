// Package lazyregexp compiles the regular expressions of package variables on first use, so that a program that does
// not use them starts without this work.
package lazyregexp

import (
	"regexp"
	"sync"
)

// Regexp is a regular expression that is compiled on first use. It is safe for concurrent use. Create it with [New].
type Regexp struct {
	source   string
	once     sync.Once
	compiled *regexp.Regexp
}

// New returns the expression of a source in the syntax of package regexp. An invalid source panics on first use, so
// tests must use each expression.
func New(source string) *Regexp { return &Regexp{source: source} }

// Get returns the compiled expression.
func (r *Regexp) Get() *regexp.Regexp {
	r.once.Do(func() { r.compiled = regexp.MustCompile(r.source) })
	return r.compiled
}

// MatchString calls MatchString of the compiled expression.
func (r *Regexp) MatchString(s string) bool { return r.Get().MatchString(s) }

// FindStringSubmatch calls FindStringSubmatch of the compiled expression.
func (r *Regexp) FindStringSubmatch(s string) []string { return r.Get().FindStringSubmatch(s) }
