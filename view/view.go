package view

import (
	"encoding/json"
	"iter"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// View is what one agent sees of one scope of a log. It is not safe for
// concurrent use; the messages it hands out are.
type View struct {
	progress
	scope string
	seq   int64
	begun []int64 // where the last turns of the user began, at most as many as LastTurns shows at least

	applies func(*event.Event, error) bool // the method apply, bound once
	failed  error                          // of the events that are being applied
}

// New returns the empty view of an agent in its place, for one scope.
func New(n *agent.Node, own Policy, scope string) *View {
	v := newView(n, For(n, own), scope)
	v.agent, v.hideReason = n.Agent.Name(), n.Edge.HideReason
	return v
}

func newView(n *agent.Node, p Policy, scope string) *View {
	return &View{progress: progress{page: page{node: n, policy: p}}, scope: scope}
}

// Read makes the view show the messages that f reads in the scope's input, in place of its
// text. It is called before any event is applied.
func (v *View) Read(f func(input json.RawMessage) []llm.Message) { v.read = f }

// Share makes the view show the conversation as it does to all agents of these names, which share their requests: what
// they said, called and got stands as their models know it, and nothing is addressed to one of them. It is called
// before any event is applied.
func (v *View) Share(names []string) { v.sharing = names }

// Copy returns a copy of a view of the conversation, which changes on its own. Both share the messages so far.
func (v *View) Copy() any {
	c := *v
	c.applies, c.begun = nil, slices.Clone(v.begun)
	c.said.last, c.open.calls = slices.Clone(v.said.last), slices.Clone(v.open.calls)
	for i := range c.open.calls {
		call := &c.open.calls[i]
		call.Answers, call.files = slices.Clone(call.Answers), slices.Clone(call.files)
	}
	c.shown.msgs, c.shown.marks = slices.Clip(v.shown.msgs), slices.Clip(v.shown.marks)
	return &c
}

// Seq returns the position of the last event that was applied.
func (v *View) Seq() int64 { return v.seq }

// Messages returns the conversation as the agent's model may see it now. The
// slice is shared: it must not be changed, and later events only append.
func (v *View) Messages() []llm.Message { return v.messages() }

// Answered returns the position of the agent's own last message that is shown, 0 if there is none.
func (v *View) Answered() int64 {
	messages := v.messages()
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == llm.RoleAssistant {
			return v.shown.marks[i].seq
		}
	}
	return 0
}

// UpTo returns how many of the messages come from events at or before a position.
func (v *View) UpTo(seq int64) int {
	v.messages() // adds an answer that is complete
	return v.shown.after(seq)
}

// Pending returns the agent's calls that have no result, in request order.
func (v *View) Pending() []Call {
	if v.open.agent != v.agent {
		return nil
	}
	return v.open.pending()
}

// Run returns the state of the agent's current run.
func (v *View) Run() Run {
	v.messages() // adds an answer that is complete
	run := v.run
	if v.handed != nil { // the run that it begins has not started yet
		run = v.begins(Run{})
	}
	a := &v.arrival
	run.Bounced, run.Returned, run.Wordless, run.Spoken = a.bounced, a.returned, a.wordless, a.spoken
	return run
}

// CatchUp applies a sequence of events, and returns its error if it has one.
func (v *View) CatchUp(events iter.Seq2[*event.Event, error]) (failed error) {
	if v.applies == nil {
		v.applies = v.apply
	}
	events(v.applies)
	failed, v.failed = v.failed, nil
	return failed
}

func (v *View) apply(e *event.Event, err error) bool {
	if err != nil {
		v.failed = err
		return false
	}
	v.Apply(e)
	return true
}

// AskedUser reports whether the agent's last run, in this turn or the one before, asked the user which agent they mean.
func (v *View) AskedUser() bool { return v.asked > 0 && v.asked >= v.turn }

// Apply applies the next stored event. Partial events, events at or below Seq
// and those of other scopes change nothing.
func (v *View) Apply(e *event.Event) {
	if e.Partial || e.Seq <= v.seq {
		return
	}
	v.seq = e.Seq
	if e.Scope != v.scope {
		return
	}
	mine := e.Agent == v.agent
	switch d := e.Data.(type) {
	case *event.User:
		v.beginTurn(e.Seq)
		v.user(d, e.Seq)
	case *event.HarnessStart:
		v.runStarts(d, e, mine)
	case *event.HarnessEnd:
		v.runEnds(d, e, mine)
	case *event.Relay:
		if c := v.open.find(d.ToolCallID); c != nil {
			c.Asked, c.relay, c.input = true, e.ID, d.Kind == event.RelayInput
		}
	case *event.RelayResolved:
		v.open.resolve(d, e.Seq)
	case *event.Text:
		v.text(d, e, mine)
	case *event.Reasoning:
		if v.native(e.Agent) {
			a := v.answer(e)
			a.reasoning, a.sealed = a.reasoning+d.Content, d.Sealed
			a.last = e.Seq
		}
	case *event.ToolCall:
		v.call(d, e)
	case *event.ToolResult:
		if d.Name != agent.TransferTool && !d.IsError {
			v.arrival.acts(e.Agent)
		}
		v.open.settle(e.ID, d.Output, d.IsError, e.Seq)
	case *event.File:
		v.file(d, e, mine)
	case *event.Unknown:
		v.damaged(d, e)
	case *event.Usage:
		v.usage(d, e.Seq, mine)
	case *event.Compaction:
		if mine {
			v.compact(d, e.Seq)
		}
	case *event.Transfer:
		v.transfer(d, e.Seq, mine)
	case *event.Notice:
		if mine {
			v.notice(d.Code)
		}
	case *event.Discard:
		if mine {
			v.discarded(d)
		}
	case *event.ToolProgress, *event.State, *event.RemoteTask, *event.Failure, *event.Route: // models never see them
	case *event.HandoffStatus:
		v.handedBack(d, e.Seq)
	}
}

// damaged shows a line for an event that cannot be read, if the model needs one in
// its place: for a user's message, and for the result of a call.
func (v *View) damaged(u *event.Unknown, e *event.Event) {
	damage, ok := u.Damage()
	if !ok {
		return
	}
	if damage.Was == event.TypeUser {
		v.beginTurn(e.Seq)
		v.addTurn(llm.UserText("(this message cannot be read any more)"), e.Seq)
		return
	}
	v.open.settle(e.ID, event.EncodeJSON("the result cannot be read any more"), true, e.Seq)
}
