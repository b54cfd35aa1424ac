package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// tally keeps what a turn has reserved of its limits and budgets. Inner scopes run concurrently, so their requests
// count before their answers are stored. mu of the session guards the maps and early.
type tally struct {
	*bounds
	session   *turnSession
	reserved  map[string]amount // by inner scope: what is reserved for an answer that is not stored yet
	early     []amount          // what is reserved for the request of an anticipation; at most one element
	transfers map[string]bool   // by inner scope with a transfer under way: whether the limit allows it
}

// meter enforces the limits and budgets in a scope.
type meter struct {
	*tally
	draft       *draft // of the scope
	hasReserved bool   // reserved contains the scope
	largest     amount // the most that one request for the answer under way was estimated to use
	requests    int    // the number of requests for the answer that are under way
	estimate    string // the notice about the estimated usage of the last answer, "" if the endpoint reported it
}

// withinSteps returns an *agent.LimitError if a limit forbids the next step. Tool calls are compared by their place in
// the log. Calls of concurrent scopes then count as well, and a resumed turn runs the same calls.
func (b *bounds) withinSteps(run session.Run, turn session.Turn, steps int) error {
	answers := len(run.Pending) == 0
	switch limits := b.limits; {
	case answers && limits.ModelCalls > 0 && turn.ModelCalls >= limits.ModelCalls:
		return &agent.LimitError{Name: "model calls", Limit: int64(limits.ModelCalls)}
	case answers && limits.Steps > 0 && max(run.Answers, (steps+1)/2) >= limits.Steps:
		return &agent.LimitError{Name: "answers of one agent", Limit: int64(limits.Steps)}
	case !answers && limits.ToolCalls > 0 && run.Pending[len(run.Pending)-1].Number > limits.ToolCalls:
		return &agent.LimitError{Name: "tool calls", Limit: int64(limits.ToolCalls)}
	}
	return nil
}

// withinToolCalls returns an error if the limit forbids a call that is about to run. withinSteps has checked the calls
// of a model's answer, but a function makes its calls one by one.
func (m *meter) withinToolCalls(id string) error {
	limit := m.limits.ToolCalls
	m.session.mu.Lock()
	defer m.session.mu.Unlock()
	if limit == 0 || m.session.fold().Turn.ToolCalls <= limit {
		return nil
	}
	if c := m.session.fold().Scope(m.draft.scope).Run.Call(id); c != nil && c.Number > limit {
		return &agent.LimitError{Name: "tool calls", Limit: int64(limit)}
	}
	return nil
}

// withinTransfers returns an *agent.TransferLimitError if the turn has reached its limit of transfers, or if the same
// transfer was made before in the turn and no agent has said anything since. If spoke is true, the source says
// something before this transfer.
func (m *meter) withinTransfers(from, to string, spoke bool) error {
	limit := m.limits.Transfers
	if limit == 0 {
		return nil
	}
	m.session.mu.Lock()
	for _, e := range m.draft.events { // scopes that end in the same write as this transfer
		if _, over := e.Data.(*event.HarnessEnd); over {
			delete(m.transfers, e.Scope)
		}
	}
	granted := m.grantTransfer(m.draft.scope)
	circle := !spoke && m.session.fold().Scope(m.draft.scope).Repeats(from, to)
	m.session.mu.Unlock()
	switch {
	case !granted:
		return &agent.TransferLimitError{Reason: fmt.Sprintf("at most %d transfers a turn", limit)}
	case circle:
		return &agent.TransferLimitError{Reason: fmt.Sprintf("%s handed over to %s before in this turn, and nothing was said since", from, to)}
	}
	return nil
}

