package turn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli/internal/factory"
)

// A chat takes up the newest tree between two lines, and ends the one that it had, once.
func TestChatEndsTheOldTree(t *testing.T) {
	var ended []string
	tree := func(name string) *factory.LoadedTree {
		return &factory.LoadedTree{End: func() { ended = append(ended, name) }}
	}
	c := &Conversation{LoadedTree: tree("old"), Factory: &factory.Factory{}, JSON: true}
	c.useNewestTree()
	require.Empty(t, ended)
	c.newer.Store(tree("new"))
	c.useNewestTree()
	c.useNewestTree()
	require.Equal(t, []string{"old"}, ended)
	c.End()
	require.Equal(t, []string{"old", "new"}, ended)
}
