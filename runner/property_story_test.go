package runner_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
)

// logStory is what a log says about who is active, what waits and what was called,
// put together without the fold.
type logStory struct {
	active     string // the target of the last transfer, "" before the first
	unfinished bool
	paused     bool
	calls      map[string]*callStory
	questions  []*question // in the order in which they were asked
	byRelay    map[string]*question
	scopes     map[string]bool // of agent tools, whether the conversation has called them
	runs       map[string]*runStory
	promised   map[string][]string // the results of calls that ended the run, by scope
	awaited    map[string]string   // who has to run next in the scope of a call of the conversation

	owes      string                     // the run of a person that must hand the conversation back
	handoffs  []*handoff                 // in their order
	handed    map[string]*event.Transfer // the last one of each scope
	turns     int                        // that the user has begun
	transfers int                        // of this turn, in all scopes
	asked     map[string]askedWhom       // of agents whose last run has asked the user whom they mean
	hops      map[[2]string]bool         // of the conversation, since somebody said or did something
	lastHops  map[[2]string]bool         // those before, and when that was stored
	clearedAt time.Time
}

// askedWhom is a run that has asked the user whom they mean, and its turn.
type askedWhom struct {
	run  string
	turn int
}

// runStory counts the answers of a run, and the transfers that were refused in it.
type runStory struct {
	agent            string // by its own name
	answers, refused int
}

type callStory struct {
	id, scope, agent, tool string
	input                  []byte
	result                 *event.Event
	questions              []*question // in the order in which they were asked
	scopes                 int         // opened by it
}

type question struct {
	call     *callStory
	asked    *event.Relay
	resolved *event.RelayResolved
}

// permission is the question whether the call may run, nil if nobody asked that.
func (c *callStory) permission() *question {
	if len(c.questions) == 0 || c.questions[0].asked.Kind == event.RelayInput {
		return nil
	}
	return c.questions[0]
}

// last is the question that was asked last, nil if there is none.
func (c *callStory) last() *question {
	if len(c.questions) == 0 {
		return nil
	}
	return c.questions[len(c.questions)-1]
}

// answered counts the answers to what the call itself has asked.
func (c *callStory) answered() (n int) {
	for _, q := range c.questions {
		if q.asked.Kind == event.RelayInput && q.resolved != nil {
			n++
		}
	}
	return n
}

func newStory() logStory {
	return logStory{calls: make(map[string]*callStory), byRelay: make(map[string]*question), scopes: make(map[string]bool),
		runs: make(map[string]*runStory), promised: make(map[string][]string), awaited: make(map[string]string), hops: make(map[[2]string]bool),
		handed: make(map[string]*event.Transfer), asked: make(map[string]askedWhom)}
}

// clearHops notes that somebody has said or done something. A write that ends with an error was
// decided on before that.
func (s *logStory) clearHops(e *event.Event) {
	if len(s.hops) > 0 {
		s.lastHops, s.clearedAt = s.hops, e.Time
		s.hops = make(map[[2]string]bool)
	}
}

// repeats reports whether a transfer was made since somebody said or did something before this
// event's write.
func (s *logStory) repeats(e *event.Event, to string) bool {
	hop := [2]string{e.Agent, to}
	return s.hops[hop] || e.Time.Equal(s.clearedAt) && s.lastHops[hop]
}

