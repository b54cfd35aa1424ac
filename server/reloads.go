package server

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"sync"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/yamldoc"
)

// Reloads reports to clients whether changes of the tree's files could be loaded. The part of the program that
// watches the files calls its methods, and [WithReloads] shows the result. It is safe for concurrent use. The zero
// value is ready to use and reports no change.
type Reloads struct {
	mu        sync.Mutex
	last      reload
	sources   func(agent string) (Source, bool)
	listeners map[*func()]struct{}
}

// TreeProblem is a reason why the files of a tree cannot be loaded. File is "" and Line is 0 if the problem belongs to
// no file. Lines count from 1.
type TreeProblem = yamldoc.Problem

// reload is the result of the last reload, as clients get it.
type reload struct {
	Changed  *time.Time    `json:"changed,omitempty"`  // when the current tree was loaded
	Problems []TreeProblem `json:"problems,omitempty"` // of files that changed since then
}

// WithReloads returns the results of reloads to clients. Defaults to none.
func WithReloads(r *Reloads) Option { return func(s *settings) { s.reloads = r } }

// Loaded reports that live.Turns.Swap put the tree of the changed files into use.
func (r *Reloads) Loaded() {
	now := time.Now().UTC()
	r.update(func(last *reload) { *last = reload{Changed: &now} })
}

// Source is the place of an agent's definition. Lines count from 1.
type Source struct {
	File string `json:"file"`
	Line int    `json:"line"`
}

// SetSources sets the function that returns the place of an agent of the current tree. nil is for a tree without
// files, and the default.
func (r *Reloads) SetSources(sources func(agent string) (Source, bool)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sources = sources
}

// source returns the place of an agent, or nil if it is unknown.
func (r *Reloads) source(agent string) *Source {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	sources := r.sources
	r.mu.Unlock()
	if sources == nil {
		return nil
	}
	if s, ok := sources(agent); ok {
		return &s
	}
	return nil
}

// Failed reports that the changed files could not be loaded. The tree before stays in use.
func (r *Reloads) Failed(problems ...TreeProblem) {
	problems = slices.Clone(problems)
	r.update(func(last *reload) { last.Problems = problems })
}

func (r *Reloads) update(change func(*reload)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.last)
	for f := range r.listeners {
		go (*f)() // a slow client does not delay the others
	}
}

// now returns the result of the last reload.
func (r *Reloads) now() reload {
	if r == nil {
		return reload{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// onChange calls f in a new goroutine at each report, until the caller calls leave.
func (r *Reloads) onChange(f func()) (leave func()) {
	if r == nil {
		return func() {}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.listeners == nil {
		r.listeners = make(map[*func()]struct{})
	}
	r.listeners[&f] = struct{}{}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.listeners, &f)
	}
}

// tag returns the ETag of an answer about a tree with this revision and reload.
func (l reload) tag(revision string) string {
	if l.Changed == nil && l.Problems == nil {
		return revision
	}
	sum := sha256.Sum256(event.EncodeJSON(l))
	return revision + "-" + hex.EncodeToString(sum[:8])
}
