package view

import (
	"encoding/json"
	"iter"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// View is what one agent sees of one scope of a log. It is not safe for
// concurrent use; the messages it hands out are.
type View struct {
	agent      string
	node       *agent.Node
	scope      string
	policy     Policy
	hideReason bool

	applies func(*event.Event, error) bool // the method apply, bound once
	failed  error                          // of the events that are being applied

	seq     int64
	turn    int     // the user's turn, in an inner scope 0
	begun   []int64 // where the last of them began, no more than LastTurns shows at least
	shown   shown
	open    answer
	run     Run             // the agent's current one
	handed  *event.Transfer // to the agent, whose run has not started yet
	arrival arrival
	asks    bool // the agent's current run asks the user whom they mean
	asked   int  // the turn after the last one whose last run of the agent did, 0 for none
	use     use
	dropped dropped
	said    exchanges
	entered bool                                      // the input of the scope was seen
	outside []*agent.Node                             // the roots of the trees whose agents talk around the scope
	read    func(input json.RawMessage) []llm.Message // nil: the scope's input is text
}

// answer is what an agent's model said at once, with the results so far. It
// becomes messages when it is complete: then its results can be put in request
// order, and what a transfer hides is known.
type answer struct {
	agent     string
	text      string
	reasoning string
	sealed    string // for the endpoint that it is from
	show      bool
	calls     []call
	last      int64 // the seq of its last event
}

type call struct {
	Call
	result  json.RawMessage
	isError bool
	settled bool
	hidden  bool
	wire    string // its tool, as the agent's model knows it
	files   []*event.File
}

// Call is a tool call of the agent that has no result yet.
type Call struct {
	ID, Name string
	// RunID is the run whose model made the call. Another may settle it: the one that
	// continues after an approval, or in a fork.
	RunID string
	// Seq is the position of the call in the log.
	Seq   int64
	Input json.RawMessage
	// Asked is set while somebody is asked about the call. Answer is set when an approval
	// was given or refused, Answers are those to what the call itself has asked, in order, and
	// Answered is the position of the last of them in the log.
	Asked    bool
	Answer   *event.RelayResolved
	Answers  []*event.RelayResolved
	Answered int64

	relay string
	input bool // the relay is one for an answer
}

// New returns the empty view of an agent in its place, for one scope.
func New(n *agent.Node, own Policy, scope string) *View {
	v := &View{agent: n.Agent.Name(), node: n, scope: scope, policy: For(n, own), hideReason: n.Edge.HideReason}
	return v
}

// Read makes the view show the messages that f reads in the scope's input, in place of its
// text. It is called before any event is applied.
func (v *View) Read(f func(input json.RawMessage) []llm.Message) { v.read = f }

// Seq is the position of the last event that was applied.
func (v *View) Seq() int64 { return v.seq }

// Messages returns the conversation as the agent's model may see it now. The
// slice is shared: it must not be changed, and later events only append.
func (v *View) Messages() []llm.Message {
	if !v.open.waits() {
		v.flush()
	}
	return v.shown.messages()
}

// Answered returns the position of the agent's own last message that is shown, 0 if there is none.
func (v *View) Answered() int64 {
	messages := v.Messages()
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == llm.RoleAssistant {
			return v.shown.marks[i].seq
		}
	}
	return 0
}

// UpTo returns how many of the messages come from events at or before a position.
func (v *View) UpTo(seq int64) int {
	v.Messages() // takes in an answer that is complete
	return v.shown.after(seq)
}

