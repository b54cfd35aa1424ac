package runner

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// Budget bounds what may be spent. Zero sets no bound.
type Budget = agent.Budget

// Budgets bound what sessions spend. Before a model is asked, the tokens of the
// request (an estimate) and those its settings allow for the answer are
// reserved; what the endpoint then reports is what counts. So an answer without
// Settings.MaxTokens can exceed a budget by its own length, and nothing by more.
//
// A budget that is spent ends the turn with an *agent.BudgetError; in an agent
// tool it ends that call, and the calling model reads why. The budget of a
// turn is new with the next one; those of sessions and agents last as long as
// the session. What inner scopes use is counted.
type Budgets struct {
	Turn, Session Budget
	// Agents bounds what single agents use in a session, by name. The agent of a graph's node
	// has two: the node's id, and its own. By its own name, all nodes that use the agent
	// count together. Nodes of one id in several graphs count together as well. [New] returns
	// an error for a name that no agent of the tree, and no agent inside of them, has.
	Agents map[string]Budget
	// MissingUsage says how an answer is charged whose endpoint does not report what it
	// has used. An answer that broke off is always charged an estimate of what was sent
	// and of what came.
	MissingUsage MissingUsage
}

// WithBudgets sets budgets, besides those that agents bring along in their
// [agent.Properties]; by default there are none. Where both bound something, the stricter
// bound holds.
func WithBudgets(b Budgets) Option { return func(r *Runner) { r.budgets = b } }

// WithPrices sets the prices by which a budget of cost is kept. [New] returns an error that wraps
// agent.ErrUnknownPrice if the model of an agent under such a budget has none. A model that is
// only known later is not asked: the turn ends with that error.
func WithPrices(p llm.Prices) Option { return func(r *Runner) { r.prices = p } }

// checkBudgets checks what the options have set, and notes what must be watched.
func (r *Runner) checkBudgets() error {
	r.broughtAlong()
	all := []Budget{r.budgets.Turn, r.budgets.Session}
	if len(r.budgets.Agents) > 0 {
		names := r.tree.Names()
		for _, name := range slices.Sorted(maps.Keys(r.budgets.Agents)) {
			if err := r.bound(name, names); err != nil {
				return err
			}
			all = append(all, r.budgets.Agents[name])
		}
	}
	for _, b := range all {
		if b.Tokens < 0 || b.Time < 0 || !(b.Cost >= 0) {
			return errors.New("runner: a budget is negative or no number; 0 sets no bound")
		}
		r.budgeted.tokens = r.budgeted.tokens || b.Tokens > 0
		r.budgeted.cost = r.budgeted.cost || b.Cost > 0
		r.budgeted.time = r.budgeted.time || b.Time > 0
	}
	if m := r.budgets.MissingUsage; m < RefuseMissingUsage || m > EstimateMissingUsage {
		return fmt.Errorf("runner: there is no MissingUsage %d", m)
	}
	if err := r.prices.Check(); err != nil {
		return fmt.Errorf("runner: %w", err)
	}
	return r.priced()
}

// priced returns an error for the first model under a budget of cost that has no price.
func (r *Runner) priced() error {
	if !r.budgeted.cost {
		return nil
	}
	names := r.tree.Names()
	for a := range r.tree.Everyone() {
		asks, ok := agent.As[interface{ Model() llm.Model }](a)
		if !ok {
			continue
		}
		bound := r.costs(a.Name())
		for called, own := range names {
			bound = bound || slices.Contains(own, a.Name()) && r.costs(called)
		}
		if name := r.unpriced(asks.Model()); bound && name != "" {
			return unknownPrice(name)
		}
	}
	return nil
}

// unpriced returns the name of a model without a price among those that m asks.
func (r *Runner) unpriced(m llm.Model) string {
	if of, ok := m.(llm.Composite); ok {
		for _, m := range of.Models() {
			if name := r.unpriced(m); name != "" {
				return name
			}
		}
		return ""
	}
	if m == nil {
		return ""
	}
	if _, known := r.prices.Find(m.Name()); known {
		return ""
	}
	return m.Name()
}

// costs reports whether a budget of cost is set for what an agent of this name asks.
func (r *Runner) costs(called string) bool {
	own := func(name string) bool { return r.budgets.Agents[name].Cost > 0 }
	return r.budgets.Turn.Cost > 0 || r.budgets.Session.Cost > 0 || slices.ContainsFunc(r.bounding[called], own)
}

