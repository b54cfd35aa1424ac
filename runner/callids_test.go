package runner

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCallIDsFromTheLog: an id is found in the same look in which the ids are read, wherever they come from.
func TestCallIDsFromTheLog(t *testing.T) {
	c := callIDs{unread: 1}
	require.True(t, c.has("c1", func() bool {
		c = callIDs{}
		c.add("c1")
		return true
	}))
	require.False(t, c.has("c2", nil))
	c = callIDs{unread: 1}
	require.True(t, c.has("c1", func() bool { return false }), "what cannot be read may be taken")
}