// Pending returns the agent's calls that have no result, in request order.
func (v *View) Pending() []Call {
	if v.open.agent != v.agent {
		return nil
	}
	var pending []Call
	for i := range v.open.calls {
		if c := &v.open.calls[i]; !c.settled {
			pending = append(pending, c.Call)
		}
	}
	return pending
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

// Apply takes in the next stored event. Partial events, events at or below Seq
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
		m := llm.Message{Role: llm.RoleUser, Content: v.userWords(v.policy.withoutMedia(v.policy.redactContent(d.Content)))}
		said := m.Content
		if d.Metadata[event.ClaimedKey] == true {
			said = v.userWords(v.policy.redactContent(d.Unclaimed()))
		}
		v.said.user(said.PlainText(), v.policy)
		v.addTurn(m, e.Seq)
	case *event.HarnessStart:
		if !v.waits(e.Agent) {
			v.flush()
		}
		if len(d.Input) > 0 && !v.entered {
			v.entered = true
			v.input(d, e.Seq)
		}
		if mine && v.handed != nil {
			v.run.Handed = v.handed
			v.run.From, v.run.Reason = v.choice(v.handed)
		}
		v.handed = nil
	case *event.HarnessEnd:
		if mine {
			if v.asked = 0; v.asks {
				v.asked = v.turn + 1
			}
			v.asks = false
		}
		if d.FinishReason != event.FinishReasonInputRequired || !v.waits(e.Agent) {
			v.flush()
		}
		if mine && d.FinishReason != event.FinishReasonInputRequired { // else another continues it
			v.run = Run{}
		}
	case *event.Relay:
		if c := v.find(d.ToolCallID); c != nil {
			c.Asked, c.relay, c.input = true, e.ID, d.Kind == event.RelayInput
		}
	case *event.RelayResolved:
		for i := range v.open.calls {
			if c := &v.open.calls[i]; c.Asked && c.relay == d.RelayID {
				if c.Asked, c.Answered = false, e.Seq; c.input {
					c.Answers = append(c.Answers, d)
				} else {
					c.Answer = d
				}
			}
		}
	case *event.Text:
		a := v.answer(e, mine)
		if a.text != "" {
			v.flush()
			a = v.answer(e, mine)
		}
		a.text, a.last = d.Content, e.Seq
		if strings.TrimSpace(d.Content) != "" {
			v.arrival.acts(e.Agent)
		}
		if a.show = mine || v.policy.shows(e); a.show {
			v.said.by(e.Agent)
		}
	case *event.Reasoning:
		if mine {
			a := v.answer(e, mine)
			a.reasoning, a.sealed = a.reasoning+d.Content, d.Sealed
			a.last = e.Seq
		}
	case *event.ToolCall:
		if !mine && v.open.agent == e.Agent && len(v.open.calls) == 0 {
			v.flush() // another's words do not wait for what comes of the call behind them
		}
		a := v.answer(e, mine)
		a.last = e.Seq
		hidden := !mine && (d.Name == agent.TransferTool || v.policy.hideFacts || !v.policy.shows(e))
		a.calls = append(a.calls, call{Call: Call{ID: e.ID, Name: d.Name, RunID: e.RunID, Seq: e.Seq, Input: d.Input}, hidden: hidden})
	case *event.ToolResult:
		if d.Name != agent.TransferTool && !d.IsError {
			v.arrival.acts(e.Agent)
		}
		if c := v.find(e.ID); c != nil && !c.settled {
			c.result, c.isError, c.settled = d.Output, d.IsError, true
			v.open.last = e.Seq
		}
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
		switch {
		case mine && d.Code == event.CodeEmptyAnswer:
			v.wasEmpty()
		case mine && d.Code == event.CodeBadOutput:
			v.misfit(d.Message)
		}
	case *event.ToolProgress, *event.State, *event.RemoteTask, *event.Failure, *event.Route: // models never see them
	case *event.HandoffStatus:
		v.handedBack(d, e.Seq)
	}
}

// notice takes in a notice of the agent's.
func (v *View) notice(code string) {
	switch code {
	case event.NoticeCompactionFailed:
		v.dropped.failed++
		v.dropped.since = 0
	case event.NoticeTransferLimit:
		v.run.Refused-- // the attempt is a limit's, not the model's mistake
		v.run.Limited = true
	case event.NoticeDecided, event.NoticeUndecided, event.NoticeAsksUser:
		v.run.Answered, v.run.Decided = true, code == event.NoticeDecided
		v.asks = code == event.NoticeAsksUser
	}
}

// AskedUser reports whether the agent's last run, in this turn or the one before, asked the user whom they mean.
func (v *View) AskedUser() bool { return v.asked > 0 && v.asked >= v.turn }

