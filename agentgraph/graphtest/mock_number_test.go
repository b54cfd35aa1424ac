package graphtest

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/internal/plainjson"
)

// TestMockNumbers: the numbers of JSON, which is YAML too, are numbers in a mock.
func TestMockNumbers(t *testing.T) {
	mocks, err := LoadMocks([]byte(`{"a": {"output": [1e3, 1e-07, 1e+16, 18446744073709551616, "1e3", 1.5e3]}}`), "m")
	require.NoError(t, err)
	raw := must.Get(plainjson.Marshal(mocks["a"].Output))
	require.Equal(t, `[1e3,1e-07,1e+16,18446744073709551616,"1e3",1500]`, string(raw))
	same, err := sameJSON(raw, json.RawMessage(`[1000,0.0000001,10000000000000000,18446744073709551616,"1e3",1500.0]`))
	require.NoError(t, err)
	require.True(t, same)
}
