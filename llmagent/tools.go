package llmagent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agent/workflow"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/transfer"
	"github.com/agentarbor/arbor/view"
)

// maxRefused is how many refused transfers of one run are answered; one more
// ends it.
const maxRefused = 3

// wandering says what helps where agents pass a conversation on and on.
const wandering = "this is the third transfer of the turn before anything was said: if the models are small, set transfer: {profile: small}" +
	" in the root agent's file, or llmagent.WithSmallModels in Go"

// malformedTool is the tool name in the log of a call whose own no endpoint
// would accept; that name is kept in the call's input.
const malformedTool = "malformed_tool_name"

// notApproved is what a model reads of a call that would not run as it was approved, or as the rules allow.
const notApproved = "not executed: the tool or its arguments are not those that were approved"

func toolName(name string) bool { return tools.CheckName(name) == nil }

func clean(s string) string {
	if len(s) > 1000 {
		s = s[:1000]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// noTool says that the agent has no tool of that name.
func (a *Agent) noTool(name string) error {
	names := make([]string, len(a.tools))
	for i, t := range a.tools {
		names[i] = t.Info().Name
	}
	return fmt.Errorf("agent %q has no tool %q%s", a.name, name, nearest.Hint(name, names))
}

// runTools settles the calls of one answer: first the tools, in parallel, each
// result stored when it is there; then the transfers, in one write.
func (a *Agent) runTools(ctx context.Context, inv *agent.Invocation, run view.Run, calls []view.Call, yield func(*event.Event, error) bool) {
	var plain, transfers []view.Call
	for _, c := range calls {
		if c.Name == agent.TransferTool {
			transfers = append(transfers, c)
		} else {
			plain = append(plain, c)
		}
	}
	now, later := a.sort(inv, plain)
	asked, waits := a.permissions(later), len(later) > 0
	if len(now) > 0 {
		w, goOn := a.execute(ctx, inv, run, now, yield)
		if !goOn {
			return
		}
		asked, waits = append(asked, w.asked...), waits || w.any
	}
	if waits {
		pause(asked, yield)
		return
	}
	if len(transfers) > 0 {
		a.decide(ctx, inv, run, transfers, yield)
		return
	}
	yield(&event.Event{Data: &event.Continue{}}, nil)
}

// together is the time within which results count as being there at once. It is shorter
// than that of the agents of a workflow: what is inside has settled when they do.
const together = workflow.Settle / 2

// execute runs tools and yields their results. Results that arrive within a short time
// are yielded in the order of the calls, so that the order of the log does not depend
// on which processor was quicker. A tool that takes longer does not delay other
// results. It returns what waits, reports whether to go on, and returns only when no tool runs
// any more.
func (a *Agent) execute(ctx context.Context, inv *agent.Invocation, run view.Run, calls []view.Call, yield func(*event.Event, error) bool) (w waiting, goOn bool) {
	if len(calls) == 1 && a.quick(calls[0], inv) {
		return w, yield(a.refuse(calls[0], inv, run), nil)
	}
	ctx, cancel := context.WithCancel(ctx)
	// Every event of a call goes through a channel to the one goroutine that may yield.
	// Reports is never closed: what a tool has left running may still send.
	reports, ends := make(chan []*event.Event), make(chan ended, len(calls))
	send := func(e ...*event.Event) bool {
		select {
		case reports <- e:
			return true
		case <-ctx.Done():
			return false
		}
	}
	slots := semaphore.NewWeighted(int64(a.parallel)) // one for each tool, from its start until its result is taken here
	begun, running := 0, 0
	goOn = true
	defer func() {
		for cancel(); running > 0; running-- { // yield panicked: the turn ends, and no tool may outlive it
			<-ends
		}
	}()
	var there []ended // and not yielded yet
	var settled <-chan time.Time
	for {
		for ; begun < len(calls) && ctx.Err() == nil && slots.TryAcquire(1); begun++ {
			running++
			call := begun
			go func() {
				e := a.call(ctx, inv, run, calls[call], send)
				e.call = call
				ends <- e
			}()
		}
		if running == 0 {
			break
		}
		select {
		case events := <-reports:
			for _, e := range events {
				goOn = goOn && yield(e, nil)
			}
		case e := <-ends:
			running--
			slots.Release(1)
			if e.waits {
				w.add(e)
				break
			}
			there = append(there, e)
			if settled == nil && running > 0 {
				settled = time.After(together)
			}
		case <-settled:
			settled = nil
			goOn = goOn && settle(there, yield)
			there = there[:0]
		}
		if running == 0 {
			goOn = goOn && settle(there, yield)
			there, settled = there[:0], nil
		}
		if !goOn {
			cancel()
		}
	}
	if goOn && ctx.Err() != nil {
		yield(nil, ctx.Err())
		return w, false
	}
	return w, goOn
}

// ended is how a call has ended.
type ended struct {
	call   int // its place in the answer
	events []*event.Event
	err    error        // ends the run
	waits  bool         // it has no result yet
	asked  *event.Relay // what it asks, nil if something inside of it does
}

// waiting is what of the calls of one answer has to wait.
type waiting struct {
	any   bool
	asked []*event.Relay // in the order of the calls
	calls []int
}

func (w *waiting) add(e ended) {
	w.any = true
	if e.asked != nil {
		at, _ := slices.BinarySearch(w.calls, e.call)
		w.calls, w.asked = slices.Insert(w.calls, at, e.call), slices.Insert(w.asked, at, e.asked)
	}
}

// settle yields what calls have given, in the order of the calls, and then the first of
// the errors that end the run. It reports whether to go on.
func settle(there []ended, yield func(*event.Event, error) bool) bool {
	slices.SortFunc(there, func(a, b ended) int { return a.call - b.call })
	var failed error
	for _, t := range there {
		failed = cmp.Or(failed, t.err)
		for _, e := range t.events {
			if !yield(e, nil) {
				return false
			}
		}
	}
	if failed != nil {
		yield(nil, failed)
		return false
	}
	return true
}

// quick reports whether a call is answered without running anything.
func (a *Agent) quick(c view.Call, inv *agent.Invocation) bool {
	return a.byName[c.Name] == nil || a.denied(c) != "" || a.stays(c, inv) || a.lost(c, inv)
}

// refuse answers a call that is not run.
func (a *Agent) refuse(c view.Call, inv *agent.Invocation, run view.Run) *event.Event {
	message := "interrupted; outcome unknown; check before you repeat it"
	if a.stays(c, inv) {
		message = "not executed here: " + agent.StaysBehind
	}
	if reason := a.denied(c); reason != "" {
		message = reason
	}
	if a.byName[c.Name] == nil {
		message = a.correct(c, a.invalid(inv, run, c.Name, c.Input), run)
	}
	return result(c, event.EncodeJSON(message), true)
}

func result(c view.Call, output json.RawMessage, isError bool) *event.Event {
	return &event.Event{ID: c.ID, Data: &event.ToolResult{Name: c.Name, Output: output, IsError: isError}}
}

// call runs one tool and returns the events that settle it, or that it waits, or an error
// that ends the run.
func (a *Agent) call(ctx context.Context, inv *agent.Invocation, run view.Run, c view.Call, send func(...*event.Event) bool) (end ended) {
	if a.quick(c, inv) {
		return ended{events: []*event.Event{a.refuse(c, inv, run)}}
	}
	var inside atomic.Bool // an agent that the tool runs waits
	info := tools.CallInfo{
		Session: inv.Session().Key(), Agent: inv.Agent().Name(), RunID: c.RunID, CallID: c.ID,
		Logger: inv.Logger(), Metadata: inv.Metadata(), State: inv.Session().State,
		SaveFile: inv.Runtime().SaveFile, File: inv.Session().File,
		Progress: func(content json.RawMessage) {
			send(&event.Event{Data: &event.ToolProgress{ToolCallID: c.ID, Name: c.Name, Content: content}})
		},
		RunAgent: func(ctx context.Context, inner agent.Agent, input llm.Content) (string, error) {
			answer, err := runInner(ctx, inv, inner, c.ID, input, send)
			if errors.Is(err, agent.ErrWaits) {
				inside.Store(true)
			}
			return answer, err
		},
		Answers: c.Answers,
		Ask: func(message string, schema json.RawMessage) {
			end.asked = &event.Relay{Kind: event.RelayInput, ToolCallID: c.ID, Tool: c.Name, Params: c.Input, Message: message, Schema: schema,
				Client: a.byName[c.Name].Info().Client}
		},
	}
	var done tools.Result
	res, err := inv.Runtime().Call(ctx, agent.ToolCallInfo{Invocation: inv, ID: c.ID, Name: c.Name, Input: c.Input},
		func(ctx context.Context, input json.RawMessage) (*event.ToolResult, error) {
			end.asked = nil // by an attempt before
			inside.Store(false)
			if a.stale(c, input) { // an interceptor has changed the arguments, or the tool has just changed
				return &event.ToolResult{Name: c.Name, Output: event.EncodeJSON(notApproved), IsError: true}, nil
			}
			res, err := tools.Execute(ctx, a.byName[c.Name], info, input)
			if err != nil {
				return nil, err
			}
			if res.IsError {
				if wrong := a.invalid(inv, run, c.Name, input); wrong != "" {
					res.Output = event.EncodeJSON(a.correct(c, wrong, run))
				}
			}
			done = res
			return &event.ToolResult{Name: c.Name, Output: res.Output, IsError: res.IsError}, nil
		})
	switch waits := errors.Is(err, agent.ErrWaits); {
	case waits && (end.asked != nil || inside.Load()):
		end.waits = true
		return end
	case waits: // for nobody who could ever end it
		message := fmt.Sprintf("the tool %s says that it waits, and neither asks anybody nor runs an agent that does", c.Name)
		return ended{events: []*event.Event{result(c, event.EncodeJSON(message), true)}}
	case err != nil:
		return ended{err: err}
	}
	var events []*event.Event
	if len(done.State) > 0 {
		events = append(events, &event.Event{Data: &event.State{Delta: done.State}, More: true})
	}
	for _, f := range done.Files {
		f.ToolCallID = c.ID
		events = append(events, &event.Event{Data: f, More: true})
	}
	return ended{events: append(events, result(c, res.Output, res.IsError))}
}

// runInner runs an agent in a scope of its own and returns the last words of
// the agent that answers in it, or else the output with which it has finished; what an
// agent said before it handed over is no answer.
func runInner(ctx context.Context, inv *agent.Invocation, inner agent.Agent, cause string, input llm.Content, send func(...*event.Event) bool) (string, error) {
	var answer event.Answer
	scope := ""
	for e, err := range inv.Runtime().Run(ctx, inner, cause, input) {
		if err != nil {
			return "", innerError{err}
		}
		if scope == "" {
			scope = e.Scope // its first event comes before those of scopes inside it
		}
		if e.Scope == scope {
			answer.Apply(e)
		}
		if !send(e) {
			return "", context.Cause(ctx)
		}
	}
	if strings.TrimSpace(answer.Text) == "" {
		return "", fmt.Errorf("the agent %s ended without an answer", inner.Name())
	}
	return answer.Text, nil
}

// innerError is the error of an inner run in words that the calling model may
// read.
type innerError struct{ error }

func (e innerError) Error() string { return agent.ForModel(e.error) }
func (e innerError) Unwrap() error { return e.error }

// decide settles the transfer calls of one answer. The first legal one wins;
// all are answered in the same write as the transfer itself.
func (a *Agent) decide(ctx context.Context, inv *agent.Invocation, run view.Run, calls []view.Call, yield func(*event.Event, error) bool) {
	d := decision{agent: a, inv: inv, run: run, targets: a.offered(inv.Node(), run).targets}
	d.events = d.room[:0]
	for _, c := range calls {
		if err := d.call(ctx, c); err != nil {
			yield(nil, err)
			return
		}
	}
	if err := ctx.Err(); err != nil {
		yield(nil, err) // cancelled before the commit: nothing switches
		return
	}
	if d.waits {
		pause(d.asked, yield)
		return
	}
	if d.winner != nil {
		if run.Wordless == 2 && !run.Spoken && !inv.Node().SmallModels() {
			d.add(&event.Event{Data: &event.Notice{Code: event.NoticeWandering, Message: wandering}})
		}
		d.add(&event.Event{Data: d.winner})
	} else if d.err == nil && run.Refused+d.refused > maxRefused {
		d.err = fmt.Errorf("%w: %d attempts in one run, the last: %s", agent.ErrTransferRejected, run.Refused+d.refused, d.last)
	}
	for i, e := range d.events {
		e.More = i < len(d.events)-1 || d.err != nil
		if !yield(e, nil) {
			return
		}
	}
	switch {
	case d.err != nil:
		yield(nil, d.err)
	case d.winner == nil:
		yield(&event.Event{Data: &event.Continue{}}, nil)
	}
}

type decision struct {
	agent   *Agent
	inv     *agent.Invocation
	run     view.Run
	targets []*agent.Node // that the model was offered
	ran     bool          // no interceptor has answered the call in the tool's place
	room    [3]*event.Event
	verdict
}

// verdict is the outcome of the calls so far. It is small, so that copying it costs
// next to nothing.
type verdict struct {
	events  []*event.Event
	winner  *event.Transfer
	asked   []*event.Relay // about the transfer that waits for an approval
	waits   bool
	refused int
	last    string // the result of the last refused call
	err     error  // ends the run
}

func (d *decision) add(e *event.Event) { d.events = append(d.events, e) }

// call settles one call through the interceptors. One of them may turn a
// transfer into an error: it is not committed then.
func (d *decision) call(ctx context.Context, c view.Call) error {
	n, winner, before := len(d.events), d.winner, d.verdict
	d.ran = false
	res, err := d.inv.Runtime().Call(ctx, agent.ToolCallInfo{Invocation: d.inv, ID: c.ID, Name: c.Name, Input: c.Input},
		func(ctx context.Context, input json.RawMessage) (*event.ToolResult, error) {
			d.verdict = before // an interceptor may try again
			d.ran, c.Input = true, input
			d.settle(ctx, c)
			if len(d.events) == n {
				return &event.ToolResult{Name: c.Name, Output: event.EncodeJSON("waits for an approval")}, nil
			}
			return d.events[n].Data.(*event.ToolResult), nil
		})
	switch settled := len(d.events) > n; {
	case err != nil:
		return err
	case d.ran && !settled && !res.IsError:
		return nil
	case settled && (!res.IsError || d.winner == winner):
		if res != d.events[n].Data {
			d.events[n] = result(c, res.Output, res.IsError)
		}
		return nil
	}
	d.events, d.winner = d.events[:n], winner
	d.asked, d.waits = before.asked, before.waits
	d.add(result(c, res.Output, res.IsError))
	if call, err := transfer.Parse(c.Input); err == nil && res.IsError {
		d.record(c, call, event.TransferFailed)
	}
	return nil
}

func (d *decision) settle(ctx context.Context, c view.Call) {
	call, err := transfer.Parse(c.Input)
	var target *agent.Node
	switch {
	case d.run.Limited:
		err = &agent.TransferLimitError{Reason: "no transfer is offered any more in this run"}
		d.err = err
	case d.run.Decided:
		err = fmt.Errorf("it was decided that you answer: no transfer is offered in this run: %w", agent.ErrTransferRejected)
	case err != nil:
		err = fmt.Errorf("%w: %s. %s", agent.ErrUnknownTarget, err, transfer.Legal(d.targets, ""))
	default:
		target, err = transfer.Resolve(d.inv.Node(), d.inv.Tree(), d.targets, call)
	}
	if d.winner != nil {
		if target != nil && target.Agent.Name() == d.winner.To {
			d.answer(c, "Transferred to "+d.winner.To+".", false)
			return
		}
		d.answer(c, "not executed: the conversation went to "+d.winner.To, true)
		d.record(c, call, event.TransferConflict)
		return
	}
	if err == nil {
		err = d.inv.Runtime().CheckTransfer(ctx, d.inv, target.Agent.Name())
	}
	switch {
	case err == nil && d.agent.askTransfer && d.asks(c, target):
	case err == nil && c.Answer != nil && !c.Answer.Approved:
		d.answer(c, refusal(c.Answer), true)
		d.record(c, call, event.TransferFailed)
	case err == nil:
		d.winner = &event.Transfer{From: d.agent.name, To: target.Agent.Name(), Reason: call.Reason, ToolCallID: c.ID, Outcome: event.TransferCommitted}
		if d.inv.Node().InputFor(target) != nil {
			d.winner.Payload = call.Input
		}
		d.answer(c, "Transferred to "+d.winner.To+".", false)
	default:
		d.refuse(c, call, err)
	}
}

// asks reports whether a legal transfer waits for an approval. The first one is the one to ask
// about.
func (d *decision) asks(c view.Call, target *agent.Node) bool {
	by := d.agent.transferBy.Or(d.agent.approver)
	digest := tools.Digest(llm.ToolSpec{Name: c.Name, Description: target.Agent.Description()}, by.Needs(), c.Input)
	if c.Answer != nil && !c.Asked && (!c.Answer.Approved || c.Answer.Digest == digest) {
		return false
	}
	if !d.waits && !c.Asked {
		d.asked = []*event.Relay{{Kind: event.RelayPermission, ToolCallID: c.ID, Tool: c.Name, Params: c.Input, By: by.Needs(), Digest: digest}}
	}
	d.waits = true
	return true
}

// refuse answers a call that moves nothing, and records why.
func (d *decision) refuse(c view.Call, call transfer.Call, err error) {
	var limit *agent.TransferLimitError
	switch {
	case errors.As(err, &limit):
		d.answer(c, "limit reached: answer yourself ("+limit.Reason+")", true)
		d.record(c, call, event.TransferRejected)
		d.add(&event.Event{Data: &event.Notice{Code: event.NoticeTransferLimit, Message: limit.Error()}})
	case errors.Is(err, agent.ErrTargetNotReady):
		d.answer(c, err.Error(), true)
		d.record(c, call, event.TransferFailed)
	default:
		d.refused++
		d.last = err.Error()
		d.answer(c, d.last, true)
		d.record(c, call, event.TransferRejected)
	}
}

func (d *decision) answer(c view.Call, text string, isError bool) {
	d.add(result(c, event.EncodeJSON(text), isError))
}

func (d *decision) record(c view.Call, call transfer.Call, outcome event.TransferOutcome) {
	d.add(&event.Event{Data: &event.Transfer{From: d.agent.name, To: clean(call.Target), Reason: call.Reason, ToolCallID: c.ID, Outcome: outcome}})
}
