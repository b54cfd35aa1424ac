package factory

import (
	"fmt"
	"os"

	"github.com/goccy/go-yaml"
	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/llm"
)

// Costs says what so many tokens of requests cost, "" without a price.
func Costs(prices llm.Prices, model string, tokens int) string {
	if cost, ok := prices.Cost(model, llm.Usage{InputTokens: tokens}); ok {
		return fmt.Sprintf(", which cost %.4f besides the answers", cost)
	}
	return ""
}

// Paid says what was used cost, "" without a price.
func Paid(prices llm.Prices, model string, used llm.Usage) string {
	if cost, ok := prices.Cost(model, used); ok {
		return fmt.Sprintf(", which cost %.4f", cost)
	}
	return ""
}

// ReadPrices reads a table of prices: YAML, or JSON, which is YAML too.
func ReadPrices(path string) (llm.Prices, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, Usagef("--prices: %w", err)
	}
	prices := llm.Prices{}
	if err := yaml.UnmarshalWithOptions(data, &prices, yaml.Strict()); err != nil {
		return nil, Usagef("--prices %s: %s", path, yaml.FormatError(err, false, true))
	}
	if len(prices) == 0 {
		return nil, Usagef("--prices %s: there are no prices in it", path)
	}
	if err := prices.Check(); err != nil {
		return nil, Usagef("--prices %s: %w", path, err)
	}
	return prices, nil
}

// PricesFlag adds --prices.
func PricesFlag(fs *pflag.FlagSet, prices *string) {
	fs.StringVar(prices, "prices", "", "read the prices for cost budgets from `FILE` (YAML or JSON)")
}
