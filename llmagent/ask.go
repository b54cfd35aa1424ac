package llmagent

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools/transfer"
	"github.com/agentarbor/arbor/view"
)

// ask asks the agent's model for one answer and yields the answer.
func (x *execution) ask() error {
	q := &modelCall{execution: x, model: x.agent.model, output: x.output, continues: x.inv.Scope() != ""}
	ans, err := q.reply(x.request)
	if err != nil {
		return err
	}
	return ans.deliver()
}

// request returns the next request to the agent's model.
func (x *execution) request() (*llm.Request, error) {
	return x.requestWith(x.view.Filled(x.ctx, x.inv.Session().File))
}

// requestWith returns the next request to the agent's model with these messages.
func (x *execution) requestWith(messages []llm.Message) (*llm.Request, error) {
	a, n, run := x.agent, x.inv.Node(), &x.run
	full, o := x.template(n), x.templateFor(n, *run)
	transfers := o.transfer
	if run.From != "" {
		transfers = transfer.WithReason(transfers, run.Reason)
	}
	system, err := x.system(o, transfers)
	if err != nil {
		return nil, err
	}
	req := &llm.Request{System: system, Messages: messages, Tools: o.tools, Known: full.knownTools(), Stream: x.inv.Streaming(), Agent: n.Path, Settings: x.settings()}
	if req.LeakedCalls == "" && n.SmallModels() {
		req.LeakedCalls = llm.LeakedCallsAny
	}
	switch {
	case len(o.tools) == 0:
		req.ToolChoice, req.ParallelToolCalls = "", nil
	case run.Called && req.ToolChoice != llm.ToolChoiceNone && req.ToolChoice != llm.ToolChoiceAuto: // a forced call would keep the model from ever answering
		req.ToolChoice = ""
	case !o.has(req.ToolChoice) && (full.has(req.ToolChoice) || x.hasExtraTools && !req.ToolChoice.Mode()): // endpoints refuse the name of a tool that is not offered
		req.ToolChoice = ""
	}
	x.output.addTo(req, run.WrongForm)
	if err := x.shareRequest(req, full, o); err != nil {
		return nil, err
	}
	if len(o.tools) > a.maxTools {
		return nil, &agent.RunError{Agent: a.name, Code: "too_many_tools", Err: x.tooMany(n, len(x.tools))}
	}
	return req, nil
}

// system returns the system text: the agent's instructions, then the instruction about transfers.
func (x *execution) system(o *template, transfers string) (string, error) {
	system, err := x.agent.instructions(x.ctx, x.inv)
	switch {
	case err != nil:
		return "", fmt.Errorf("instructions: %w", err)
	case system == o.prompt && transfers == o.transfer:
		return o.system, nil
	}
	return paragraphs(paragraphs(o.global, system), transfers), nil
}

// maxAttempts limits the requests for one answer whose stream breaks. If the last attempt was cut off by its length
// limit, the agent sends one more. The model's adapter repeats requests that fail before the first byte.
const maxAttempts = 3

// modelCall asks a model for one answer, in one or several attempts.
type modelCall struct {
	*execution
	model     llm.Model
	output    *output // the form of the answer; nil: text
	continues bool    // the turn may continue after an error, so the log must contain failed attempts

	truncated bool // an attempt was cut off in mid-call
}

// reply returns a complete answer after yielding its deltas. If an attempt breaks off, is empty or does not have the
// required form, reply discards it and asks again. After an empty answer or one in a wrong form, the next request says
// what was wrong.
func (m *modelCall) reply(request func() (*llm.Request, error)) (*answer, error) {
	req, err := request()
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		ans := &answer{x: m.execution, attempt: attempt}
		failure := ans.read(m.ctx, m.inv.Runtime().Ask(m.ctx, m.inv, m.model, req))
		if errors.Is(failure, errStopped) {
			return nil, failure
		}
		if failure != nil && m.ctx.Err() != nil {
			return nil, m.ctx.Err()
		}
		code, message, err := m.judge(ans, failure)
		if code == "" {
			return ans, nil
		}
		void := &event.Event{Data: ans.discarded(code, message, m.model.Name())}
		if err != nil && (!ans.begun || !llm.Retryable(err) || attempt >= maxAttempts) {
			return nil, m.giveUp(ans, void, err)
		}
		if err := m.emit(void); err != nil {
			return nil, err
		}
		if code == event.CodeEmptyAnswer || code == event.CodeBadOutput { // the same request might get the same answer
			if err := m.catchUp(); err != nil {
				return nil, err
			}
			if req, err = request(); err != nil {
				return nil, err
			}
		}
	}
}

