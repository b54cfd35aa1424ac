package llmagent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools/transfer"
	"github.com/agentarbor/arbor/view"
)

// maxAttempts bounds how often one answer is asked for when its stream breaks;
// an answer that is too long in the last attempt gets one more.
// The model's own retries, before the first byte, are its adapter's.
const maxAttempts = 3

// ask gets one answer from the agent's model and yields it: reasoning, text, calls and
// the usage that closes it, joined into one write.
func (a *Agent) ask(ctx context.Context, inv *agent.Invocation, v *view.View, yield func(*event.Event, error) bool) {
	if d := a.deciding(inv.Node(), v.Run()); d != nil {
		a.who(ctx, inv, v, d, yield)
		return
	}
	ans, err := reply(ctx, inv, v, a.model, a.output, inv.Scope() != "", yield, func() (*llm.Request, error) {
		return a.request(ctx, inv, v.Run(), v.Filled(ctx, inv.Session().File))
	})
	switch {
	case err != nil:
		yield(nil, err)
	case ans != nil:
		ans.deliver(ctx, inv, a, v.Run())
	}
}

// reply gets one answer from a model, whose deltas it yields. An attempt that is cut off
// or empty, or has not the form of typed, is discarded, and the model is asked again;
// after an empty or misshapen one the next request says so. It returns nil and no error
// if the consumer wants no more.
//
// A call that failed and showed nothing leaves nothing to discard. But if the turn may
// continue after it (goesOn), the log must say that a model was asked.
func reply(ctx context.Context, inv *agent.Invocation, v *view.View, model llm.Model, typed *output, goesOn bool, yield func(*event.Event, error) bool,
	request func() (*llm.Request, error)) (*answer, error) {
	req, err := request()
	if err != nil {
		return nil, err
	}
	truncated := false
	for attempt := 1; ; attempt++ {
		ans := &answer{inv: inv, attempt: attempt, yield: yield}
		err := ans.read(ctx, inv.Runtime().Ask(ctx, inv, model, req))
		if ans.stopped {
			return nil, nil
		}
		var code, message string
		switch {
		case err == nil && ans.finish == llm.FinishLength && len(ans.calls) > 0:
			code, message = "output_truncated", "the answer was cut off by its length limit before its tool calls were complete"
			if truncated {
				err = &agent.RunError{Agent: inv.Agent().Name(), Code: code, Err: fmt.Errorf("%w: %s, twice; raise the token limit", agent.ErrOutputTruncated, message)}
			}
			truncated = true
		case err == nil && ans.empty():
			code, message = event.CodeEmptyAnswer, "the answer had neither words nor calls"
			if v.Run().Empty {
				err = fmt.Errorf("%w: the model %s has answered with neither words nor calls, twice", agent.ErrEmptyAnswer, model.Name())
			}
		case err == nil:
			var wrong error
			if ans.output, wrong = typed.of(ans); wrong == nil {
				return ans, nil
			}
			code, message = event.CodeBadOutput, wrong.Error()
			err = typed.misfit(inv, wrong, v.Run().Misfit)
		case ctx.Err() != nil:
			return nil, ctx.Err()
		default:
			code, message = errorCode(err), err.Error()
		}
		if code == string(llm.CodeTruncated) {
			ans.begun = true // an answer was under way, even if none of it was shown
		}
		void := &event.Event{Data: &event.Discard{Code: code, Message: message, IDs: ans.ids(), Usage: ans.used(model.Name())}}
		if err != nil && (!ans.begun || !llm.Retryable(err) || attempt >= maxAttempts) {
			var last []*event.Event
			if ans.begun || goesOn && agent.ErrorCode(err) == code {
				last = append(last, void)
			}
			if errors.Is(err, agent.ErrEmptyAnswer) {
				last = append(last, &event.Event{Data: &event.Notice{Code: code, Message: inv.Agent().Name() + " was asked once more, and its answer was empty again"}})
			}
			for _, e := range last {
				e.More = true
				if !yield(e, nil) {
					return nil, nil
				}
			}
			return nil, err
		}
		if !yield(void, nil) {
			return nil, nil
		}
		if code != event.CodeEmptyAnswer && code != event.CodeBadOutput {
			continue
		}
		// The same request might well have the same answer.
		err = v.CatchUp(inv.Session().Events(ctx, v.Seq()))
		if err == nil {
			req, err = request()
		}
		if err != nil {
			return nil, err
		}
	}
}

func errorCode(err error) string {
	var e *llm.Error
	if errors.As(err, &e) {
		return string(e.Code)
	}
	return "model_error"
}

