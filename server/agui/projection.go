package agui

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
)

// projection converts the events of a session, in order, to events of AG-UI. It closes everything that it has opened
// before a run of AG-UI ends, because clients reject the end otherwise. The zero value is the start of a log.
type projection struct {
	reasoning bool // send reasoning
	// filter returns an event as the client may see it, or nil. If filter is nil, the client sees every event.
	filter func(*event.Event) *event.Event
	// history returns the conversation up to a position, to send it again after a text was taken back. It is nil
	// without a client.
	history func(upTo int64) ([]*message, error)
	err     error // of history

	log session.Reader
	out []any

	turn   string
	ended  *event.HarnessEnd // the end of the turn's last run in the conversation
	failed *event.Failure    // of that run
	usage  []modelUsage

	step        string            // the step of the conversation's open run, or ""
	inner       []innerRun        // the open inner runs, in the order of their start
	introduced  map[string]bool   // the inner runs whose start was sent in this run of AG-UI
	scopes      map[string]scope  // of this turn
	innerScopes map[string]string // the scopes of inner runs of this turn
	answers     map[string]string // by run, the message that contains the calls of the current answer

	agent, path string // the active agent
	state       map[string]any
	hasState    bool            // the client has the state
	given       map[string]bool // calls whose results the client has sent itself
}

type (
	innerRun struct{ id, name string }
	// scope is an inner conversation: the call or the workflow run that opened it, and the last run in it.
	scope struct{ call, parent, run string }
)

// apply applies an event at its position and returns the events for the client. The slice is valid until the next call.
func (p *projection) apply(at session.Position, e *event.Event) []any {
	p.out = p.out[:0]
	shown := e
	if p.filter != nil {
		shown = p.filter(e)
	}
	h, rec := headOf(e), p.log.NextAt(at, e)
	p.block(rec)
	switch d := e.Data.(type) {
	case *event.User:
		p.startTurn(e.TurnID)
	case *event.HarnessStart:
		if delete(p.answers, e.RunID); e.Scope == "" {
			p.startRun(e)
		} else {
			p.startInnerRun(rec)
		}
	case *event.Text:
		if rec.WholeText != "" {
			set(&p.answers, e.RunID, e.ID)
		}
	case *event.ToolCall:
		if shown == nil {
			break
		}
		set(&p.answers, e.RunID, cmp.Or(p.answers[e.RunID], e.ID))
		p.emit(&itemEvent{head: h.of("TOOL_CALL_START"), Call: e.ID, CallName: d.Name, Parent: p.answers[e.RunID]})
		p.emit(&itemEvent{head: h.of("TOOL_CALL_ARGS"), Call: e.ID, Delta: string(d.Input)})
		p.emit(&itemEvent{head: h.of("TOOL_CALL_END"), Call: e.ID})
	case *event.ToolProgress:
		if shown == nil {
			break
		}
		p.emit(&activityEvent{h.of("ACTIVITY_SNAPSHOT"), d.ToolCallID + ":progress", "arbor.tool_progress", d})
	case *event.ToolResult:
		if shown == nil || p.given[e.ID] {
			break
		}
		output := event.OutputText(d.Output)
		r := &itemEvent{head: h.of("TOOL_CALL_RESULT"), Message: e.ID + ":result", Call: e.ID, Content: &output}
		if d.IsError {
			r.Metadata = map[string]any{"isError": true}
		}
		p.emit(r)
	case *event.Transfer:
		p.emit(&customEvent{h.of("CUSTOM"), "arbor.transfer", shown.Data})
	case *event.State:
		p.changeState(h, d.Delta)
	case *event.File:
		p.emit(&customEvent{h.of("CUSTOM"), "arbor.file", d})
	case *event.Notice:
		p.emit(&customEvent{h.of("CUSTOM"), "arbor.notice", shown.Data})
	case *event.HandoffStatus:
		p.emit(&customEvent{h.of("CUSTOM"), "arbor.handoff", shown.Data})
	case *event.Usage:
		delete(p.answers, e.RunID)
		p.addUsage(d)
	case *event.Discard:
		if d.Usage != nil {
			p.addUsage(d.Usage)
		}
	case *event.HarnessEnd:
		p.endRun(rec, d)
	case *event.Reasoning, *event.Relay, *event.RelayResolved, *event.Failure: // the record contains their effects
	case *event.Route, *event.RemoteTask, *event.Compaction, *event.Unknown: // pages do not use them
	}
	return p.out
}

func (p *projection) emit(e any) { p.out = append(p.out, e) }

