package a2aserver_test

import (
	"context"
	"iter"
	"sync/atomic"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/race"
	"github.com/agentarbor/arbor/session"
)

// counting counts what is read of a store.
type counting struct {
	session.Store
	events, sessions atomic.Int64
}

func (c *counting) Load(ctx context.Context, key session.Key, after int64) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		for e, err := range c.Store.Load(ctx, key, after) {
			c.events.Add(1)
			if !yield(e, err) {
				return
			}
		}
	}
}

func (c *counting) List(ctx context.Context, filter session.Key, page session.Page) ([]session.Info, error) {
	infos, err := c.Store.List(ctx, filter, page)
	c.sessions.Add(int64(len(infos)))
	return infos, err
}

// contexts makes so many contexts of one task each, the last one's the newest.
func contexts(t testing.TB, n int) (*a2aserver.Server, *counting) {
	t.Helper()
	store := &counting{Store: session.NewMemory()}
	s := must.Get(a2aserver.New(answers(t, "I see two charges."), store, a2aserver.WithoutPush()))
	t.Cleanup(func() { require.NoError(t, s.Close(context.Background())) })
	for range n {
		send(t, s, askParts())
	}
	return s, store
}

// pageOf reads the nth page of a list of 20 tasks a page.
func pageOf(t testing.TB, s *a2aserver.Server, token string) *sdk.ListTasksResponse {
	list, err := s.RequestHandler().ListTasks(context.Background(), &sdk.ListTasksRequest{PageSize: 20, PageToken: token})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestCostOfAPageDoesNotGrow compares what a page of a list reads and allocates of a few
// contexts and of many.
func TestCostOfAPageDoesNotGrow(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates on its own")
	}
	few, fewStore := contexts(t, 600)
	many, manyStore := contexts(t, 3000)
	deep := func(s *a2aserver.Server, n int) (token string) {
		for range n {
			token = pageOf(t, s, token).NextPageToken
		}
		return token
	}
	for _, c := range []struct {
		name      string
		few, many string
	}{{"the first page", "", ""}, {"a page in the middle", deep(few, 10), deep(many, 75)}} {
		t.Run(c.name, func(t *testing.T) {
			measure := func(s *a2aserver.Server, store *counting, token string) (allocs float64, events, sessions int64) {
				events, sessions = store.events.Load(), store.sessions.Load()
				pageOf(t, s, token)
				events, sessions = store.events.Load()-events, store.sessions.Load()-sessions
				allocs = race.Allocations(t, 20, func() { pageOf(t, s, token) })
				return allocs, events, sessions
			}
			a1, e1, s1 := measure(few, fewStore, c.few)
			a2, e2, s2 := measure(many, manyStore, c.many)
			t.Logf("%.0f allocations, %d events and %d sessions of 600 contexts, %.0f, %d and %d of 3,000", a1, e1, s1, a2, e2, s2)
			require.InDelta(t, a1, a2, 0.05*a1+3)
			require.Equal(t, e1, e2)
			require.Equal(t, s1, s2)
		})
	}
}
