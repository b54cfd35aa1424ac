package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// Prospect describes a turn whose first transfer a [Predictor] predicts.
type Prospect struct {
	Session session.Key
	// Agent is the active agent, which may transfer.
	Agent *agent.Node
	// Targets are the agents that it may transfer to and whose request can be sent early.
	Targets []*agent.Node
	// Message is the user's message of this turn.
	Message llm.Content
}

// Predictor returns the name of the agent to which a turn will probably transfer first, and how sure it is, from 0 to
// 1. A name that is not one of the prospect's targets predicts nothing. The runner calls it on a separate goroutine
// while the model of the active agent answers, so the turn does not wait for it. It must return when ctx ends: while 64
// calls of ended turns have not returned, the runner predicts nothing. A panic is logged and predicts nothing. A
// Predictor must be safe for concurrent use.
type Predictor func(ctx context.Context, p Prospect) (target string, confidence float64)

// anticipation is the early request to the probable target of a transfer, sent while the agent that may transfer still
// answers. A turn has at most one.
type anticipation struct {
	turn     *turn
	prospect Prospect
	run      session.Run    // of the agent that may transfer
	session  *cachedSession // a copy from before that agent's request
	expected amount         // the estimated usage of that agent's request
	cancel   context.CancelFunc
	done     chan struct{} // closed when the goroutine has ended; nil before it starts
	over     atomic.Bool   // whether the goroutine or the turn has ended; the other one then sees that
	changed  chan struct{} // has an element after a new chunk or the end of the answer; capacity 1

	mu     sync.Mutex
	state  anticipationState
	callID string // for the call that transfers, "" once a call has it
	to     string // the target, "" before its model was asked
	model  llm.Model
	req    *llm.Request // nil before the model was asked
	chunks []answerPart
	ended  bool // no more chunks come
	failed error
	answer modelAnswer
}

// anticipationState says what becomes of an anticipation. Not begun leads to wanted or closed, wanted to unwanted or
// adopted, and these to closed.
type anticipationState int

const (
	anticipationNotBegun anticipationState = iota // the conversation's next request may begin it
	anticipationWanted                            // the turn may still transfer to the target
	anticipationUnwanted                          // the turn cannot, and the log does not have the usage yet
	anticipationAdopted                           // the target's request uses the answer
	anticipationClosed
)

// openAnticipation returns the conversation's anticipation that is neither adopted nor closed, nil without one.
func (s *scope) openAnticipation() *anticipation {
	a := s.turn.anticipation
	if s.draft.scope != "" || a == nil || !a.is(anticipationWanted, anticipationUnwanted) {
		return nil
	}
	return a
}

func (a *anticipation) is(states ...anticipationState) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Contains(states, a.state)
}

// answerPart is an element of a model's answer.
type answerPart struct {
	chunk llm.Chunk
	err   error
}

// requester is implemented by agents that can return their next request without sending it.
type requester interface {
	NextRequest(context.Context, *agent.Invocation) (llm.Model, *llm.Request, error)
}

// anticipate starts an anticipation at the first request of a turn, unless limits, budgets or the agent forbid it.
func (s runtime) anticipate(ctx context.Context, inv *agent.Invocation, model llm.Model, req *llm.Request) {
	n, t := inv.Node(), s.turn
	a := t.anticipation
	if s.draft.scope != "" || a == nil || !n.Properties.Stepwise || n.Properties.TransferApproval || !a.is(anticipationNotBegun) {
		return
	}
	a.state, a.turn, a.run, a.prospect = anticipationClosed, t, s.draft.run, Prospect{Session: t.key, Agent: n, Message: inv.Message()}
	for _, to := range n.Targets() {
		if canAnticipate(n, to) {
			a.prospect.Targets = append(a.prospect.Targets, to)
		}
	}
	limit := s.meter.limits.Transfers
	if _, turn := s.turn.runAndTurn(s.draft.scope); len(a.prospect.Targets) == 0 || t.r.late.Load() >= maxLate || limit > 0 && turn.Transfers >= limit {
		return
	}
	if s.meter.counts() {
		var err error
		if a.expected, err = s.meter.estimateRequest(n.Agent.Name(), model, req); err != nil {
			return
		}
	}
	a.session, a.callID, a.done, a.changed = t.copySession(), t.newID(), make(chan struct{}), make(chan struct{}, 1)
	ctx, a.cancel = context.WithCancel(ctx)
	a.state = anticipationWanted
	go a.begin(ctx)
	if t.r.anticipated != nil {
		t.r.anticipated(a.done)
	}
}