func (h head) of(typ string) head { return head{typ, h.Run} }

// headOf returns the head, without a type, of the events for an event.
func headOf(e *event.Event) (h head) {
	if e.Scope != "" {
		h.Run = e.RunID
	}
	return h
}

func set[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = make(map[string]V)
	}
	(*m)[key] = v
}

// startTurn removes the state of the turn before.
func (p *projection) startTurn(turn string) {
	p.turn, p.ended, p.failed, p.usage = turn, nil, nil, nil
	p.inner, p.scopes, p.innerScopes, p.answers = nil, nil, nil, nil
	maps.DeleteFunc(p.state, func(key string, _ any) bool { return strings.HasPrefix(key, "turn:") })
}

// startRun starts a run of the conversation, and ends the one before.
func (p *projection) startRun(e *event.Event) {
	p.endStep()
	p.ended, p.step = nil, cmp.Or(e.Path, e.Agent)
	if p.hasState && (p.agent != e.Agent || p.path != p.step) {
		p.emit(&stateEvent{head: head{Type: "STATE_DELTA"}, Delta: []op{{"replace", "/" + stateKey + "/activeAgent", e.Agent}, {"replace", "/" + stateKey + "/activePath", p.step}}})
	}
	if p.agent, p.path = e.Agent, p.step; !p.hasState {
		p.sendState()
	}
	p.emit(&lifeEvent{head: head{Type: "STEP_STARTED"}, Step: p.step})
}

// endStep ends the step of the conversation's run, if one is open.
func (p *projection) endStep() {
	if p.step != "" {
		p.emit(&lifeEvent{head: head{Type: "STEP_FINISHED"}, Step: p.step})
		p.step = ""
	}
}

// startInnerRun starts a run of an inner scope.
func (p *projection) startInnerRun(rec session.Record) {
	s, known := p.scopes[rec.Scope]
	if s.run = rec.RunID; !known {
		if s.parent = event.ParentRun(rec.Scope); s.parent == "" {
			s.call = rec.ParentID
		}
		if rec.Call != nil {
			s.parent = rec.Call.RunID
		}
	}
	set(&p.scopes, rec.Scope, s)
	set(&p.innerScopes, rec.RunID, rec.Scope)
	r := innerRun{rec.RunID, rec.Agent}
	p.inner = append(p.inner, r)
	p.startSubagent(r)
}

// startSubagent sends the start of an inner run, with the last run of the enclosing scope as its parent.
func (p *projection) startSubagent(r innerRun) {
	s := p.scopes[p.innerScopes[r.id]]
	e := &lifeEvent{head: head{"SUBAGENT_STARTED", r.id}, Name: r.name, Call: s.call}
	if parent := p.scopes[p.innerScopes[s.parent]].run; p.introduced[parent] {
		e.Parent = parent
	}
	set(&p.introduced, r.id, true)
	p.emit(e)
}

// reopen sends the open step and the open inner runs again, for a client that connects in the middle of a turn.
func (p *projection) reopen() {
	if p.introduced = nil; p.step != "" {
		p.emit(&lifeEvent{head: head{Type: "STEP_STARTED"}, Step: p.step})
	}
	for _, r := range p.inner {
		p.startSubagent(r)
	}
}

// closeAll closes everything that is open, last first. The next event belongs to another run of AG-UI.
func (p *projection) closeAll() {
	for _, b := range slices.Backward(p.log.Blocks) {
		p.closeBlock(b)
	}
	for _, r := range slices.Backward(p.inner) {
		if p.introduced[r.id] {
			p.emit(&lifeEvent{head: head{"SUBAGENT_FINISHED", r.id}, Outcome: &runOutcome{Type: "suspended"}})
		}
	}
	p.endStep()
	p.log.Blocks, p.inner, p.introduced, p.hasState = nil, nil, nil, false
}

// sendState sends the state.
func (p *projection) sendState() {
	state := make(map[string]any)
	maps.Copy(state, p.state)
	maps.DeleteFunc(state, func(key string, _ any) bool { return !visibleKey(key) })
	state[stateKey] = map[string]any{"activeAgent": p.agent, "activePath": p.path, "seq": p.log.At.Seq}
	p.hasState = true
	p.emit(&stateEvent{head: head{Type: "STATE_SNAPSHOT"}, Snapshot: state})
}

// jsonPointer escapes a key for a JSON pointer.
var jsonPointer = strings.NewReplacer("~", "~0", "/", "~1")

