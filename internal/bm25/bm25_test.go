package bm25_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/bm25"
)

func TestScores(t *testing.T) {
	score := func(query string) []float64 {
		return bm25.Scores(bm25.Split(query), [][]bm25.Word{
			bm25.Split("invoices, charges and refunds"), bm25.Split("parcels, charges for them, and their long way through the country"), bm25.Split("")})
	}
	require.Equal(t, []float64{0, 0, 0}, score("Why are you here?"), "such words stand everywhere")
	require.Equal(t, []float64{0, 0, 0}, score(""))
	charged, refunded := score("I was charged"), score("the REFUND")
	require.Greater(t, charged[0], charged[1], "a longer text says less of each word")
	require.Greater(t, refunded[0], charged[0], "a rarer word says more")
	require.Zero(t, refunded[1])
	require.Equal(t, refunded, score("refund, refunds, refunding"), "a word counts once")
	require.Empty(t, bm25.Scores(bm25.Split("refund"), nil))
}