// judge returns why an attempt is discarded, as the code and the message of the event. The code is "" for a usable
// answer. The error ends the run unless the attempt can be repeated.
func (m *modelCall) judge(ans *answer, failure error) (code, message string, err error) {
	name := m.inv.Agent().Name()
	switch {
	case failure != nil:
		code, message, err = modelErrorCode(failure), failure.Error(), failure
		if code == string(llm.CodeTruncated) {
			ans.begun = true // even if none of it was shown
		}
	case ans.finish == llm.FinishLength && len(ans.calls) > 0:
		code, message = "output_truncated", "the answer was cut off by its length limit before its tool calls were complete"
		if m.truncated {
			err = &agent.RunError{Agent: name, Code: code, Err: fmt.Errorf("%w: %s, twice; raise the token limit", agent.ErrOutputTruncated, message)}
		}
		m.truncated = true
	case ans.empty():
		code, message = event.CodeEmptyAnswer, "the answer had neither text nor calls"
		if m.run.Empty {
			err = fmt.Errorf("%w: the model %s answered twice with neither text nor calls", agent.ErrEmptyAnswer, m.model.Name())
		}
	case len(ans.calls) > 0:
		return "", "", nil
	default:
		var wrong error
		if ans.output, wrong = m.output.parse(ans.text.String(), ans.finish); wrong == nil {
			return "", "", nil
		}
		code, message = event.CodeBadOutput, wrong.Error()
		if m.run.WrongForm {
			err = &agent.RunError{Agent: name, Code: code, Err: &OutputError{name, wrong}}
		}
	}
	return code, message, err
}

// giveUp yields the records of the last attempt, in one write with the error that ends the run. An attempt that showed
// nothing leaves nothing to discard.
func (m *modelCall) giveUp(ans *answer, void *event.Event, err error) error {
	var last []*event.Event
	code := void.Data.(*event.Discard).Code
	if ans.begun || m.continues && agent.ErrorCode(err) == code {
		last = append(last, void)
	}
	if errors.Is(err, agent.ErrEmptyAnswer) {
		last = append(last, &event.Event{Data: &event.Notice{Code: code, Message: m.inv.Agent().Name() + " was asked again, and its answer was empty again"}})
	}
	for _, e := range last {
		e.More = true
	}
	return cmp.Or(m.emit(last...), err)
}

// deliver yields a complete answer of the agent's model and its consequence: the end of the run, a transfer, or
// another step that runs the calls.
func (ans *answer) deliver() error {
	x := ans.x
	events := ans.appendTexts(make([]*event.Event, 0, 8))
	if x.agent.split {
		return ans.finishSplit(events)
	}
	var lastTransfer *event.Event
	for _, c := range ans.calls {
		call := x.callEvent(c)
		events = append(events, &event.Event{Data: call, More: true})
		if call.Name == agent.TransferTool {
			lastTransfer = events[len(events)-1]
			if given, err := transfer.Parse(call.Input); err == nil && !ans.chosen && view.IsChosenReason(given.Reason) {
				given.Reason = strconv.Quote(given.Reason) // a model's own words
				call.Input = event.EncodeJSON(given)
			}
		}
	}
	sameWrite := lastTransfer != nil && x.transfersInSameWrite(ans.calls)
	more := len(ans.calls) == 0 || sameWrite // the next events belong to the same write: the end of the run, or the transfer
	if err := x.emit(append(events, &event.Event{Data: ans.usageOf(x.agent.model.Name()), More: more})...); err != nil {
		return err
	}
	switch {
	case sameWrite:
		x.run.Spoken = x.run.Spoken || strings.TrimSpace(ans.text.String()) != ""
		input := lastTransfer.Data.(*event.ToolCall).Input
		return x.runTransfers([]view.Call{{ID: lastTransfer.ID, Name: agent.TransferTool, RunID: x.inv.RunID(), Input: input}})
	case len(ans.calls) > 0:
		return x.continueRun()
	}
	if end := ans.runEnd(); end != nil {
		return x.emit(&event.Event{Data: end})
	}
	return nil
}

