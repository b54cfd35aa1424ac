package integrity

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// Violation is a place where a log breaks a law; see the package comment.
type Violation struct {
	// Seq is the position of the event that breaks the law. It is 0 if no single event does.
	Seq int64
	// Message says what is wrong. It contains names and ids from the log, which come from models and users, but no
	// other content.
	Message string
}

// String returns the violation as one line, unless a name in the log contains a line break.
func (v Violation) String() string {
	if v.Seq == 0 {
		return v.Message
	}
	return fmt.Sprintf("seq %d: %s", v.Seq, v.Message)
}

// Check reads a whole log and returns the places where it breaks a law, in the order of the log. It returns no
// violations for a correct log. The error is the error of reading the log; the violations are then those up to there.
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

// Checker checks a log event by event. The zero value is ready for the first event. It keeps the ids of all events,
// so it grows with the log. A Checker is not safe for concurrent use.
type Checker struct {
	found  []Violation
	fold   session.Fold
	unread bool         // an event could not be read, so later events are not checked against it
	start  *event.Event // a start that is not checked yet: the next event says whether it resumes a run of a parent session
	seq    int64
	latest time.Time
	turn   string
	runs   map[string]*run
	scopes map[string]*scope
	ids    map[string]bool     // the ids of all events except results, which have their call's id
	nodes  map[string]string   // the ids that an event may name as its cause, with their scopes
	opened map[string][]*scope // the scopes that each call opened
	calls  map[string]bool     // the ids of all calls
	commit *event.Transfer     // a committed transfer, whose run must end with the next event
	active string              // the target of the conversation's last transfer
	before *event.Event        // the previous event
	counts counts
	adopt  adoptions
}

// run is one activation of an agent.
type run struct {
	agent, scope string
	ended        bool
	usages       int
}

// scope is the user's conversation or an inner scope.
type scope struct {
	name    string
	open    string // the id of the open run
	paused  string // the id of the paused run
	last    string // the id of the run that ended last in this turn
	within  string // the scope around an inner scope
	known   bool   // within is set
	opener  string // the id of the workflow's run or of the call that opened the scope
	over    bool   // the scope's last run has ended, or its opener has
	target  string // the target of a transfer, until its run starts
	past    bool   // the scope belongs to the parent session of a fork, and is not closed in this log
	pending map[string]*call
}

type call struct {
	run, tool string
	whole     bool   // the model's answer that contains the call is complete
	relay     string // the id of the last question
	digest    string // the digest of the last question
	resolved  bool   // the last question was answered
	fresh     bool   // the answer came after the scope's last run started
}

// Add checks the next event of the log.
func (c *Checker) Add(e *event.Event) {
	if c.runs == nil {
		c.runs, c.scopes, c.nodes = make(map[string]*run), make(map[string]*scope), make(map[string]string)
		c.ids, c.calls, c.opened = make(map[string]bool), make(map[string]bool), make(map[string][]*scope)
	}
	c.fold.Apply(e)
	if c.unread = c.unread || e.Type() == event.TypeUnreadable; c.unread {
		c.addUnread(e)
		return
	}
	if start := c.start; start != nil {
		c.start = nil
		c.checkStart(start, e.IsNotice(event.NoticeForked) && e.RunID == start.RunID)
	}
	if _, ok := e.Data.(*event.HarnessStart); ok {
		c.envelope(e)
		c.start, c.before = e, e
		return
	}
	c.event(e)
	c.before = e
}

// addUnread checks an event that cannot be read, or that follows such an event.
func (c *Checker) addUnread(e *event.Event) {
	c.start, c.commit = nil, nil
	if c.seq++; e.Seq != c.seq {
		c.fail(e, "the position should be %d", c.seq)
		c.seq = e.Seq
	}
	if e.Type() == event.TypeUnreadable {
		c.fail(e, "the event cannot be read; only the positions of later events were checked")
	}
}

// Violations returns the violations in the log so far. The last event that was added must be the last one of a write.
func (c *Checker) Violations() []Violation {
	if start := c.start; start != nil {
		c.start = nil
		c.checkStart(start, false)
	}
	c.checkAdopted()
	if c.commit != nil {
		c.found = append(c.found, Violation{c.seq, "a transfer is committed, but its run does not end with it"})
		c.commit = nil
	}
	if len(c.found) == 0 {
		c.compare()
	}
	return c.found
}

// Status returns the status of the session as the log shows it. ok is false if an event could not be read; status is
// then unreliable.
func (c *Checker) Status() (status session.Status, ok bool) { return c.fold.Status(), !c.unread }

func (c *Checker) fail(e *event.Event, format string, args ...any) {
	c.found = append(c.found, Violation{e.Seq, fmt.Sprintf(format, args...)})
}

// envelope checks the fields that events of all types have.
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
			c.fail(e, "the id %q is used twice", e.ID)
		}
		c.ids[e.ID] = true
	}
	if _, seen := c.nodes[e.ParentID]; !seen && e.ParentID != "" {
		c.fail(e, "no earlier event is %q, which it names as its cause", e.ParentID)
	}
	c.adoption(e)
	c.node(e)
}

