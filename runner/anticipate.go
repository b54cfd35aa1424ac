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

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// Prospect is a turn whose first transfer a [Predictor] is to predict.
type Prospect struct {
	Session session.Key
	// Agent is the agent that is asked.
	Agent *agent.Node
	// Targets are the agents that it may transfer to and that can be asked before it does.
	Targets []*agent.Node
	// Message is what the user said in this turn.
	Message llm.Content
}

// Predictor names the agent that a turn will probably be transferred to first, and how sure that is, from 0 to 1. A
// name that is none of the prospect's targets predicts nothing. It is called on a goroutine of its own while the agent's
// model is asked, so the turn does not wait for it, and is to return when ctx ends. A panic is logged and predicts
// nothing. It must be safe for concurrent use.
type Predictor func(ctx context.Context, p Prospect) (target string, confidence float64)

// anticipation is the request to the probable target of a transfer, made while the agent that may transfer is asked.
// A turn has one at most.
type anticipation struct {
	turn     *turn
	prospect Prospect
	run      session.Run    // of the agent that may transfer
	session  *cachedSession // as it was when its model was asked
	expected amount         // what that request was expected to use
	cancel   context.CancelFunc
	over     chan struct{} // closed when the goroutine has ended; nil before it begins
	news     chan struct{} // has an element after a chunk has come, or the answer has ended

	mu     sync.Mutex
	state  aheadState
	callID string // of the transfer's call, "" when a call has it
	to     string // the target, when it was asked
	model  llm.Model
	req    *llm.Request
	chunks []given
	ended  bool // no more chunks come
	failed error
	answer modelAnswer
	usage  *llm.Usage
	name   string // of the model, as its endpoint says it
}

type aheadState int

const (
	aheadDue      aheadState = iota // the conversation's next request may begin it
	aheadWanted                     // the turn may still transfer to the target
	aheadUnwanted                   // it cannot, and the log does not have yet what was used
	aheadAdopted                    // its answer is that of the target
	aheadOver
)

// ahead returns the anticipation of the conversation that is neither adopted nor over, nil without one.
func (s *scope) ahead() *anticipation {
	a := s.turn.ahead
	if s.draft.scope != "" || a == nil || !a.is(aheadWanted, aheadUnwanted) {
		return nil
	}
	return a
}

func (a *anticipation) is(states ...aheadState) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Contains(states, a.state)
}

// given is an element of a model's answer.
type given struct {
	chunk llm.Chunk
	err   error
}

// asker is an agent whose request is known before it is made.
type asker interface {
	Asks(context.Context, *agent.Invocation) (llm.Model, *llm.Request, error)
}

// anticipate begins to ask the probable target of a transfer, beside the first request of a turn.
func (s runtime) anticipate(ctx context.Context, inv *agent.Invocation, model llm.Model, req *llm.Request) {
	n, t := inv.Node(), s.turn
	a := t.ahead
	if s.draft.scope != "" || a == nil || !n.Properties.Stepwise || n.Properties.TransferApproval || !a.is(aheadDue) {
		return
	}
	a.state, a.turn, a.run, a.prospect = aheadOver, t, s.draft.run, Prospect{Session: t.key, Agent: n, Message: inv.Message()}
	for _, to := range n.Targets() {
		if canAnticipate(n, to) {
			a.prospect.Targets = append(a.prospect.Targets, to)
		}
	}
	limit := s.meter.limits.Transfers
	if _, turn := s.runAndTurn(); len(a.prospect.Targets) == 0 || limit > 0 && turn.Transfers >= limit {
		return
	}
	if s.meter.counted() {
		var err error
		if a.expected, err = s.meter.expect(n.Agent.Name(), model, req); err != nil {
			return
		}
	}
	a.session, a.callID, a.over, a.news = t.copied(), t.newID(), make(chan struct{}), make(chan struct{}, 1)
	ctx, a.cancel = context.WithCancel(ctx)
	a.state = aheadWanted
	go a.begin(ctx)
	if t.r.anticipated != nil {
		t.r.anticipated(a.over)
	}
}

// canAnticipate reports whether the target may be asked before the transfer to it is made: it is an agent of a model,
// and no guard, approval or function of the program comes before the target.
func canAnticipate(n, to *agent.Node) bool {
	_, asks := agent.As[asker](to.Agent)
	_, readies := agent.As[agent.Readier](to.Agent)
	chosen, _ := to.Edge.History.(interface{ ByFunction() bool })
	return asks && !readies && to.Properties.Stepwise && !to.Virtual() && !to.Properties.Router && !to.Properties.ViewByFunction && (chosen == nil || !chosen.ByFunction()) &&
		len(to.Guards()) == 0 && n.InputFor(to) == nil && to.Edge.When == nil
}