// add takes in the next event, and notes what has happened.
func (s *logStory) add(e *event.Event, happened map[string]bool) {
	conversation := e.Scope == ""
	switch d := e.Data.(type) {
	case *event.User:
		s.unfinished, s.paused, s.transfers = true, false, 0
		s.turns++
		clear(s.hops)
	case *event.Text:
		if conversation && strings.TrimSpace(d.Content) != "" {
			s.clearHops(e)
		}
	case *event.Usage:
		s.runs[e.RunID].answers++
	case *event.Compaction:
		happened["a compaction"] = true
		if d.Summary != "" {
			happened["a compaction with a summary"] = true
		}
	case *event.Notice:
		if d.Code == event.NoticeCompactionFailed {
			happened["a compaction whose summary failed"] = true
		}
		if d.Code == event.NoticeDecided || d.Code == event.NoticeUndecided {
			happened["a decision: "+d.Code] = true
		}
		if d.Code == event.NoticeTransferLimit {
			s.runs[e.RunID].refused--
			happened["a transfer beyond the limit"] = true
		}
	case *event.HarnessStart:
		delete(s.awaited, e.Scope)
		s.runs[e.RunID] = &runStory{agent: d.AgentID}
		if conversation {
			s.runs[e.RunID].agent = "/" + d.AgentID
		}
		if conversation {
			s.unfinished, s.paused = true, false
		} else if event.ParentRun(e.Scope) != "" {
			happened["a graph"] = true
		} else if _, known := s.scopes[e.Scope]; !known {
			c := s.calls[e.ParentID]
			if s.scopes[e.Scope] = c != nil && c.scope == ""; c != nil {
				c.scopes++
				happened["an agent tool"] = true
				if c.scope != "" {
					happened["an agent tool inside of another"] = true
				}
			}
		}
	case *event.HarnessEnd:
		delete(s.promised, e.Scope)
		if s.scopes[e.Scope] && d.FinishReason == event.FinishReasonTransfer {
			s.awaited[e.Scope] = d.Target
		}
		if conversation {
			s.unfinished, s.paused = d.FinishReason == event.FinishReasonTransfer, d.FinishReason == event.FinishReasonInputRequired
		}
	case *event.Transfer:
		switch d.Outcome {
		case event.TransferRejected:
			s.runs[e.RunID].refused++
		case event.TransferCommitted:
			if s.handed[e.Scope] = d; !d.Routed() {
				s.transfers++
			}
			if conversation {
				s.active = d.To
				s.hops[[2]string{d.From, d.To}] = !d.Routed() || s.hops[[2]string{d.From, d.To}]
				happened["a transfer"] = true
				if d.TransferType == event.TransferTypeRoute {
					happened["a route"] = true
				}
				if len(d.Payload) > 0 {
					happened["a transfer with an input"] = true
				}
			} else {
				happened["a transfer in an agent tool"] = true
			}
		}
	case *event.HandoffStatus:
		if over := event.HandoffOver(d.Status); !over {
			s.active = agent.Human
		} else if d.TargetAgent != "" && s.active == agent.Human {
			s.active = d.TargetAgent
		}
		happened["a handoff that is "+d.Status] = true
	case *event.ToolCall:
		s.calls[e.ID] = &callStory{id: e.ID, scope: e.Scope, agent: e.Agent, tool: d.Name, input: d.Input}
	case *event.ToolResult:
		c := s.calls[e.ID]
		c.result = e
		if d.Name == agent.TransferTool && !d.IsError {
			s.promised[e.Scope] = append(s.promised[e.Scope], event.OutputText(d.Output))
		} else if conversation {
			s.clearHops(e)
		}
		if q := c.last(); q != nil && q.asked.Kind == event.RelayInput && q.resolved == nil {
			happened["an answer withdrawn"+where(e.Scope)] = true
		}
		if q := c.permission(); q != nil {
			switch inside := !conversation; {
			case inside && q.resolved == nil:
				happened["a question withdrawn inside"] = true
			case inside && q.resolved.Approved && !d.IsError:
				happened["a call approved inside"] = true
			case inside && !q.resolved.Approved:
				happened["a call denied inside"] = true
			}
			switch {
			case q.resolved == nil:
				happened["a question withdrawn"] = true
			case q.resolved.Approved && !d.IsError:
				happened["a call approved, "+kind(d.Name)] = true
			case !q.resolved.Approved:
				happened["a call denied, "+kind(d.Name)] = true
			}
		}
	case *event.Relay:
		if d.Tool == agentgraph.ApprovalTool {
			happened["a node that waits for a decision"] = true
		}
		if d.Within != nil && !strings.Contains(e.Scope, "/") {
			happened[fmt.Sprintf("a question inside of %d", min(len(d.Within), 2))] = true
		}
		q := &question{call: s.calls[d.ToolCallID], asked: d}
		q.call.questions = append(q.call.questions, q)
		if q.call.answered() > 0 {
			happened["a second question of a call"] = true
		}
		s.byRelay[e.ID] = q
		s.questions = append(s.questions, q)
	case *event.RelayResolved:
		q := s.byRelay[d.RelayID]
		q.resolved = d
		switch {
		case q.asked.Kind != event.RelayInput:
		case d.Approved:
			happened["an answer"+where(e.Scope)] = true
		default:
			happened["an answer declined"+where(e.Scope)] = true
		}
	}
}

