package runner_test

import (
	"cmp"
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

func load(t testing.TB, r *runner.Runner, key session.Key) []*agent.Event {
	var events []*agent.Event
	for e, err := range r.History(context.Background(), key) {
		require.NoError(t, err)
		events = append(events, e)
	}
	return events
}

// checkLog holds a log against what is true of every log: positions without
// gaps, ids once, one result for every call before a model of its scope answers
// again, one question and one decision about a call at most, runs that start
// once and end once, each caused by something before it, and every committed
// transfer followed by its target.
func checkLog(t testing.TB, r *runner.Runner, events []*agent.Event) {
	checkLogOf(t, r, events, false)
}

// checkLogOf is checkLog for runners that were made with ResumeRoot, too.
func checkLogOf(t testing.TB, r *runner.Runner, events []*agent.Event, resumeRoot bool) {
	c := &logCheck{t: t, tree: r.Tree(), resumeRoot: resumeRoot, runs: make(map[string]*runCheck), scopes: make(map[string]*scopeCheck),
		ids: make(map[string]bool), nodes: make(map[string]bool)}
	for i, e := range events {
		var next *agent.Event
		if i+1 < len(events) {
			next = events[i+1]
		}
		c.seq = i + 1
		c.event(e, next)
	}
}

// logCheck reads a log once. It shares nothing with the fold, so that each can
// find the other wrong.
type logCheck struct {
	t          testing.TB
	tree       *agent.Tree
	resumeRoot bool
	seq        int
	turn       string
	userNode   string
	runs       map[string]*runCheck
	scopes     map[string]*scopeCheck
	ids        map[string]bool // of all events but results, which share their call's
	nodes      map[string]bool // of the graph of runs: what may have caused one
}

type runCheck struct {
	agent string
	ended bool
}

type scopeCheck struct {
	opener  string // of an inner scope: the workflow's run, or the call
	open    string // the open run
	paused  string // the run that waits for approvals
	last    string // the run that ended last in this turn
	active  string // the target of the last transfer
	pending map[string]*callCheck
}

// callCheck is a call without a result.
type callCheck struct {
	run, tool string
	whole     bool // the answer that it is part of is over
	relay     string
	resolved  bool
}

func (c *logCheck) fail(format string, args ...any) {
	c.t.Fatalf("seq %d: %s", c.seq, fmt.Sprintf(format, args...))
}

func (c *logCheck) event(e, next *agent.Event) {
	if e.Seq != int64(c.seq) || e.Partial || e.ID == "" || e.TurnID == "" || e.RunID == "" || e.Time.IsZero() {
		c.fail("the envelope is not whole: %+v", e)
	}
	if _, isResult := e.Data.(*agent.ToolResult); !isResult {
		if c.ids[e.ID] {
			c.fail("the id %s stands twice", e.ID)
		}
		c.ids[e.ID] = true
	}
	if e.ParentID != "" && !c.nodes[e.ParentID] {
		c.fail("its parent %s was never seen", e.ParentID)
	}
	c.node(e)
	s := c.scopes[e.Scope]
	if s == nil {
		s = &scopeCheck{pending: make(map[string]*callCheck)}
		c.scopes[e.Scope] = s
	}
	switch e.Data.(type) {
	case *agent.User:
		c.user(e, s)
		return
	case *agent.HarnessStart:
		if next != nil {
			if n, ok := next.Data.(*agent.Notice); ok && n.Code == agent.NoticeForked {
				c.takeUp(e, s)
				return
			}
		}
		c.start(e, s)
		return
	}
	if e.Agent == "user" {
		return // a notice of the runner's
	}
	run := c.runs[e.RunID]
	if run == nil || run.agent != e.Agent {
		c.fail("%s of %s in a run that it never started", e.Type(), e.Agent)
	}
	switch d := e.Data.(type) {
	case *agent.ToolResult: // may settle what a paused run asked
		c.result(e, d, s)
		return
	case *agent.RelayResolved:
		c.resolved(e, d, s)
		return
	}
	if run.ended || s.open != e.RunID {
		c.fail("%s of a run that is not open", e.Type())
	}
	switch d := e.Data.(type) {
	case *agent.Reasoning, *agent.ToolCall, *agent.Usage:
		c.answer(s)
	case *agent.Text:
		if len(s.pending) > 0 {
			c.fail("the agent speaks before its calls have results")
		}
	case *agent.Relay:
		call := s.pending[d.ToolCallID]
		if call == nil || call.relay != "" || call.tool != d.Tool {
			c.fail("a question about %s, which is no open call that nobody asked about", d.ToolCallID)
		}
		call.relay = e.ID
	case *agent.Transfer:
		if d.Outcome == agent.TransferCommitted {
			s.active = d.To
			if next == nil {
				c.fail("a commit without the run's end")
			}
			if end, ok := next.Data.(*agent.HarnessEnd); !ok || end.FinishReason != agent.FinishReasonTransfer || end.Target != d.To {
				c.fail("a commit without the run's end")
			}
		}
	case *agent.HarnessEnd:
		c.end(e, d, s, run)
	}
	switch d := e.Data.(type) {
	case *agent.ToolCall:
		s.pending[e.ID] = &callCheck{run: e.RunID, tool: d.Name}
	case *agent.Usage:
		for _, call := range s.pending {
			call.whole = true
		}
	}
}

// node notes the node of the conversation graph that the event makes.
func (c *logCheck) node(e *agent.Event) {
	switch e.Data.(type) {
	case *agent.ToolResult:
		c.nodes[e.RunID+":"+e.ID+":result"] = true
	case *agent.Usage:
		n := 1
		for c.nodes[fmt.Sprintf("%s:usage:%d", e.RunID, n)] {
			n++
		}
		c.nodes[fmt.Sprintf("%s:usage:%d", e.RunID, n)] = true
	case *agent.HarnessStart, *agent.HarnessEnd, *agent.Failure:
		c.nodes[e.RunID+":"+e.Type()] = true
	default:
		c.nodes[e.ID] = true
	}
}

// takeUp: a run of a fork goes on with one of the shared past, which gets no end
// here, nor do the scopes inside of it.
func (c *logCheck) takeUp(e *agent.Event, s *scopeCheck) {
	open := c.runs[s.open]
	if s.paused != "" {
		open = c.runs[s.paused]
	}
	if e.Scope != "" || open == nil || open.agent != e.Agent || c.runs[e.RunID] != nil || e.TurnID != c.turn {
		c.fail("the run %s takes up nothing", e.RunID)
	}
	for _, call := range s.pending {
		call.run, call.whole = e.RunID, true
	}
	open.ended = true
	c.runs[e.RunID] = &runCheck{agent: e.Agent}
	s.open, s.paused = e.RunID, ""
	for name := range c.scopes {
		if name != "" {
			delete(c.scopes, name)
		}
	}
}

func (c *logCheck) user(e *agent.Event, conversation *scopeCheck) {
	for name, s := range c.scopes {
		if s.open != "" || len(s.pending) > 0 {
			c.fail("runs or calls of the scope %q are open when the user speaks: %s %v", name, s.open, s.pending)
		}
	}
	clear(c.scopes)
	c.scopes[""] = conversation
	conversation.paused, conversation.last = "", ""
	c.turn, c.userNode = e.TurnID, e.RunID+":user"
	c.nodes[c.userNode] = true
}

func (c *logCheck) start(e *agent.Event, s *scopeCheck) {
	if c.runs[e.RunID] != nil || s.open != "" || e.TurnID != c.turn {
		c.fail("the run %s starts twice, beside %q, or in another turn", e.RunID, s.open)
	}
	cause := s.last + ":harness_end"
	switch {
	case s.last != "":
	case e.Scope == "":
		cause = c.userNode
	default: // whatever called the inner agent
		cause = e.ParentID
	}
	if e.ParentID == "" || e.ParentID != cause {
		c.fail("the run was caused by %q, not by %s", e.ParentID, cause)
	}
	if s.paused == "" && len(s.pending) > 0 {
		c.fail("a run starts before all calls have results: %v", s.pending)
	}
	if e.Scope == "" && s.paused == "" && c.tree.Node(e.Agent) != nil {
		if n := c.responsible(s); n != nil && n.Agent.Name() != e.Agent {
			c.fail("%s starts, but the conversation went to %s", e.Agent, n.Agent.Name())
		}
	}
	if e.Scope != "" && s.active != "" && s.active != e.Agent {
		c.fail("%s starts, but the inner conversation went to %s", e.Agent, s.active)
	}
	c.runs[e.RunID] = &runCheck{agent: e.Agent}
	s.open, s.paused = e.RunID, ""
	if e.Scope != "" && s.opener == "" {
		s.opener = cmp.Or(agent.Conductor(e.Scope), e.ParentID)
	}
}

// closed says that a run or a call is over: nothing may be open inside of it.
func (c *logCheck) closed(opener string) {
	for name, inner := range c.scopes {
		if inner.opener == opener && inner.open != "" {
			c.fail("%s is over before the scope %s that it has opened", opener, name)
		}
	}
}

// responsible returns who must start next in the conversation, nil if the tree
// is not the one of that time.
func (c *logCheck) responsible(s *scopeCheck) *agent.Node {
	n := c.tree.Root()
	if s.active != "" {
		n = c.tree.Node(s.active)
	}
	if n == nil || s.last != "" { // in mid-turn nobody returns
		return n
	}
	if c.resumeRoot {
		return c.tree.Root()
	}
	return returned(n)
}

// returned follows the agents' return policies up the tree.
func returned(n *agent.Node) *agent.Node {
	for n.Parent != nil {
		if a, ok := n.Agent.(agent.Returner); !ok || a.Return() != agent.ReturnToParent {
			break
		}
		n = n.Parent
	}
	return n
}

// answer says that something of a model's next answer comes.
func (c *logCheck) answer(s *scopeCheck) {
	for id, call := range s.pending {
		if call.whole {
			c.fail("the model answered before the call %s had a result", id)
		}
	}
}

func (c *logCheck) result(e *agent.Event, d *agent.ToolResult, s *scopeCheck) {
	call := s.pending[e.ID]
	if call == nil || call.run != e.RunID || call.tool != d.Name {
		c.fail("a result of %s without a call, a second one, or one of another run", d.Name)
	}
	delete(s.pending, e.ID)
	c.closed(e.ID)
}

func (c *logCheck) resolved(e *agent.Event, d *agent.RelayResolved, s *scopeCheck) {
	// The run that waits, or the one that another decision opened and a crash cut off.
	if e.Scope != "" || s.paused != e.RunID && s.open != e.RunID {
		c.fail("a decision while nothing waits for one")
	}
	for _, call := range s.pending {
		if call.relay == d.RelayID && !call.resolved {
			call.resolved = true
			return
		}
	}
	c.fail("a decision about %s, which nobody asked or somebody decided", d.RelayID)
}

func (c *logCheck) end(e *agent.Event, d *agent.HarnessEnd, s *scopeCheck, run *runCheck) {
	if d.FinishReason == agent.FinishReasonInputRequired {
		asks := false
		for _, call := range s.pending {
			asks = asks || call.relay != "" && !call.resolved
		}
		if e.Scope != "" || !asks {
			c.fail("a run waits for a decision that nobody can make")
		}
		s.paused = e.RunID
	} else if len(s.pending) > 0 {
		c.fail("a run ends with calls that have no result: %v", s.pending)
	}
	for name, inner := range c.scopes {
		if e.Scope == "" && name != "" && inner.open != "" {
			c.fail("the run ends before the scope %s that it has opened", name)
		}
	}
	c.closed(e.RunID)
	run.ended = true
	s.open, s.last = "", e.RunID
	c.nodes[e.RunID+":harness_end"] = true
}
