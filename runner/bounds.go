package runner

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/llm"
)

// bounds are the limits and budgets of a tree, with the prices that budgets of cost need. They are immutable.
type bounds struct {
	limits  Limits
	budgets Budgets // including those of the agents
	prices  llm.Prices
	counter llm.TokenCounter
	now     func() time.Time

	tokens, cost, time bool                // which units have a budget; other units are not counted
	bounding           map[string][]string // by an agent's name in the log: the names in budgets.Agents that apply to it
}

func newBounds(c config, tree *agent.Tree) (*bounds, error) {
	b := &bounds{limits: c.limits, budgets: c.budgets, prices: c.prices, counter: c.counter, now: c.now}
	root := tree.Root().Properties.Budgets
	b.budgets.Turn, b.budgets.Session = c.budgets.Turn.Stricter(root.Turn), c.budgets.Session.Stricter(root.Session)
	b.budgets.Agents = tree.Budgets()
	for name, own := range c.budgets.Agents {
		b.budgets.Agents[name] = b.budgets.Agents[name].Stricter(own)
	}
	names := tree.Names()
	all := []Budget{b.budgets.Turn, b.budgets.Session}
	for _, name := range slices.Sorted(maps.Keys(b.budgets.Agents)) {
		if err := b.bindBudget(name, names); err != nil {
			return nil, err
		}
		all = append(all, b.budgets.Agents[name])
	}
	for _, one := range all {
		if one.Tokens < 0 || one.Time < 0 || !(one.Cost >= 0) {
			return nil, errors.New("runner: a budget is negative or not a number; 0 sets no bound")
		}
		b.tokens, b.cost, b.time = b.tokens || one.Tokens > 0, b.cost || one.Cost > 0, b.time || one.Time > 0
	}
	if m := b.budgets.MissingUsage; m < RefuseMissingUsage || m > EstimateMissingUsage {
		return nil, fmt.Errorf("runner: unknown MissingUsage %d", m)
	}
	if err := b.prices.Check(); err != nil {
		return nil, fmt.Errorf("runner: %w", err)
	}
	return b, b.checkPrices(tree, names)
}

// counts reports whether a budget of tokens or cost is set.
func (b *bounds) counts() bool { return b.tokens || b.cost }

// checkPrices returns an error for the first model under a budget of cost that has no price.
func (b *bounds) checkPrices(tree *agent.Tree, names map[string][]string) error {
	if !b.cost {
		return nil
	}
	for a := range tree.AllAgents() {
		asks, ok := agent.As[interface{ Model() llm.Model }](a)
		if !ok {
			continue
		}
		bound := b.boundsCost(a.Name())
		for called, own := range names {
			bound = bound || slices.Contains(own, a.Name()) && b.boundsCost(called)
		}
		if name := b.modelWithoutPrice(asks.Model()); bound && name != "" {
			return unknownPrice(name)
		}
	}
	return nil
}

// modelWithoutPrice returns the name of a model without a price: m, or one of those that m asks. It returns "" if all
// have prices.
func (b *bounds) modelWithoutPrice(m llm.Model) string {
	if of, ok := m.(llm.Composite); ok {
		for _, m := range of.Models() {
			if name := b.modelWithoutPrice(m); name != "" {
				return name
			}
		}
		return ""
	}
	if m == nil {
		return ""
	}
	if _, known := b.prices.Find(m.Name()); known {
		return ""
	}
	return m.Name()
}

// boundsCost reports whether a budget of cost applies to the agent with this name in the log.
func (b *bounds) boundsCost(called string) bool {
	own := func(name string) bool { return b.budgets.Agents[name].Cost > 0 }
	return b.budgets.Turn.Cost > 0 || b.budgets.Session.Cost > 0 || slices.ContainsFunc(b.bounding[called], own)
}

// bindBudget records to which agents the budget for a name applies. It returns an error if there is no such agent.
func (b *bounds) bindBudget(name string, names map[string][]string) error {
	var known []string
	found := false
	for called, own := range names {
		if isNamed(name, called, own) {
			if b.bounding == nil {
				b.bounding = make(map[string][]string)
			}
			b.bounding[called], found = append(b.bounding[called], name), true
		}
		known = append(append(known, called), own...)
	}
	if found {
		return nil
	}
	slices.Sort(known)
	return fmt.Errorf("runner: a budget is set for %q: no agent of the tree, of a graph or of an agent tool has this name%s", name, nearest.Hint(name, known))
}

// isNamed reports whether a budget's name means the agent with the name called in the log and the names own.
func isNamed(name, called string, own []string) bool {
	return called == name || slices.Contains(own, name)
}

// inBudget returns a function that reports whether the budget for a name applies to an agent.
func (b *bounds) inBudget(name string) func(called string) bool {
	return func(called string) bool { return slices.Contains(b.bounding[called], name) }
}

// amount is an amount of tokens and cost that is spent, or reserved for a request.
type amount struct {
	agent  string
	tokens int64
	cost   float64
	calls  int  // the requests of a reservation that are under way at once
	open   bool // the answer of a reservation has not ended
}

func (a *amount) add(b amount) { a.tokens, a.cost = saturatingAdd(a.tokens, b.tokens), a.cost+b.cost }

// saturatingAdd returns the sum of two numbers that are not negative, at most math.MaxInt64.
func saturatingAdd(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// estimateRequest returns what a request will use at most, by the runner's token counter.
func (b *bounds) estimateRequest(agentName string, model llm.Model, req *llm.Request) (amount, error) {
	u := llm.Usage{InputTokens: llm.CountRequest(req, b.counter), OutputTokens: max(req.MaxTokens, 0)}
	a := amount{agent: agentName, tokens: saturatingAdd(int64(u.InputTokens), int64(u.OutputTokens))}
	if b.boundsCost(agentName) {
		var known bool
		if a.cost, known = b.prices.Cost(model.Name(), u); !known {
			return a, unknownPrice(model.Name())
		}
	}
	return a, nil
}

func unknownPrice(model string) error {
	return fmt.Errorf("%w: the model %q has no price, so the budget of cost cannot be enforced; set the price with runner.WithPrices", agent.ErrUnknownPrice, model)
}

// checkBudget returns an *agent.BudgetError for the first unit of the budget that next would exceed.
func checkBudget(b Budget, of string, used, next amount) error {
	switch {
	case b.Tokens > 0 && saturatingAdd(used.tokens, next.tokens) > b.Tokens:
		return &agent.BudgetError{Of: of, Unit: "tokens", Budget: float64(b.Tokens), Used: float64(used.tokens), Needs: float64(next.tokens)}
	case b.Cost > 0 && used.cost+next.cost > b.Cost:
		return &agent.BudgetError{Of: of, Unit: "cost", Budget: b.Cost, Used: used.cost, Needs: next.cost}
	}
	return nil
}