// grantTransfer reports whether the limit allows the transfer that a scope has under way. For an inner scope it keeps
// the answer until the log has the outcome of the transfer, so that concurrent scopes cannot exceed the limit together.
// The answer is computed when the call for the transfer is stored, in the order of the log. A transfer without a call
// gets its answer at the first check. The caller holds mu.
func (t *tally) grantTransfer(scope string) bool {
	if granted, known := t.transfers[scope]; known {
		return granted
	}
	taken := t.session.fold().Turn.Transfers
	for _, granted := range t.transfers {
		if granted {
			taken++
		}
	}
	granted := taken < t.limits.Transfers
	if scope != "" {
		if t.transfers == nil {
			t.transfers = make(map[string]bool)
		}
		t.transfers[scope] = granted
	}
	return granted
}

// noteStored updates the reservations of a stored event's scope. The caller holds mu.
func (t *tally) noteStored(e *event.Event) {
	if d, ok := e.Data.(*event.Discard); ok && d.Code == event.CodeAnticipated {
		t.early = nil
	}
	if e.Scope == "" {
		return
	}
	switch d := e.Data.(type) {
	case *event.Usage, *event.Discard:
		if !t.reserved[e.Scope].open { // an open reservation belongs to the hedge that still answers
			delete(t.reserved, e.Scope)
		}
	case *event.ToolCall:
		if d.Name == agent.TransferTool && t.limits.Transfers > 0 {
			t.grantTransfer(e.Scope)
		}
	case *event.ToolResult:
		if d.Name == agent.TransferTool {
			delete(t.transfers, e.Scope)
		}
	case *event.Transfer, *event.HarnessEnd:
		delete(t.transfers, e.Scope)
	}
}

// releaseUnused releases what a step of an inner scope has reserved and not used. A transfer whose call has no result
// in the log yet is still under way.
func (m *meter) releaseUnused() {
	m.modelAnswered()
	m.session.mu.Lock()
	defer m.session.mu.Unlock()
	pending := m.session.fold().Scope(m.draft.scope).Run.Pending
	if !slices.ContainsFunc(pending, func(c session.Call) bool { return c.Name == agent.TransferTool }) {
		delete(m.transfers, m.draft.scope)
	}
}

// modelAnswered releases what is reserved for an inner scope's answer. If the usage of the answer is stored later, with
// the end of a workflow's child, keepEnd has cleared hasReserved and the reservation stays until then.
func (m *meter) modelAnswered() {
	if m.hasReserved {
		m.hasReserved = false
		m.session.mu.Lock()
		defer m.session.mu.Unlock()
		delete(m.reserved, m.draft.scope)
	}
}

// reserve reserves one more model call, or returns an error if a limit or a budget forbids it. Parallel is the number
// of requests for the same answer that are under way already.
func (m *meter) reserve(agentName string, model llm.Model, req *llm.Request, parallel int) error {
	next := amount{agent: agentName}
	if m.counts() {
		var err error
		if next, err = m.estimateRequest(agentName, model, req); err != nil {
			return err
		}
	}
	m.session.mu.Lock()
	defer m.session.mu.Unlock()
	if parallel == 0 {
		m.largest = amount{}
	}
	m.largest.tokens, m.largest.cost = max(m.largest.tokens, next.tokens), max(m.largest.cost, next.cost)
	for range parallel { // to models that may cost more than this one
		next.add(m.largest)
	}
	f, scope := m.session.fold(), m.draft.scope
	calls := f.Turn.ModelCalls + len(m.early) + parallel
	for other, a := range m.reserved {
		if other != scope {
			calls += a.calls
		}
	}
	for _, e := range m.draft.events {
		if _, ok := e.Data.(*event.Discard); ok { // a failed attempt that is stored together with this call's answer
			calls++
		}
	}
	if limit := m.limits.ModelCalls; limit > 0 && calls >= limit {
		return &agent.LimitError{Name: "model calls", Limit: int64(limit)}
	}
	// A function may ask several times in one step.
	if steps := m.limits.Steps; steps > 0 && f.Scope(scope).Run.Answers >= steps {
		return &agent.LimitError{Name: "answers of one agent", Limit: int64(steps)}
	}
	if m.counts() {
		if err := m.withinBudgets(scope, next, func(s session.Spent) session.Use { return s.Turn }); err != nil {
			return err
		}
	}
	m.requests = parallel + 1
	if scope != "" {
		if m.reserved == nil {
			m.reserved = make(map[string]amount)
		}
		next.calls, next.open = parallel+1, m.counts() // metered closes it
		m.reserved[scope], m.hasReserved = next, true
	}
	return nil
}

