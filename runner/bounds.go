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

// bounds are the limits and budgets of a tree, with the prices that budgets of cost are kept by.
type bounds struct {
	limits  Limits
	budgets Budgets // with those that agents bring along
	prices  llm.Prices
	counter llm.TokenCounter
	now     func() time.Time

	tokens, cost, time bool                // which units have a budget at all; without one nothing is counted
	bounding           map[string][]string // the names in budgets that an agent falls under, by what the log calls it
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
			return nil, errors.New("runner: a budget is negative or no number; 0 sets no bound")
		}
		b.tokens, b.cost, b.time = b.tokens || one.Tokens > 0, b.cost || one.Cost > 0, b.time || one.Time > 0
	}
	if m := b.budgets.MissingUsage; m < RefuseMissingUsage || m > EstimateMissingUsage {
		return nil, fmt.Errorf("runner: there is no MissingUsage %d", m)
	}
	if err := b.prices.Check(); err != nil {
		return nil, fmt.Errorf("runner: %w", err)
	}
	return b, b.priced(tree, names)
}

// counted reports whether a budget of tokens or cost is set.
func (b *bounds) counted() bool { return b.tokens || b.cost }

// priced returns an error for the first model under a budget of cost that has no price.
func (b *bounds) priced(tree *agent.Tree, names map[string][]string) error {
	if !b.cost {
		return nil
	}
	for a := range tree.Everyone() {
		asks, ok := agent.As[interface{ Model() llm.Model }](a)
		if !ok {
			continue
		}
		bound := b.budgetsCost(a.Name())
		for called, own := range names {
			bound = bound || slices.Contains(own, a.Name()) && b.budgetsCost(called)
		}
		if name := b.unpriced(asks.Model()); bound && name != "" {
			return unknownPrice(name)
		}
	}
	return nil
}

// unpriced returns the name of a model without a price among those that m asks.
func (b *bounds) unpriced(m llm.Model) string {
	if of, ok := m.(llm.Composite); ok {
		for _, m := range of.Models() {
			if name := b.unpriced(m); name != "" {
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

// budgetsCost reports whether a budget of cost is set for what an agent of this name asks.
func (b *bounds) budgetsCost(called string) bool {
	own := func(name string) bool { return b.budgets.Agents[name].Cost > 0 }
	return b.budgets.Turn.Cost > 0 || b.budgets.Session.Cost > 0 || slices.ContainsFunc(b.bounding[called], own)
}

// bindBudget notes which agents the budget of a name is for.
func (b *bounds) bindBudget(name string, names map[string][]string) error {
	var known []string
	found := false
	for called, own := range names {
		if means(name, called, own) {
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
func (b *bounds) inBudget(name string) func(called string) bool {
	return func(called string) bool { return slices.Contains(b.bounding[called], name) }
}

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

// expect estimates what a call will use.
func (b *bounds) expect(agentName string, model llm.Model, req *llm.Request) (amount, error) {
	u := llm.Usage{InputTokens: llm.CountRequest(req, b.counter), OutputTokens: max(req.MaxTokens, 0)}
	a := amount{agent: agentName, tokens: saturated(int64(u.InputTokens), int64(u.OutputTokens))}
	if b.budgetsCost(agentName) {
		var known bool
		if a.cost, known = b.prices.Cost(model.Name(), u); !known {
			return a, unknownPrice(model.Name())
		}
	}
	return a, nil
}

func unknownPrice(model string) error {
	return fmt.Errorf("%w: the model %q has none, so the budget of cost cannot be kept; set it with runner.WithPrices", agent.ErrUnknownPrice, model)
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
