package view

import (
	"encoding/json"
	"iter"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// View is what one agent sees of one scope of a log. It is not safe for concurrent use, but the messages that it
// returns are. The zero value is not usable; see [New].
type View struct {
	progress
	scope string
	seq   int64
	begun []int64 // the positions at which the last turns started, at most the n of LastTurns

	applies func(*event.Event, error) bool // the bound method apply
	failed  error                          // the error of the events that are being applied
}

// New returns the empty view of an agent in its place in a tree, for one scope. own is the agent's own policy; an
// edge may replace it, see [For].
func New(n *agent.Node, own Policy, scope string) *View {
	v := newView(n, For(n, own), scope)
	v.agent, v.hideReason = n.Agent.Name(), n.Edge.HideReason
	return v
}

func newView(n *agent.Node, p Policy, scope string) *View {
	return &View{progress: progress{page: page{node: n, policy: p}}, scope: scope}
}

// Read makes the view show the messages that f returns for the scope's input, instead of the input's text. Call it
// before any event is applied.
func (v *View) Read(f func(input json.RawMessage) []llm.Message) { v.read = f }

// Share makes the view show the conversation in the same form for all agents with these names, which share their
// requests: their answers, calls and results appear as their own models know them, and no message addresses a single
// agent. Call it before any event is applied.
func (v *View) Share(names []string) { v.sharing = names }

// Copy returns an independent copy of a view of the conversation, a *View. The two share the messages up to now.
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

// Messages returns the conversation as the agent's model may see it now. The slice is shared: callers must not change
// it. Later events only append to it, except for [LastTurns] and compactions, which create a new slice.
func (v *View) Messages() []llm.Message { return v.messages() }

// Answered returns the position of the agent's own last message in the view, or 0 if there is none.
func (v *View) Answered() int64 {
	messages := v.messages()
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == llm.RoleAssistant {
			return v.shown.marks[i].seq
		}
	}
	return 0
}

// UpTo returns the number of messages that come from events at or before a position.
func (v *View) UpTo(seq int64) int {
	v.messages() // adds an answer that is complete
	return v.shown.after(seq)
}

// Pending returns the agent's calls without a result, in the order in which the model requested them.
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
	if v.pending != nil { // the run of the transfer's target has not started yet
		run = v.startedRun(Run{})
	}
	a := &v.arrival
	run.Bounced, run.Returned, run.Wordless, run.Spoken = a.bounced, a.returned, a.wordless, a.spoken
	return run
}

// CatchUp applies a sequence of events. If the sequence yields an error, CatchUp stops and returns it.
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

// Apply applies the next stored event. It ignores partial events, events at or below Seq, and events of other scopes.
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
		v.open.addResult(e.ID, d.Output, d.IsError, e.Seq)
	case *event.File:
		v.file(d, e, mine)
	case *event.Unknown:
		v.damaged(d, e)
	case *event.Usage:
		v.usage(d, e.Seq, mine)
	case *event.Transfer:
		v.transfer(d, e.Seq, mine)
	case *event.Failure: // the code is that of a refused request, or of a model that the endpoint has not for this one
		v.refused = v.native(e.Agent) && (d.Code == string(llm.CodeBadRequest) || d.Code == string(llm.CodeNotFound))
	case *event.HandoffStatus:
		v.handoffStatus(d, e.Seq)
	case *event.Compaction, *event.Notice, *event.Discard:
		if mine {
			v.applyOwn(e)
		}
	case *event.ToolProgress, *event.State, *event.RemoteTask, *event.Route: // models never see them
	}
}

// applyOwn applies an event that concerns only the agent that yielded it.
func (v *View) applyOwn(e *event.Event) {
	switch d := e.Data.(type) {
	case *event.Compaction:
		v.compact(d, e.Seq)
	case *event.Notice:
		v.notice(d.Code)
	case *event.Discard:
		v.discard(d)
	}
}

// damaged adds a line for an event that cannot be read if the model needs one: for a user's message, and for the
// result of a call.
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
	v.open.addResult(e.ID, event.EncodeJSON("the result cannot be read any more"), true, e.Seq)
}