func kind(toolName string) string {
	if toolName == agent.TransferTool {
		return "a transfer"
	}
	return "a tool"
}

// mustHappen are the things without which the properties say little.
var mustHappen = []string{
	"a shared request after that of another agent", "a call of a tool that only other agents have",
	"a target asked before the transfer to it", "an answer that was anticipated", "an answer that was anticipated in vain",
	"a router that chooses", "a router that sticks to who was active", "a router that decides by rules", "a router that decides by rules in an agent tool", "a router that decides by rules in a graph",
	"a rule of a router", "a rule of a router that leads to a person", "a router that keeps to who was active", "a router that goes on with who has asked",
	"a router that leaves out who gave up", "a router with nobody left", "an agent that was chosen and cannot start", "an agent that goes on for one that cannot start", "an agent that goes on for one that failed",
	"a turn cancelled when a router has decided",
	"a desk asked again", "a desk that is lost", "a desk that is down", "a desk that is gone", "a desk that is unavailable", "a desk that is stop",
	"a handoff that is on_hold", "a handoff that is completed", "a handoff that is cancelled", "a handoff that is failed",
	"a person wanted", "the turn given up", "a word of the desk taken in", "a word of the desk that comes again",
	"a remote agent", "a graph", "a graph inside of another", "a node that waits for a decision", "an error of a graph or a remote agent", "hostile words",
	"a conversation around an inner scope", "a snapshot read", "a snapshot read: router", "a snapshot read: desk",
	"a snapshot read: conversation",
	"around: pass", "around: no tracer", "around: trace", "around: meddle", "around: trace and meddle",
	"a turn begun twice", "adopted", "a step of an earlier turn", "left alone", "a server that gives a turn back", "a step that was done before", "an error of a model that is not stored",
	"run", "a turn that begins with state", "begin", "resume", "advance", "decide", "break", "cancel", "store dies", "answer lost", "store fails", "busy", "peek",
	"a fallback", "an answer with a form", "an answer without the form it should have", "error bad_output", "a compaction", "a compaction with a summary", "a compaction whose summary failed",
	"a route", "a transfer with an input", "error tripwire", "error agent_error",
	"a file of a tool", "a file of an agent", "a function called again", "a function that ends with an error", "a function that asks a model", "a function that hands over", "a function in an agent tool", "a function that hands over in an agent tool",
	"a function in a graph", "a function called again in a graph", "a function that hands over in a graph",
	"an agent found by another name", "a transfer", "a transfer in an agent tool", "an agent tool", "an agent tool inside of another",
	"a question who answers", "a decision: decided", "a decision: undecided", "a user asked whom they mean", "no transfer offered after a decision",
	"a transfer beyond the limit", "no transfer offered after a limit", "an agent that is held or got the conversation back",
	"a request that begins as in an earlier turn",
	"a question inside of 1", "a question inside of 2", "a call approved inside", "a call denied inside", "a question withdrawn inside", "a node that goes on after it waited",
	"a fork", "a fork that takes up a run", "a fork inside of an agent tool", "a fork that waits for a decision", "a decision that a fork refuses", "a store that dies in a fork",
	"an answer", "an answer in an agent tool", "an answer in a graph", "an answer declined", "an answer declined in an agent tool", "an answer declined in a graph",
	"an answer withdrawn", "an answer withdrawn in an agent tool", "an answer withdrawn in a graph", "an answer that does not fit", "a second question of a call",
	"a question withdrawn", "a call approved, a tool", "a call denied, a tool", "a call approved, a transfer", "a call denied, a transfer",
	"a decision that comes again", "a decision that changes the state", "a call forbidden by a rule", "a return to the parent", "a return to the root", "forty agents",
	"error transfer_limit", "error transfer_rejected", "error limit", "error budget", "error unknown_usage", "a usage estimated", "error output_truncated", "error empty_answer", "error repeated_call", "error internal", "error server_error", "error rate_limited",
}