// answer collects one attempt at an answer.
type answer struct {
	inv     *agent.Invocation
	attempt int
	yield   func(*event.Event, error) bool

	text, reasoning block
	sealed          string // the reasoning, for its endpoint
	calls           []llm.ToolCall
	output          json.RawMessage // of an answer that has to have a form
	probs           []llm.LogProb
	usage           llm.Usage
	model           string
	finish          llm.FinishReason
	quiet           bool  // nothing of it is shown
	begun           bool  // the endpoint sent something
	stopped         bool  // the consumer wants no more
	failed          error // of the stream
}

// block is text that arrives in pieces, under one id.
type block struct {
	id    string
	first string // the only piece, while there is just one
	rest  strings.Builder
}

func (b *block) add(s string) {
	switch {
	case b.rest.Len() > 0:
		b.rest.WriteString(s)
	case b.first == "":
		b.first = s
	default:
		b.rest.Grow(4 * (len(b.first) + len(s)))
		b.rest.WriteString(b.first)
		b.rest.WriteString(s)
	}
}

func (b *block) String() string {
	if b.rest.Len() > 0 {
		return b.rest.String()
	}
	return b.first
}

// read takes in the stream. It returns an error when the stream fails or ends
// without its terminal signal; nothing of it may then be executed.
func (ans *answer) read(ctx context.Context, chunks iter.Seq2[llm.Chunk, error]) error {
	chunks(ans.take) // the loop written out: its body would be several allocations
	switch {
	case ans.failed != nil:
		return ans.failed
	case ans.stopped:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case ans.finish == "":
		return &llm.Error{Code: llm.CodeTruncated, Retryable: true, Message: "the answer ended before its terminal signal"}
	}
	return nil
}

// take takes in one chunk, and reports whether to go on.
func (ans *answer) take(chunk llm.Chunk, err error) bool {
	if err != nil {
		ans.failed = err
		return false
	}
	if chunk.Lost != nil || chunk.Notice != nil {
		return ans.beside(&chunk)
	}
	ans.begun = true
	if chunk.Reasoning != "" && !ans.delta(&ans.reasoning, chunk.Reasoning, true) {
		return false
	}
	if chunk.Text != "" && !ans.delta(&ans.text, chunk.Text, false) {
		return false
	}
	if chunk.LogProbs != nil {
		ans.probs = append(ans.probs, chunk.LogProbs...)
	}
	ans.sealed += chunk.Sealed
	if chunk.Call != nil {
		ans.calls = append(ans.calls, *chunk.Call)
	}
	if chunk.Usage != nil {
		ans.usage, _ = chunk.Usage.Plausible()
	}
	ans.model = cmp.Or(chunk.Model, ans.model)
	ans.finish = cmp.Or(chunk.Finish, ans.finish)
	return true
}

// beside records what a model that asks others has tried, and reports whether to go on.
func (ans *answer) beside(c *llm.Chunk) bool {
	var of []*event.Event
	if n := c.Notice; n != nil {
		of = append(of, &event.Event{Data: &event.Notice{Code: n.Code, Message: n.Message}, More: true})
	}
	if a := c.Lost; a != nil {
		void := &event.Discard{Code: string(a.Code), Message: a.Message}
		if a.Usage != nil {
			u, _ := a.Usage.Plausible()
			void.Usage = &event.Usage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, CachedTokens: u.CachedTokens, Model: a.Model}
		}
		of = append(of, &event.Event{Data: void}) // stored at once: the next request may take long
	}
	for _, e := range of {
		ans.stopped = ans.stopped || !ans.yield(e, nil)
	}
	return !ans.stopped
}

// delta shows a piece of a block and reports whether to go on.
func (ans *answer) delta(b *block, s string, thinking bool) bool {
	b.add(s)
	if ans.quiet || !ans.inv.Streaming() {
		return true
	}
	if b.id == "" {
		b.id = ans.inv.NewID()
	}
	var e *event.Event
	if thinking {
		p := &struct {
			e event.Event
			d event.Reasoning
		}{d: event.Reasoning{Content: s}}
		e, p.e.Data = &p.e, &p.d
	} else {
		p := &struct {
			e event.Event
			d event.Text
		}{d: event.Text{Content: s}}
		e, p.e.Data = &p.e, &p.d
	}
	e.ID, e.Partial, e.Attempt = b.id, true, ans.attempt
	if !ans.yield(e, nil) {
		ans.stopped = true
	}
	return !ans.stopped
}

// ids returns the ids under which deltas were shown.
func (ans *answer) ids() []string {
	var ids []string
	for _, b := range []*block{&ans.reasoning, &ans.text} {
		if b.id != "" {
			ids = append(ids, b.id)
		}
	}
	return ids
}

