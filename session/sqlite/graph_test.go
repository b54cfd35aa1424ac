package sqlite_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/conversation"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/internal/storetest"
	"github.com/agentarbor/arbor/session/sqlite"
)

func graphOf(events []*event.Event) *conversation.Graph {
	g := conversation.New()
	for _, e := range events {
		g = g.Reduce(e)
	}
	return g
}

func sameGraph(t testing.TB, want, got *conversation.Graph) {
	t.Helper()
	w := must.Get(json.Marshal(want))
	g := must.Get(json.Marshal(got))
	require.Equal(t, string(w), string(g))
}

// TestGraphFromTheFile: the graph of what a client saw, deltas included, is the
// graph of what is loaded from the file after it was closed.
func TestGraphFromTheFile(t *testing.T) {
	path := newFile(t)
	s := must.Get(sqlite.Open(path))
	key := session.ID("story")
	live := graphOf(tell(t, s, key))
	require.NoError(t, s.Close())
	s = open(t, path)
	log := storetest.Load(t, s, key)
	sameGraph(t, live, graphOf(log))

	// Forks at every position, before and after they have been continued.
	for seq := range int64(len(log) + 1) {
		fork := session.ID(fmt.Sprint("fork", seq))
		require.NoError(t, s.Fork(t.Context(), key, seq, fork))
		shared := storetest.Load(t, s, fork)
		sameGraph(t, graphOf(log[:seq]), graphOf(shared))
	}
	sound(t, path)
}
