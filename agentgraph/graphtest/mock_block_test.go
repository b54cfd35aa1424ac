package graphtest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
)

// TestMockBlocks: a mock that blocks ends with its context and not before.
func TestMockBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := must.Get(Mock{BlockUntilCancelled: true}.Agent("m"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start := time.Now()
		_, err := call(ctx, t, a)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Hour, time.Since(start))
	})
	_, err := Mock{BlockUntilCancelled: true, Error: "x"}.Agent("m")
	require.ErrorContains(t, err, "blockUntilCancelled and error exclude each other")
}

// TestBlockedSiblingIsCancelled: the first error cancels what blocks beside it.
func TestBlockedSiblingIsCancelled(t *testing.T) {
	cases := must.Get(LoadCases([]byte(`
name: siblings
graph: |
  apiVersion: ossa.ai/v0.2.7
  kind: AgentGraph
  metadata: {name: g, version: 1.0.0}
  spec:
    agents:
      - {id: a, agentRef: a-agent}
      - {id: b, agentRef: b-agent}
      - {id: c, agentRef: c-agent}
    edges:
      - {from: a, to: b}
      - {from: a, to: c}
    entrypoint: a
mock: {a: {output: 1}, b: {error: boom}, c: {blockUntilCancelled: true}}
expect: {status: failed, order: [a, b, c], failed: [b], cancelled: [c], terminal: {}, error: {agent: b, contains: boom}}
`), "cases"))
	out := must.Get(cases[0].Run(t.Context()))
	require.Empty(t, out.Differences)
}
