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

// ask asks the agent's model for one answer and delivers it.
func (x *execution) ask() error {
	q := &question{execution: x, model: x.agent.model, output: x.output, continues: x.inv.Scope() != ""}
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

// requestWith returns the next request with these messages.
func (x *execution) requestWith(messages []llm.Message) (*llm.Request, error) {
	a, n, run := x.agent, x.inv.Node(), &x.run
	place, o := x.place(n), x.offered(n, *run)
	transfers := o.transfer
	if run.From != "" {
		transfers = transfer.WithReason(transfers, run.Reason)
	}
	system, err := x.system(o, transfers)
	if err != nil {
		return nil, err
	}
	req := &llm.Request{System: system, Messages: messages, Tools: o.tools, Known: place.named(), Stream: x.inv.Streaming(), Agent: n.Path, Settings: x.settings()}
	if req.LeakedCalls == "" && n.SmallModels() {
		req.LeakedCalls = llm.LeakedCallsAny
	}
	switch {
	case len(o.tools) == 0:
		req.ToolChoice, req.ParallelToolCalls = "", nil
	case run.Called && req.ToolChoice != llm.ToolChoiceNone && req.ToolChoice != llm.ToolChoiceAuto: // else the model could never answer
		req.ToolChoice = ""
	case !o.has(req.ToolChoice) && (place.has(req.ToolChoice) || x.extended && !req.ToolChoice.Mode()): // endpoints refuse the name of a tool that is not offered
		req.ToolChoice = ""
	}
	x.output.addTo(req, run.Misfit)
	if err := x.share(req, place, o); err != nil {
		return nil, err
	}
	if len(o.tools) > a.maxTools {
		return nil, &agent.RunError{Agent: a.name, Code: "too_many_tools", Err: x.tooMany(n, len(x.tools))}
	}
	return req, nil
}

// system returns the system text: the instructions, and the instruction about transfers.
func (x *execution) system(o *offer, transfers string) (string, error) {
	system, err := x.agent.instructions(x.ctx, x.inv)
	switch {
	case err != nil:
		return "", fmt.Errorf("instructions: %w", err)
	case system == o.prompt && transfers == o.transfer:
		return o.system, nil
	}
	return paragraphs(paragraphs(o.global, system), transfers), nil
}

// maxAttempts limits how often the agent asks for one answer when its stream breaks;
// an answer that is too long in the last attempt gets one more.
// The retries before the first byte are those of the model's adapter.
const maxAttempts = 3

// question is what a model is asked.
type question struct {
	*execution
	model     llm.Model
	output    *output // the form of the answer; nil: text
	continues bool    // the turn may continue after an error, so the log must show that a model was asked

	truncated bool // an attempt was cut off in mid-call
}

// reply returns a whole answer, after yielding its deltas. It discards an attempt that breaks off, is
// empty or does not have the form that it should have, and asks again; after an empty or misshapen attempt the next
// request says so.
func (q *question) reply(request func() (*llm.Request, error)) (*answer, error) {
	req, err := request()
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		ans := &answer{x: q.execution, attempt: attempt}
		failure := ans.read(q.ctx, q.inv.Runtime().Ask(q.ctx, q.inv, q.model, req))
		if errors.Is(failure, errStopped) {
			return nil, failure
		}
		if failure != nil && q.ctx.Err() != nil {
			return nil, q.ctx.Err()
		}
		code, message, err := q.judge(ans, failure)
		if code == "" {
			return ans, nil
		}
		void := &event.Event{Data: ans.discarded(code, message, q.model.Name())}
		if err != nil && (!ans.begun || !llm.Retryable(err) || attempt >= maxAttempts) {
			return nil, q.giveUp(ans, void, err)
		}
		if err := q.emit(void); err != nil {
			return nil, err
		}
		if code == event.CodeEmptyAnswer || code == event.CodeBadOutput { // the same request might have the same answer
			if err := q.catchUp(); err != nil {
				return nil, err
			}
			if req, err = request(); err != nil {
				return nil, err
			}
		}
	}
}

// judge returns why an attempt is discarded, as the code and the message of the event; the code is "" for an answer
// that is good. The error ends the run unless the attempt can be repeated.
func (q *question) judge(ans *answer, failure error) (code, message string, err error) {
	name := q.inv.Agent().Name()
	switch {
	case failure != nil:
		code, message, err = modelErrorCode(failure), failure.Error(), failure
		if code == string(llm.CodeTruncated) {
			ans.begun = true // also if none of it was shown
		}
	case ans.finish == llm.FinishLength && len(ans.calls) > 0:
		code, message = "output_truncated", "the answer was cut off by its length limit before its tool calls were complete"
		if q.truncated {
			err = &agent.RunError{Agent: name, Code: code, Err: fmt.Errorf("%w: %s, twice; raise the token limit", agent.ErrOutputTruncated, message)}
		}
		q.truncated = true
	case ans.empty():
		code, message = event.CodeEmptyAnswer, "the answer had neither words nor calls"
		if q.run.Empty {
			err = fmt.Errorf("%w: the model %s has answered twice with neither text nor calls", agent.ErrEmptyAnswer, q.model.Name())
		}
	case len(ans.calls) > 0:
		return "", "", nil
	default:
		var wrong error
		if ans.output, wrong = q.output.read(ans.text.String(), ans.finish); wrong == nil {
			return "", "", nil
		}
		code, message = event.CodeBadOutput, wrong.Error()
		if q.run.Misfit {
			err = &agent.RunError{Agent: name, Code: code, Err: &OutputError{name, wrong}}
		}
	}
	return code, message, err
}

