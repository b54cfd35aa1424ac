package agentgraph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agentgraph"
)

// TestConfigNumbers: a number with an exponent is a number, as YAML 1.2 has it.
func TestConfigNumbers(t *testing.T) {
	g, err := agentgraph.Load([]byte(`
apiVersion: ossa.ai/v0.2.7
kind: AgentGraph
metadata: {name: g, version: 1.0.0}
spec:
  agents:
    - {id: a, agentRef: x, config: {small: 1e-3, large: 18446744073709551616, whole: 7, text: "1e-3"}}
  entrypoint: a
`), agentgraph.WithAnyRef())
	require.NoError(t, err)
	require.Equal(t, map[string]any{"small": 1e-3, "large": 18446744073709551616.0, "whole": int64(7), "text": "1e-3"}, g.Nodes[0].Config)
}