// begin predicts the target and asks its model. It runs on a goroutine of its own.
func (a *anticipation) begin(ctx context.Context) {
	r, name := a.turn.r, a.prospect.Agent.Agent.Name()
	defer close(a.over)
	defer a.cancel()
	defer func() {
		if p := recover(); p != nil {
			_ = r.panicked("a predictor", name, p)
		}
	}()
	target, confidence := r.predictor(ctx, a.prospect)
	i := slices.IndexFunc(a.prospect.Targets, func(n *agent.Node) bool { return n.Agent.Name() == target })
	if i < 0 || !(confidence >= r.threshold) || ctx.Err() != nil {
		return
	}
	a.end(a.imagine(ctx, a.prospect.Targets[i]))
}

// imagine asks the model of the target, with the request that it would get after a transfer. What the target has read of
// the log for it is kept in the turn, so that it is not read again in the next one.
func (a *anticipation) imagine(ctx context.Context, to *agent.Node) error {
	w := a.session
	t, seq := a.turn.r.imaginary(ctx, w), w.fold.Seq
	t.log = a.transfer(w, to)
	for _, e := range t.log {
		w.apply(e)
	}
	t.passed = func() { w.memos.lend(seq, &a.turn.turnSession, a.run.ID) }
	return t.imagine(to.Agent.Name(), func(s *scope, inv *agent.Invocation, model llm.Model, req *llm.Request) error {
		return a.ask(ctx, s, inv, model, req)
	})
}

// transfer returns the events of a transfer without a reason, after which the target is asked.
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

// ask asks the target's model if there is room for it.
func (a *anticipation) ask(ctx context.Context, s *scope, inv *agent.Invocation, model llm.Model, req *llm.Request) error {
	if _, ok := model.(llm.Composite); ok { // each request that it makes would have to be admitted
		return nil
	}
	if !a.admit(inv.Agent().Name(), model, req) {
		return nil
	}
	for chunk, err := range (runtime{s}).call(llm.WithAnticipation(ctx), inv, model, req) {
		if !a.add(chunk, err) {
			break
		}
	}
	return nil
}

// admit reserves the request, and notes that it is made.
func (a *anticipation) admit(target string, model llm.Model, req *llm.Request) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state != aheadWanted || a.turn.tally.reserveAhead(a.expected, target, model, req) != nil {
		return false
	}
	a.to, a.model, a.req = target, model, req
	return true
}

// add keeps a part of the answer, and reports whether to go on.
func (a *anticipation) add(chunk llm.Chunk, err error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state != aheadWanted && a.state != aheadAdopted {
		return false
	}
	if err == nil && chunk.Notice == nil {
		a.answer.addChunk(&chunk)
		a.usage, a.name = cmp.Or(chunk.Usage, a.usage), cmp.Or(chunk.Model, a.name)
	}
	a.chunks = append(a.chunks, given{chunk, err})
	a.failed = cmp.Or(a.failed, err)
	a.wake()
	return err == nil
}

// end notes that no more of the answer comes.
func (a *anticipation) end(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended = true; err != nil && a.req != nil {
		a.chunks, a.failed = append(a.chunks, given{err: err}), err
	}
	a.wake()
}

func (a *anticipation) wake() {
	select {
	case a.news <- struct{}{}:
	default:
	}
}

// stop ends the request: no more of its answer is used.
func (a *anticipation) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch a.state {
	case aheadWanted:
		a.state = aheadUnwanted
	case aheadAdopted:
		a.state = aheadOver
	}
	a.cancel()
}

// chooses returns the id of a call that transfers: that of the anticipated one, if no call has it.
func (a *anticipation) chooses(fresh string) (id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	id, a.callID = cmp.Or(a.callID, fresh), ""
	return id
}

// answers reports whether the answer that is under way is that of a request, which then adopts it.
func (a *anticipation) answers(target string, model llm.Model, req *llm.Request) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	same := a.state == aheadWanted && a.failed == nil && a.to == target && a.model.Name() == model.Name() && reflect.DeepEqual(a.req, req)
	if same {
		a.state = aheadAdopted
	}
	return same
}

// discard stops the request, and returns what it has used; nil if none was made.
func (a *anticipation) discard() event.Data {
	a.stop()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state = aheadOver; a.req == nil {
		return nil
	}
	d := &event.Discard{Code: event.CodeAnticipated, Message: a.to + " was asked before a transfer to it, and the answer is not used"}
	var used llm.Usage
	switch failed := new(llm.Error); {
	case a.answer.reported && a.usage != nil:
		used, _ = a.usage.Plausible()
	case !a.answer.begun && errors.As(a.failed, &failed) && failed.Code != llm.CodeTruncated: // which costs nothing
		return d
	default: // the endpoint has read the request, and is not going to say what that has used
		used = *(&meter{tally: &a.turn.tally}).charge(a.model.Name(), a.req, &a.answer)
		d.Message += "; by an estimate of what it has used"
	}
	d.Usage = &event.Usage{InputTokens: used.InputTokens, OutputTokens: used.OutputTokens, CachedTokens: used.CachedTokens, Model: cmp.Or(a.name, a.model.Name())}
	return d
}

