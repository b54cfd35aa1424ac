package integrity

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// Violation is a place where a log breaks a law.
type Violation struct {
	// Seq is the position of the event that breaks it, 0 if it is no event's.
	Seq int64
	// Message says what is wrong. It holds names and ids of the log, which may be
	// anybody's words, and nothing else of what was said.
	Message string
}

// String returns the violation as one line.
func (v Violation) String() string {
	if v.Seq == 0 {
		return v.Message
	}
	return fmt.Sprintf("seq %d: %s", v.Seq, v.Message)
}

// Check reads a whole log and returns where it breaks a law, in the order of the log.
// The error is the one that reading the log ended with.
func Check(log iter.Seq2[*event.Event, error]) ([]Violation, error) {
	var c Checker
	for e, err := range log {
		if err != nil {
			return c.Violations(), err
		}
		c.Add(e)
	}
	return c.Violations(), nil
}

// Checker checks a log while it grows. Its zero value has seen nothing. It keeps the
// ids of all events, and is not safe for concurrent use.
type Checker struct {
	found  []Violation
	fold   session.Fold
	blind  bool         // an event could not be read, so that what follows says little
	held   *event.Event // a start that takes up an open run if the next event says so
	seq    int64
	latest time.Time
	turn   string
	runs   map[string]*run
	scopes map[string]*scope
	ids    map[string]bool     // of all events but results, which share their call's
	nodes  map[string]string   // what may have caused a run, with its scope
	opened map[string][]*scope // by the call that has opened them
	calls  map[string]bool     // of all that were made
	commit *event.Transfer     // whose run must end now
	active string              // the target of the last transfer of the conversation
	before *event.Event        // the last one
	counts counts
	hands  hands
}

// run is one activation of an agent.
type run struct {
	agent, scope string
	ended        bool
	usages       int
}

// scope is the conversation, or an inner one.
type scope struct {
	name    string
	open    string // the open run
	paused  string // the run that waits for a decision
	last    string // the run that ended last in this turn
	within  string // the scope around an inner one
	known   bool   // within is
	opener  string // the workflow's run, or the call, that has opened it
	over    bool   // its last run has ended, or what has opened it is over
	handed  string // the target of the transfer that the last run has ended with, until it runs
	past    bool   // of a session that this one is a fork of; nothing of it is closed here
	pending map[string]*call
}

// call is a call without a result.
type call struct {
	run, tool string
	whole     bool // the answer that it is part of is over
	relay     string
	digest    string // of what was asked last
	resolved  bool
	fresh     bool // it was resolved since the scope's last run began
}

// Add takes in the next event of the log.
func (c *Checker) Add(e *event.Event) {
	if c.runs == nil {
		c.runs, c.scopes, c.nodes = make(map[string]*run), make(map[string]*scope), make(map[string]string)
		c.ids, c.calls, c.opened = make(map[string]bool), make(map[string]bool), make(map[string][]*scope)
	}
	c.fold.Apply(e)
	if c.blind = c.blind || e.Type() == event.TypeUnreadable; c.blind {
		c.unread(e)
		return
	}
	if held := c.held; held != nil {
		c.held = nil
		n, ok := e.Data.(*event.Notice)
		c.start(held, ok && n.Code == event.NoticeForked && e.RunID == held.RunID)
	}
	if _, ok := e.Data.(*event.HarnessStart); ok {
		c.envelope(e)
		c.held, c.before = e, e
		return
	}
	c.event(e)
	c.before = e
}

// unread checks an event behind one that cannot be read, or that one itself.
func (c *Checker) unread(e *event.Event) {
	c.held, c.commit = nil, nil
	if c.seq++; e.Seq != c.seq {
		c.fail(e, "the position should be %d", c.seq)
		c.seq = e.Seq
	}
	if e.Type() == event.TypeUnreadable {
		c.fail(e, "the event cannot be read; what follows was not checked against it")
	}
}

// Violations returns what was found in the log so far, which must have been read up to
// the end of a write.
func (c *Checker) Violations() []Violation {
	if held := c.held; held != nil {
		c.held = nil
		c.start(held, false)
	}
	c.allTold()
	if c.commit != nil {
		c.found = append(c.found, Violation{c.seq, "a transfer is committed, and its run does not end with it"})
		c.commit = nil
	}
	if len(c.found) == 0 {
		c.compare()
	}
	return c.found
}

// Status returns the status that the fold of the log has. It says nothing, and ok is false, if an event could not be read.
func (c *Checker) Status() (status session.Status, ok bool) { return c.fold.Status(), !c.blind }