// visibleKey reports whether pages receive a key of the state: those of the turn and the session. The state of the user
// and the app also belongs to other sessions, and reserved keys to other APIs.
func visibleKey(key string) bool {
	return key != stateKey && !live.Reserved(key) && !strings.HasPrefix(key, "user:") && !strings.HasPrefix(key, "app:")
}

// changeState applies a change of the state.
func (p *projection) changeState(h head, delta map[string]any) {
	var ops []op
	for _, key := range slices.Sorted(maps.Keys(delta)) {
		value, path := delta[key], "/"+jsonPointer.Replace(key)
		_, exists := p.state[key]
		switch {
		case !visibleKey(key):
		case value != nil:
			set(&p.state, key, value)
			ops = append(ops, op{"add", path, value})
		case exists: // a patch that removes a missing key would fail
			delete(p.state, key)
			ops = append(ops, op{Op: "remove", Path: path})
		}
	}
	if len(ops) > 0 && p.hasState {
		p.emit(&stateEvent{head: h.of("STATE_DELTA"), Delta: ops})
	}
}

// interrupts returns the interrupts of questions.
func interrupts(questions []*event.Event) (all []interrupt) {
	for _, q := range questions {
		all = append(all, interruptOf(q, q.Data.(*event.Relay)))
	}
	return all
}

// peopleQuestions returns the questions that people answer. The other questions are calls of the page's tools.
func peopleQuestions(questions []*event.Event) (all []*event.Event) {
	for _, q := range questions {
		if !q.Data.(*event.Relay).Client {
			all = append(all, q)
		}
	}
	return all
}

func interruptOf(e *event.Event, d *event.Relay) interrupt {
	i := interrupt{Run: headOf(e).Run, ID: e.ID, Reason: "arbor:approval", Call: d.ToolCallID, Metadata: question{e.Agent, d},
		Message: strings.TrimSpace(live.Question(d)),
		Schema:  []byte(`{"type":"object","properties":{"approved":{"type":"boolean"},"reason":{"type":"string"}},"required":["approved"],"additionalProperties":false}`)}
	if d.Kind != event.RelayInput {
		return i
	}
	i.Reason, i.Message, i.Schema = "arbor:input", d.Message, d.Schema
	if len(d.Schema) == 0 {
		i.Schema = []byte(`{"type":"string"}`)
	} else if d.Schema[0] != '{' { // the protocol does not allow the schema true
		i.Schema = nil
	}
	return i
}

// addUsage adds the usage of a model.
func (p *projection) addUsage(d *event.Usage) {
	i := slices.IndexFunc(p.usage, func(u modelUsage) bool { return u.Model == d.Model })
	if i < 0 {
		i, p.usage = len(p.usage), append(p.usage, modelUsage{Model: d.Model})
	}
	u, n := &p.usage[i], d.Counted()
	u.Input, u.Output, u.Cached = u.Input+n.InputTokens, u.Output+n.OutputTokens, u.Cached+n.CachedTokens
	u.Total = u.Input + u.Output
}

// endRun applies the end of a run.
func (p *projection) endRun(rec session.Record, d *event.HarnessEnd) {
	delete(p.answers, rec.RunID)
	if rec.Scope != "" {
		p.inner = slices.DeleteFunc(p.inner, func(r innerRun) bool { return r.id == rec.RunID })
		if p.introduced[rec.RunID] {
			p.finishSubagent(rec, d)
		}
		return
	}
	if p.endStep(); d.FinishReason != event.FinishReasonTransfer {
		p.ended, p.failed = d, rec.Failure
	}
}

// finishSubagent sends the end of an inner run.
func (p *projection) finishSubagent(rec session.Record, d *event.HarnessEnd) {
	e := &lifeEvent{head: head{"SUBAGENT_FINISHED", rec.RunID}}
	switch d.FinishReason {
	case event.FinishReasonError, event.FinishReasonLimit, event.FinishReasonCanceled:
		f := cmp.Or(rec.Failure, &event.Failure{Code: string(d.FinishReason)})
		e.Type, e.Message, e.Code = "SUBAGENT_ERROR", cmp.Or(f.Public().Message, "The agent did not finish."), f.Code
	case event.FinishReasonInputRequired:
		e.Outcome = &runOutcome{Type: "suspended"}
		for _, q := range p.log.Questions {
			if q.Scope == rec.Scope {
				e.Outcome.IDs = append(e.Outcome.IDs, q.ID)
			}
		}
	default:
		if e.Outcome = (&runOutcome{Type: "success"}); len(d.Output) > 0 && string(d.Output) != "null" {
			e.Result = d.Output
		}
	}
	p.emit(e)
}