// replay yields the answer from its first chunk, as it comes.
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
			case <-a.news:
			case <-ctx.Done():
				yield(llm.Chunk{}, ctx.Err())
				return
			}
		}
	}
}

// watch stops the request to the target as soon as an agent that could transfer by a call says something: a target would see that.
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

// adopt returns the answer under way if it is that of this request. Any other request of the conversation ends it.
func (s runtime) adopt(inv *agent.Invocation, model llm.Model, req *llm.Request) (*anticipation, error) {
	a := s.ahead()
	if a == nil {
		return nil, nil
	}
	if a.answers(inv.Agent().Name(), model, req) {
		s.turn.tally.releaseAhead()
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

// abandon stops the request to the target, and puts what it has used first into the write that is being put together.
func (s *scope) abandon() {
	a := s.ahead()
	if a == nil {
		return
	}
	if used := a.discard(); used != nil {
		s.draft.events = slices.Insert(s.draft.events, 0, s.draft.stamp(&event.Event{Data: used}))
	}
}

// contradicts reports whether events of the agent that may transfer show that it does something else.
func contradicts(events []*event.Event) bool {
	return slices.ContainsFunc(events, func(e *event.Event) bool {
		c, called := e.Data.(*event.ToolCall)
		return textOf(e) != "" || called && c.Name != agent.TransferTool
	})
}

// mayFollow reports whether the transfer to the target that was asked can still come after a step, or has come with it.
func (s *scope) mayFollow(a *anticipation, out outcome, err error) bool {
	switch {
	case err != nil:
		return false
	case out.transfer != nil:
		return a.isOf(out.transfer.To)
	}
	pending := s.turn.runOf("").Pending
	return out.more && len(pending) > 0 && !slices.ContainsFunc(pending, func(c session.Call) bool { return c.Name != agent.TransferTool })
}

// isOf reports whether the agent was asked, or may be.
func (a *anticipation) isOf(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.to == "" || a.to == name
}

// settle records at the end of a turn what was asked ahead, if the log does not have that: the turn was cancelled, which
// stores nothing else.
func (s *scope) settle(failed error) {
	t, a := s.turn, s.turn.ahead
	if a == nil || a.over == nil || errors.Is(failed, agent.ErrConflict) || errors.Is(failed, session.ErrUnavailable) {
		return
	}
	a.stop()
	t.mu.Lock()
	owes := t.tally.ahead != nil && t.mu.left == nil && !t.lost && t.fold().Conversation.Run.Open
	t.mu.Unlock()
	if !owes {
		return
	}
	run := t.runOf("")
	if err := s.commit(context.WithoutCancel(s.ctx), []*event.Event{eventOf(&run, "", a.discard())}); err != nil {
		t.r.logger.Warn("what a cancelled turn has asked ahead could not be recorded", "session", t.key.String(), "error", err)
	}
}

// close ends what the turn has anticipated, and waits until a model that was asked has noticed.
func (a *anticipation) close() {
	if a.over == nil {
		return
	}
	a.stop()
	a.mu.Lock()
	asked := a.req != nil
	a.mu.Unlock()
	if asked {
		<-a.over
	}
}

var errNoRoom = fmt.Errorf("%w: no room to anticipate", agent.ErrLimit)

// reserveAhead reserves a request beside the one that is under way, for which own is reserved. There has to be room for
// one more of its kind, because the target may be asked in vain and once more.
func (t *tally) reserveAhead(own amount, target string, model llm.Model, req *llm.Request) error {
	next := amount{agent: target}
	if t.counted() {
		var err error
		if next, err = t.expect(target, model, req); err != nil {
			return err
		}
	}
	t.session.mu.Lock()
	defer t.session.mu.Unlock()
	if limit := t.limits.ModelCalls; limit > 0 && t.session.fold().Turn.ModelCalls+len(t.asking)+3 > limit {
		return errNoRoom
	}
	if t.counted() {
		t.ahead = []amount{own}
		twice := next
		twice.add(next)
		for _, who := range []string{target, own.agent} { // what is used in vain is that of whoever runs then
			twice.agent = who
			if err := t.withinBudgets("", twice, func(s session.Spent) session.Use { return s.Turn }); err != nil {
				t.ahead = nil
				return err
			}
		}
	}
	t.ahead = []amount{next}
	return nil
}

// releaseAhead gives the reservation back: the request is another one's now, or the log has what it has used.
func (t *tally) releaseAhead() {
	t.session.mu.Lock()
	defer t.session.mu.Unlock()
	t.ahead = nil
}
