package llm_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
)

func TestPrices(t *testing.T) {
	prices := llm.Prices{"gpt-x": {Input: 2, CachedInput: 1, Output: 8}, "gpt-x-2026-01-31": {Input: 4, Output: 16}, "plain": {Input: 1, Output: 1}, "free": {}}
	used := llm.Usage{InputTokens: 3_000_000, CachedTokens: 1_000_000, OutputTokens: 500_000}
	for model, want := range map[string]float64{
		"gpt-x": 2*2 + 1*1 + 0.5*8, "gpt-x-2026-01-31": 3*4 + 0.5*16,
		"gpt-x-2025-06-01": 9, "gpt-x-20250601": 9, "gpt-x-0601": 9, "plain": 3.5, "free": 0,
	} {
		cost, ok := prices.Cost(model, used)
		require.True(t, ok, model)
		require.InDelta(t, want, cost, 1e-9, model)
	}
	for _, model := range []string{"gpt-x-mini", "gpt-x-mini-2026-01-31", "gpt", "", "gpt-x-31"} {
		_, ok := prices.Cost(model, used)
		require.False(t, ok, model)
	}
	_, ok := llm.Prices(nil).Cost("gpt-x", used)
	require.False(t, ok)
}

// TestCostIsNeverNegative: some endpoints count cached tokens beside the input,
// not as a part of it. No more than the input can have come from the cache.
func TestCostIsNeverNegative(t *testing.T) {
	prices := llm.Prices{"m": {Input: 1, CachedInput: 0.1, Output: 1}, "no discount": {Input: 1, Output: 1}}
	for model, want := range map[string]float64{"m": (10*0.1 + 5) / 1e6, "no discount": (10 + 5) / 1e6} {
		cost, ok := prices.Cost(model, llm.Usage{InputTokens: 10, CachedTokens: 1000, OutputTokens: 5})
		require.True(t, ok)
		require.InDelta(t, want, cost, 1e-12, model)
	}
	cost, ok := prices.Cost("m", llm.Usage{CachedTokens: 1000})
	require.True(t, ok)
	require.Zero(t, cost)
}

func TestPricesCheck(t *testing.T) {
	require.NoError(t, llm.Prices{"a": {Input: 1}}.Check())
	err := llm.Prices{"a": {Input: -1}, "b": {Output: math.NaN()}, "c": {CachedInput: math.Inf(1)}}.Check()
	require.ErrorContains(t, err, `"a" is -1`)
	require.ErrorContains(t, err, `"b" is NaN`)
	require.ErrorContains(t, err, `"c" is +Inf`)
}
