package schema_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/schema"
)

// The same mistakes have the same words, in an order that does not depend on chance: what a model is told is
// part of its next request, which recordings and replays compare.
func TestSameWords(t *testing.T) {
	v, err := schema.Compile(json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{
		"a":{"type":"integer"},"b":{"type":"integer"},"c":{"type":"integer"},"d":{"type":"integer"}}}`))
	require.NoError(t, err)
	for range 50 {
		err := v.Validate(json.RawMessage(`{"d":"x","c":"x","b":"x","a":"x","z":1,"y":1,"x":1,"w":1}`))
		require.EqualError(t, err, "the arguments do not fit the schema: /a: got string, want integer; /b: got string, want integer; "+
			"/c: got string, want integer; /d: got string, want integer; /: additional properties 'w', 'x', 'y', 'z' not allowed")
	}
}
