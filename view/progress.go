package view

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// progress is the state of the scope so far: the open answer, the agent's run, and the transfers of the user's turn.
type progress struct {
	page
	open    answer
	run     Run             // the agent's current run
	turn    int             // the number of the user's turn from 1; 0 in an inner scope
	pending *event.Transfer // a model's transfer to the agent, whose run has not started yet; nil without one
	last    *event.Transfer // the last committed transfer of the conversation
	since   *event.Transfer // a model's transfer of an earlier turn since which the agent is active; nil for the root
	arrival arrival
	refused bool // the endpoint refused the turn's last request
	asks    bool // the agent's current run asks the user which agent they mean
	asked   int  // the turn after the last one in which the agent's last run asked that, 0 for none

	entered bool                                      // the input of the scope was seen
	read    func(input json.RawMessage) []llm.Message // nil: the scope's input is text
}

// answer is one answer of an agent's model, with the results so far. It becomes messages when it is complete, because
// only then are all results known for the order of the calls, and which calls a transfer hides.
type answer struct {
	agent     string
	text      string
	reasoning string
	sealed    string // reasoning that only the endpoint that sent it can read
	show      bool   // the policy shows the text
	calls     []call
	last      int64 // the seq of its last event
}

type call struct {
	Call
	result   json.RawMessage
	isError  bool
	finished bool // the log has the result
	hidden   bool
	wire     string // the name of the tool as the agent's model knows it
	files    []*event.File
}

// Call is a tool call of the agent that has no result yet.
type Call struct {
	ID, Name string
	// RunID is the run whose model requested the call. Another run may record the result: the run that continues after
	// an approval, or in a fork.
	RunID string
	// Seq is the position of the call in the log.
	Seq   int64
	Input json.RawMessage
	// Asked reports that a question about the call is open. Answer is the answer to an approval request, nil before it.
	// Answers are the answers to questions of the call itself, in order. Answered is the position of the last of these
	// answers in the log.
	Asked    bool
	Answer   *event.RelayResolved
	Answers  []*event.RelayResolved
	Answered int64

	relay string
	input bool // the relay is a question, not an approval request
}

// pending returns the calls that have no result.
func (a *answer) pending() (calls []Call) {
	for i := range a.calls {
		if c := &a.calls[i]; !c.finished {
			calls = append(calls, c.Call)
		}
	}
	return calls
}

// resolve applies the answer to a question about a call.
func (a *answer) resolve(d *event.RelayResolved, seq int64) {
	for i := range a.calls {
		if c := &a.calls[i]; c.Asked && c.relay == d.RelayID {
			if c.Asked, c.Answered = false, seq; c.input {
				c.Answers = append(c.Answers, d)
			} else {
				c.Answer = d
			}
		}
	}
}

// addResult applies the result of a call. Only the first result counts.
func (a *answer) addResult(id string, output json.RawMessage, isError bool, seq int64) {
	if c := a.find(id); c != nil && !c.finished {
		c.result, c.isError, c.finished = output, isError, true
		a.last = seq
	}
}

// find returns a call, nil if the answer does not have it.
func (a *answer) find(id string) *call {
	for i := range a.calls {
		if a.calls[i].ID == id {
			return &a.calls[i]
		}
	}
	return nil
}

// user adds a message of the user.
func (v *progress) user(d *event.User, seq int64) {
	m := llm.Message{Role: llm.RoleUser, Content: v.attributeUser(v.policy.withoutMedia(v.policy.redactContent(d.Content)))}
	said := m.Content
	if d.Metadata[event.ClaimedKey] == true {
		said = v.attributeUser(v.policy.redactContent(d.Unclaimed()))
	}
	v.said.user(said.PlainText(), v.policy)
	v.addTurn(m, seq)
}

// text adds a text to the open answer.
func (v *progress) text(d *event.Text, e *event.Event, mine bool) {
	a := v.answer(e)
	if a.text != "" {
		v.flush()
		a = v.answer(e)
	}
	a.text, a.last = d.Content, e.Seq
	if strings.TrimSpace(d.Content) != "" {
		v.arrival.acts(e.Agent)
	}
	if a.show = mine || v.policy.shows(e); a.show {
		v.said.by(e.Agent)
	}
}

// call adds a call to the open answer.
func (v *progress) call(d *event.ToolCall, e *event.Event) {
	if !v.native(e.Agent) && v.open.agent == e.Agent && len(v.open.calls) == 0 {
		v.flush() // shows another agent's text before the call has its result
	}
	a := v.answer(e)
	a.last = e.Seq
	hidden := !v.native(e.Agent) && (d.Name == agent.TransferTool || v.policy.hideFacts || !v.policy.shows(e))
	a.calls = append(a.calls, call{Call: Call{ID: e.ID, Name: d.Name, RunID: e.RunID, Seq: e.Seq, Input: d.Input}, hidden: hidden})
}

// answer returns the open answer to which the event belongs. If the event does not continue the open answer, answer
// flushes that first.
func (v *progress) answer(e *event.Event) *answer {
	if len(v.open.calls) > 0 {
		if _, isCall := e.Data.(*event.ToolCall); !isCall || v.open.calls[0].finished {
			v.flush()
		}
	}
	if v.open.agent != e.Agent {
		v.flush()
		v.open.agent = e.Agent
	}
	return &v.open
}

// waits reports whether a paused run of the agent left calls without results. The agent's next run continues them.
func (v *progress) waits(agentName string) bool { return v.open.agent == agentName && v.open.waits() }

// waits reports whether a call of the answer has no result.
func (a *answer) waits() bool {
	return slices.ContainsFunc(a.calls, func(c call) bool { return !c.finished })
}

// messages returns the messages. It flushes the open answer first, if that is complete.
func (v *progress) messages() []llm.Message {
	if !v.open.waits() {
		v.flush()
	}
	return v.shown.messages()
}

// flush turns the open answer into messages.
func (v *progress) flush() {
	a := &v.open
	if a.agent == "" {
		return
	}
	native := v.native(a.agent)
	if a.agent == v.agent {
		v.run.addAnswer(a)
	}
	if native {
		v.addNative(a)
	} else {
		v.addAttributed(a)
	}
	for i := range a.calls {
		for _, f := range a.calls[i].files {
			if !native || v.policy.files { // else the call's result names the file
				v.addFile(f, a.agent, a.last)
			}
		}
	}
	*a = answer{calls: a.calls[:0]}
}

// file adds a file that an agent has created. If a call of the open answer has created it, the result of the call names
// it, or the line after that about another agent's call.
func (v *progress) file(d *event.File, e *event.Event, mine bool) {
	if !mine && !v.policy.shows(e) {
		return
	}
	if c := v.open.find(d.ToolCallID); c != nil {
		c.files = append(c.files, d)
		return
	}
	v.flush()
	v.addFile(d, e.Agent, e.Seq)
}

// input adds the input of an inner scope. If the last message of the conversation around the scope is the same text,
// the view shows it once.
func (v *progress) input(d *event.HarnessStart, seq int64) {
	if v.read == nil {
		v.inputText(event.OutputText(d.Input), seq)
		return
	}
	if v.endsWith(v.policy.redactUser(event.OutputText(d.Input))) { // the conversation around has the same message
		v.shown.dropLast()
	}
	for _, m := range v.read(d.Input) {
		v.run.Called = m.Role == llm.RoleTool
		if m.Role == llm.RoleUser {
			v.inputText(m.PlainText(), seq)
			continue
		}
		m.Content = v.policy.redactParts(m.Content)
		v.add(m, seq)
	}
}
