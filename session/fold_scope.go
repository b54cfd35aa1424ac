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

// Scope is the state of one conversation: the user's, or an inner one.
type Scope struct {
	// Active is the target of the last committed transfer, "" before the first.
	Active string
	// LastEnd is the run whose harness_end is the last one.
	LastEnd string
	// Run is the last run that was started, in the conversation of whichever turn:
	// Run.TurnID says. Its ID is "" before the first.
	Run Run
	// Input is what an inner scope was started with.
	Input json.RawMessage `json:",omitempty"`

	// Root is the agent that the scope was opened for, and Opener the workflow's run, or the call, that opened it.
	Root, Opener string
	// First is the position of the scope's first event.
	First int64
	// Node is the last event of the scope that the conversation graph has a node of.
	Node Node
	// Handed is the last committed transfer, nil before the first. Given is the transfer that started the run which made
	// Handed, nil if no transfer did.
	Handed, Given *event.Transfer
	// Pairs are the transfers committed since text or another tool's result came.
	Pairs []Hop
	// BeganAt is since when the run runs, in Unix nanoseconds.
	BeganAt int64
}

// Began is since when an open run has been running: its start, or when it was
// taken up again.
func (s *Scope) Began() time.Time { return time.Unix(0, s.BeganAt) }

// clone returns a copy that changes on its own.
func (s *Scope) clone() Scope {
	c := *s
	c.Pairs, c.Run.Pending, c.Run.Before = slices.Clone(s.Pairs), slices.Clone(s.Run.Pending), slices.Clip(s.Run.Before)
	return c
}

// Hop is a transfer from one agent to another.
type Hop struct{ From, To string }

// Node is an event that the conversation graph has a node of. N is its number among those of its type in its run, where
// that counts.
type Node struct {
	ID, Run, Type string
	N             int
}

// LastNode returns the id of the last node that the scope has in the conversation
// graph, what a run that follows there names as its parent. A result is named with
// its run in front, because the same call can have others in other forks.
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
	// AgentID is what the run's events call the agent; in a graph it is not the name.
	AgentID string
	// Since is the position before the run's start, or before that of the first run
	// whose work it takes up.
	Since int64
	// Start is the position of the run's start, and Before are the runs whose work it
	// takes up, the oldest first.
	Start  int64
	Before []string
	Open   bool
	Finish event.FinishReason
	Target string
	// Answers counts the model's recorded answers.
	Answers int
	// Pending are the calls without a result, in request order.
	Pending []Call
	// TakesUp reports that the run continues a run that ended to wait for approvals.
	TakesUp bool
	// Said is the agent's last text in the run, or in the run that it continues.
	Said string
	// Transfer is the transfer that started the run, nil if none did.
	Transfer *event.Transfer
}

// Call is a tool call without a result. RunID is the run whose model made it, which a paused
// run's successor may settle. Made is its position in the log, and Number its place among the
// calls of the turn, from 1. Relay is the id of the question about it, if one was asked, and
// Resolved says that it was answered. Asks is the question itself; a call under way may ask
// several, one after the other, of which it is the last.
type Call struct {
	ID, Name, RunID string
	Made            int64
	Number          int
	Relay           string
	Resolved        bool
	Asks            *event.Relay
	// At is the position of the question, or of the answer.
	At int64
}

// Open reports whether a question about the call is open.
func (c *Call) Open() bool { return c.Relay != "" && !c.Resolved }

// Call returns the pending call of an id, or nil.
func (r *Run) Call(id string) *Call {
	for i := range r.Pending {
		if r.Pending[i].ID == id {
			return &r.Pending[i]
		}
	}
	return nil
}

// Opens calls yield with what scopes inside of the run are opened by: the run itself, those
// whose work it takes up, and its calls without a result.
func (r *Run) Opens(yield func(opener string)) {
	yield(r.ID)
	for _, id := range r.Before {
		yield(id)
	}
	for i := range r.Pending {
		yield(r.Pending[i].ID)
	}
}

// Waits reports whether the run has ended to wait for somebody outside.
func (r *Run) Waits() bool {
	return r.ID != "" && !r.Open && r.Finish == event.FinishReasonInputRequired
}

// Repeats reports whether a transfer from one agent to another was committed
// before in this turn, without text or another tool's result since.
func (s *Scope) Repeats(from, to string) bool {
	return slices.Contains(s.Pairs, Hop{from, to})
}

// say notes what an agent said.
func (s *Scope) say(d *event.Text) {
	if strings.TrimSpace(d.Content) != "" {
		s.Pairs, s.Run.Said = s.Pairs[:0], d.Content
	}
}

// transfer notes a transfer, and reports whether an agent decided it.
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

// handoff keeps a person active while a handoff is under way.
func (s *Scope) handoff(d *event.HandoffStatus) {
	switch {
	case !event.HandoffOver(d.Status):
		s.Active = agent.Human
	case d.TargetAgent != "" && s.Active == agent.Human:
		s.Active = d.TargetAgent
	}
}

// ask notes a question about a call.
func (r *Run) ask(e *event.Event, d *event.Relay) {
	if c := r.Call(d.ToolCallID); c != nil {
		c.Relay, c.Resolved, c.Asks, c.At = e.ID, false, d, e.Seq
	}
}

// resolve notes a decision.
func (r *Run) resolve(e *event.Event, d *event.RelayResolved) {
	for i := range r.Pending {
		if c := &r.Pending[i]; c.Relay != "" && c.Relay == d.RelayID {
			c.Resolved, c.At = true, e.Seq
		}
	}
}

// mark notes the event if the conversation graph has a node of it.
func (s *Scope) mark(e *event.Event) {
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