// empty reports whether a whole answer has nothing to show, and nothing to say why.
func (ans *answer) empty() bool {
	return len(ans.calls) == 0 && ans.finish != llm.FinishLength && ans.finish != llm.FinishContentFilter && strings.TrimSpace(ans.text.String()) == ""
}

// usageOf returns what the answer used; modelName is used if the endpoint does
// not name the model.
func (ans *answer) usageOf(modelName string) *event.Usage {
	return &event.Usage{InputTokens: ans.usage.InputTokens, OutputTokens: ans.usage.OutputTokens,
		CachedTokens: ans.usage.CachedTokens, Model: cmp.Or(ans.model, modelName)}
}

// used returns what a discarded answer used, nil if that is unknown.
func (ans *answer) used(modelName string) *event.Usage {
	if ans.usage == (llm.Usage{}) {
		return nil
	}
	return ans.usageOf(modelName)
}

// deliver yields the whole answer of an agent's model, and what the runner shall
// do next. The run is what it was when the model was asked.
func (ans *answer) deliver(ctx context.Context, inv *agent.Invocation, a *Agent, run view.Run) {
	if !ans.words() {
		return
	}
	if a.split {
		ans.passOn(inv, a)
		return
	}
	var asked *event.Event // a transfer
	for _, c := range ans.calls {
		e := a.called(inv, c)
		if !ans.yield(e, nil) {
			return
		}
		if e.Data.(*event.ToolCall).Name == agent.TransferTool {
			asked = e
		}
	}
	atOnce := asked != nil && a.atOnce(inv, ans.calls)
	last := &event.Event{Data: ans.usageOf(a.model.Name())}
	last.More = len(ans.calls) == 0 || atOnce // then the end of the run, or the transfer, joins this write
	if !ans.yield(last, nil) {
		return
	}
	switch {
	case ans.output != nil:
		ans.yield(&event.Event{Data: &event.Finish{Reason: event.FinishReasonStop, Output: ans.output}}, nil)
	case atOnce:
		run.Spoken = run.Spoken || strings.TrimSpace(ans.text.String()) != ""
		a.decide(ctx, inv, run, []view.Call{{ID: asked.ID, Name: agent.TransferTool, RunID: inv.RunID(), Input: asked.Data.(*event.ToolCall).Input}}, ans.yield)
	case len(ans.calls) > 0:
		ans.yield(&event.Event{Data: &event.Continue{}}, nil)
	case ans.finish == llm.FinishLength:
		ans.yield(&event.Event{Data: &event.Finish{Reason: event.FinishReasonLength}}, nil)
	case ans.finish == llm.FinishContentFilter:
		ans.yield(&event.Event{Data: &event.Finish{Reason: event.FinishReasonContentFilter}}, nil)
	}
}

// called makes the event of a call, which the log names as it means it.
func (a *Agent) called(inv *agent.Invocation, c llm.ToolCall) *event.Event {
	data := &event.ToolCall{Name: c.Name, Input: event.ObjectInput(c.Arguments)}
	if target, ok := a.transferTo(inv.Node(), c.Name); ok {
		data.Name = agent.TransferTool
		if target != "" {
			data.Input = transfer.Input(target, data.Input)
		}
	} else if !toolName(data.Name) {
		data.Input = event.EncodeJSON(map[string]string{"name": clean(data.Name), "arguments": clean(c.Arguments)})
		data.Name = malformedTool
	} else if object := ""; strings.HasPrefix(c.Arguments, `"{\"`) && json.Unmarshal([]byte(c.Arguments), &object) == nil && json.Valid([]byte(object)) {
		data.Input = event.ObjectInput(object) // some models and endpoints encode it once more
	}
	return &event.Event{Data: data, More: true}
}

// atOnce reports whether the transfer that an answer asks for is decided in the answer's own
// write: a crash between the two could lose nothing but the answer, and there is nothing
// between them that takes time. Of several calls each might take long.
func (a *Agent) atOnce(inv *agent.Invocation, calls []llm.ToolCall) bool {
	return len(calls) == 1 && inv.AtOnce() && !a.askTransfer && !event.TooDeep([]byte(calls[0].Arguments))
}

// words yields the texts of a whole answer, and reports whether to go on.
func (ans *answer) words() bool {
	if r := ans.reasoning.String(); r != "" || ans.sealed != "" {
		if !ans.yield(&event.Event{ID: ans.reasoning.id, Data: &event.Reasoning{Content: r, Sealed: ans.sealed}, More: true}, nil) {
			return false
		}
	}
	t := ans.text.String()
	return t == "" || ans.yield(&event.Event{ID: ans.text.id, Data: &event.Text{Content: t}, More: true}, nil)
}