// canAnticipate reports whether n's transfer to the target can be anticipated: the target has a model, and the program
// has no guard, input, condition, readiness check or view function that would run before its request.
func canAnticipate(n, to *agent.Node) bool {
	_, asks := agent.As[requester](to.Agent)
	_, readies := agent.As[agent.Readier](to.Agent)
	chosen, _ := to.Edge.History.(interface{ ByFunction() bool })
	return asks && !readies && to.Properties.Stepwise && !to.Virtual() && !to.Properties.Router && !to.Properties.ViewByFunction && (chosen == nil || !chosen.ByFunction()) &&
		len(to.Guards()) == 0 && n.InputFor(to) == nil && to.Edge.When == nil
}

// begin predicts the target and asks its model. It is the goroutine of the anticipation.
func (a *anticipation) begin(ctx context.Context) {
	r, name := a.turn.r, a.prospect.Agent.Agent.Name()
	defer close(a.done)
	defer a.cancel()
	defer func() {
		if a.over.Swap(true) {
			r.late.Add(-1)
		}
		if p := recover(); p != nil {
			_ = r.panicked("a predictor", name, p)
		}
	}()
	if ctx.Err() != nil {
		return
	}
	target, confidence := r.predictor(ctx, a.prospect)
	i := slices.IndexFunc(a.prospect.Targets, func(n *agent.Node) bool { return n.Agent.Name() == target })
	if i < 0 || !(confidence >= r.threshold) || ctx.Err() != nil {
		return
	}
	a.end(a.requestTarget(ctx, a.prospect.Targets[i]))
}

// requestTarget asks the target's model with the request that it would get after a transfer. The turn keeps what the
// target has read of the log for it, so that the next request does not read it again.
func (a *anticipation) requestTarget(ctx context.Context, to *agent.Node) error {
	w := a.session
	t, seq := a.turn.r.readOnlyTurn(ctx, w), w.fold.Seq
	t.lastTransfer, t.log = w.fold.Conversation.Handed, a.transfer(w, to)
	for _, e := range t.log {
		w.apply(e)
	}
	t.onRead = func() { a.share(w.memos, seq) }
	return t.withNextRequest(to.Agent.Name(), func(s *scope, inv *agent.Invocation, model llm.Model, req *llm.Request) error {
		return a.ask(ctx, s, inv, model, req)
	})
}

// share copies the memos that have read the log up to seq to the turn, unless the anticipation was stopped: at its end
// the turn uses its memos.
func (a *anticipation) share(m memos, seq int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state == anticipationWanted {
		m.copyTo(seq, &a.turn.turnSession, a.run.ID)
	}
}

// transfer returns the events that a transfer without a reason would store before the target's request.
func (a *anticipation) transfer(w *cachedSession, to *agent.Node) []*event.Event {
	from, target := a.run.Agent, to.Agent.Name()
	input := event.EncodeJSON(map[string]string{"agent_name": target})
	events := []*event.Event{
		{ID: a.callID, Data: &event.ToolCall{Name: agent.TransferTool, Input: event.ObjectInput(string(input))}},
		{Data: &event.Usage{}},
		{ID: a.callID, Data: &event.ToolResult{Name: agent.TransferTool, Output: event.EncodeJSON("Transferred to " + target + ".")}},
		{Data: &event.Transfer{From: from, To: target, ToolCallID: a.callID, Outcome: event.TransferCommitted}},
		{Data: &event.HarnessEnd{AgentID: a.run.AgentID, FinishReason: event.FinishReasonTransfer, Target: target}},
		{RunID: randomID(), Agent: target, Path: to.Path, ParentID: endNode(a.run.ID), Data: &event.HarnessStart{AgentID: target}},
	}
	for i, e := range events {
		e.Seq, e.Time, e.TurnID = w.fold.Seq+int64(i)+1, w.fold.Latest.Add(1), a.run.TurnID
		e.ID, e.RunID = cmp.Or(e.ID, randomID()), cmp.Or(e.RunID, a.run.ID)
		e.Agent, e.Path, e.Data = cmp.Or(e.Agent, from), cmp.Or(e.Path, a.run.Path), event.Canonical(e.Data)
	}
	return events
}