// damaged adds an event that cannot be read if the model must be shown something in
// its place: a user's words, and the result of a call.
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
	if c := v.find(e.ID); c != nil && !c.settled {
		c.result, c.isError, c.settled = event.EncodeJSON("the result cannot be read any more"), true, true
		v.open.last = e.Seq
	}
}

func (v *View) transfer(t *event.Transfer, seq int64, mine bool) {
	switch t.Outcome {
	case event.TransferCommitted, event.TransferConflict:
		if c := v.find(t.ToolCallID); mine && c != nil {
			c.hidden = true
		}
		// A call that repeats the committed one is part of it.
		for i := range v.open.calls {
			if c := &v.open.calls[i]; mine && t.Outcome == event.TransferCommitted && c.Name == agent.TransferTool && !c.isError {
				c.hidden = true
			}
		}
	case event.TransferRejected:
		if mine {
			v.run.Refused++
		}
	}
	if t.Outcome != event.TransferCommitted {
		return
	}
	v.moves(t)
	if t.To != v.agent {
		return
	}
	if !chosen(t) {
		v.handed = t
	}
	if t.TransferType == event.TransferTypeHumanToBot { // the status before it has said so
		return
	}
	v.flush()
	if line := v.arrives(t); line != "" {
		v.add(llm.UserText(line), seq)
	}
}

// arrives is the message that the agent's model reads of a transfer to it, "" for none. The model of an agent that
// another one has chosen reads that in its system text: after the user's message small models take
// such a line for what they have to imitate, and transfer as well (docs/routing.md). But its own words may not be the last.
func (v *View) arrives(t *event.Transfer) string {
	why, input := v.reason(t), ""
	if !v.hideReason {
		input = oneLine(string(v.policy.redactJSON(t.Payload)))
	}
	colon := func(text string) string {
		if why != "" {
			text += ": " + why
		}
		return "[" + t.From + "] " + text + "."
	}
	switch {
	case t.TransferType == event.TransferTypeRefused:
		return colon("did not accept the conversation") + " It is yours again."
	case slices.Contains(v.arrival.returned, t.From):
		return colon("returned the conversation to you") + " Answer the user, or choose another agent."
	case t.Routed() && !v.shown.spoke(): // a router's choice is no news
		return ""
	case input != "":
		return colon("transferred the conversation to you, "+v.agent) + " Input: " + input
	case v.shown.spoke():
		return colon("transferred the conversation to you, " + v.agent)
	}
	return ""
}

// handedBack tells the agent that goes on after a person that it does.
func (v *View) handedBack(d *event.HandoffStatus, seq int64) {
	if d.TargetAgent == v.agent && event.HandoffOver(d.Status) {
		v.flush()
		v.add(llm.UserText("[human] handed the conversation back to you."), seq)
	}
}

// answer returns the open answer to which the event belongs, after closing one
// that it does not continue.
func (v *View) answer(e *event.Event, mine bool) *answer {
	if len(v.open.calls) > 0 {
		if _, isCall := e.Data.(*event.ToolCall); !isCall || v.open.calls[0].settled {
			v.flush()
		}
	}
	if v.open.agent != e.Agent {
		v.flush()
		v.open.agent = e.Agent
	}
	return &v.open
}

// waits reports whether a paused run of the agent left calls without results,
// which its next run takes up.
func (v *View) waits(agentName string) bool { return v.open.agent == agentName && v.open.waits() }

// waits reports whether a call of the answer has no result.
func (a *answer) waits() bool {
	return slices.ContainsFunc(a.calls, func(c call) bool { return !c.settled })
}

func (v *View) find(id string) *call {
	for i := range v.open.calls {
		if v.open.calls[i].ID == id {
			return &v.open.calls[i]
		}
	}
	return nil
}