// withinBudgets checks the next call of a scope against every budget that applies to it. OfTurn returns the usage that
// counts for the budget of the turn. The caller holds mu.
func (t *tally) withinBudgets(scope string, next amount, ofTurn func(session.Spent) session.Use) error {
	allAgents := func(string) bool { return true }
	ofSession := func(s session.Spent) session.Use { return s.Session }
	err := cmp.Or(
		t.withinBudget(scope, t.budgets.Turn, "the turn", next, allAgents, ofTurn),
		t.withinBudget(scope, t.budgets.Session, "the session", next, allAgents, ofSession))
	for _, name := range t.bounding[next.agent] {
		err = cmp.Or(err, t.withinBudget(scope, t.budgets.Agents[name], "the agent "+name, next, t.inBudget(name), ofSession))
	}
	return err
}

// withinBudget returns an *agent.BudgetError if the next call may exceed a budget. It returns an error about a missing
// price or usage only for models whose usage counts for this budget.
func (t *tally) withinBudget(scope string, b Budget, of string, next amount, counts func(agentName string) bool, use func(session.Spent) session.Use) error {
	if b.Tokens == 0 && b.Cost == 0 {
		return nil
	}
	var used amount
	for _, s := range t.session.fold().Spent {
		u := use(s)
		switch {
		case !counts(s.Agent), u == session.Use{}:
			continue
		case u.Answers == 0, u.Reported > 0:
		case t.budgets.MissingUsage == EstimateMissingUsage: // the answers are older than the option: they count as 0
			continue
		default:
			return fmt.Errorf("%w: the endpoint of the model %q reports no usage, so the budget of %s cannot be enforced: "+
				"remove the budget, use an endpoint that reports usage, or set Budgets.MissingUsage to charge estimates", agent.ErrUnknownUsage, s.Model, of)
		}
		a := amount{tokens: saturatingAdd(int64(u.InputTokens), int64(u.OutputTokens))}
		if b.Cost > 0 {
			var known bool
			if a.cost, known = t.prices.Cost(s.Model, u.Usage); !known {
				return unknownPrice(s.Model)
			}
		}
		used.add(a)
	}
	for other, a := range t.reserved {
		if other != scope && counts(a.agent) {
			used.add(a)
		}
	}
	for other, u := range t.session.unstored.used {
		name := t.session.fold().Scope(other).Run.Agent
		if _, reserved := t.reserved[other]; reserved && other != scope || !counts(name) {
			continue
		}
		a := amount{tokens: saturatingAdd(int64(u.InputTokens), int64(u.OutputTokens))}
		a.cost, _ = t.prices.Cost(u.Model, u.Counted()) // without a price the model was not asked
		used.add(a)
	}
	for _, a := range t.early {
		if counts(a.agent) {
			used.add(a)
		}
	}
	return checkBudget(b, of, used, next)
}

// watch starts a timer that cancels the step when the first budget of time is spent. The caller stops the timer with
// stop. If a budget is spent already, watch starts none and returns the *agent.BudgetError.
func (m *meter) watch(cancel context.CancelCauseFunc) (stop func() bool, spent error) {
	m.session.mu.Lock()
	defer m.session.mu.Unlock()
	f := m.session.fold()
	times, outer, began := f.Times, f.Scope("").Began(), f.Scope(m.draft.scope).Began()
	now := m.now()
	running := max(0, now.Sub(outer)) // the log's times can be later than now, because each write has a later one
	left := time.Duration(math.MaxInt64)
	limit := func(of string, budget, used time.Duration) {
		if budget > 0 && budget-used < left {
			left = budget - used
			spent = &agent.BudgetError{Of: of, Unit: "seconds", Budget: budget.Seconds(), Used: budget.Seconds()}
		}
	}
	limit("the turn", m.budgets.Turn.Time, times.Turn+running)
	limit("the session", m.budgets.Session.Time, times.Session+running)
	for _, name := range m.bounding[m.draft.run.Agent] {
		used, counts := max(0, now.Sub(began)), m.inBudget(name)
		for _, t := range times.Agents {
			if counts(t.Agent) {
				used += t.Session
			}
		}
		limit("the agent "+name, m.budgets.Agents[name].Time, used)
	}
	switch {
	case spent == nil:
		return func() bool { return true }, nil
	case left <= 0: // a timer would fire after the model was asked
		return nil, spent
	}
	over := spent
	return time.AfterFunc(left, func() { cancel(over) }).Stop, nil
}