// ask asks the target's model if limits and budgets have room for the request.
func (a *anticipation) ask(ctx context.Context, s *scope, inv *agent.Invocation, model llm.Model, req *llm.Request) error {
	// A composite makes more requests.
	if _, ok := model.(llm.Composite); ok || !a.admit(inv.Agent().Name(), model, req) {
		return nil
	}
	for chunk, err := range (runtime{s}).call(llm.WithAnticipation(ctx), inv, model, req) {
		if !a.add(chunk, err) {
			break
		}
	}
	return nil
}

// admit reserves the request and records it. It reports false if the request must not be sent.
func (a *anticipation) admit(target string, model llm.Model, req *llm.Request) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state != anticipationWanted || a.turn.tally.reserveEarly(a.expected, target, model, req) != nil {
		return false
	}
	a.to, a.model, a.req = target, model, req
	return true
}

// add keeps a part of the answer, and reports whether to read on.
func (a *anticipation) add(chunk llm.Chunk, err error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state != anticipationWanted && a.state != anticipationAdopted {
		return false
	}
	if err == nil && chunk.Notice == nil {
		a.answer.addChunk(&chunk)
	}
	a.chunks = append(a.chunks, answerPart{chunk, err})
	a.failed = cmp.Or(a.failed, err)
	a.wake()
	return err == nil
}

// end records that the answer has ended. An error is its last part, if the model was asked.
func (a *anticipation) end(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended = true; err != nil && a.req != nil {
		a.chunks, a.failed = append(a.chunks, answerPart{err: err}), err
	}
	a.wake()
}

// wake notifies the reader of the answer.
func (a *anticipation) wake() {
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// stop cancels the request. A wanted anticipation becomes unwanted, an adopted one closed.
func (a *anticipation) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch a.state {
	case anticipationWanted:
		a.state = anticipationUnwanted
	case anticipationAdopted:
		a.state = anticipationClosed
	}
	a.cancel()
}

// claimCallID returns the id for a call that transfers: the first such call gets the id that the early request
// contains, others get fresh.
func (a *anticipation) claimCallID(fresh string) (id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	id, a.callID = cmp.Or(a.callID, fresh), ""
	return id
}

// adopt changes the state to adopted and returns true if a request equals the early one and the answer has not failed.
func (a *anticipation) adopt(target string, model llm.Model, req *llm.Request) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	same := a.state == anticipationWanted && a.failed == nil && a.to == target && a.model.Name() == model.Name() && reflect.DeepEqual(a.req, req)
	if same {
		a.state = anticipationAdopted
	}
	return same
}

// discard stops the request and closes the anticipation. It returns a discard with the usage, nil if the model was not
// asked.
func (a *anticipation) discard() event.Data {
	a.stop()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state = anticipationClosed; a.req == nil {
		return nil
	}
	d := &event.Discard{Code: event.CodeAnticipated, Message: a.to + " was asked before a transfer to it, and the answer is not used"}
	used := a.answer.usage
	switch failed := new(llm.Error); {
	case a.answer.reported:
	case !a.answer.begun && errors.As(a.failed, &failed) && failed.Code != llm.CodeTruncated: // costs nothing
		return d
	default: // the endpoint charges for a canceled request without a report
		used = *(&meter{tally: &a.turn.tally}).charge(a.model.Name(), a.req, &a.answer)
		d.Message += "; by an estimate of what it has used"
	}
	d.Usage = &event.Usage{InputTokens: used.InputTokens, OutputTokens: used.OutputTokens, CachedTokens: used.CachedTokens, Model: cmp.Or(a.answer.model, a.model.Name())}
	return d
}

// replay yields the answer from its first chunk. If the answer is incomplete, replay waits for the rest.
func (a *anticipation) replay(ctx context.Context) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		defer a.stop()
		for i := 0; ; {
			a.mu.Lock()
			chunks, ended := a.chunks[i:], a.ended
			a.mu.Unlock()
			for _, c := range chunks {
				if !yield(c.chunk, c.err) || c.err != nil {
					return
				}
			}
			if i += len(chunks); ended {
				return
			}
			select {
			case <-a.changed:
			case <-ctx.Done():
				yield(llm.Chunk{}, ctx.Err())
				return
			}
		}
	}
}

// watch yields the answer of the agent that may transfer, and stops the early request at the first text. The target's
// request would contain that text and could not equal the early one.
func (a *anticipation) watch(chunks iter.Seq2[llm.Chunk, error]) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		for chunk, err := range chunks {
			if strings.TrimSpace(chunk.Text) != "" {
				a.stop()
			}
			if !yield(chunk, err) {
				return
			}
		}
	}
}

