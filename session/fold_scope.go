package session

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// Scope is the state of the user's conversation or of an inner scope.
type Scope struct {
	// Active is the target of the last committed transfer, or of a handoff. It is "" before the first.
	Active string
	// LastEnd is the id of the run that ended last. It is "" before the first end.
	LastEnd string
	// Run is the last run that was started. In the conversation it may belong to an earlier turn: see Run.TurnID. Its
	// ID is "" before the first run.
	Run Run
	// Input is the input that an inner scope was started with.
	Input json.RawMessage `json:",omitempty"`

	// Root is the agent that the scope was opened for. Opener is the id of the workflow's run, or of the call, that
	// opened it.
	Root, Opener string
	// First is the position of the scope's first event.
	First int64
	// Node is the scope's last event that the conversation graph has a node for.
	Node Node
	// Handed is the last committed transfer, nil before the first. Given is the transfer that started the run that
	// committed Handed, nil if no transfer started it.
	Handed, Given *event.Transfer
	// Pairs are the transfers that were committed after the last text and the last result of another tool.
	Pairs []Hop
	// BeganAt is the time since which the run is running, in Unix nanoseconds.
	BeganAt int64
}

// Began returns the time since which an open run is running: its start, or the time at which a process resumed it.
func (s *Scope) Began() time.Time { return time.Unix(0, s.BeganAt) }

// clone returns an independent copy.
func (s *Scope) clone() Scope {
	c := *s
	c.Pairs, c.Run.Pending, c.Run.Before = slices.Clone(s.Pairs), slices.Clone(s.Run.Pending), slices.Clip(s.Run.Before)
	return c
}

// Hop is a transfer from one agent to another.
type Hop struct{ From, To string }

// Node is an event that the conversation graph has a node for. N counts the run's usage events up to this one, from
// 1; it is 0 for events of other types.
type Node struct {
	ID, Run, Type string
	N             int
}

// LastNode returns the id of the scope's last node in the conversation graph, which the next run of the scope names
// as its parent. It returns "" if there is none. The id of a result starts with its run, because the same call can
// have other results in other forks.
func (s *Scope) LastNode() string {
	switch s.Node.Type {
	case "":
		return ""
	case event.TypeToolResult:
		return s.Node.Run + ":" + s.Node.ID + ":result"
	case event.TypeUsage:
		return s.Node.Run + ":usage:" + strconv.Itoa(s.Node.N)
	case event.TypeHarnessStart, event.TypeHarnessEnd, event.TypeError:
		return s.Node.Run + ":" + s.Node.Type
	}
	return s.Node.ID
}

// Run is the state of one activation of an agent.
type Run struct {
	ID, Agent, Path, TurnID string
	// AgentID is the id that the run's events use for the agent. In a graph it differs from the agent's name.
	AgentID string
	// Since is the position before the run's start, or before the start of the first run that this one resumes.
	Since int64
	// Start is the position of the run's start. Before are the ids of the runs that this one resumes, oldest first.
	Start  int64
	Before []string
	// Open reports that the run has not ended. Finish says why it ended, and Target is the agent that it transferred to.
	Open   bool
	Finish event.FinishReason
	Target string
	// Answers counts the model's recorded answers.
	Answers int
	// Pending are the calls without a result, in the order in which the model requested them.
	Pending []Call
	// TakesUp reports that the run resumes work of an earlier run: one that paused, or one that was interrupted after
	// it had answered, called a tool or said something.
	TakesUp bool
	// Said is the agent's last text in the run, or in the run that it resumes.
	Said string
	// Transfer is the transfer that started the run, nil if none did.
	Transfer *event.Transfer
}

// Call is a tool call without a result.
//
// RunID is the run whose model requested it; a run that resumes a paused one may record the result. Made is the
// call's position in the log, and Number its number among the calls of the turn, from 1. Relay is the id of the last
// question about the call, "" if none was asked, and Asks is that question. Resolved reports that the question was
// answered. A call may ask several questions, one after the other.
type Call struct {
	ID, Name, RunID string
	Made            int64
	Number          int
	Relay           string
	Resolved        bool
	Asks            *event.Relay
	// At is the position of the question, or of its answer.
	At int64
}

// Open reports whether the call has a question that is not answered.
func (c *Call) Open() bool { return c.Relay != "" && !c.Resolved }

// Call returns the pending call with an id, or nil.
func (r *Run) Call(id string) *Call {
	for i := range r.Pending {
		if r.Pending[i].ID == id {
			return &r.Pending[i]
		}
	}
	return nil
}

// Opens calls yield with each id that may be the opener of a scope inside the run: the run's own id, the ids of the
// runs that it resumes, and the ids of its calls without a result.
func (r *Run) Opens(yield func(opener string)) {
	yield(r.ID)
	for _, id := range r.Before {
		yield(id)
	}
	for i := range r.Pending {
		yield(r.Pending[i].ID)
	}
}

// Waits reports whether the run is paused: it ended with the reason input_required.
func (r *Run) Waits() bool {
	return r.ID != "" && !r.Open && r.Finish == event.FinishReasonInputRequired
}

// Repeats reports whether a transfer between the two agents was committed before, without text or another tool's
// result since.
func (s *Scope) Repeats(from, to string) bool {
	return slices.Contains(s.Pairs, Hop{from, to})
}

// recordText records an agent's text, unless it is blank.
func (s *Scope) recordText(d *event.Text) {
	if strings.TrimSpace(d.Content) != "" {
		s.Pairs, s.Run.Said = s.Pairs[:0], d.Content
	}
}

// transfer records a transfer, and reports whether an agent decided it.
func (s *Scope) transfer(t *event.Transfer) bool {
	if t.Outcome != event.TransferCommitted {
		return false
	}
	s.Active, s.Handed, s.Given = t.To, t, s.Run.Transfer
	if t.Routed() {
		return false
	}
	s.Pairs = append(s.Pairs, Hop{t.From, t.To})
	return true
}

// handoff makes a person the active agent during a handoff.
func (s *Scope) handoff(d *event.HandoffStatus) {
	switch {
	case !event.HandoffOver(d.Status):
		s.Active = agent.Human
	case d.TargetAgent != "" && s.Active == agent.Human:
		s.Active = d.TargetAgent
	}
}

// ask records a question about a call.
func (r *Run) ask(e *event.Event, d *event.Relay) {
	if c := r.Call(d.ToolCallID); c != nil {
		c.Relay, c.Resolved, c.Asks, c.At = e.ID, false, d, e.Seq
	}
}

// resolve records the answer to a question.
func (r *Run) resolve(e *event.Event, d *event.RelayResolved) {
	for i := range r.Pending {
		if c := &r.Pending[i]; c.Relay != "" && c.Relay == d.RelayID {
			c.Resolved, c.At = true, e.Seq
		}
	}
}

// recordNode records the event if the conversation graph has a node for it.
func (s *Scope) recordNode(e *event.Event) {
	n := Node{ID: e.ID, Run: e.RunID, Type: e.Type()}
	switch e.Data.(type) {
	case *event.Usage:
		n.N = 1
		if s.Node.Run == e.RunID {
			n.N += s.Run.Answers
		}
	case *event.HarnessStart, *event.HarnessEnd, *event.Failure, *event.Text, *event.Reasoning, *event.ToolCall, *event.ToolResult,
		*event.ToolProgress, *event.Relay:
	default:
		return
	}
	s.Node = n
}