// metered adds an estimated usage to an answer whose endpoint reports none of the whole answer. A complete answer gets
// one if Budgets.MissingUsage says so, or if the model has reported a usage before: else its later answers would be
// free. An interrupted answer always gets one, because endpoints charge for it without a report. Without a budget of
// tokens or cost, metered returns the chunks unchanged.
func (m *meter) metered(model llm.Model, req *llm.Request, chunks iter.Seq2[llm.Chunk, error]) iter.Seq2[llm.Chunk, error] {
	m.estimate = ""
	if !m.counts() {
		return chunks
	}
	return func(yield func(llm.Chunk, error) bool) {
		var a modelAnswer
		var used *llm.Usage
		defer func() {
			if a.broken(nil) { // the consumer stopped reading
				used = m.charge(model.Name(), req, &a)
			}
			m.session.mu.Lock()
			defer m.session.mu.Unlock()
			if reserved, ok := m.reserved[m.draft.scope]; ok {
				reserved.open = false
				m.reserved[m.draft.scope] = reserved
			}
			if used != nil {
				m.session.unstored.noteUsed(m.draft.scope, cmp.Or(a.model, model.Name()), *used)
			}
		}()
		for chunk, err := range chunks {
			switch {
			case chunk.Lost != nil:
				m.requests--
				if lost := *chunk.Lost; lost.Begun && lost.Usage == nil {
					lost.Usage = m.charge(lost.Model, req, &modelAnswer{begun: true}) // of one request
					chunk.Lost = &lost
				}
			case err == nil && chunk.Notice != nil:
			case err == nil:
				a.addChunk(&chunk)
				charges := a.usage != llm.Usage{} || m.budgets.MissingUsage == EstimateMissingUsage
				if a.whole && !a.reported && (charges || m.reports(cmp.Or(a.model, model.Name()))) {
					chunk.Usage = m.charge(model.Name(), req, &a)
				}
			case a.broken(err):
				if used = m.charge(model.Name(), req, &a); !yield(llm.Chunk{Usage: used}, nil) {
					return
				}
			}
			used = cmp.Or(chunk.Usage, used)
			if !yield(chunk, err) || err != nil {
				return
			}
		}
		if a.broken(nil) {
			used = m.charge(model.Name(), req, &a)
			yield(llm.Chunk{Usage: used}, nil)
		}
	}
}

// reports reports whether the log has a usage that an endpoint has reported for an answer of the model.
func (m *meter) reports(model string) bool {
	m.session.mu.Lock()
	defer m.session.mu.Unlock()
	return slices.ContainsFunc(m.session.fold().Spent, func(s session.Spent) bool { return s.Model == model && s.Session.Reported > 0 })
}

// charge estimates the usage of an answer, which is no less than its endpoint has reported, and keeps the text of the
// notice about it. If several requests were under way and none has an answer, it charges the input of all of them at
// the price of this model, because one usage has one model. Their number is too low by one for each request of a
// fallback within a hedge that failed and whose next model a budget refused: it was lost twice.
func (m *meter) charge(model string, req *llm.Request, a *modelAnswer) *llm.Usage {
	content := a.content
	content.Text = a.text.String()
	message := llm.Message{Role: llm.RoleAssistant, Content: content}
	u := &llm.Usage{InputTokens: cmp.Or(a.usage.InputTokens, llm.CountRequest(req, m.counter)), CachedTokens: a.usage.CachedTokens,
		OutputTokens: max(a.usage.OutputTokens, llm.CountMessage(&message, m.counter)-llm.MessageTokens)}
	if !a.begun { // no request under way has an answer
		u.InputTokens *= max(1, m.requests)
	}
	m.estimate = fmt.Sprintf("the endpoint of the model %q did not say what its answer has used; by an estimate it is %d tokens of input and %d of output",
		model, u.InputTokens, u.OutputTokens)
	return u
}