func (c *Checker) fail(e *event.Event, format string, args ...any) {
	c.found = append(c.found, Violation{e.Seq, fmt.Sprintf(format, args...)})
}

// envelope checks what events of all types share.
func (c *Checker) envelope(e *event.Event) {
	c.seq++
	switch {
	case e.Seq != c.seq:
		c.fail(e, "the position should be %d", c.seq)
		c.seq = e.Seq
	case e.Partial:
		c.fail(e, "a partial event is stored")
	case e.ID == "" || e.TurnID == "" || e.RunID == "" || e.Type() == "":
		c.fail(e, "the event has no id, turn, run or type")
	case e.Time.Before(c.latest):
		c.fail(e, "the time goes back")
	}
	c.latest = e.Time
	if _, ok := e.Data.(*event.ToolResult); !ok && e.ID != "" {
		if c.ids[e.ID] {
			c.fail(e, "the id %q stands twice", e.ID)
		}
		c.ids[e.ID] = true
	}
	if _, seen := c.nodes[e.ParentID]; !seen && e.ParentID != "" {
		c.fail(e, "nothing before it is %q, its cause", e.ParentID)
	}
	c.changeHands(e)
	c.node(e)
}

// node notes the node of the conversation graph that the event makes.
func (c *Checker) node(e *event.Event) {
	switch e.Data.(type) {
	case *event.User, *event.HarnessStart, *event.HarnessEnd, *event.Failure:
		c.nodes[e.RunID+":"+e.Type()] = e.Scope
	case *event.ToolResult:
		c.nodes[e.RunID+":"+e.ID+":result"] = e.Scope
	case *event.Usage:
		if r := c.runs[e.RunID]; r != nil {
			r.usages++
			c.nodes[fmt.Sprintf("%s:usage:%d", e.RunID, r.usages)] = e.Scope
		}
	}
	c.nodes[e.ID] = e.Scope
}

func (c *Checker) scope(name string) *scope {
	s := c.scopes[name]
	if s == nil {
		s = &scope{name: name, pending: make(map[string]*call)}
		c.scopes[name] = s
	}
	return s
}

// event checks an event that starts no run.
func (c *Checker) event(e *event.Event) {
	c.envelope(e)
	if t := c.commit; t != nil {
		c.commit = nil
		if end, ok := e.Data.(*event.HarnessEnd); !ok || end.FinishReason != event.FinishReasonTransfer || end.Target != t.To {
			c.fail(e, "a transfer to %q was committed, and its run does not end with it", t.To)
		}
	}
	if _, ok := e.Data.(*event.User); ok {
		c.user(e)
		return
	}
	r := c.runs[e.RunID]
	if r == nil && e.Agent == "user" {
		return // a notice of the runner's, or the state that the turn begins with
	}
	if r == nil {
		c.fail(e, "a %s of the run %s, which never started", e.Type(), e.RunID)
		return
	}
	s := c.scope(e.Scope)
	if r.agent != e.Agent || r.scope != e.Scope {
		c.fail(e, "a %s of %q in %q stands in a run of %q in %q", e.Type(), e.Agent, e.Scope, r.agent, r.scope)
	}
	switch d := e.Data.(type) {
	case *event.ToolResult: // may settle what a paused run asked
		c.result(e, d, s)
		return
	case *event.RelayResolved:
		c.resolved(e, d, s)
		return
	case *event.State:
		if _, decided := c.before.Data.(*event.RelayResolved); decided && c.before.RunID == e.RunID {
			return // what the decision changes
		}
	}
	switch {
	case r.ended:
		c.fail(e, "a %s after the end of its run", e.Type())
	case s.open != e.RunID:
		c.fail(e, "a %s of a run that is not open", e.Type())
	case e.TurnID != c.turn:
		c.fail(e, "a %s of another turn", e.Type())
	}
	c.payload(e, s, r)
	c.counts.add(e)
}

