package llm_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
)

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		told, counted llm.Usage
		ok            bool
	}{
		{llm.Usage{}, llm.Usage{}, true},
		{llm.Usage{InputTokens: 12, OutputTokens: 7, CachedTokens: 4}, llm.Usage{InputTokens: 12, OutputTokens: 7, CachedTokens: 4}, true},
		{llm.Usage{InputTokens: 4, CachedTokens: 9}, llm.Usage{InputTokens: 4, CachedTokens: 9}, true}, // counted apart
		{llm.Usage{InputTokens: 4, CachedTokens: -9}, llm.Usage{InputTokens: 4}, true},
		{llm.Usage{InputTokens: -1, OutputTokens: 7}, llm.Usage{}, false},
		{llm.Usage{InputTokens: 12, OutputTokens: math.MinInt}, llm.Usage{}, false},
		{llm.Usage{InputTokens: math.MaxInt}, llm.Usage{}, false},
	} {
		counted, ok := c.told.Plausible()
		require.Equal(t, c.counted, counted)
		require.Equal(t, c.ok, ok)
	}
	sum := llm.Usage{InputTokens: math.MaxInt, OutputTokens: 3, CachedTokens: -4}.Add(llm.Usage{InputTokens: math.MaxInt, OutputTokens: -5, CachedTokens: 6})
	require.Equal(t, llm.Usage{InputTokens: math.MaxInt, OutputTokens: 3, CachedTokens: 6}, sum)
	cost, _ := llm.Prices{"m": {Input: 1, Output: 1}}.Cost("m", llm.Usage{InputTokens: -1_000_000, OutputTokens: 1_000_000, CachedTokens: math.MinInt})
	require.Equal(t, 1.0, cost)
}
