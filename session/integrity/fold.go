package integrity

import (
	"fmt"
	"slices"

	"github.com/agentarbor/arbor/session"
)

// compare compares the fold of the log with the checker's own state: the open runs, the pending calls and the active
// agent.
func (c *Checker) compare() {
	wrong := func(format string, args ...any) {
		c.found = append(c.found, Violation{c.seq, "the fold of the log " + fmt.Sprintf(format, args...)})
	}
	c.compareRuns(wrong)
	c.counts.compare(&c.fold, wrong)
	c.compareWaiting(wrong)
}

// compareRuns compares the last run of each scope and its calls.
func (c *Checker) compareRuns(wrong func(string, ...any)) {
	open := c.fold.Open()
	for name, s := range c.scopes {
		run := &c.fold.Scope(name).Run
		switch {
		case s.past:
		case s.target != "" && (run.ID != s.last || run.Target != s.target || c.fold.Scope(name).Active != s.target):
			wrong("does not have the transfer of the scope %q to %q", name, s.target)
		case (s.open != "") != slices.Contains(open, name):
			wrong("reports wrongly whether a run of the scope %q is open", name)
		case s.open != "" && s.open != run.ID:
			wrong("has the open run %s instead of %s", run.ID, s.open)
		case len(s.pending) != len(run.Pending) && (s.open != "" || s.paused != ""):
			wrong("has %d calls without a result in the scope %q instead of %d", len(run.Pending), name, len(s.pending))
		case s.open != "" || s.paused != "":
			c.calling(run, s, wrong)
		}
	}
}

// compareWaiting compares the active agent, the pauses and the open questions.
func (c *Checker) compareWaiting(wrong func(string, ...any)) {
	conversation := c.fold.Scope("")
	if conversation.Active != c.active {
		wrong("has the active agent %q instead of %q", conversation.Active, c.active)
	}
	s := c.scopes[""]
	if s == nil {
		return
	}
	held, questions := s.paused != "", 0
	if c.fold.Held() != held {
		wrong("reports wrongly whether the turn is paused")
	}
	for name, s := range c.scopes {
		if s.past { // the fork may continue some scopes of its parent session, and not others
			return
		}
		for _, call := range s.pending {
			if call.relay != "" && !call.resolved {
				questions++
			}
		}
		if name != "" && held && s.open != "" {
			wrong("has the open scope %q in a paused turn", name)
		}
		if (name != "" && !s.over) != slices.Contains(c.fold.Scopes.Names(), name) && s.known {
			wrong("reports wrongly whether the scope %q has ended", name)
		}
	}
	if held && questions > 0 && !c.fold.Paused() || len(c.fold.Questions()) != questions {
		wrong("reports the wrong open questions")
	}
}

func (c *Checker) calling(run *session.Run, s *scope, wrong func(string, ...any)) {
	for _, has := range run.Pending {
		if call := s.pending[has.ID]; call == nil || call.run != has.RunID || call.relay != has.Relay || call.resolved != has.Resolved {
			wrong("has a wrong state of the call %q", has.ID)
		}
	}
}