// node records the ids by which later events may name this one as their cause.
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

// event checks an event other than the start of a run.
func (c *Checker) event(e *event.Event) {
	c.envelope(e)
	if t := c.commit; t != nil {
		c.commit = nil
		if end, ok := e.Data.(*event.HarnessEnd); !ok || end.FinishReason != event.FinishReasonTransfer || end.Target != t.To {
			c.fail(e, "a transfer to %q was committed, but its run does not end with it", t.To)
		}
	}
	if _, ok := e.Data.(*event.User); ok {
		c.user(e)
		return
	}
	r := c.runs[e.RunID]
	if r == nil && e.Agent == "user" {
		return // a notice of the runner, or the state with which the turn starts
	}
	if r == nil {
		c.fail(e, "a %s belongs to the run %s, which never started", e.Type(), e.RunID)
		return
	}
	s := c.scope(e.Scope)
	if r.agent != e.Agent || r.scope != e.Scope {
		c.fail(e, "a %s of %q in the scope %q belongs to a run of %q in the scope %q", e.Type(), e.Agent, e.Scope, r.agent, r.scope)
	}
	switch d := e.Data.(type) {
	case *event.ToolResult: // it may belong to a call of a paused run
		c.result(e, d, s)
		return
	case *event.RelayResolved:
		c.resolved(e, d, s)
		return
	case *event.State:
		if _, decided := c.before.Data.(*event.RelayResolved); decided && c.before.RunID == e.RunID {
			return // the change of the state that comes with an answer
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

// payload checks an event of an open run.
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
			c.fail(e, "a question about %q, which is not an open call, or has a question already", d.ToolCallID)
		case !slices.Equal(d.Within, c.around(s)):
			c.fail(e, "a question about %q says that it is inside %q, but it is inside %q", d.ToolCallID, d.Within, c.around(s))
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
			c.fail(e, "a file belongs to %q, which is not an open call", d.ToolCallID)
		}
	case *event.HandoffStatus:
		switch over := event.HandoffOver(d.Status); {
		case e.Scope != "":
			c.fail(e, "a handoff to a person is in an inner scope")
		case !over:
			c.active = "human"
		case d.TargetAgent != "" && c.active == "human":
			c.active = d.TargetAgent
		}
	case *event.HarnessEnd:
		c.end(e, d, s, r)
	}
}

// user checks that nothing is open when a new turn starts.
func (c *Checker) user(e *event.Event) {
	for name, s := range c.scopes {
		if !s.past && (s.open != "" || len(s.pending) > 0) {
			c.fail(e, "a turn starts while a run or a call of the scope %q is open", name)
		}
		if name != "" {
			delete(c.scopes, name)
		}
	}
	c.scopes[""] = &scope{pending: make(map[string]*call)}
	c.turn = e.TurnID
	c.counts.begin()
}

// answer checks that all calls of the model's previous answer have results when its next answer starts.
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
		c.fail(e, "a result of %q in the run %s belongs to a call of %q in the run %s", d.Name, e.RunID, call.tool, call.run)
	}
	for _, inner := range c.opened[e.ID] {
		if inner.over || inner.past {
			continue
		}
		if inner.target != "" && !d.IsError {
			c.fail(e, "the call %q has a result before the target of the transfer inside it has run", e.ID)
		}
		c.closeScope(e, inner, fmt.Sprintf("the call %q has a result", e.ID))
	}
	delete(s.pending, e.ID)
}

// closeScope checks that a scope and the scopes inside it have no open run and no pending call when their opener
// ends.
func (c *Checker) closeScope(e *event.Event, inner *scope, why string) {
	switch {
	case inner.open != "":
		c.fail(e, "%s before the run %s inside it has ended", why, inner.open)
	case len(inner.pending) > 0:
		c.fail(e, "%s before the calls inside it have results", why)
	}
	inner.over, inner.paused, inner.target = true, "", ""
	for _, deeper := range c.scopes {
		if deeper.known && deeper.within == inner.name && !deeper.over && !deeper.past {
			c.closeScope(e, deeper, why)
		}
	}
}

func (c *Checker) resolved(e *event.Event, d *event.RelayResolved, s *scope) {
	// The answer belongs to the paused run, or to a run that an earlier answer started and a crash interrupted.
	if s.paused != e.RunID && s.open != e.RunID {
		c.fail(e, "an answer to a question, but no run waits for one")
	}
	for _, call := range s.pending {
		if call.relay == d.RelayID && !call.resolved {
			if call.resolved, call.fresh = true, true; d.Digest != call.digest {
				c.fail(e, "an answer to the question with the digest %q, but the question has %q", d.Digest, call.digest)
			}
			return
		}
	}
	c.fail(e, "an answer to %q, which is not an open question", d.RelayID)
}
