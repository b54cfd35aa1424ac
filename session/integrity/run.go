package integrity

import (
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// checkStart checks the start of a run. With forked, the run resumes a run of the parent session, which gets no end
// in this log.
func (c *Checker) checkStart(e *event.Event, forked bool) {
	s := c.scope(e.Scope)
	switch {
	case c.commit != nil:
		c.fail(e, "a run starts between a transfer and the end of its run")
		c.commit = nil
	case c.runs[e.RunID] != nil:
		c.fail(e, "the run %s starts twice", e.RunID)
	case e.TurnID != c.turn:
		c.fail(e, "a run starts in another turn")
	}
	if forked {
		c.resume(e, s)
	} else {
		c.begin(e, s)
	}
	c.runs[e.RunID] = &run{agent: e.Agent, scope: e.Scope}
	s.open, s.paused, s.past, s.target = e.RunID, "", false, ""
	for _, call := range s.pending {
		call.fresh = false
	}
	if s.over {
		c.fail(e, "the run %s starts in a scope that has ended", e.RunID)
	}
}

// begin checks the start of a run that resumes no run of a parent session.
func (c *Checker) begin(e *event.Event, s *scope) {
	switch {
	case s.open != "":
		c.fail(e, "the run %s starts while %s is open in the same scope", e.RunID, s.open)
	case s.paused == "" && len(s.pending) > 0:
		c.fail(e, "a run starts before all calls have results")
	case e.ParentID == "":
		c.fail(e, "a run starts without a cause")
	case s.last != "" && e.ParentID != s.last+":"+event.TypeHarnessEnd:
		c.fail(e, "a run names %q as its cause, not the end of the run %s", e.ParentID, s.last)
	}
	if e.Scope != "" && s.paused != "" && !c.resumable(s) {
		c.fail(e, "the run %s starts in a paused scope, but no question was answered there", e.RunID)
	}
	if e.Scope == "" || s.known {
		return
	}
	if parent := c.runs[event.ParentRun(e.Scope)]; parent != nil {
		s.within, s.known, s.opener = parent.scope, true, event.ParentRun(e.Scope)
	} else {
		s.within, s.known = c.nodes[e.ParentID]
		s.opener = e.ParentID
		c.opened[e.ParentID] = append(c.opened[e.ParentID], s)
	}
	if !s.known || c.scope(s.within).open == "" {
		c.fail(e, "no open run has opened the scope %q", e.Scope)
	}
}

// resume checks a run that resumes a run of the parent session. The scopes that the parent's run opened stay as they
// are, unless it is a workflow, whose children are resumed one by one.
func (c *Checker) resume(e *event.Event, s *scope) {
	before := s.open
	if s.paused != "" {
		before = s.paused
	}
	if r := c.runs[before]; r == nil || r.agent != e.Agent {
		c.fail(e, "the run %s resumes no run of its agent", e.RunID)
	} else {
		r.ended = true
	}
	for _, call := range s.pending {
		call.run, call.whole = e.RunID, true
	}
	if e.Scope != "" {
		return
	}
	for name, inner := range c.scopes {
		if name != "" {
			inner.past = true
		}
	}
}

// end checks the end of a run.
func (c *Checker) end(e *event.Event, d *event.HarnessEnd, s *scope, r *run) {
	waits := d.FinishReason == event.FinishReasonInputRequired
	switch {
	case waits:
		if s.paused = e.RunID; !c.asks(s) {
			c.fail(e, "a run is paused, but no question was asked about its calls")
		}
	case len(s.pending) > 0:
		c.fail(e, "a run ends with calls that have no result")
	}
	for name, inner := range c.scopes {
		switch {
		case name == "" || !inner.known || inner.within != e.Scope || inner.past || inner.over:
		case inner.open != "":
			c.fail(e, "a run ends before the scope %q that it opened", name)
		case !waits:
			c.closeScope(e, inner, "a run ends")
		}
	}
	if s.over = e.Scope != "" && !waits && d.FinishReason != event.FinishReasonTransfer; s.over {
		s.paused = ""
	}
	r.ended = true
	s.open, s.last, s.target = "", e.RunID, ""
	if d.FinishReason == event.FinishReasonTransfer {
		s.target = d.Target
	}
}

// asks reports whether each pending call has an open question or a paused scope that it opened. A transfer needs
// neither if another call has one. A scope without pending calls may pause.
func (c *Checker) asks(s *scope) bool {
	waits := len(s.pending) == 0
	for id, call := range s.pending {
		asked := call.relay != "" && !call.resolved
		for _, inner := range c.opened[id] {
			asked = asked || inner.paused != ""
		}
		if waits = waits || asked; !asked && call.tool != agent.TransferTool {
			return false
		}
	}
	return waits
}

// resumable reports whether a paused scope can continue: a question in it or in a scope inside it was answered, or it
// waits for something other than an answer.
func (c *Checker) resumable(s *scope) bool {
	waits := false
	for _, call := range s.pending {
		if call.fresh {
			return true
		}
		waits = waits || call.relay != ""
	}
	for _, inner := range c.scopes {
		if inner.known && inner.within == s.name && !inner.over {
			if waits = true; inner.past || inner.open != "" || inner.target != "" || c.resumable(inner) {
				return true
			}
		}
	}
	return !waits
}

// around returns the agents whose runs surround a scope, starting with the conversation's.
func (c *Checker) around(s *scope) (names []string) {
	for range len(c.scopes) {
		if s.opener == "" {
			break
		}
		if s = c.scope(s.within); c.runs[s.open] != nil {
			names = append(names, c.runs[s.open].agent)
		}
	}
	slices.Reverse(names)
	return names
}
