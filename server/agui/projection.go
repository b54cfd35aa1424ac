package agui

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/session"
)

// projection makes events of AG-UI of the events of a session, in their order. What it has opened it closes before a
// run of AG-UI ends: clients refuse the end otherwise. The zero value stands before a log.
type projection struct {
	reasoning bool // is shown
	// see returns an event as the client sees it, nil for one that is hidden; nil shows all.
	see func(*event.Event) *event.Event
	// history returns the conversation up to a position, for when words are taken back; nil if nobody is sent anything.
	history func(upTo int64) ([]*message, error)
	err     error // of history

	log session.Reader
	out []any

	turn   string
	ended  *event.HarnessEnd // of the conversation's last run in the turn, unless another one follows
	failed *event.Failure    // of that run
	usage  []used

	step   string            // of the conversation's run, while one is open
	inner  []innerRun        // those that are open, as they began
	told   map[string]bool   // inner runs that the client knows
	scopes map[string]scope  // of this turn
	within map[string]string // the scopes of inner runs of this turn
	bears  map[string]string // by runs, the message that gets the calls of the answer under way

	agent, path string // who has the conversation
	state       map[string]any
	stands      bool            // the client has the state
	given       map[string]bool // calls whose results the client has given itself
}

type (
	innerRun struct{ id, name string }
	// scope is an inner conversation: what opened it, a call or the run of a workflow, and the last run in it.
	scope struct{ call, parent, run string }
)

// apply takes in an event at its position and returns what the client is sent. The slice is valid until the next call.
func (p *projection) apply(at session.Position, e *event.Event) []any {
	p.out = p.out[:0]
	shown := e
	if p.see != nil {
		shown = p.see(e)
	}
	h, rec := headOf(e), p.log.NextAt(at, e)
	p.words(rec)
	switch d := e.Data.(type) {
	case *event.User:
		p.begin(e.TurnID)
	case *event.HarnessStart:
		if delete(p.bears, e.RunID); e.Scope == "" {
			p.start(e)
		} else {
			p.startInner(rec)
		}
	case *event.Text:
		if rec.Whole != "" {
			set(&p.bears, e.RunID, e.ID)
		}
	case *event.ToolCall:
		if shown == nil {
			break
		}
		set(&p.bears, e.RunID, cmp.Or(p.bears[e.RunID], e.ID))
		p.emit(&itemEvent{head: h.of("TOOL_CALL_START"), Call: e.ID, CallName: d.Name, Parent: p.bears[e.RunID]})
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
		p.change(h, d.Delta)
	case *event.File:
		p.emit(&customEvent{h.of("CUSTOM"), "arbor.file", d})
	case *event.Notice:
		p.emit(&customEvent{h.of("CUSTOM"), "arbor.notice", shown.Data})
	case *event.HandoffStatus:
		p.emit(&customEvent{h.of("CUSTOM"), "arbor.handoff", shown.Data})
	case *event.Usage:
		delete(p.bears, e.RunID)
		p.spend(d)
	case *event.Discard:
		if d.Usage != nil {
			p.spend(d.Usage)
		}
	case *event.HarnessEnd:
		p.end(rec, d)
	case *event.Reasoning, *event.Relay, *event.RelayResolved, *event.Failure: // the record has what they mean
	case *event.Route, *event.RemoteTask, *event.Compaction, *event.Unknown: // pages have no use for them
	}
	return p.out
}

func (p *projection) emit(e any) { p.out = append(p.out, e) }

func (h head) of(typ string) head { return head{typ, h.Run} }

// headOf is the head, without a type, of what an event becomes.
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

// begin is for the user's words: what the turn before has left is over.
func (p *projection) begin(turn string) {
	p.turn, p.ended, p.failed, p.usage = turn, nil, nil, nil
	p.inner, p.scopes, p.within, p.bears = nil, nil, nil, nil
	maps.DeleteFunc(p.state, func(key string, _ any) bool { return strings.HasPrefix(key, "turn:") })
}

// start begins a run of the conversation. Runs follow each other there.
func (p *projection) start(e *event.Event) {
	p.leave()
	p.ended, p.step = nil, cmp.Or(e.Path, e.Agent)
	if p.stands && (p.agent != e.Agent || p.path != p.step) {
		p.emit(&stateEvent{head: head{Type: "STATE_DELTA"}, Delta: []op{{"replace", "/" + place + "/activeAgent", e.Agent}, {"replace", "/" + place + "/activePath", p.step}}})
	}
	if p.agent, p.path = e.Agent, p.step; !p.stands {
		p.stand()
	}
	p.emit(&lifeEvent{head: head{Type: "STEP_STARTED"}, Step: p.step})
}

// leave ends the step of a run of the conversation.
func (p *projection) leave() {
	if p.step != "" {
		p.emit(&lifeEvent{head: head{Type: "STEP_FINISHED"}, Step: p.step})
		p.step = ""
	}
}

// startInner begins a run of an inner scope.
func (p *projection) startInner(rec session.Record) {
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
	set(&p.within, rec.RunID, rec.Scope)
	r := innerRun{rec.RunID, rec.Agent}
	p.inner = append(p.inner, r)
	p.introduce(r)
}

// introduce tells of an inner run, with the last run of the scope around it.
func (p *projection) introduce(r innerRun) {
	s := p.scopes[p.within[r.id]]
	e := &lifeEvent{head: head{"SUBAGENT_STARTED", r.id}, Name: r.name, Call: s.call}
	if parent := p.scopes[p.within[s.parent]].run; p.told[parent] {
		e.Parent = parent
	}
	set(&p.told, r.id, true)
	p.emit(e)
}