// runEnd returns how an answer without calls ends the run, or nil for the usual end.
func (ans *answer) runEnd() *event.Finish {
	switch {
	case ans.output != nil:
		return &event.Finish{Reason: event.FinishReasonStop, Output: ans.output}
	case ans.finish == llm.FinishLength:
		return &event.Finish{Reason: event.FinishReasonLength}
	case ans.finish == llm.FinishContentFilter:
		return &event.Finish{Reason: event.FinishReasonContentFilter}
	}
	return nil
}

// finishSplit ends the run of a split agent's model part. The output is the input's messages and the answer with its
// calls.
func (ans *answer) finishSplit(texts []*event.Event) error {
	x := ans.x
	if err := x.emit(append(texts, &event.Event{Data: ans.usageOf(x.agent.model.Name()), More: true})...); err != nil {
		return err
	}
	p, err := readSplit(x.inv.Input())
	if err != nil {
		return err
	}
	m := splitMessage{Role: llm.RoleAssistant, Content: ans.text.String(), Reasoning: ans.reasoning.String(), Sealed: ans.sealed}
	used := p.callIDs()
	for _, c := range ans.calls {
		d, id := x.callEvent(c), cmp.Or(c.ID, "call")
		for n := 2; used[id]; n++ {
			id = cmp.Or(c.ID, "call") + "-" + strconv.Itoa(n)
		}
		used[id] = true
		m.ToolCalls = append(m.ToolCalls, splitCall{id, d.Name, d.Input})
	}
	p.add(m)
	finish := ans.runEnd()
	if finish == nil || ans.output != nil || len(ans.calls) > 0 {
		finish = &event.Finish{Output: p.output()}
	}
	return x.emit(&event.Event{Data: finish})
}

// appendTexts appends the events of the reasoning and the text of a complete answer.
func (ans *answer) appendTexts(events []*event.Event) []*event.Event {
	if r := ans.reasoning.String(); r != "" || ans.sealed != "" {
		events = append(events, &event.Event{ID: ans.reasoning.id, Data: &event.Reasoning{Content: r, Sealed: ans.sealed}, More: true})
	}
	if t := ans.text.String(); t != "" {
		events = append(events, &event.Event{ID: ans.text.id, Data: &event.Text{Content: t}, More: true})
	}
	return events
}

// callEvent returns the event of a call. A call of any transfer tool is recorded as [agent.TransferTool], a call with
// an invalid name as malformedTool, and the input is always an object.
func (x *execution) callEvent(c llm.ToolCall) *event.ToolCall {
	call := &event.ToolCall{Name: c.Name, Input: event.ObjectInput(c.Arguments)}
	if target, ok := x.transferTo(x.inv.Node(), c.Name); ok {
		call.Name = agent.TransferTool
		if target != "" {
			call.Input = transfer.Input(target, call.Input)
		}
	} else if !toolName(call.Name) {
		call.Input = event.EncodeJSON(map[string]string{"name": clean(call.Name), "arguments": clean(c.Arguments)})
		call.Name = malformedTool
	} else if object := ""; strings.HasPrefix(c.Arguments, `"{\"`) && json.Unmarshal([]byte(c.Arguments), &object) == nil && json.Valid([]byte(object)) {
		call.Input = event.ObjectInput(object) // some models and endpoints encode the object twice
	}
	return call
}

// transfersInSameWrite reports whether the transfer that an answer asks for is decided in the write of the answer. A
// crash between the two writes could lose only the answer, and nothing between them takes time. With several calls,
// each might take long.
func (x *execution) transfersInSameWrite(calls []llm.ToolCall) bool {
	return len(calls) == 1 && x.inv.TransferWithAnswer() && !x.agent.askTransfer && !event.TooDeep([]byte(calls[0].Arguments))
}