// flush turns the open answer into messages.
func (v *View) flush() {
	a := &v.open
	if a.agent == "" {
		return
	}
	if a.agent == v.agent {
		v.run.settle(a)
		v.addNative(a)
	} else {
		v.addAttributed(a)
	}
	for i := range a.calls {
		for _, f := range a.calls[i].files {
			if a.agent != v.agent || v.policy.files { // else the result names it
				v.addFile(f, a.agent, a.last)
			}
		}
	}
	*a = answer{calls: a.calls[:0]}
}

func (v *View) addNative(a *answer) {
	var shown int
	for i := range a.calls {
		if !a.calls[i].hidden {
			shown++
		}
	}
	p := v.policy
	text := p.redactText(a.text)
	if p.redact != nil {
		a.sealed = "" // it cannot be redacted
	}
	if shown == 0 {
		if strings.TrimSpace(text) != "" { // some endpoints refuse a message without words
			m := llm.Message{Role: llm.RoleAssistant, Content: llm.Content{Text: text}}
			if a.sealed != "" { // else it is of an endpoint that does not want it
				m.Parts = []llm.Part{llm.Reasoning{Text: a.reasoning, Sealed: a.sealed}}
			}
			v.add(m, a.last)
		}
		return
	}
	parts, before := make([]llm.Part, 0, shown+1), 0
	if a.reasoning != "" || a.sealed != "" {
		parts = append(parts, llm.Reasoning{Text: p.redactText(a.reasoning), Sealed: a.sealed})
	}
	for i := range a.calls {
		if c := &a.calls[i]; !c.hidden {
			input := p.redactJSON(c.Input)
			if c.wire = c.Name; c.Name == agent.TransferTool && v.node.Properties.TransferCall != nil {
				c.wire, input = v.node.Properties.TransferCall(v.node, input)
			}
			call := llm.ToolCall{ID: c.ID, Name: c.wire, Arguments: string(input)}
			if before++; before <= i { // others of the answer are left out
				call.Place = i + 1
			}
			parts = append(parts, call)
		}
	}
	v.add(llm.Message{Role: llm.RoleAssistant, Content: llm.Content{Text: text, Parts: parts}}, a.last)
	for i := range a.calls {
		if c := &a.calls[i]; !c.hidden {
			v.add(llm.Message{Role: llm.RoleTool, Content: llm.Content{Parts: []llm.Part{
				llm.ToolResult{CallID: c.ID, Name: c.wire, Output: withFiles(p.redactText(event.OutputText(c.result)), c.files), IsError: c.isError}}}}, a.last)
		}
	}
}

func (v *View) addAttributed(a *answer) {
	p := v.policy
	if a.show {
		if text := p.redactText(a.text); strings.TrimSpace(text) != "" {
			v.add(llm.UserText("["+a.agent+"] "+v.attribute(a.agent, text, true)), a.last)
		}
	}
	for i := range a.calls {
		c := &a.calls[i]
		if c.hidden {
			continue
		}
		verb := "): "
		if c.isError {
			verb = ") failed: "
		}
		// Redaction comes before the cut, so that it sees whole words.
		in, out := p.fact(string(p.redactJSON(c.Input))), p.fact(p.redactText(event.OutputText(c.result)))
		v.add(llm.UserText("["+a.agent+"] called "+c.Name+"("+oneLine(in)+verb+quoted(out)), a.last)
	}
}

// add shows a message of the group of events that ends at seq. A group that a
// compaction has dropped before it was complete is not shown.
func (v *View) add(m llm.Message, seq int64) {
	if seq > v.dropped.upTo {
		v.shown.add(m, seq, false)
	}
}

// addTurn shows the message that begins a user turn.
func (v *View) addTurn(m llm.Message, seq int64) {
	if seq > v.dropped.upTo {
		v.shown.add(m, seq, true)
	}
}

var lineBreaks = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ", "\v", " ", "\f", " ", "\u0085", " ", "\u2028", " ", "\u2029", " ")

// quoted shows a text of several lines as one line, a JSON string.
func quoted(s string) string {
	if one := oneLine(s); one == s {
		return s
	}
	return oneLine(string(event.EncodeJSON(s)))
}

// oneLine keeps a tool's output from looking like lines of the conversation,
// such as those of other agents.
func oneLine(s string) string { return lineBreaks.Replace(s) }