// payload checks what an open run has stored.
func (c *Checker) payload(e *event.Event, s *scope, r *run) {
	switch d := e.Data.(type) {
	case *event.Text, *event.Reasoning:
		c.answer(e, s)
	case *event.Usage:
		c.answer(e, s)
		for _, call := range s.pending {
			call.whole = true
		}
	case *event.ToolCall:
		c.answer(e, s)
		s.pending[e.ID] = &call{run: e.RunID, tool: d.Name}
		c.calls[e.ID] = true
	case *event.Relay:
		switch call := s.pending[d.ToolCallID]; {
		case call == nil || call.tool != d.Tool || call.relay != "" && !(call.resolved && (d.Kind == event.RelayInput || d.Digest != call.digest)):
			c.fail(e, "a question about %q, which is no open call that nobody asked about", d.ToolCallID)
		case !slices.Equal(d.Within, c.around(s)):
			c.fail(e, "a question about %q inside of %q, and not of %q", d.ToolCallID, c.around(s), d.Within)
		default:
			call.relay, call.digest, call.resolved = e.ID, d.Digest, false
		}
	case *event.Transfer:
		switch d.Outcome {
		case event.TransferCommitted:
			if c.commit = d; e.Scope == "" {
				c.active = d.To
			}
		case event.TransferRejected, event.TransferConflict, event.TransferFailed:
		default:
			c.fail(e, "a transfer with the outcome %q", d.Outcome)
		}
	case *event.File:
		if err := d.Check(); err != nil {
			c.fail(e, "%v", err)
		}
		if d.ToolCallID != "" && s.pending[d.ToolCallID] == nil {
			c.fail(e, "a file of %q, which is no open call", d.ToolCallID)
		}
	case *event.HandoffStatus:
		switch over := event.HandoffOver(d.Status); {
		case e.Scope != "":
			c.fail(e, "a handoff to a person stands in an inner scope")
		case !over:
			c.active = "human"
		case d.TargetAgent != "" && c.active == "human":
			c.active = d.TargetAgent
		}
	case *event.HarnessEnd:
		c.end(e, d, s, r)
	}
}

// user checks that nothing is open when the user speaks.
func (c *Checker) user(e *event.Event) {
	for name, s := range c.scopes {
		if !s.past && (s.open != "" || len(s.pending) > 0) {
			c.fail(e, "the user speaks while a run or a call of the scope %q is open", name)
		}
		if name != "" {
			delete(c.scopes, name)
		}
	}
	c.scopes[""] = &scope{pending: make(map[string]*call)}
	c.turn = e.TurnID
	c.counts.begin()
}

// answer says that something of a model's next answer comes.
func (c *Checker) answer(e *event.Event, s *scope) {
	for id, call := range s.pending {
		if call.whole {
			c.fail(e, "the model answers before the call %q has a result", id)
		}
	}
}

func (c *Checker) result(e *event.Event, d *event.ToolResult, s *scope) {
	switch call := s.pending[e.ID]; {
	case call == nil && c.calls[e.ID]:
		c.fail(e, "a second result of the call %q", e.ID)
	case call == nil:
		c.fail(e, "a result of %q without a call", d.Name)
	case call.run != e.RunID || call.tool != d.Name:
		c.fail(e, "a result of %q in the run %s for a call of %q in the run %s", d.Name, e.RunID, call.tool, call.run)
	}
	for _, inner := range c.opened[e.ID] {
		if inner.over || inner.past {
			continue
		}
		if inner.handed != "" && !d.IsError {
			c.fail(e, "the call %q has a result before the agent has run that the conversation inside of it went to", e.ID)
		}
		c.leave(e, inner, fmt.Sprintf("the call %q has a result", e.ID))
	}
	delete(s.pending, e.ID)
}

// leave notes that what has opened a scope is over: nothing may be open or asked there.
func (c *Checker) leave(e *event.Event, inner *scope, why string) {
	switch {
	case inner.open != "":
		c.fail(e, "%s before the run %s has ended that is inside of it", why, inner.open)
	case len(inner.pending) > 0:
		c.fail(e, "%s before the calls have results that wait inside of it", why)
	}
	inner.over, inner.paused, inner.handed = true, "", ""
	for _, deeper := range c.scopes {
		if deeper.known && deeper.within == inner.name && !deeper.over && !deeper.past {
			c.leave(e, deeper, why)
		}
	}
}

func (c *Checker) resolved(e *event.Event, d *event.RelayResolved, s *scope) {
	// The run that waits, or the one that another decision opened and a crash cut off.
	if s.paused != e.RunID && s.open != e.RunID {
		c.fail(e, "a decision while nothing waits for one")
	}
	for _, call := range s.pending {
		if call.relay == d.RelayID && !call.resolved {
			if call.resolved, call.fresh = true, true; d.Digest != call.digest {
				c.fail(e, "a decision about %q, and %q was asked", d.Digest, call.digest)
			}
			return
		}
	}
	c.fail(e, "a decision about %q, which nobody asked or somebody decided", d.RelayID)
}