// reopen begins what is open anew, for a client who comes in the middle.
func (p *projection) reopen() {
	if p.told = nil; p.step != "" {
		p.emit(&lifeEvent{head: head{Type: "STEP_STARTED"}, Step: p.step})
	}
	for _, r := range p.inner {
		p.introduce(r)
	}
}

// closeAll closes all that is open, the last first. The next event begins another run of AG-UI.
func (p *projection) closeAll() {
	for _, b := range slices.Backward(p.log.Blocks) {
		p.close(b)
	}
	for _, r := range slices.Backward(p.inner) {
		if p.told[r.id] {
			p.emit(&lifeEvent{head: head{"SUBAGENT_FINISHED", r.id}, Outcome: &ending{Type: "suspended"}})
		}
	}
	p.leave()
	p.log.Blocks, p.inner, p.told, p.stands = nil, nil, nil, false
}

// stand tells the state.
func (p *projection) stand() {
	state := make(map[string]any)
	maps.Copy(state, p.state)
	maps.DeleteFunc(state, func(key string, _ any) bool { return !onPage(key) })
	state[place] = map[string]any{"activeAgent": p.agent, "activePath": p.path, "seq": p.log.At.Seq}
	p.stands = true
	p.emit(&stateEvent{head: head{Type: "STATE_SNAPSHOT"}, Snapshot: state})
}

// pointed escapes a key for a JSON pointer.
var pointed = strings.NewReplacer("~", "~0", "/", "~1")

// onPage reports whether pages are sent a key of the state: those of the turn and the session. The state of the user and
// the app belongs to other sessions, too.
func onPage(key string) bool {
	return key != place && !strings.HasPrefix(key, "user:") && !strings.HasPrefix(key, "app:")
}

// change is for changes of the state.
func (p *projection) change(h head, delta map[string]any) {
	var ops []op
	for _, key := range slices.Sorted(maps.Keys(delta)) {
		value, path := delta[key], "/"+pointed.Replace(key)
		_, there := p.state[key]
		switch {
		case !onPage(key):
		case value != nil:
			set(&p.state, key, value)
			ops = append(ops, op{"add", path, value})
		case there: // a patch that removes what is not there fails as a whole
			delete(p.state, key)
			ops = append(ops, op{Op: "remove", Path: path})
		}
	}
	if len(ops) > 0 && p.stands {
		p.emit(&stateEvent{head: h.of("STATE_DELTA"), Delta: ops})
	}
}

// interrupts are what somebody is asked.
func interrupts(questions []*event.Event) (all []interrupt) {
	for _, q := range questions {
		all = append(all, interruptOf(q, q.Data.(*event.Relay)))
	}
	return all
}

// people returns the questions that people answer. The other questions are calls of the page's tools.
func people(questions []*event.Event) (all []*event.Event) {
	for _, q := range questions {
		if !q.Data.(*event.Relay).Client {
			all = append(all, q)
		}
	}
	return all
}

func interruptOf(e *event.Event, d *event.Relay) interrupt {
	i := interrupt{Run: headOf(e).Run, ID: e.ID, Reason: "arbor:approval", Call: d.ToolCallID, Metadata: asking{e.Agent, d},
		Message: strings.TrimSpace(live.Question(d)),
		Schema:  []byte(`{"type":"object","properties":{"approved":{"type":"boolean"},"reason":{"type":"string"}},"required":["approved"],"additionalProperties":false}`)}
	if d.Kind != event.RelayInput {
		return i
	}
	i.Reason, i.Message, i.Schema = "arbor:input", d.Message, d.Schema
	if len(d.Schema) == 0 {
		i.Schema = []byte(`{"type":"string"}`)
	} else if d.Schema[0] != '{' { // the protocol has no true
		i.Schema = nil
	}
	return i
}

// spend counts what a model has used.
func (p *projection) spend(d *event.Usage) {
	i := slices.IndexFunc(p.usage, func(u used) bool { return u.Model == d.Model })
	if i < 0 {
		i, p.usage = len(p.usage), append(p.usage, used{Model: d.Model})
	}
	u, n := &p.usage[i], d.Counted()
	u.Input, u.Output, u.Cached = u.Input+n.InputTokens, u.Output+n.OutputTokens, u.Cached+n.CachedTokens
	u.Total = u.Input + u.Output
}

// end is for the end of a run.
func (p *projection) end(rec session.Record, d *event.HarnessEnd) {
	delete(p.bears, rec.RunID)
	if rec.Scope != "" {
		p.inner = slices.DeleteFunc(p.inner, func(r innerRun) bool { return r.id == rec.RunID })
		if p.told[rec.RunID] {
			p.depart(rec, d)
		}
		return
	}
	if p.leave(); d.FinishReason != event.FinishReasonTransfer {
		p.ended, p.failed = d, rec.Failure
	}
}

// depart tells how an inner run has ended.
func (p *projection) depart(rec session.Record, d *event.HarnessEnd) {
	e := &lifeEvent{head: head{"SUBAGENT_FINISHED", rec.RunID}}
	switch d.FinishReason {
	case event.FinishReasonError, event.FinishReasonLimit, event.FinishReasonCanceled:
		f := cmp.Or(rec.Failure, &event.Failure{Code: string(d.FinishReason)})
		e.Type, e.Message, e.Code = "SUBAGENT_ERROR", cmp.Or(f.Public().Message, "The agent did not finish."), f.Code
	case event.FinishReasonInputRequired:
		e.Outcome = &ending{Type: "suspended"}
		for _, q := range p.log.Questions {
			if q.Scope == rec.Scope {
				e.Outcome.IDs = append(e.Outcome.IDs, q.ID)
			}
		}
	default:
		if e.Outcome = (&ending{Type: "success"}); len(d.Output) > 0 && string(d.Output) != "null" {
			e.Result = d.Output
		}
	}
	p.emit(e)
}