// adoptEarly returns the anticipation if its answer is that of this request. Otherwise the request ends the
// anticipation, whose usage is stored, and adoptEarly returns nil.
func (s runtime) adoptEarly(inv *agent.Invocation, model llm.Model, req *llm.Request) (*anticipation, error) {
	a := s.openAnticipation()
	if a == nil {
		return nil, nil
	}
	if a.adopt(inv.Agent().Name(), model, req) {
		s.turn.tally.releaseEarly()
		return a, nil
	}
	used := a.discard()
	if used == nil {
		return nil, nil
	}
	s.draft.addData(used)
	if err := s.commit(s.ctx, s.draft.takeAll()); err != nil || s.stopped {
		return nil, cmp.Or(err, context.Canceled)
	}
	return nil, nil
}

// discardAnticipation stops the early request, and puts its usage first into the draft.
func (s *scope) discardAnticipation() {
	a := s.openAnticipation()
	if a == nil {
		return
	}
	if used := a.discard(); used != nil {
		s.draft.events = slices.Insert(s.draft.events, 0, s.draft.stamp(&event.Event{Data: used}))
	}
}

// contradicts reports whether events of the agent that may transfer contain text or a call of another tool. The early
// request cannot be used then.
func contradicts(events []*event.Event) bool {
	return slices.ContainsFunc(events, func(e *event.Event) bool {
		c, called := e.Data.(*event.ToolCall)
		return textOf(e) != "" || called && c.Name != agent.TransferTool
	})
}

// mayFollow reports whether a step has transferred to the anticipated target, or whether a later step still can after
// these pending calls.
func (a *anticipation) mayFollow(out outcome, err error, pending []session.Call) bool {
	switch {
	case err != nil:
		return false
	case out.transfer != nil:
		return a.mayTarget(out.transfer.To)
	}
	return out.more && len(pending) > 0 && !slices.ContainsFunc(pending, func(c session.Call) bool { return c.Name != agent.TransferTool })
}

// mayTarget reports whether the anticipation has asked no model yet, or that of the agent with this name.
func (a *anticipation) mayTarget(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.to == "" || a.to == name
}

// grace is how long a turn waits at its end for an early request that it has cancelled, as tools.Execute waits for a
// tool.
const grace = 2 * time.Second

// maxLate limits the anticipations that have not returned although their turns are over. At the limit, the runner
// begins no other one.
const maxLate = 64

// close stops the anticipation at the end of the turn. If a model was asked, close waits until its call has returned. A
// call that ignores its context for too long is left running.
func (a *anticipation) close() {
	if a.done == nil {
		return
	}
	a.stop()
	a.mu.Lock()
	asked := a.req != nil
	a.mu.Unlock()
	if asked {
		select {
		case <-a.done:
		case <-time.After(grace):
			a.turn.r.logger.Warn("a model ignores the end of its context and is left running", "agent", a.to)
		}
	}
	if !a.over.Swap(true) {
		a.turn.r.late.Add(1)
	}
}

var errNoRoom = fmt.Errorf("%w: no room to anticipate", agent.ErrLimit)

// reserveEarly reserves the early request. Own is the estimate for the request of the agent that may transfer, which is
// under way. Limits and budgets need room for two requests to the target, because the early one may be discarded.
func (t *tally) reserveEarly(own amount, target string, model llm.Model, req *llm.Request) error {
	next := amount{agent: target}
	if t.counts() {
		var err error
		if next, err = t.estimateRequest(target, model, req); err != nil {
			return err
		}
	}
	t.session.mu.Lock()
	defer t.session.mu.Unlock()
	const needed = 3 // the request under way and two to the target
	if limit := t.limits.ModelCalls; limit > 0 && t.session.fold().Turn.ModelCalls+len(t.reserved)+needed > limit {
		return errNoRoom
	}
	if t.counts() {
		t.early = []amount{own}
		twice := next
		twice.add(next)
		for _, name := range []string{target, own.agent} { // a discard is charged to the agent that runs then
			twice.agent = name
			if err := t.withinBudgets("", twice, func(s session.Spent) session.Use { return s.Turn }); err != nil {
				t.early = nil
				return err
			}
		}
	}
	t.early = []amount{next}
	return nil
}

// releaseEarly releases the reservation of the early request after the target's request has adopted it.
func (t *tally) releaseEarly() {
	t.session.mu.Lock()
	defer t.session.mu.Unlock()
	t.early = nil
}
