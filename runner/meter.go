package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// tally is what a turn has reserved of its limits and budgets. Inner scopes run side by side, so what one of them
// has asked for counts before it is stored.
type tally struct {
	*bounds
	session   *turnSession
	asking    map[string]amount // inner scopes whose model is asked, its answer not stored yet, and what is reserved for it
	ahead     []amount          // what is reserved for a request that is anticipated, nil without one
	transfers map[string]bool   // inner scopes that have a transfer under way, and whether the limit allows it
}

// meter holds what a scope spends against the limits and budgets.
type meter struct {
	*tally
	draft    *draft // of the scope
	asked    bool   // a call of the scope's model is in asking
	estimate string // what a notice says about the usage of the last answer, "" if it was reported
}

// withinSteps returns the limit that forbids the next step, if one does. Scopes may run
// side by side: calls of tools are held against the limit by their place in the log, so
// that those under way elsewhere count, and the same ones are run each time.
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

// withinToolCalls holds a call that is about to run against the limit. That of a model has
// been held against it with all of its answer; a function makes its calls one by one.
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

// withinTransfers holds one more transfer against the limit of the turn, and
// against those that were made in it.
func (m *meter) withinTransfers(from, to string, spoke bool) error {
	limit := m.limits.Transfers
	if limit == 0 {
		return nil
	}
	m.session.mu.Lock()
	for _, e := range m.draft.events { // scopes that end with the write of this very transfer
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

// grantTransfer reports whether the limit allows the transfer that a scope has under way. What it says of an inner
// scope holds until the log has what became of the transfer, so that scopes side by side cannot pass the limit
// together. It is decided when the log gets the call that asks for the transfer, in the order of the log; else when
// it is first asked about. The caller holds mu.
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

// noteStored notes what a stored event means for what is reserved for its scope. The caller
// holds mu.
func (t *tally) noteStored(e *event.Event) {
	if d, ok := e.Data.(*event.Discard); ok && d.Code == event.CodeAnticipated {
		t.ahead = nil
	}
	if e.Scope == "" {
		return
	}
	switch d := e.Data.(type) {
	case *event.Usage, *event.Discard:
		delete(t.asking, e.Scope)
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

// giveBack gives back what a step of an inner scope has reserved and not used. A transfer
// whose call has no result in the log yet is still under way.
func (m *meter) giveBack() {
	m.modelAnswered()
	m.session.mu.Lock()
	defer m.session.mu.Unlock()
	pending := m.session.fold().Scope(m.draft.scope).Run.Pending
	if !slices.ContainsFunc(pending, func(c session.Call) bool { return c.Name == agent.TransferTool }) {
		delete(m.transfers, m.draft.scope)
	}
}

// modelAnswered notes that an inner scope's model is no longer being asked. What it used
// counts until it is stored, which for the end of a workflow's agent is later.
func (m *meter) modelAnswered() {
	if m.asked {
		m.asked = false
		m.session.mu.Lock()
		defer m.session.mu.Unlock()
		delete(m.asking, m.draft.scope)
	}
}

// reserve makes sure that one more model call is within the limits and the
// budgets, and reserves it. Beside is how many requests for the same answer are under way already.
func (m *meter) reserve(agentName string, model llm.Model, req *llm.Request, beside int) error {
	next := amount{agent: agentName}
	if m.counted() {
		var err error
		if next, err = m.expect(agentName, model, req); err != nil {
			return err
		}
		one := next
		for range beside { // the same request, so about as much
			next.add(one)
		}
	}
	m.session.mu.Lock()
	defer m.session.mu.Unlock()
	f, scope := m.session.fold(), m.draft.scope
	calls := f.Turn.ModelCalls + len(m.asking) + len(m.ahead) + beside
	if _, mine := m.asking[scope]; mine {
		calls--
	}
	for _, e := range m.draft.events {
		if _, ok := e.Data.(*event.Discard); ok { // it will be stored with what comes of this call
			calls++
		}
	}
	if limit := m.limits.ModelCalls; limit > 0 && calls >= limit {
		return &agent.LimitError{Name: "model calls", Limit: int64(limit)}
	}
	if steps := m.limits.Steps; steps > 0 && f.Scope(scope).Run.Answers >= steps { // of a function, which asks more than once in its step
		return &agent.LimitError{Name: "answers of one agent", Limit: int64(steps)}
	}
	if m.counted() {
		if err := m.withinBudgets(scope, next, func(s session.Spent) session.Use { return s.Turn }); err != nil {
			return err
		}
	}
	if scope != "" {
		if m.asking == nil {
			m.asking = make(map[string]amount)
		}
		m.asking[scope], m.asked = next, true
	}
	return nil
}

// withinBudgets checks the next call of a scope against every budget that applies to it. The caller holds mu.
func (t *tally) withinBudgets(scope string, next amount, ofTurn func(session.Spent) session.Use) error {
	everybody := func(string) bool { return true }
	ever := func(s session.Spent) session.Use { return s.Session }
	err := cmp.Or(
		t.withinBudget(scope, t.budgets.Turn, "the turn", next, everybody, ofTurn),
		t.withinBudget(scope, t.budgets.Session, "the session", next, everybody, ever))
	for _, name := range t.bounding[next.agent] {
		err = cmp.Or(err, t.withinBudget(scope, t.budgets.Agents[name], "the agent "+name, next, t.inBudget(name), ever))
	}
	return err
}

// withinBudget holds the next call against one budget. Only what falls under it has to
// have a price and a usage.
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
		case t.budgets.MissingUsage == EstimateMissingUsage: // it was recorded before estimates were
			continue
		default:
			return fmt.Errorf("%w: the endpoint of the model %q does not report any, so the budget of %s cannot be kept; lift it, use an endpoint that reports usage, or set Budgets.MissingUsage to charge estimates", agent.ErrUnknownUsage, s.Model, of)
		}
		a := amount{tokens: saturated(int64(u.InputTokens), int64(u.OutputTokens))}
		if b.Cost > 0 {
			var known bool
			if a.cost, known = t.prices.Cost(s.Model, u.Usage); !known {
				return unknownPrice(s.Model)
			}
		}
		used.add(a)
	}
	for other, a := range t.asking {
		if other != scope && counts(a.agent) {
			used.add(a)
		}
	}
	for _, a := range t.ahead {
		if counts(a.agent) {
			used.add(a)
		}
	}
	return allows(b, of, used, next)
}

// watch cancels the step when the first budget of time is used up. The caller
// stops it.
func (m *meter) watch(cancel context.CancelCauseFunc) (stop func() bool, spent error) {
	m.session.mu.Lock()
	defer m.session.mu.Unlock()
	f := m.session.fold()
	times, outer, began := f.Times, f.Scope("").Began(), f.Scope(m.draft.scope).Began()
	now := m.now()
	running := max(0, now.Sub(outer)) // the log's times may be ahead of a clock that does not advance
	left := time.Duration(math.MaxInt64)
	holds := func(of string, budget, used time.Duration) {
		if budget > 0 && budget-used < left {
			left = budget - used
			spent = &agent.BudgetError{Of: of, Unit: "seconds", Budget: budget.Seconds(), Used: budget.Seconds()}
		}
	}
	holds("the turn", m.budgets.Turn.Time, times.Turn+running)
	holds("the session", m.budgets.Session.Time, times.Session+running)
	for _, name := range m.bounding[m.draft.run.Agent] {
		used, counts := max(0, now.Sub(began)), m.inBudget(name)
		for _, t := range times.Agents {
			if counts(t.Agent) {
				used += t.Session
			}
		}
		holds("the agent "+name, m.budgets.Agents[name].Time, used)
	}
	switch {
	case spent == nil:
		return func() bool { return true }, nil
	case left <= 0: // a timer would fire too late to keep a model from being asked
		return nil, spent
	}
	over := spent
	return time.AfterFunc(left, func() { cancel(over) }).Stop, nil
}

// metered adds a usage to an answer whose endpoint reports none: to one that is whole if
// the budgets say so, and always to one that broke off, which no endpoint reports and
// somebody pays for. Without a budget of tokens or cost it changes nothing.
func (m *meter) metered(model llm.Model, req *llm.Request, chunks iter.Seq2[llm.Chunk, error]) iter.Seq2[llm.Chunk, error] {
	m.estimate = ""
	if !m.counted() {
		return chunks
	}
	return func(yield func(llm.Chunk, error) bool) {
		var a modelAnswer
		for chunk, err := range chunks {
			switch {
			case chunk.Lost != nil:
				if lost := *chunk.Lost; lost.Begun && lost.Usage == nil {
					lost.Usage = m.charge(lost.Model, req, new(modelAnswer))
					chunk.Lost = &lost
				}
			case err == nil && chunk.Notice != nil:
			case err == nil:
				a.addChunk(&chunk)
				if a.whole && !a.reported && m.budgets.MissingUsage == EstimateMissingUsage {
					chunk.Usage = m.charge(model.Name(), req, &a)
				}
			case a.broken(err) && !yield(llm.Chunk{Usage: m.charge(model.Name(), req, &a)}, nil):
				return
			}
			if !yield(chunk, err) || err != nil {
				return
			}
		}
		if a.broken(nil) {
			yield(llm.Chunk{Usage: m.charge(model.Name(), req, &a)}, nil)
		}
	}
}

// charge estimates what an answer has used, and keeps what a notice says about it.
func (m *meter) charge(model string, req *llm.Request, a *modelAnswer) *llm.Usage {
	content := a.content
	content.Text = a.text.String()
	message := llm.Message{Role: llm.RoleAssistant, Content: content}
	u := &llm.Usage{InputTokens: llm.CountRequest(req, m.counter), OutputTokens: llm.CountMessage(&message, m.counter) - llm.MessageTokens}
	m.estimate = fmt.Sprintf("the endpoint of the model %q did not say what its answer has used; by an estimate it is %d tokens of input and %d of output",
		model, u.InputTokens, u.OutputTokens)
	return u
}

// estimated returns the notice that the usage of an answer is an estimate, nil if it is
// none.
func (m *meter) estimated(answer *event.Event) event.Data {
	if m.estimate == "" || !isAnswer(answer) {
		return nil
	}
	notice := &event.Notice{Code: "usage_estimated", Message: m.estimate}
	m.estimate = ""
	return notice
}

// isAnswer reports whether an event counts an answer of a model.
func isAnswer(e *event.Event) bool {
	switch e.Data.(type) {
	case *event.Usage, *event.Discard:
		return true
	}
	return false
}

// modelAnswer notes what came of a model's answer.
type modelAnswer struct {
	text     strings.Builder // and the reasoning
	content  llm.Content     // the calls
	begun    bool
	whole    bool
	reported bool
}

func (a *modelAnswer) addChunk(c *llm.Chunk) {
	a.begun = true
	a.text.WriteString(c.Reasoning)
	a.text.WriteString(c.Text)
	if c.Call != nil {
		a.content.Parts = append(a.content.Parts, *c.Call)
	}
	if c.Usage != nil { // the last one counts
		u, _ := c.Usage.Plausible()
		a.reported = u != llm.Usage{}
	}
	a.whole = a.whole || c.Finish != ""
}

// broken reports whether the answer was under way and has ended with an error, or with
// none before it was whole, without a usage. A request that failed before any part of an answer
// came costs nothing.
func (a *modelAnswer) broken(err error) bool {
	var failed *llm.Error
	begun := a.begun || errors.As(err, &failed) && failed.Code == llm.CodeTruncated
	return begun && !a.whole && !a.reported
}