// giveUp yields what the log must keep of the last attempt, in one write with the error that ends the run. An attempt
// that showed nothing leaves nothing to discard.
func (q *question) giveUp(ans *answer, void *event.Event, err error) error {
	var last []*event.Event
	code := void.Data.(*event.Discard).Code
	if ans.begun || q.continues && agent.ErrorCode(err) == code {
		last = append(last, void)
	}
	if errors.Is(err, agent.ErrEmptyAnswer) {
		last = append(last, &event.Event{Data: &event.Notice{Code: code, Message: q.inv.Agent().Name() + " was asked once more, and its answer was empty again"}})
	}
	for _, e := range last {
		e.More = true
	}
	return cmp.Or(q.emit(last...), err)
}

// deliver yields a whole answer of the agent's model and what follows from it: the run ends, a transfer, or a step in
// which the agent runs the calls.
func (ans *answer) deliver() error {
	x := ans.x
	events := ans.texts(make([]*event.Event, 0, 8))
	if x.agent.split {
		return ans.passOn(events)
	}
	var asked *event.Event // the last transfer
	for _, c := range ans.calls {
		call := x.called(c)
		events = append(events, &event.Event{Data: call, More: true})
		if call.Name == agent.TransferTool {
			asked = events[len(events)-1]
		}
	}
	atOnce := asked != nil && x.atOnce(ans.calls)
	more := len(ans.calls) == 0 || atOnce // the end of the run, or the transfer, joins this write
	if err := x.emit(append(events, &event.Event{Data: ans.usageOf(x.agent.model.Name()), More: more})...); err != nil {
		return err
	}
	switch {
	case atOnce:
		x.run.Spoken = x.run.Spoken || strings.TrimSpace(ans.text.String()) != ""
		input := asked.Data.(*event.ToolCall).Input
		return x.transfer([]view.Call{{ID: asked.ID, Name: agent.TransferTool, RunID: x.inv.RunID(), Input: input}})
	case len(ans.calls) > 0:
		return x.next()
	}
	if end := ans.end(); end != nil {
		return x.emit(&event.Event{Data: end})
	}
	return nil
}

// end returns how an answer without calls ends the run, nil if it ends as usual.
func (ans *answer) end() *event.Finish {
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

// passOn ends the run of a split agent's model with its answer, and the calls in it, as the output.
func (ans *answer) passOn(texts []*event.Event) error {
	x := ans.x
	if err := x.emit(append(texts, &event.Event{Data: ans.usageOf(x.agent.model.Name()), More: true})...); err != nil {
		return err
	}
	p, err := readPassed(x.inv.Input())
	if err != nil {
		return err
	}
	m := message{Role: llm.RoleAssistant, Content: ans.text.String(), Reasoning: ans.reasoning.String(), Sealed: ans.sealed}
	used := p.callIDs()
	for _, c := range ans.calls {
		d, id := x.called(c), cmp.Or(c.ID, "call")
		for n := 2; used[id]; n++ {
			id = cmp.Or(c.ID, "call") + "-" + strconv.Itoa(n)
		}
		used[id] = true
		m.ToolCalls = append(m.ToolCalls, passedCall{id, d.Name, d.Input})
	}
	p.add(m)
	finish := ans.end()
	if finish == nil || ans.output != nil || len(ans.calls) > 0 {
		finish = &event.Finish{Output: p.output()}
	}
	return x.emit(&event.Event{Data: finish})
}

// texts appends the events of the reasoning and the text of a whole answer.
func (ans *answer) texts(events []*event.Event) []*event.Event {
	if r := ans.reasoning.String(); r != "" || ans.sealed != "" {
		events = append(events, &event.Event{ID: ans.reasoning.id, Data: &event.Reasoning{Content: r, Sealed: ans.sealed}, More: true})
	}
	if t := ans.text.String(); t != "" {
		events = append(events, &event.Event{ID: ans.text.id, Data: &event.Text{Content: t}, More: true})
	}
	return events
}

// called returns a call as the log has it: a transfer by its own name, and arguments that are an object.
func (x *execution) called(c llm.ToolCall) *event.ToolCall {
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
		call.Input = event.ObjectInput(object) // some models and endpoints encode it once more
	}
	return call
}

// atOnce reports whether the transfer that an answer asks for is decided in the answer's own
// write: a crash between the two could lose only the answer, and nothing
// between them takes time. With several calls each might take long.
func (x *execution) atOnce(calls []llm.ToolCall) bool {
	return len(calls) == 1 && x.inv.AtOnce() && !x.agent.askTransfer && !event.TooDeep([]byte(calls[0].Arguments))
}
