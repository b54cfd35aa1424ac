package llmagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/transfer"
	"github.com/agentarbor/arbor/view"
)

// maxRefused is the number of refused transfers of one run that the model may correct. One more ends the run.
const maxRefused = 3

// wanderingNotice is the notice about agents that transfer a conversation again and again without saying anything.
const wanderingNotice = "this is the third transfer of the turn before anything was said: if the models are small, set transfer: {profile: small}" +
	" in the root agent's file, or llmagent.WithSmallModels in Go"

// runTransfers runs the transfer calls of one answer. The first legal one wins. The results of all are in the same write
// as the transfer itself.
func (x *execution) runTransfers(calls []view.Call) error {
	r := &transferRound{execution: x, targets: x.templateFor(x.inv.Node(), x.run).targets}
	r.events = make([]*event.Event, 0, 2*len(calls)+1)
	for _, c := range calls {
		if err := r.call(c); err != nil {
			return err
		}
	}
	if err := x.ctx.Err(); err != nil {
		return err // cancelled before the write: the transfer does not happen
	}
	if r.waits {
		return x.pause(r.approvals)
	}
	if r.accepted != nil {
		if x.run.Wordless == 2 && !x.run.Spoken && !x.inv.Node().SmallModels() {
			r.add(&event.Event{Data: &event.Notice{Code: event.NoticeWandering, Message: wanderingNotice}})
		}
		r.add(&event.Event{Data: r.accepted})
	} else if refused := x.run.Refused + r.refusals; r.err == nil && refused > maxRefused {
		r.err = fmt.Errorf("%w: %d attempts in one run, the last: %s", agent.ErrTransferRejected, refused, r.lastRefusal)
	}
	for i, e := range r.events {
		e.More = i < len(r.events)-1 || r.err != nil // one write, with the error
	}
	if err := x.emit(r.events...); err != nil {
		return err
	}
	if r.err == nil && r.accepted == nil {
		return x.continueRun()
	}
	return r.err
}

// transferRound decides about the transfer calls of one answer.
type transferRound struct {
	*execution
	targets []*agent.Node // the targets that the model was offered
	ran     bool          // the call has passed the interceptors
	verdict
}

// verdict is the outcome of the calls so far.
type verdict struct {
	events      []*event.Event
	accepted    *event.Transfer
	approvals   []*event.Relay // the approval requests
	waits       bool
	refusals    int
	lastRefusal string // the result of the last refused call
	err         error  // the error that ends the run, or nil
}

func (r *transferRound) add(e *event.Event) { r.events = append(r.events, e) }

// call runs one call through the interceptors. If an interceptor turns the result of a transfer into an error, the
// transfer does not happen.
func (r *transferRound) call(c view.Call) error {
	n, before := len(r.events), r.verdict
	r.ran = false
	info := agent.ToolCallInfo{Invocation: r.inv, ID: c.ID, Name: c.Name, Input: c.Input}
	res, err := r.inv.Runtime().Call(r.ctx, info, func(ctx context.Context, input json.RawMessage) (*event.ToolResult, error) {
		r.verdict = before // an interceptor may try again
		r.ran, c.Input = true, input
		r.decideTransfer(ctx, c)
		if len(r.events) == n {
			return &event.ToolResult{Name: c.Name, Output: event.EncodeJSON("waits for an approval")}, nil
		}
		return r.events[n].Data.(*event.ToolResult), nil
	})
	switch answered := len(r.events) > n; {
	case err != nil:
		return err
	case r.ran && !answered && !res.IsError:
		return nil
	case answered && (!res.IsError || r.accepted == before.accepted):
		if res != r.events[n].Data {
			r.events[n] = result(c, res.Output, res.IsError)
		}
		return nil
	}
	r.events, r.accepted = r.events[:n], before.accepted
	r.approvals, r.waits = before.approvals, before.waits
	r.add(result(c, res.Output, res.IsError))
	if call, err := transfer.Parse(c.Input); err == nil && res.IsError {
		r.addOutcome(c, call, event.TransferFailed)
	}
	return nil
}

