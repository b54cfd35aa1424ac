package cli

import (
	"os"

	"github.com/goccy/go-yaml"

	"github.com/agentarbor/arbor/llm"
)

// readPrices reads a table of prices: YAML, or JSON, which is YAML too.
func readPrices(path string) (llm.Prices, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, usagef("--prices: %w", err)
	}
	prices := llm.Prices{}
	if err := yaml.UnmarshalWithOptions(data, &prices, yaml.Strict()); err != nil {
		return nil, usagef("--prices %s: %s", path, yaml.FormatError(err, false, true))
	}
	if len(prices) == 0 {
		return nil, usagef("--prices %s: there are no prices in it", path)
	}
	if err := prices.Check(); err != nil {
		return nil, usagef("--prices %s: %w", path, err)
	}
	return prices, nil
}
