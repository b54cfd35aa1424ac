package server

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"sync"
	"time"

	"github.com/agentarbor/arbor/event"
)

// Reloads reports to clients whether changes of the tree's files could be loaded. The part of the program that
// watches the files calls its methods, and [WithReloads] shows the result. It is safe for concurrent use. The zero
// value is ready to use and reports no change.
type Reloads struct {
	mu      sync.Mutex
	last    reload
	sources func(agent string) (Source, bool)
	waiting map[*func()]struct{}
}

// TreeProblem is a reason why the files of a tree cannot be loaded. File is "" and Line is 0 if the problem is in no
// file.
type TreeProblem struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Message string `json:"message"`
}

// reload is what clients are told.
type reload struct {
	Changed  *time.Time    `json:"changed,omitempty"`  // when the tree was taken that answers
	Problems []TreeProblem `json:"problems,omitempty"` // of files that have changed since
}

// WithReloads shows clients the results of reloads. Defaults to none.
func WithReloads(r *Reloads) Option { return func(s *settings) { s.reloads = r } }

// Took reports that live.Turns.Swap put the tree of the changed files into use.
func (r *Reloads) Took() {
	now := time.Now().UTC()
	r.tell(func(last *reload) { *last = reload{Changed: &now} })
}

// Source is the place where an agent is written. Lines count from 1.
type Source struct {
	File string `json:"file"`
	Line int    `json:"line"`
}

// From sets the function that returns where an agent of the current tree is written. Nil is for a tree without
// files.
func (r *Reloads) From(sources func(agent string) (Source, bool)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sources = sources
}

// source returns where an agent is written, nil if that is unknown.
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

// Refused reports that the files changed and could not be loaded. The tree before stays in use.
func (r *Reloads) Refused(problems ...TreeProblem) {
	problems = slices.Clone(problems)
	r.tell(func(last *reload) { last.Problems = problems })
}

func (r *Reloads) tell(change func(*reload)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.last)
	for f := range r.waiting {
		go (*f)() // a client that is slow keeps nobody waiting
	}
}

// now returns what came of the last change.
func (r *Reloads) now() reload {
	if r == nil {
		return reload{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// onChange has a function called, by a goroutine of its own, at each report until leave is called.
func (r *Reloads) onChange(f func()) (leave func()) {
	if r == nil {
		return func() {}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting == nil {
		r.waiting = make(map[*func()]struct{})
	}
	r.waiting[&f] = struct{}{}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.waiting, &f)
	}
}

// tag is the ETag of what is told of a tree with a revision.
func (l reload) tag(revision string) string {
	if l.Changed == nil && l.Problems == nil {
		return revision
	}
	sum := sha256.Sum256(event.EncodeJSON(l))
	return revision + "-" + hex.EncodeToString(sum[:8])
}