// decideTransfer decides about one call.
func (r *transferRound) decideTransfer(ctx context.Context, c view.Call) {
	call, target, err := r.target(c)
	if r.accepted != nil {
		if target != nil && target.Agent.Name() == r.accepted.To {
			r.addResult(c, "Transferred to "+r.accepted.To+".", false)
			return
		}
		r.addResult(c, "not executed: the conversation went to "+r.accepted.To, true)
		r.addOutcome(c, call, event.TransferConflict)
		return
	}
	if err == nil {
		err = r.inv.Runtime().CheckTransfer(ctx, r.inv, target.Agent.Name())
	}
	switch {
	case err == nil && r.agent.askTransfer && r.needsApproval(c, target):
	case err == nil && c.Answer != nil && !c.Answer.Approved:
		r.addResult(c, refusal(c.Answer), true)
		r.addOutcome(c, call, event.TransferFailed)
	case err == nil:
		r.accepted = &event.Transfer{From: r.agent.name, To: target.Agent.Name(), Reason: call.Reason, ToolCallID: c.ID, Outcome: event.TransferCommitted}
		if r.inv.Node().InputFor(target) != nil {
			r.accepted.Payload = call.Input
		}
		r.addResult(c, "Transferred to "+r.accepted.To+".", false)
	default:
		r.refuseTransfer(c, call, err)
	}
}

// target returns the agent that a call names, or why the model may not transfer to it.
func (r *transferRound) target(c view.Call) (call transfer.Call, target *agent.Node, err error) {
	call, err = transfer.Parse(c.Input)
	switch {
	case r.run.Limited:
		err = &agent.TransferLimitError{Reason: "no transfer is offered any more in this run"}
		r.err = err
	case r.run.Decided:
		err = fmt.Errorf("it was decided that you answer: no transfer is offered in this run: %w", agent.ErrTransferRejected)
	case err != nil:
		err = fmt.Errorf("%w: %s. %s", agent.ErrUnknownTarget, err, transfer.Legal(r.targets, ""))
	default:
		target, err = transfer.Resolve(r.inv.Node(), r.inv.Tree(), r.targets, call)
	}
	return call, target, err
}

// needsApproval reports whether a legal transfer waits for an approval. The agent requests an approval of the first
// such transfer only.
func (r *transferRound) needsApproval(c view.Call, target *agent.Node) bool {
	by := r.agent.transferBy.Or(r.agent.approver)
	digest := tools.Digest(tools.Info{ToolSpec: llm.ToolSpec{Name: c.Name, Description: target.Agent.Description()}}, by.Needs(), c.Input)
	if c.Answer != nil && !c.Asked && (!c.Answer.Approved || c.Answer.Digest == digest) {
		return false
	}
	if !r.waits && !c.Asked {
		r.approvals = []*event.Relay{{Kind: event.RelayPermission, ToolCallID: c.ID, Tool: c.Name, Params: c.Input, By: by.Needs(), Digest: digest}}
	}
	r.waits = true
	return true
}

// refuseTransfer adds the result of a call that does not transfer, and the outcome with the reason.
func (r *transferRound) refuseTransfer(c view.Call, call transfer.Call, err error) {
	var limit *agent.TransferLimitError
	switch {
	case errors.As(err, &limit):
		r.addResult(c, "limit reached: answer yourself ("+limit.Reason+")", true)
		r.addOutcome(c, call, event.TransferRejected)
		r.add(&event.Event{Data: &event.Notice{Code: event.NoticeTransferLimit, Message: limit.Error()}})
	case errors.Is(err, agent.ErrTargetNotReady):
		r.addResult(c, agent.ForModel(err), true)
		r.addOutcome(c, call, event.TransferFailed)
	default:
		r.refusals++
		r.lastRefusal = err.Error()
		r.addResult(c, r.lastRefusal, true)
		r.addOutcome(c, call, event.TransferRejected)
	}
}

func (r *transferRound) addResult(c view.Call, text string, isError bool) {
	r.add(result(c, event.EncodeJSON(text), isError))
}

func (r *transferRound) addOutcome(c view.Call, call transfer.Call, outcome event.TransferOutcome) {
	r.add(&event.Event{Data: &event.Transfer{From: r.agent.name, To: clean(call.Target), Reason: call.Reason, ToolCallID: c.ID, Outcome: outcome}})
}
