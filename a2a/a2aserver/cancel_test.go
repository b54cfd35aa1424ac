package a2aserver

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// slowLease is a store that takes its time with the second lease.
type slowLease struct {
	session.Store
	leases atomic.Int32
	asked  chan struct{}
	let    chan struct{}
}

func (s *slowLease) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if !w.Acquires() {
		return s.Store.Write(ctx, key, w)
	}
	if s.leases.Add(1) == 2 {
		close(s.asked)
		<-s.let
	}
	return s.Store.Write(ctx, key, w)
}

// Who looks at a task that is just being canceled does not take it up again, and who
// sends a message waits.
func TestCancelIsNotOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		b, slow := newBlocked(t)
		store := &slowLease{Store: sessiontest.Memory(t), asked: make(chan struct{}), let: make(chan struct{})}
		s := must.Get(New(slow, store))
		h := s.RequestHandler()
		task := sendAtOnce(t, h, ctx, userMessage("m1", "think"))
		<-b.begun
		canceled := make(chan error)
		go func() {
			_, err := h.CancelTask(ctx, &sdk.CancelTaskRequest{ID: task.ID})
			canceled <- err
		}()
		<-store.asked // the turn has ended, and the task is not canceled yet
		must.Get(h.GetTask(ctx, &sdk.GetTaskRequest{ID: task.ID}))
		next := userMessage("m2", "another thing")
		next.ContextID = task.ContextID
		sent := make(chan *sdk.Task)
		go func() { sent <- sendAtOnce(t, h, ctx, next) }()
		synctest.Wait()
		close(store.let)
		require.NoError(t, <-canceled)
		other := <-sent
		require.NotEqual(t, task.ID, other.ID)
		<-b.begun
		got := must.Get(h.GetTask(ctx, &sdk.GetTaskRequest{ID: other.ID}))
		require.Equal(t, sdk.TaskStateWorking, got.Status.State)
		require.NoError(t, s.Close(ctx))
	})
}

// Two that cancel one task do not wait for each other.
func TestCanceledTwiceAtOnce(t *testing.T) {
	b, slow := newBlocked(t)
	h := newTestServer(t, slow, sessiontest.Memory(t)).RequestHandler()
	ctx := context.Background()
	task := sendAtOnce(t, h, ctx, userMessage("m1", "think"))
	<-b.begun
	errs := make(chan error)
	for range 2 {
		go func() {
			_, err := h.CancelTask(ctx, &sdk.CancelTaskRequest{ID: task.ID})
			errs <- err
		}()
	}
	one, two := <-errs, <-errs
	if one != nil {
		one, two = two, one
	}
	require.NoError(t, one)
	require.ErrorIs(t, two, sdk.ErrTaskNotCancelable)
}

// Who follows a task that waits hears that it is over when the user goes on with
// something else, also if it is told what tools do.
func TestFollowerOfAWithdrawnTask(t *testing.T) {
	var ran []string
	script := scripted.New().Add("billing", scripted.Reply(scripted.Call("refund", `{"order":"A1"}`)), scripted.Reply(scripted.Text("Fine.")))
	billing := must.Get(llmagent.New("billing", "You refund.", script.Model("billing"), llmagent.WithTools(refundTool(t, &ran))))
	h := newTestServer(t, billing, sessiontest.Memory(t)).RequestHandler()
	ctx := context.Background()
	task := sendTask(t, h, ctx, userMessage("m1", "refund A1"))
	begun, lines := make(chan struct{}), make(chan []string)
	go func() {
		var all []string
		for e, err := range h.SubscribeToTask(withExtension(ctx), &sdk.SubscribeToTaskRequest{ID: task.ID}) {
			if err != nil {
				break
			}
			if all = append(all, told([]sdk.Event{e})...); len(all) == 1 {
				close(begun)
			}
		}
		lines <- all
	}()
	<-begun
	next := userMessage("m2", "what is the weather?")
	next.ContextID = task.ContextID
	sendTask(t, h, ctx, next)
	require.Equal(t, []string{"task input required", "status canceled: The conversation continued without this task."}, <-lines)
}

// Who does not wait for answers cannot have any number of turns at work; others can have
// theirs.
func TestTurnsAtOnce(t *testing.T) {
	b, slow := newBlocked(t)
	h := newTestServer(t, slow, sessiontest.Memory(t), WithHTTP(HTTPOptions{Turns: access.NewLimit(2, 0)})).RequestHandler()
	ctx := withCaller(context.Background(), "ann")
	first := sendAtOnce(t, h, ctx, userMessage("m1", "think"))
	sendAtOnce(t, h, ctx, userMessage("m2", "think"))
	at := &sdk.SendMessageConfig{ReturnImmediately: true}
	_, err := h.SendMessage(ctx, &sdk.SendMessageRequest{Message: userMessage("m3", "think"), Config: at})
	require.ErrorIs(t, err, sdk.ErrServerError)
	require.ErrorContains(t, err, "more than 2 turns")
	sendAtOnce(t, h, withCaller(context.Background(), "bob"), userMessage("m1", "think"))
	<-b.begun
	must.Get(h.CancelTask(ctx, &sdk.CancelTaskRequest{ID: first.ID}))
	sendAtOnce(t, h, ctx, userMessage("m3", "think"))
}