// broughtAlong adds the budgets of the agents' own.
func (r *Runner) broughtAlong() {
	root := r.tree.Root().Properties.Budgets
	r.budgets.Turn, r.budgets.Session = r.budgets.Turn.Stricter(root.Turn), r.budgets.Session.Stricter(root.Session)
	own := r.tree.Budgets()
	for name, b := range r.budgets.Agents {
		own[name] = own[name].Stricter(b)
	}
	r.budgets.Agents = own
}

// bound notes which agents the budget of a name is for.
func (r *Runner) bound(name string, names map[string][]string) error {
	var known []string
	found := false
	for called, own := range names {
		if means(name, called, own) {
			if r.bounding == nil {
				r.bounding = make(map[string][]string)
			}
			r.bounding[called], found = append(r.bounding[called], name), true
		}
		known = append(append(known, called), own...)
	}
	if found {
		return nil
	}
	hint := "there is no such agent in the tree, nor inside of a graph or an agent tool"
	slices.Sort(known)
	return fmt.Errorf("runner: a budget is set for %q: %s%s", name, hint, nearest.Hint(name, known))
}

// means reports whether the budget of a name is for an agent that has these names.
func means(name, called string, own []string) bool {
	return called == name || slices.Contains(own, name)
}

// inBudget returns a function that reports whether the budget of a name applies to an
// agent.
func (r *Runner) inBudget(name string) func(called string) bool {
	return func(called string) bool { return slices.Contains(r.bounding[called], name) }
}

// budgeted says which units have a budget at all; without one nothing is
// counted.
type budgeted struct{ tokens, cost, time bool }

// amount is what is spent, or reserved for a call under way.
type amount struct {
	agent  string
	tokens int64
	cost   float64
}

func (a *amount) add(b amount) { a.tokens, a.cost = saturated(a.tokens, b.tokens), a.cost+b.cost }

