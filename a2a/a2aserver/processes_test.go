package a2aserver

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2atest"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/postgres"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
)

// shared opens one database as several processes do that share nothing else.
var shared = []struct {
	name string
	open func(t *testing.T) func() session.Store
}{
	{"SQLite", func(t *testing.T) func() session.Store {
		path := filepath.Join(t.TempDir(), "sessions.db")
		return func() session.Store {
			s := must.Get(sqlite.Open(path))
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			return s
		}
	}},
	{"PostgreSQL", func(t *testing.T) func() session.Store {
		url := servers.Database(t)
		return func() session.Store {
			s := must.Get(postgres.Open(t.Context(), url))
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			return s
		}
	}},
}

// users counts the messages of users in a session, by their ids.
func userMessages(t *testing.T, store session.Store, key session.Key) map[string]int {
	t.Helper()
	found := make(map[string]int)
	for _, e := range must.All(store.Load(t.Context(), key, 0)) {
		if u, ok := e.Data.(*event.User); ok {
			found[fmt.Sprint(u.Metadata["a2a"].(map[string]any)["messageId"])]++
		}
	}
	return found
}

// A message that two servers of one store get at once begins one turn, and both say which
// task it is.
func TestSameMessageToTwoServers(t *testing.T) {
	for _, db := range shared {
		t.Run(db.name, func(t *testing.T) {
			open := db.open(t)
			a := must.Get(llmagent.New("a", "Answer.", scripted.Always("a", scripted.Reply(scripted.Text("Yes.")))))
			one, two := newTestServer(t, a, open()).RequestHandler(), newTestServer(t, a, open()).RequestHandler()
			store := open()
			for round := range 12 {
				contextID := fmt.Sprint("c", round/4) // new, and with a past
				ids := []string{fmt.Sprint("m", round), fmt.Sprint("m", round)}
				tasks := make([]sdk.TaskID, 2*len(ids))
				var wg sync.WaitGroup
				start := make(chan struct{})
				for i := range tasks {
					h, id := one, ids[i/2]
					if i%2 == 1 {
						h = two
					}
					wg.Go(func() {
						m := userMessage(id, "do it")
						m.ContextID = contextID
						<-start
						res, err := h.SendMessage(t.Context(), &sdk.SendMessageRequest{Message: m})
						if err == nil {
							tasks[i] = res.(*sdk.Task).ID
						} else {
							t.Error(err)
						}
					})
				}
				close(start)
				wg.Wait()
				got := userMessages(t, store, session.ID(contextID))
				require.Equal(t, 1, got[ids[0]], "round %d: %v", round, got)
				require.Equal(t, []sdk.TaskID{tasks[0], tasks[0], tasks[0]}, tasks[1:4])
			}
		})
	}
}

// So does an answer to a question; one of two different answers is heard, at whichever server.
func TestSameAnswerToTwoServers(t *testing.T) {
	for _, db := range shared {
		t.Run(db.name, func(t *testing.T) {
			open := db.open(t)
			mock := a2atest.New()
			far := must.Get(a2a.Remote("far", "", a2a.WithClient(mock)))
			one, two := newTestServer(t, far, open()).RequestHandler(), newTestServer(t, far, open()).RequestHandler()
			store := open()
			for round := range 8 {
				mock.Add(a2atest.Reply(a2atest.InputRequired("Which one?")))
				ctx := context.Background()
				task := sendTask(t, one, ctx, userMessage(fmt.Sprint("m", round), "refund"))
				require.Equal(t, sdk.TaskStateInputRequired, task.Status.State)
				mock.Add(a2atest.Reply(a2atest.Text("Done.")))
				ids := []string{"a", "a", "a", "a"}
				if round%2 == 1 {
					ids = []string{"a", "b", "b", "a"}
				}
				errs := make([]error, len(ids))
				var wg sync.WaitGroup
				start := make(chan struct{})
				for i := range errs {
					h := one
					if i%2 == 1 {
						h = two
					}
					wg.Go(func() {
						m := userMessage(ids[i], "the second")
						m.TaskID = task.ID
						<-start
						_, errs[i] = h.SendMessage(ctx, &sdk.SendMessageRequest{Message: m})
					})
				}
				close(start)
				wg.Wait()
				got := userMessages(t, store, session.ID(task.ContextID))
				require.Equal(t, 1, got["a"]+got["b"], "round %d: %v", round, got)
				if ids[1] == "a" {
					require.NoError(t, errors.Join(errs...))
				} else {
					require.ErrorIs(t, errors.Join(errs...), sdk.ErrUnsupportedOperation)
				}
			}
		})
	}
}

