package agui

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/race"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/checkpoint"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// TestDeltasAreCheap: what a delta costs each page that follows.
func TestDeltasAreCheap(t *testing.T) {
	p := begun(t)
	e := delta("b", " charges")
	at := session.Position{Seq: 2}
	allocations := race.Allocations(t, 1000, func() {
		at.Part++
		for _, out := range p.apply(at, e) {
			must.Get(json.Marshal(out))
		}
	})
	require.LessOrEqual(t, allocations, 4.0)
}

// asked is a store that counts what it is asked for: lists of a user's sessions, and single sessions.
type asked struct {
	session.Store
	mu             sync.Mutex
	lists, singles int
	fourth         func(singles int)
}

func (s *asked) List(ctx context.Context, of session.Key, page session.Page) ([]session.Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of.ID != "" {
		s.singles++
	} else if s.lists++; s.lists == 2 {
		s.singles = 0 // the stream is open
	} else if s.lists == 4 {
		s.fourth(s.singles)
	}
	return s.Store.List(ctx, of, page)
}

// TestFollowersAskOnce: a page that follows a thread costs the store one request each second, with any number of
// branches.
func TestFollowersAskOnce(t *testing.T) {
	t.Parallel()
	memory := sessiontest.Memory(t)
	store := &asked{Store: memory}
	w := newWorld(t, newTurns(t, newDesk(t), store, runner.WithStreaming()))
	_, events, _ := w.post("", inputOf("r1", []any{says("u1", "Hi")[0]}))
	require.Equal(t, "RUN_FINISHED", last(events)["type"])
	past := must.Get(checkpoint.New(memory))
	for _, branch := range []string{"t1~1", "t1~2"} {
		require.NoError(t, past.Fork(t.Context(), w.key("t1"), int64(len(w.log("t1"))), w.key(branch)))
	}
	singles := -1
	closed := make(chan error, 1)
	store.lists, store.fourth = 0, func(n int) {
		singles = n
		go func() { closed <- w.turns.Close(context.Background()) }()
	}
	_, events, _ = w.post("/connect", `{"threadId":"t1","runId":"r2","messages":[]}`)
	require.Equal(t, "RUN_FINISHED", last(events)["type"], "%v", events)
	require.NoError(t, <-closed)
	require.Zero(t, singles)
}