// estimated returns the notice that follows an answer whose usage is an estimate, nil after other events.
func (m *meter) estimated(answer *event.Event) event.Data {
	if m.estimate == "" || !isAnswer(answer) {
		return nil
	}
	notice := &event.Notice{Code: "usage_estimated", Message: m.estimate}
	m.estimate = ""
	return notice
}

// isAnswer reports whether an event records the end of a model's answer, complete or discarded.
func isAnswer(e *event.Event) bool {
	switch e.Data.(type) {
	case *event.Usage, *event.Discard:
		return true
	}
	return false
}

// recordUsage stores, at the end of a turn, the usage of the answers that the turn broke off. A canceled turn stores
// nothing else.
func (s *scope) recordUsage(failed error) {
	t, a := s.turn, s.turn.anticipation
	if t.mu.left != nil || errors.Is(failed, agent.ErrConflict) || errors.Is(failed, session.ErrUnavailable) {
		return
	}
	if a != nil && a.done != nil {
		a.stop()
	}
	events := t.brokenOff()
	if len(events) == 0 {
		return
	}
	if err := s.commit(context.WithoutCancel(s.ctx), events); err != nil {
		t.r.logger.Warn("the usage of a canceled turn could not be stored", "session", t.key.String(), "error", err)
	}
}

// brokenOff returns the discards of answers whose run is open and whose usage the log lacks, early ones included.
func (t *turn) brokenOff() (events []*event.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost {
		return nil
	}
	for _, scope := range slices.Sorted(maps.Keys(t.unstored.used)) {
		if run := &t.fold().Scope(scope).Run; run.Open {
			events = append(events, eventOf(run, scope, t.unstored.discardUnfinished(scope, nil, "canceled", notCompleted)))
		}
	}
	if run := &t.fold().Conversation.Run; t.tally.early != nil && run.Open {
		events = append(events, eventOf(run, "", t.anticipation.discard()))
	}
	return events
}

// modelAnswer collects the chunks of a model's answer for an estimate.
type modelAnswer struct {
	text     strings.Builder // text and reasoning
	content  llm.Content     // the calls
	model    string          // as the endpoint names it, or ""
	begun    bool            // a chunk has come
	whole    bool            // a chunk had a finish reason
	usage    llm.Usage       // the last one of a chunk, if it is plausible
	reported bool            // usage is not zero, and no part of the answer came after it
}

func (a *modelAnswer) addChunk(c *llm.Chunk) {
	a.begun, a.model = true, cmp.Or(c.Model, a.model)
	a.text.WriteString(c.Reasoning)
	a.text.WriteString(c.Text)
	if c.Call != nil {
		a.content.Parts = append(a.content.Parts, *c.Call)
	}
	a.reported = a.reported && c.Text+c.Reasoning == "" && c.Call == nil
	if c.Usage != nil { // the last usage counts
		a.usage, _ = c.Usage.Plausible()
		a.reported = a.usage != llm.Usage{}
	}
	a.whole = a.whole || c.Finish != ""
}

// broken reports whether the answer ended incomplete after it began, or because its context ended, and without a usage.
// err is its error, or nil. An *llm.Error before the answer began, other than a truncation, means that the endpoint
// refused the request or that a limit held it back, which costs nothing.
func (a *modelAnswer) broken(err error) bool {
	var failed *llm.Error
	begun := a.begun || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if errors.As(err, &failed) {
		begun = a.begun || failed.Code == llm.CodeTruncated
	}
	return begun && !a.whole && !a.reported
}
