package server

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"sync"
	"time"

	"github.com/agentarbor/arbor/event"
)

// Reloads tells clients what came of changes of the tree's files. Whoever watches the files
// reports it here; [WithReloads] shows it. It is safe for concurrent use. The zero value is ready,
// and says that nothing has changed yet.
type Reloads struct {
	mu      sync.Mutex
	last    reload
	sources func(agent string) (Source, bool)
	waiting map[*func()]struct{}
}

// TreeProblem is why files of a tree cannot be used. File is "" and Line is 0 where none is to blame.
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

// WithReloads shows what came of reloads.
func WithReloads(r *Reloads) Option { return func(s *settings) { s.reloads = r } }

// Took reports that the turns have the tree of the changed files, by [live.Turns.Swap].
func (r *Reloads) Took() {
	now := time.Now().UTC()
	r.tell(func(last *reload) { *last = reload{Changed: &now} })
}

// Source is where an agent is written.
type Source struct {
	File string `json:"file"`
	Line int    `json:"line"`
}

// From says where the agents of the tree are written that the turns have from now on. nil is a tree of no files.
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

// Refused reports that the files have changed and cannot be used: the tree is still the one before.
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
