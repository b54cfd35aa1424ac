package a2aserver

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2aserver/push"
	"github.com/agentarbor/arbor/a2a/a2atest"
	"github.com/agentarbor/arbor/a2a/internal/testing/webhooktest"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// until reads what a webhook gets until its task is over, and returns what the task's
// artifacts are by then.
func until(t testing.TB, r *webhooktest.Receiver, state sdk.TaskState) map[sdk.ArtifactID]string {
	t.Helper()
	have := make(map[sdk.ArtifactID]string)
	text := func(a *sdk.Artifact) (all string) {
		for _, p := range a.Parts {
			all += p.Text()
		}
		return all
	}
	for {
		switch e := r.Next(t).Event.(type) {
		case *sdk.Task:
			clear(have)
			for _, a := range e.Artifacts {
				have[a.ID] = text(a)
			}
			if e.Status.State == state {
				return have
			}
		case *sdk.TaskArtifactUpdateEvent:
			if e.Append {
				_, known := have[e.Artifact.ID]
				require.True(t, known, "what is appended to was never posted")
			} else {
				have[e.Artifact.ID] = ""
			}
			have[e.Artifact.ID] += text(e.Artifact)
		case *sdk.TaskStatusUpdateEvent:
			if e.Status.State == state {
				return have
			}
		}
	}
}

// speaker says a text in pieces, one whenever it is let.
func speaker(t testing.TB, pieces ...string) (begun, next chan struct{}, a agent.Agent) {
	t.Helper()
	begun, next = make(chan struct{}, 1), make(chan struct{})
	a = must.Get(agent.New("speaker", "Speaks.", func(_ context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			id, all := inv.NewID(), ""
			for i, piece := range pieces {
				all += piece
				if !yield(&event.Event{ID: id, Partial: true, Attempt: 1, Data: &event.Text{Content: piece}}, nil) {
					return
				}
				if i == 0 {
					begun <- struct{}{}
				}
				<-next
			}
			yield(&event.Event{ID: id, Data: &event.Text{Content: all}}, nil)
		}
	}))
	return begun, next, a
}

// A webhook that is added while a text is on its way gets all of it.
func TestWebhookAddedInMidText(t *testing.T) {
	one, two := webhooktest.New(t, nil), webhooktest.New(t, nil)
	begun, next, a := speaker(t, "One ", "two ", "three.")
	h := newTestServer(t, a, sessiontest.Memory(t), WithPush(push.Options{AllowLoopback: true, TLS: one.TLSConfig()})).RequestHandler()
	ctx := context.Background()
	res := must.Get(h.SendMessage(ctx, &sdk.SendMessageRequest{Message: userMessage("m1", "count"),
		Config: &sdk.SendMessageConfig{ReturnImmediately: true, PushConfig: &sdk.PushConfig{URL: one.URL}}}))
	<-begun
	for { // what is posted so far is begun with the first words
		if u, ok := one.Next(t).Event.(*sdk.TaskArtifactUpdateEvent); ok {
			require.False(t, u.Append)
			break
		}
	}
	must.Get(h.CreateTaskPushConfig(ctx, &sdk.PushConfig{TaskID: res.(*sdk.Task).ID, URL: two.URL}))
	next <- struct{}{}
	first := two.Next(t).Event.(*sdk.Task)
	require.Equal(t, "One two ", first.Artifacts[0].Parts[0].Text())
	two.Got <- webhooktest.Posted{Event: first}
	next <- struct{}{}
	next <- struct{}{}
	for _, text := range until(t, two, sdk.TaskStateCompleted) {
		require.Equal(t, "One two three.", text)
	}
}

// givenUp is a log that tells of each event that could not be delivered.
type givenUp chan struct{}

func (g givenUp) Write(line []byte) (int, error) {
	if strings.Contains(string(line), "could not be delivered") {
		g <- struct{}{}
	}
	return len(line), nil
}

