package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/internal/testing/storetest"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/postgres"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// TestFailover ends the server in the middle of turns, in every way there is, and
// starts it again. The turns finish, and the logs are whole.
func TestFailover(t *testing.T) {
	p := servers.NewPostgres(t)
	url := p.Database(t)
	s := open(t, url)
	r := newRunner(t, s)
	for name, end := range map[string]func() error{"fast": p.Stop, "immediate": p.StopImmediately, "killed": p.Kill} {
		t.Run(name, func(t *testing.T) {
			const sessions = 3
			inMiddle := make(chan struct{}, sessions)
			var turns, server sync.WaitGroup
			server.Go(func() {
				for range sessions {
					<-inMiddle
				}
				if err := end(); err != nil {
					t.Error(err)
				}
				if err := p.Start(); err != nil {
					t.Error(err)
				}
			})
			for i := range sessions {
				turns.Go(func() {
					key, n := session.ID(fmt.Sprint(name, i)), 0
					for e, err := range r.Run(t.Context(), key, llm.UserText("I was charged twice")) {
						if err != nil {
							t.Error(i, e, err)
						}
						if n++; n == 2+5*i { // in each session elsewhere
							inMiddle <- struct{}{}
						}
					}
				})
			}
			turns.Wait()
			server.Wait()
			for i := range sessions {
				key := session.ID(fmt.Sprint(name, i))
				_, err := turn(t.Context(), r, key, "Thanks")
				require.NoError(t, err)
				log := storetest.Load(t, s, key)
				said, answered := requireSound(t, log)
				require.Equal(t, 2, said)
				require.Equal(t, 2, answered)
				requireBlocks(t, url, key, log, 0)
			}
		})
	}
}

// TestServerGone: a server that stays away fails the turn with an error that says
// so; when it is back, the next turn works, and closes the one that was cut off.
func TestServerGone(t *testing.T) {
	p := servers.NewPostgres(t)
	url := p.Database(t)
	clock := sessiontest.NewClock()
	s := open(t, url, postgres.WithClock(clock.Now))
	postgres.WithRetryTime(3 * time.Second)(s)
	r := newRunner(t, s)
	key := session.ID("s")
	n := 0
	var failed error
	for _, err := range r.Run(t.Context(), key, llm.UserText("I was charged twice")) {
		if failed = err; err != nil {
			break
		}
		if n++; n == 4 { // and no process of the server is left that could release the lease
			require.NoError(t, p.StopImmediately())
		}
	}
	require.ErrorContains(t, failed, "the server cannot be reached")
	postgres.WithRetryTime(100 * time.Millisecond)(s)
	_, err := turn(t.Context(), r, key, "Hello?")
	require.ErrorContains(t, err, "the server cannot be reached")
	require.NoError(t, p.Start())
	patient(s)

	// The turn could not give its lease back: that ends by time.
	_, err = turn(t.Context(), r, key, "Hello?")
	require.ErrorIs(t, err, agent.ErrSessionBusy)
	clock.Advance(session.LeaseTTL)
	_, err = turn(t.Context(), r, key, "Hello?")
	require.NoError(t, err)
	log := storetest.Load(t, s, key)
	said, answered := requireSound(t, log)
	require.Equal(t, 2, said)
	require.Equal(t, 1, answered)
	requireBlocks(t, url, key, log, 0)
}

// TestCanceledTurn: a turn whose context ends while the server is slow gives its
// lease back, and the next one goes on.
func TestCanceledTurn(t *testing.T) {
	url := servers.Database(t)
	s, key := open(t, url), session.ID("s")
	r := newRunner(t, s, runner.WithCache(0))
	_, err := turn(t.Context(), r, key, "I was charged twice")
	require.NoError(t, err)
	before := len(storetest.Load(t, s, key))
	other := block(t, url, "LOCK TABLE arbor.log IN SHARE MODE") // nobody writes
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := turn(ctx, r, key, "Never mind")
		done <- err
	}()
	other.blocks(url)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	require.NoError(t, other.Rollback(t.Context()))
	require.Len(t, storetest.Load(t, s, key), before)
	_, err = turn(t.Context(), r, key, "Thanks")
	require.NoError(t, err)
	requireSound(t, storetest.Load(t, s, key))
}
