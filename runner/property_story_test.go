package runner_test

import (
	"github.com/agentarbor/arbor/agent"
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
	scopes     map[string]bool
}

type callStory struct {
	id, scope, agent, tool string
	input                  []byte
	result                 *agent.Event
	question               *question
	scopes                 int // opened by it
}

type question struct {
	call     *callStory
	resolved *agent.RelayResolved
}

// add takes in the next event, and notes what has happened.
func (s *logStory) add(e *agent.Event, happened map[string]bool) {
	if s.calls == nil {
		s.calls, s.byRelay, s.scopes = make(map[string]*callStory), make(map[string]*question), make(map[string]bool)
	}
	conversation := e.Scope == ""
	switch d := e.Data.(type) {
	case *agent.User:
		s.unfinished, s.paused = true, false
	case *agent.HarnessStart:
		if conversation {
			s.unfinished, s.paused = true, false
		} else if !s.scopes[e.Scope] {
			s.scopes[e.Scope] = true
			if c := s.calls[e.ParentID]; c != nil {
				c.scopes++
				happened["an agent tool"] = true
				if c.scope != "" {
					happened["an agent tool inside of another"] = true
				}
			}
		}
	case *agent.HarnessEnd:
		if conversation {
			s.unfinished, s.paused = d.FinishReason == agent.FinishReasonTransfer, d.FinishReason == agent.FinishReasonInputRequired
		}
	case *agent.Transfer:
		if d.Outcome == agent.TransferCommitted {
			if conversation {
				s.active = d.To
				happened["a transfer"] = true
				if d.TransferType == agent.TransferTypeRoute {
					happened["a route"] = true
				}
				if len(d.Payload) > 0 {
					happened["a transfer with an input"] = true
				}
			} else {
				happened["a transfer in an agent tool"] = true
			}
		}
	case *agent.ToolCall:
		s.calls[e.ID] = &callStory{id: e.ID, scope: e.Scope, agent: e.Agent, tool: d.Name, input: d.Input}
	case *agent.ToolResult:
		c := s.calls[e.ID]
		c.result = e
		if q := c.question; q != nil {
			switch {
			case q.resolved == nil:
				happened["a question withdrawn"] = true
			case q.resolved.Approved && !d.IsError:
				happened["a call approved, "+kind(d.Name)] = true
			case !q.resolved.Approved:
				happened["a call denied, "+kind(d.Name)] = true
			}
		}
	case *agent.Relay:
		q := &question{call: s.calls[d.ToolCallID]}
		q.call.question = q
		s.byRelay[e.ID] = q
		s.questions = append(s.questions, q)
	case *agent.RelayResolved:
		s.byRelay[d.RelayID].resolved = d
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
	"run", "begin", "resume", "advance", "decide", "break", "cancel", "store dies", "answer lost", "busy", "peek",
	"a route", "a transfer with an input", "error tripwire", "error agent_error",
	"a transfer", "a transfer in an agent tool", "an agent tool", "an agent tool inside of another",
	"a question withdrawn", "a call approved, a tool", "a call denied, a tool", "a call approved, a transfer", "a call denied, a transfer",
	"a decision that comes again", "a call forbidden by a rule", "a return to the parent", "a return to the root", "forty agents",
	"error transfer_limit", "error transfer_rejected", "error limit", "error output_truncated", "error internal", "error server_error", "error rate_limited",
}
