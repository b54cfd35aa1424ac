package live

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// slowStore calls a function once before the next write that acquires a lease, as if the network were slow there.
type slowStore struct {
	session.Store
	mu sync.Mutex
	do func()
}

func (s *slowStore) beforeNext(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.do = do
}

func (s *slowStore) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if w.Acquires() {
		s.mu.Lock()
		do := s.do
		s.do = nil
		s.mu.Unlock()
		if do != nil {
			do()
		}
	}
	return s.Store.Write(ctx, key, w)
}

// twoServers returns the Turns of two servers on one store. The second one's store is slow.
func twoServers(t *testing.T) (*desk, *Turns, *Turns, *slowStore) {
	d, a := newDesk(t)
	store := sessiontest.Memory(t)
	slow := &slowStore{Store: store}
	return d, newTurns(t, a, store), newTurns(t, a, slow), slow
}

// asked begins a turn that asks whether a call may run, and returns its id and that of the call.
func asked(t *testing.T, turns *Turns) (turn, call string) {
	x := must.Get(turns.Begin(t.Context(), key, llm.UserText("ask")))
	require.NoError(t, x.Wait(t.Context()))
	s := stateIs(t, turns, key, Waiting)
	return s.Turn, s.Pending[0].ToolCallID
}

// TestOppositeDecisionsAtOnce: of two servers that get opposite decisions about a call, one stores its decision and the
// other one refuses.
func TestOppositeDecisionsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		_, a, b, slow := twoServers(t)
		turn, call := asked(t, a)
		slow.beforeNext(func() {
			yes := must.Get(a.DecideOnce(ctx, key, turn, Request{ID: "yes"}, runner.Approve(call)))
			require.NoError(t, yes.Wait(ctx))
		})
		_, err := b.DecideOnce(ctx, key, turn, Request{ID: "no"}, runner.Deny(call, "never"))
		require.ErrorIs(t, err, runner.ErrNoApproval)
	})
}
