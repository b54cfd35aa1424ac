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

func TestPricesCheck(t *testing.T) {
	require.NoError(t, llm.Prices{"a": {Input: 1}}.Check())
	err := llm.Prices{"a": {Input: -1}, "b": {Output: math.NaN()}, "c": {CachedInput: math.Inf(1)}}.Check()
	require.ErrorContains(t, err, `"a" is -1`)
	require.ErrorContains(t, err, `"b" is NaN`)
	require.ErrorContains(t, err, `"c" is +Inf`)
}