// A webhook that refuses the beginning of a text has all of it in the end.
func TestWebhookThatRefusesTheBeginning(t *testing.T) {
	var accepts atomic.Bool
	r := webhooktest.New(t, func(w http.ResponseWriter, _ *http.Request) {
		if !accepts.Load() {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	begun, next, a := speaker(t, "One ", "two ", "three.")
	given := make(givenUp, 100)
	s := newTestServer(t, a, sessiontest.Memory(t), WithPush(push.Options{AllowLoopback: true, TLS: r.TLSConfig()}), WithLogger(slog.New(slog.NewTextHandler(given, nil))))
	_, err := s.RequestHandler().SendMessage(context.Background(), &sdk.SendMessageRequest{Message: userMessage("m1", "count"),
		Config: &sdk.SendMessageConfig{ReturnImmediately: true, PushConfig: &sdk.PushConfig{ID: "w", URL: r.URL}}})
	require.NoError(t, err)
	<-begun
	for shown := false; !shown; { // the first words are posted
		switch e := r.Next(t).Event.(type) {
		case *sdk.TaskArtifactUpdateEvent:
			shown = true
		case *sdk.Task:
			shown = len(e.Artifacts) > 0
		}
		<-given
	}
	accepts.Store(true)
	for range 3 {
		next <- struct{}{}
	}
	for _, text := range until(t, r, sdk.TaskStateCompleted) {
		require.Equal(t, "One two three.", text)
	}
}

// A task that waited for an authorization and is asked for again goes on, and its
// webhook hears how.
func TestWebhookAfterAuthorization(t *testing.T) {
	r := webhooktest.New(t, nil)
	signed := make(chan struct{})
	mock := a2atest.New().Add(a2atest.Reply(a2atest.AuthRequired("Sign in."), a2atest.WaitFor(signed), a2atest.Text("Refunded.")))
	far := must.Get(a2a.Remote("far", "", a2a.WithClient(mock)))
	h := newTestServer(t, far, sessiontest.Memory(t), WithPush(push.Options{AllowLoopback: true, TLS: r.TLSConfig()})).RequestHandler()
	ctx := context.Background()
	res := must.Get(h.SendMessage(ctx, &sdk.SendMessageRequest{Message: userMessage("m1", "refund"),
		Config: &sdk.SendMessageConfig{PushConfig: &sdk.PushConfig{URL: r.URL}}}))
	task := res.(*sdk.Task)
	require.Equal(t, sdk.TaskStateAuthRequired, task.Status.State)
	until(t, r, sdk.TaskStateAuthRequired)
	close(signed)
	for range h.SubscribeToTask(ctx, &sdk.SubscribeToTaskRequest{ID: task.ID}) {
		break // and goes away
	}
	until(t, r, sdk.TaskStateCompleted)
}

// The webhook of a task that waits hears that the conversation went on without it.
func TestWebhookOfATaskThatWasLeft(t *testing.T) {
	r := webhooktest.New(t, nil)
	var ran []string
	script := scripted.New().Add("billing", scripted.Reply(scripted.Call("refund", `{"order":"A1"}`)), scripted.Reply(scripted.Text("Fine.")))
	billing := must.Get(llmagent.New("billing", "You refund.", script.Model("billing"), llmagent.WithTools(refundTool(t, &ran))))
	h := newTestServer(t, billing, sessiontest.Memory(t), WithPush(push.Options{AllowLoopback: true, TLS: r.TLSConfig()})).RequestHandler()
	ctx := context.Background()
	res := must.Get(h.SendMessage(ctx, &sdk.SendMessageRequest{Message: userMessage("m1", "refund A1"),
		Config: &sdk.SendMessageConfig{PushConfig: &sdk.PushConfig{URL: r.URL}}}))
	until(t, r, sdk.TaskStateInputRequired)
	next := userMessage("m2", "what is the weather?")
	next.ContextID = res.(*sdk.Task).ContextID
	sendTask(t, h, ctx, next)
	until(t, r, sdk.TaskStateCanceled)
}

// moody is a store that fails to be read when it is told to.
type moody struct {
	session.Store
	fail atomic.Int32
}

var errMoody = errors.New("the disk is on holiday")

func (m *moody) Load(ctx context.Context, key session.Key, after int64) iter.Seq2[*event.Event, error] {
	if m.fail.Add(-1) >= 0 {
		return func(yield func(*event.Event, error) bool) { yield(nil, errMoody) }
	}
	return m.Store.Load(ctx, key, after)
}

// A store that cannot be read for a moment does not keep the end of a task from its
// webhook.
func TestWebhookAfterAStoreFailed(t *testing.T) {
	r := webhooktest.New(t, nil)
	store := &moody{Store: sessiontest.Memory(t)}
	b, slow := newBlocked(t)
	s := newTestServer(t, slow, store, WithPush(push.Options{AllowLoopback: true, TLS: r.TLSConfig()}))
	s.firstPause = time.Millisecond
	_, err := s.RequestHandler().SendMessage(context.Background(), &sdk.SendMessageRequest{Message: userMessage("m1", "think"),
		Config: &sdk.SendMessageConfig{ReturnImmediately: true, PushConfig: &sdk.PushConfig{URL: r.URL}}})
	require.NoError(t, err)
	<-b.begun
	r.Next(t)
	store.fail.Store(3)
	close(b.free)
	until(t, r, sdk.TaskStateCompleted)
}

// The configs of a task whose session was deleted go, while it is followed and after a
// restart: they count for their caller, who could not delete them.
func TestWebhooksOfADeletedSession(t *testing.T) {
	r := webhooktest.New(t, nil)
	path := t.TempDir() + "/hooks.json"
	ctx := context.Background()
	for _, restart := range []bool{false, true} {
		hooks := must.Get(push.NewFile(path))
		options := WithPush(push.Options{AllowLoopback: true, TLS: r.TLSConfig(), Store: hooks})
		store := sessiontest.Memory(t)
		b, slow := newBlocked(t)
		s := must.Get(New(slow, store, options))
		res := must.Get(s.RequestHandler().SendMessage(ctx, &sdk.SendMessageRequest{Message: userMessage("m1", "think"),
			Config: &sdk.SendMessageConfig{ReturnImmediately: true, PushConfig: &sdk.PushConfig{URL: r.URL}}}))
		<-b.begun
		r.Next(t)
		key := session.ID(res.(*sdk.Task).ContextID)
		if restart {
			require.NoError(t, s.Close(ctx))
			require.NoError(t, store.Delete(ctx, key))
			s = must.Get(New(slow, store, options))
		} else {
			require.NoError(t, s.store.Delete(ctx, key))
		}
		must.Wait(t, func() bool {
			for range hooks.All(ctx) {
				return false
			}
			return true
		})
		require.NoError(t, s.Close(ctx))
	}
}

// A message with a webhook that cannot be is refused before anything is done.
func TestMessageWithABadWebhook(t *testing.T) {
	script := scripted.New().Add("a", scripted.Reply(scripted.Text("Done.")))
	a := must.Get(llmagent.New("a", "Answer.", script.Model("a")))
	h := newTestServer(t, a, sessiontest.Memory(t)).RequestHandler()
	ctx := context.Background()
	_, err := h.SendMessage(ctx, &sdk.SendMessageRequest{Message: userMessage("m1", "do it"),
		Config: &sdk.SendMessageConfig{PushConfig: &sdk.PushConfig{URL: "http://169.254.169.254/"}}})
	require.ErrorIs(t, err, sdk.ErrInvalidParams)
	list := must.Get(h.ListTasks(ctx, &sdk.ListTasksRequest{}))
	require.Empty(t, list.Tasks)
}

// A server that starts again resumes the turns whose webhooks still wait for the end.
func TestWebhookAfterRestart(t *testing.T) {
	r, file := webhooktest.New(t, nil), filepath.Join(t.TempDir(), "hooks.json")
	store := sessiontest.Memory(t)
	b, slow := newBlocked(t)
	serve := func() *Server {
		configs := must.Get(push.NewFile(file))
		return newTestServer(t, slow, store, WithPush(push.Options{AllowLoopback: true, TLS: r.TLSConfig(), Store: configs}))
	}
	s, ctx := serve(), context.Background()
	task := sendAtOnce(t, s.RequestHandler(), ctx, userMessage("m1", "think"))
	must.Get(s.RequestHandler().CreateTaskPushConfig(ctx, &sdk.PushConfig{TaskID: task.ID, URL: r.URL}))
	<-b.begun
	require.NoError(t, s.Close(ctx))
	close(b.free)
	serve()
	until(t, r, sdk.TaskStateCompleted)
}

// A server without push notifications refuses all that has to do with them.
func TestPushNotSupported(t *testing.T) {
	script := scripted.New().Add("a", scripted.Reply(scripted.Text("Done.")))
	a := must.Get(llmagent.New("a", "Answer.", script.Model("a")))
	h, ctx := newTestServer(t, a, sessiontest.Memory(t), WithoutPush()).RequestHandler(), context.Background()
	id := sendTask(t, h, ctx, userMessage("m1", "do it")).ID
	_, err := h.CreateTaskPushConfig(ctx, &sdk.PushConfig{TaskID: id, URL: "https://hooks.example.com/"})
	require.ErrorIs(t, err, sdk.ErrPushNotificationNotSupported)
	_, err = h.GetTaskPushConfig(ctx, &sdk.GetTaskPushConfigRequest{TaskID: id, ID: "x"})
	require.ErrorIs(t, err, sdk.ErrPushNotificationNotSupported)
	_, err = h.ListTaskPushConfigs(ctx, &sdk.ListTaskPushConfigRequest{TaskID: id})
	require.ErrorIs(t, err, sdk.ErrPushNotificationNotSupported)
	err = h.DeleteTaskPushConfig(ctx, &sdk.DeleteTaskPushConfigRequest{TaskID: id, ID: "x"})
	require.ErrorIs(t, err, sdk.ErrPushNotificationNotSupported)
	_, err = h.SendMessage(ctx, &sdk.SendMessageRequest{Message: userMessage("m2", "do it"),
		Config: &sdk.SendMessageConfig{PushConfig: &sdk.PushConfig{URL: "https://hooks.example.com/"}}})
	require.ErrorIs(t, err, sdk.ErrPushNotificationNotSupported)
}
