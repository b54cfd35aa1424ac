package integrity

import (
	"fmt"
	"slices"

	"github.com/agentarbor/arbor/session"
)

// compare holds the fold of the log against what the checker knows: what is open, which
// calls wait, who is active.
func (c *Checker) compare() {
	wrong := func(format string, args ...any) {
		c.found = append(c.found, Violation{c.seq, "the fold of the log " + fmt.Sprintf(format, args...)})
	}
	c.compareRuns(wrong)
	c.counts.compare(&c.fold, wrong)
	c.compareWaiting(wrong)
}

// compareRuns compares the last run of each scope, and its calls.
func (c *Checker) compareRuns(wrong func(string, ...any)) {
	open := c.fold.Open()
	for name, s := range c.scopes {
		run := &c.fold.Scope(name).Run
		switch {
		case s.past:
		case s.handed != "" && (run.ID != s.last || run.Target != s.handed || c.fold.Scope(name).Active != s.handed):
			wrong("has forgotten that the scope %q was handed over to %q", name, s.handed)
		case (s.open != "") != slices.Contains(open, name):
			wrong("is wrong about whether a run of the scope %q is open", name)
		case s.open != "" && s.open != run.ID:
			wrong("has the run %s open and not %s", run.ID, s.open)
		case len(s.pending) != len(run.Pending) && (s.open != "" || s.paused != ""):
			wrong("has %d calls without a result in %q, and not %d", len(run.Pending), name, len(s.pending))
		case s.open != "" || s.paused != "":
			c.calling(run, s, wrong)
		}
	}
}

// compareWaiting compares who is active, what waits and what is asked.
func (c *Checker) compareWaiting(wrong func(string, ...any)) {
	conversation := c.fold.Scope("")
	if conversation.Active != c.active {
		wrong("says that %q is active, and not %q", conversation.Active, c.active)
	}
	s := c.scopes[""]
	if s == nil {
		return
	}
	held, questions := s.paused != "", 0
	if c.fold.Held() != held {
		wrong("is wrong about whether the turn waits")
	}
	for name, s := range c.scopes {
		if s.past { // some of what is left of the session that this one is a fork of goes on
			return
		}
		for _, call := range s.pending {
			if call.relay != "" && !call.resolved {
				questions++
			}
		}
		if name != "" && held && s.open != "" {
			wrong("has the scope %q open in a turn that waits", name)
		}
		if (name != "" && !s.over) != slices.Contains(c.fold.Scopes.Names(), name) && s.known {
			wrong("is wrong about whether the scope %q is over", name)
		}
	}
	if held && questions > 0 && !c.fold.Paused() || len(c.fold.Questions()) != questions {
		wrong("is wrong about what is asked")
	}
}

func (c *Checker) calling(run *session.Run, s *scope, wrong func(string, ...any)) {
	for _, has := range run.Pending {
		if call := s.pending[has.ID]; call == nil || call.run != has.RunID || call.relay != has.Relay || call.resolved != has.Resolved {
			wrong("is wrong about the call %q", has.ID)
		}
	}
}