// gate is a store with which something can happen just before a lease is taken.
type gate struct {
	session.Store
	mu     sync.Mutex
	before func()
}

func (g *gate) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if !w.Acquires() {
		return g.Store.Write(ctx, key, w)
	}
	g.mu.Lock()
	before := g.before
	g.before = nil
	g.mu.Unlock()
	if before != nil {
		before()
	}
	return g.Store.Write(ctx, key, w)
}

// What another server does between the look at a session and the lease is seen.
func TestOtherServerIsQuicker(t *testing.T) {
	mock := a2atest.New()
	far := must.Get(a2a.Remote("far", "", a2a.WithClient(mock)))
	memory := sessiontest.Memory(t)
	store := &gate{Store: memory}
	slow, quick := newTestServer(t, far, store).RequestHandler(), newTestServer(t, far, memory).RequestHandler()
	ctx := context.Background()
	message := func(id, contextID string, task sdk.TaskID) *sdk.Message {
		m := userMessage(id, "do it")
		m.ContextID, m.TaskID = contextID, task
		return m
	}

	mock.Add(a2atest.Reply(a2atest.InputRequired("Which one?")))
	var other *sdk.Task
	store.before = func() { other = sendTask(t, quick, ctx, message("m1", "c", "")) }
	task := sendTask(t, slow, ctx, message("m1", "c", ""))
	require.Equal(t, other.ID, task.ID)
	require.Equal(t, map[string]int{"m1": 1}, userMessages(t, memory, session.ID("c")))

	mock.Add(a2atest.Reply(a2atest.Text("Done.")))
	store.before = func() { other = sendTask(t, quick, ctx, message("m2", "c", task.ID)) }
	require.Equal(t, sdk.TaskStateCompleted, sendTask(t, slow, ctx, message("m2", "c", task.ID)).Status.State)
	require.Equal(t, map[string]int{"m1": 1, "m2": 1}, userMessages(t, memory, session.ID("c")))

	// Another message comes behind the first one before that is heard of.
	mock.Add(a2atest.Reply(a2atest.Text("Done.")), a2atest.Reply(a2atest.Text("Done.")))
	store.before = func() {
		other = sendTask(t, quick, ctx, message("m3", "c", ""))
		sendTask(t, quick, ctx, message("m4", "c", ""))
	}
	require.Equal(t, sendTask(t, slow, ctx, message("m3", "c", "")).ID, other.ID)
	require.Equal(t, map[string]int{"m1": 1, "m2": 1, "m3": 1, "m4": 1}, userMessages(t, memory, session.ID("c")))

	// What is canceled is the task that was meant, not what came behind it.
	mock.Add(a2atest.Reply(a2atest.InputRequired("Which one?")), a2atest.Reply(a2atest.InputRequired("And which one here?")))
	task = sendTask(t, slow, ctx, message("m5", "c", ""))
	store.before = func() { other = sendTask(t, quick, ctx, message("m6", "c", "")) }
	canceled := must.Get(slow.CancelTask(ctx, &sdk.CancelTaskRequest{ID: task.ID}))
	require.Equal(t, sdk.TaskStateCanceled, canceled.Status.State)
	got := must.Get(slow.GetTask(ctx, &sdk.GetTaskRequest{ID: other.ID}))
	require.Equal(t, sdk.TaskStateInputRequired, got.Status.State)

	// The question of a turn is heard before its process lets go of the session.
	store.before = func() {
		lease := must.Get(sessiontest.Acquire(ctx, memory, session.ID("c"), session.Owner{Host: "another"}))
		store.before = func() { require.NoError(t, sessiontest.Release(ctx, memory, session.ID("c"), lease)) }
	}
	canceled = must.Get(slow.CancelTask(ctx, &sdk.CancelTaskRequest{ID: other.ID}))
	require.Equal(t, sdk.TaskStateCanceled, canceled.Status.State)
}
