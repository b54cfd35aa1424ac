package live

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// slowRelease is a store that takes its time to give a lease back.
type slowRelease struct {
	session.Store
	takes    time.Duration
	releases sync.WaitGroup
}

func newSlowRelease(t testing.TB, store session.Store, takes time.Duration) *slowRelease {
	s := &slowRelease{Store: store, takes: takes}
	t.Cleanup(s.releases.Wait)
	return s
}

func (s *slowRelease) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if !w.Release {
		return s.Store.Write(ctx, key, w)
	}
	w.Release = false
	lease, err := s.Store.Write(ctx, key, w)
	if err == nil {
		s.releases.Go(func() {
			time.Sleep(s.takes) // of the bubble
			_, _ = s.Store.Write(context.WithoutCancel(ctx), key, session.Write{Lease: lease, Release: true})
		})
	}
	return lease, err
}

// Who has read a turn to its end can go on at once, though the session is held for a moment longer.
func TestGoesOnWhenATurnRests(t *testing.T) {
	for takes, want := range map[time.Duration]error{5 * time.Second: nil, 15 * time.Second: agent.ErrSessionBusy} {
		t.Run(takes.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := context.Background()
				_, a := newDesk(t)
				turns := newTurns(t, a, newSlowRelease(t, sessiontest.Memory(t), takes))
				b, err := turns.BeginOnce(ctx, key, llm.UserText("hello"), Request{})
				require.NoError(t, err)
				for _, err := range turns.Watch(ctx, key, b.First, "") {
					require.NoError(t, err)
				}
				_, err = turns.BeginOnce(ctx, key, llm.UserText("hello"), Request{})
				require.ErrorIs(t, err, want)
			})
		})
	}
}

func TestAbandon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		d, a := newDesk(t)
		turns := newTurns(t, a, sessiontest.Memory(t))
		require.NoError(t, turns.Abandon(ctx, key, "none"))
		b, err := turns.BeginOnce(ctx, key, llm.UserText("think"), Request{})
		require.NoError(t, err)
		<-d.thinks
		require.NoError(t, turns.Abandon(ctx, key, "another"))
		stateIs(t, turns, key, Running)

		watched, leave := context.WithCancel(ctx)
		go func() {
			for range turns.Watch(watched, key, b.First, "") {
			}
		}()
		synctest.Wait()
		require.NoError(t, turns.Abandon(ctx, key, b.ID))
		stateIs(t, turns, key, Running)
		leave()
		synctest.Wait()
		require.NoError(t, turns.Abandon(ctx, key, b.ID))
		stateIs(t, turns, key, CutOff)
	})
}