// saturated adds numbers that are not negative; the sum is not either.
func saturated(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// reserve makes sure that one more model call is within the limits and the
// budgets. Inner scopes run side by side, so what a call of theirs may use
// counts from here on, not only when its answer is stored. Beside is how many requests
// for the same answer are under way already.
func (l *lane) reserve(inv *agent.Invocation, model llm.Model, req *llm.Request, beside int) error {
	r, limit, steps := l.t.r, l.t.r.limits.ModelCalls, l.t.r.limits.Steps
	next := amount{agent: inv.Agent().Name()}
	if r.budgeted.tokens || r.budgeted.cost {
		var err error
		if next, err = r.expect(next.agent, model, req); err != nil {
			return err
		}
		one := next
		for range beside { // the same request, so about as much
			next.add(one)
		}
	}
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	calls := l.t.w.fold.Turn.ModelCalls + len(l.t.asking) + beside
	if _, mine := l.t.asking[l.scope]; mine {
		calls--
	}
	for _, e := range l.joined {
		if _, ok := e.Data.(*event.Discard); ok { // it will be stored with what comes of this call
			calls++
		}
	}
	if limit > 0 && calls >= limit {
		return &agent.LimitError{Name: "model calls", Limit: int64(limit)}
	}
	if steps > 0 && l.t.w.fold.Scope(l.scope).Run.Answers >= steps { // of a function, which asks more than once in its step
		return &agent.LimitError{Name: "answers of one agent", Limit: int64(steps)}
	}
	if r.budgeted.tokens || r.budgeted.cost {
		if err := l.withinBudgets(next, func(s session.Spent) session.Use { return s.Turn }); err != nil {
			return err
		}
	}
	if l.scope != "" {
		if l.t.asking == nil {
			l.t.asking = make(map[string]amount)
		}
		l.t.asking[l.scope], l.asked = next, true
	}
	return nil
}

// isAnswer reports whether an event counts an answer of a model.
func isAnswer(e *event.Event) bool {
	switch e.Data.(type) {
	case *event.Usage, *event.Discard:
		return true
	}
	return false
}

// answered notes that an inner scope's model is no longer being asked. What it used
// counts until it is stored, which for the end of a workflow's agent is later.
func (l *lane) answered() {
	if l.asked {
		l.asked = false
		l.t.mu.Lock()
		defer l.t.mu.Unlock()
		delete(l.t.asking, l.scope)
	}
}

// expect estimates what a call will use.
func (r *Runner) expect(agentName string, model llm.Model, req *llm.Request) (amount, error) {
	u := llm.Usage{InputTokens: llm.CountRequest(req, r.tokens), OutputTokens: max(req.MaxTokens, 0)}
	a := amount{agent: agentName, tokens: saturated(int64(u.InputTokens), int64(u.OutputTokens))}
	if r.costs(agentName) {
		var known bool
		if a.cost, known = r.prices.Cost(model.Name(), u); !known {
			return a, unknownPrice(model.Name())
		}
	}
	return a, nil
}

func unknownPrice(model string) error {
	return fmt.Errorf("%w: the model %q has none, so the budget of cost cannot be kept; set it with runner.WithPrices", agent.ErrUnknownPrice, model)
}

// withinBudgets checks the next call against every budget that applies to it.
func (l *lane) withinBudgets(next amount, ofTurn func(session.Spent) session.Use) error {
	r, b := l.t.r, l.t.r.budgets
	everybody := func(string) bool { return true }
	ever := func(s session.Spent) session.Use { return s.Session }
	err := cmp.Or(
		l.within(b.Turn, "the turn", next, everybody, ofTurn),
		l.within(b.Session, "the session", next, everybody, ever))
	for _, name := range r.bounding[next.agent] {
		err = cmp.Or(err, l.within(b.Agents[name], "the agent "+name, next, r.inBudget(name), ever))
	}
	return err
}

// within holds the next call against one budget. Only what falls under it has to
// have a price and a usage.
func (l *lane) within(b Budget, of string, next amount, counts func(agentName string) bool, use func(session.Spent) session.Use) error {
	if b.Tokens == 0 && b.Cost == 0 {
		return nil
	}
	r := l.t.r
	var used amount
	for _, s := range l.t.w.fold.Spent {
		u := use(s)
		switch {
		case !counts(s.Agent), u == session.Use{}:
			continue
		case u.Answers == 0, u.Reported > 0:
		case r.budgets.MissingUsage == EstimateMissingUsage: // it was recorded before estimates were
			continue
		default:
			return fmt.Errorf("%w: the endpoint of the model %q does not report any, so the budget of %s cannot be kept; lift it, use an endpoint that reports usage, or set Budgets.MissingUsage to charge estimates", agent.ErrUnknownUsage, s.Model, of)
		}
		a := amount{tokens: saturated(int64(u.InputTokens), int64(u.OutputTokens))}
		if b.Cost > 0 {
			var known bool
			if a.cost, known = r.prices.Cost(s.Model, u.Usage); !known {
				return unknownPrice(s.Model)
			}
		}
		used.add(a)
	}
	for scope, a := range l.t.asking {
		if scope != l.scope && counts(a.agent) {
			used.add(a)
		}
	}
	return allows(b, of, used, next)
}

// allows returns nil or the *agent.BudgetError of the first unit that would be
// exceeded.
func allows(b Budget, of string, used, next amount) error {
	switch {
	case b.Tokens > 0 && saturated(used.tokens, next.tokens) > b.Tokens:
		return &agent.BudgetError{Of: of, Unit: "tokens", Budget: float64(b.Tokens), Used: float64(used.tokens), Needs: float64(next.tokens)}
	case b.Cost > 0 && used.cost+next.cost > b.Cost:
		return &agent.BudgetError{Of: of, Unit: "cost", Budget: b.Cost, Used: used.cost, Needs: next.cost}
	}
	return nil
}

// watch ends the step when the first budget of time is used up. The caller
// stops it.
func (l *lane) watch(run session.Run) (stop func() bool, spent error) {
	l.t.mu.Lock()
	times, outer, began := l.t.w.fold.Times, l.t.w.fold.Scope("").Began(), l.t.w.fold.Scope(l.scope).Began()
	now := l.t.r.now()
	running := max(0, now.Sub(outer)) // the log's times may be ahead of a clock that does not advance
	b := l.t.r.budgets
	left := time.Duration(math.MaxInt64)
	holds := func(of string, budget, used time.Duration) {
		if budget > 0 && budget-used < left {
			left = budget - used
			spent = &agent.BudgetError{Of: of, Unit: "seconds", Budget: budget.Seconds(), Used: budget.Seconds()}
		}
	}
	holds("the turn", b.Turn.Time, times.Turn+running)
	holds("the session", b.Session.Time, times.Session+running)
	for _, name := range l.t.r.bounding[run.Agent] {
		used, counts := max(0, now.Sub(began)), l.t.r.inBudget(name)
		for _, t := range times.Agents {
			if counts(t.Agent) {
				used += t.Session
			}
		}
		holds("the agent "+name, b.Agents[name].Time, used)
	}
	l.t.mu.Unlock()
	switch {
	case spent == nil:
		return func() bool { return true }, nil
	case left <= 0: // a timer would fire too late to keep a model from being asked
		return nil, spent
	}
	over := spent
	return time.AfterFunc(left, func() { l.cancel(over) }).Stop, nil
}
