package llm

import (
	"errors"
	"fmt"
	"math"

	"github.com/agentarbor/arbor/internal/lazyregexp"
)

// Price is what a model costs per million tokens, in the currency of the table. CachedInput is the price of input
// tokens that the provider read from its prompt cache; 0 means the same price as Input.
type Price struct {
	Input       float64 `json:"input"`
	CachedInput float64 `json:"cachedInput,omitempty"`
	Output      float64 `json:"output"`
}

// Prices is a table of prices by model name. It has no built-in prices.
type Prices map[string]Price

// snapshot matches the date at the end of a model's versioned name.
var snapshot = lazyregexp.New(`-(\d{4}-\d{2}-\d{2}|\d{8}|\d{4})$`)

// Find returns the price of a model. If a name that ends in a date has no price of its own, Find returns the price of
// the name without the date, because endpoints answer a request to gpt-x with the model name gpt-x-2026-01-31.
func (p Prices) Find(model string) (price Price, ok bool) {
	if price, ok = p[model]; ok {
		return price, true
	}
	if date := snapshot.Get().FindStringIndex(model); date != nil {
		price, ok = p[model[:date[0]]]
	}
	return price, ok
}

// Cost returns the cost of a model's answer, and false if the table has no price for the model.
func (p Prices) Cost(model string, u Usage) (cost float64, ok bool) {
	price, ok := p.Find(model)
	if !ok {
		return 0, false
	}
	cached := price.CachedInput
	if cached == 0 {
		cached = price.Input
	}
	u = Usage{}.Add(u)                         // sets negative numbers to 0
	hits := min(u.CachedTokens, u.InputTokens) // some endpoints do not include cached tokens in the input
	return (float64(u.InputTokens-hits)*price.Input + float64(hits)*cached + float64(u.OutputTokens)*price.Output) / 1e6, true
}

// Check returns an error that names every price that is negative, infinite or not a number.
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
