package llm

import (
	"errors"
	"fmt"
	"math"

	"github.com/agentarbor/arbor/internal/lazyregexp"
)

// Price is what a model costs per million tokens, in whatever currency the
// table is kept. CachedInput is the price of input tokens that came from the
// provider's prompt cache; 0 means that they cost as much as others.
type Price struct {
	Input       float64 `json:"input"`
	CachedInput float64 `json:"cachedInput,omitempty"`
	Output      float64 `json:"output"`
}

// Prices is a table of prices by model name. It holds no prices of its own:
// what a model costs is known to whoever pays for it.
type Prices map[string]Price

// snapshot is the date at the end of the name by which an endpoint calls the
// version of a model that answered.
var snapshot = lazyregexp.New(`-(\d{4}-\d{2}-\d{2}|\d{8}|\d{4})$`)

// Find returns the price of a model. A name that ends in a date and has no
// price of its own has the price of the name without the date, because
// endpoints answer a call of gpt-x in the name of gpt-x-2026-01-31.
func (p Prices) Find(model string) (price Price, ok bool) {
	if price, ok = p[model]; ok {
		return price, true
	}
	if date := snapshot.Get().FindStringIndex(model); date != nil {
		price, ok = p[model[:date[0]]]
	}
	return price, ok
}

// Cost returns what an answer of a model cost, and false if the table has no
// price for the model.
func (p Prices) Cost(model string, u Usage) (cost float64, ok bool) {
	price, ok := p.Find(model)
	if !ok {
		return 0, false
	}
	cached := price.CachedInput
	if cached == 0 {
		cached = price.Input
	}
	u = Usage{}.Add(u)                         // which leaves out what is negative
	hits := min(u.CachedTokens, u.InputTokens) // some endpoints count them apart
	return (float64(u.InputTokens-hits)*price.Input + float64(hits)*cached + float64(u.OutputTokens)*price.Output) / 1e6, true
}

// Check returns an error that names every price which is no amount of money.
func (p Prices) Check() error {
	var errs []error
	for model, price := range p {
		for _, v := range []float64{price.Input, price.CachedInput, price.Output} {
			if v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
				errs = append(errs, fmt.Errorf("the price of %q is %v: prices are numbers from 0", model, v))
				break
			}
		}
	}
	return errors.Join(errs...)
}
