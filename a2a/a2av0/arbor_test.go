package a2av0_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	old "github.com/a2aproject/a2a-go/a2a"
	oldclient "github.com/a2aproject/a2a-go/a2aclient"
	oldcard "github.com/a2aproject/a2a-go/a2aclient/agentcard"
	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/a2a/a2av0"
	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

// newArbor serves a tree over HTTP for both versions.
func newArbor(t *testing.T, root agent.Agent, opts ...a2aserver.Option) *httptest.Server {
	t.Helper()
	srv := httptest.NewUnstartedServer(nil)
	url := "http://" + srv.Listener.Addr().String()
	s, err := a2aserver.New(root, sessiontest.Memory(t), append([]a2aserver.Option{a2av0.Server(), a2aserver.WithURL(url)}, opts...)...)
	require.NoError(t, err)
	srv.Config.Handler = s
	srv.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		require.NoError(t, s.Close(ctx))
		srv.Close()
	})
	return srv
}

func talker(t *testing.T, script *scripted.Script, opts ...llmagent.Option) agent.Agent {
	t.Helper()
	a, err := llmagent.New("helper", "You help.", script.Model("helper"), opts...)
	require.NoError(t, err)
	return a
}

// oldEyes leaves of cards what a reader of 0.3 knows.
type oldEyes struct{ http.RoundTripper }

func (o oldEyes) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := o.RoundTripper.RoundTrip(r)
	if err != nil || r.Method != http.MethodGet {
		return resp, err
	}
	defer resp.Body.Close()
	var card map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&card); err != nil {
		return nil, err
	}
	delete(card, "supportedInterfaces")
	doc, err := json.Marshal(card)
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(doc)), int64(len(doc))
	return resp, err
}

// newOldRemote makes a node that finds nothing but 0.3 in the cards that it reads.
func newOldRemote(t *testing.T, url string) agent.Agent {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return newRemote(t, url, a2a.WithHTTPClient(&http.Client{Transport: oldEyes{transport}}))
}

func TestArborToArbor(t *testing.T) {
	script := scripted.New().Add("helper", scripted.Reply(scripted.Text("I see ", "two.")), scripted.Reply(scripted.Text("Done.")))
	f := newRunner(t, newOldRemote(t, newArbor(t, talker(t, script)).URL), runner.WithStreaming())
	events, streamed, err := f.turn("I was charged twice")
	require.NoError(t, err)
	require.Equal(t, []string{"I see two."}, said(events))
	require.Equal(t, "I see two.", streamed)
	first := find[*event.RemoteTask](events)
	events, _, err = f.turn("refund")
	require.NoError(t, err)
	require.Equal(t, []string{"Done."}, said(events))
	second := find[*event.RemoteTask](events)
	require.Equal(t, first[0].ContextID, second[0].ContextID)
	require.NotEqual(t, first[0].TaskID, second[0].TaskID)
	require.NoError(t, script.Done())
}

func TestArborAsksForApproval(t *testing.T) {
	ran := 0
	refund, err := tools.Func("refund", "Refunds.", func(tools.Context, struct{}) (string, error) {
		ran++
		return "ok", nil
	}, tools.NeedsApproval(tools.ByUser()))
	require.NoError(t, err)
	script := scripted.New().Add("helper", scripted.Reply(scripted.Call("refund", `{}`)), scripted.Reply(scripted.Text("Refunded.")))
	f := newRunner(t, newOldRemote(t, newArbor(t, talker(t, script, llmagent.WithTools(refund))).URL))
	events, _, err := f.turn("refund")
	require.NoError(t, err)
	handles := find[*event.RemoteTask](events)
	require.Equal(t, "input_required", handles[len(handles)-1].Status)
	events, _, err = f.turn("yes")
	require.NoError(t, err)
	require.Contains(t, said(events)[0], "Refunded.")
	require.Equal(t, handles[0].TaskID, find[*event.RemoteTask](events)[0].TaskID)
	require.Equal(t, 1, ran)
}

// newOldClient finds the server as clients of 0.3 do: by its card.
func newOldClient(t *testing.T, url string) *oldclient.Client {
	t.Helper()
	card, err := oldcard.DefaultResolver.Resolve(context.Background(), url)
	require.NoError(t, err)
	require.Equal(t, "0.3.0", card.ProtocolVersion)
	c, err := oldclient.NewFromCard(context.Background(), card)
	require.NoError(t, err)
	return c
}

func words(text string) *old.MessageSendParams {
	return &old.MessageSendParams{Message: old.NewMessage(old.MessageRoleUser, old.TextPart{Text: text})}
}

// slow says something and goes on when it is told to, or ends with its turn.
func newSlow(t *testing.T) (begun, free chan struct{}, root agent.Agent) {
	t.Helper()
	begun, free = make(chan struct{}, 10), make(chan struct{})
	root, err := agent.New("slow", "Takes its time.", func(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			id := inv.NewID()
			if !yield(&event.Event{ID: id, Partial: true, Attempt: 1, Data: &event.Text{Content: "thin"}}, nil) {
				return
			}
			begun <- struct{}{}
			select {
			case <-free:
				yield(&event.Event{ID: id, Data: &event.Text{Content: "thinking"}}, nil)
			case <-ctx.Done():
				yield(nil, context.Cause(ctx))
			}
		}
	})
	require.NoError(t, err)
	return begun, free, root
}

// The Go library's client of 0.3 against our server: every operation, and errors where they
// belong.
func TestOldClientAgainstArbor(t *testing.T) {
	begun, free, root := newSlow(t)
	srv := newArbor(t, root)
	c := newOldClient(t, srv.URL)
	ctx := context.Background()
	notNow := false
	params := words("go")
	params.Config = &old.MessageSendConfig{Blocking: &notNow}
	res, err := c.SendMessage(ctx, params)
	require.NoError(t, err)
	task := res.(*old.Task)
	require.False(t, task.Status.State.Terminal())
	<-begun
	var events []old.Event
	for e, err := range c.ResubscribeToTask(ctx, &old.TaskIDParams{ID: task.ID}) {
		require.NoError(t, err)
		if events = append(events, e); len(events) == 1 {
			close(free)
		}
	}
	require.Equal(t, task.ID, events[0].(*old.Task).ID)
	last := events[len(events)-1].(*old.TaskStatusUpdateEvent)
	require.True(t, last.Final)
	require.Equal(t, old.TaskStateCompleted, last.Status.State)
	got, err := c.GetTask(ctx, &old.TaskQueryParams{ID: task.ID})
	require.NoError(t, err)
	require.Equal(t, "thinking", got.Artifacts[0].Parts[0].(old.TextPart).Text)

	_, err = c.CancelTask(ctx, &old.TaskIDParams{ID: task.ID})
	require.ErrorIs(t, err, old.ErrTaskNotCancelable)
	_, err = c.GetTask(ctx, &old.TaskQueryParams{ID: "none"})
	require.ErrorIs(t, err, old.ErrTaskNotFound)
	_, err = c.SendMessage(ctx, &old.MessageSendParams{Message: old.NewMessage(old.MessageRoleUser)})
	require.ErrorIs(t, err, old.ErrInvalidParams)
	message := words("more")
	message.Message.TaskID = task.ID
	_, err = c.SendMessage(ctx, message)
	require.ErrorIs(t, err, old.ErrUnsupportedOperation)

	// Where there is to be a stream, there is one for an error, too.
	answer, contentType := post(t, srv.URL+"/rpc", call("tasks/resubscribe", `{"id":"none"}`))
	require.Contains(t, contentType, "text/event-stream")
	require.Contains(t, answer, `"code":-32001,"message":"task not found: `)
	require.Contains(t, answer, `"id":12345678901234567890`)
	answer, _ = post(t, srv.URL+"/rpc", `{"jsonrpc":"2.0","id":1,"method":"tasks/list","params":{}}`)
	require.Contains(t, answer, `"code":-32601`)
}

// What is wrong with a request, whatever its method, the server says before the binding sees it.
func TestArborRefusesOldRequests(t *testing.T) {
	srv := newArbor(t, talker(t, scripted.New()), a2aserver.WithHTTP(a2aserver.HTTPOptions{MaxBody: 1000}))
	for name, c := range map[string]struct {
		body string
		code int
	}{
		"no JSON":                 {`{`, -32700},
		"nothing":                 {``, -32700},
		"a list":                  {`[]`, -32600},
		"text":                    {`"x"`, -32600},
		"another version":         {`{"jsonrpc":"1.0","id":1,"method":"tasks/get","params":{}}`, -32600},
		"no method":               {`{"jsonrpc":"2.0","id":1}`, -32600},
		"an object for an id":     {`{"jsonrpc":"2.0","id":{},"method":"tasks/get"}`, -32600},
		"a boolean for an id":     {`{"jsonrpc":"2.0","id":true,"method":"tasks/get"}`, -32600},
		"too much":                {call("tasks/get", `{"id":"`+strings.Repeat("x", 1000)+`"}`), -32600},
		"a negative length":       {call("tasks/get", `{"id":"t","historyLength":-1}`), -32602},
		"a negative length, send": {call("message/send", strings.Replace(hello, `{"message"`, `{"configuration":{"historyLength":-1},"message"`, 1)), -32602},
	} {
		answer, _ := post(t, srv.URL+"/rpc", c.body)
		require.Contains(t, answer, fmt.Sprintf(`"error":{"code":%d`, c.code), name)
	}
}

func TestOldClientCancels(t *testing.T) {
	begun, _, root := newSlow(t)
	c := newOldClient(t, newArbor(t, root).URL)
	ctx := context.Background()
	notNow := false
	params := words("go")
	params.Config = &old.MessageSendConfig{Blocking: &notNow}
	res, err := c.SendMessage(ctx, params)
	require.NoError(t, err)
	<-begun
	task, err := c.CancelTask(ctx, &old.TaskIDParams{ID: res.(*old.Task).ID})
	require.NoError(t, err)
	require.Equal(t, old.TaskStateCanceled, task.Status.State)
}

func TestOldClientStreams(t *testing.T) {
	script := scripted.New().Add("helper", scripted.Reply(scripted.Text("Hello ", "there.")))
	c := newOldClient(t, newArbor(t, talker(t, script)).URL)
	var text string
	var final []bool
	for e, err := range c.SendStreamingMessage(context.Background(), words("hi")) {
		require.NoError(t, err)
		switch e := e.(type) {
		case *old.TaskArtifactUpdateEvent:
			if !e.Append {
				text = ""
			}
			text += e.Artifact.Parts[0].(old.TextPart).Text
		case *old.TaskStatusUpdateEvent:
			final = append(final, e.Final)
		}
	}
	require.Equal(t, "Hello there.", text)
	require.True(t, final[len(final)-1])
}

// Both versions are served at one address, and see the same tasks.
func TestBothVersions(t *testing.T) {
	script := scripted.New().Add("helper", scripted.Reply(scripted.Text("Hello.")))
	srv := newArbor(t, talker(t, script))
	ctx := context.Background()
	res, err := newOldClient(t, srv.URL).SendMessage(ctx, words("hi"))
	require.NoError(t, err)
	c, err := a2aclient.NewFromEndpoints(ctx, []*sdk.AgentInterface{{URL: srv.URL + "/rpc", ProtocolBinding: sdk.TransportProtocolJSONRPC, ProtocolVersion: "1.0"}})
	require.NoError(t, err)
	task, err := c.GetTask(ctx, &sdk.GetTaskRequest{ID: sdk.TaskID(res.(*old.Task).ID)})
	require.NoError(t, err)
	require.Equal(t, sdk.TaskStateCompleted, task.Status.State)
}

// A tenant has a card and an address of its own, because 0.3 has no tenants.
func TestTenants(t *testing.T) {
	script := scripted.New().Add("helper", scripted.Reply(scripted.Text("I am the tenant's.")))
	_, _, root := newSlow(t)
	srv := newArbor(t, root, a2aserver.WithTenant("shop", talker(t, script)))
	res, err := newOldClient(t, srv.URL+"/shop").SendMessage(context.Background(), words("hi"))
	require.NoError(t, err)
	require.Equal(t, "I am the tenant's.", res.(*old.Task).Artifacts[0].Parts[0].(old.TextPart).Text)
}

// byToken knows callers by their bearer tokens.
type byToken struct{}

func (byToken) Authenticate(_ context.Context, c access.Credentials) (access.User, error) {
	if h := c.Header("Authorization"); len(h) == 1 && len(h[0]) > 7 {
		return access.User{Name: h[0][7:]}, nil
	}
	return access.User{}, access.ErrUnauthenticated
}

func (byToken) Schemes() map[sdk.SecuritySchemeName]sdk.SecurityScheme {
	return map[sdk.SecuritySchemeName]sdk.SecurityScheme{"bearer": sdk.HTTPAuthSecurityScheme{Scheme: "Bearer"}}
}

func TestCallers(t *testing.T) {
	script := scripted.New().Add("helper", scripted.Reply(scripted.Text("Hello.")))
	srv := newArbor(t, talker(t, script), a2aserver.WithAuthenticator(byToken{}))
	answer, _ := post(t, srv.URL+"/rpc", call("message/send", hello), "Authorization", "Bearer ann")
	var got struct{ Result old.Task }
	require.NoError(t, json.Unmarshal([]byte(answer), &got))
	require.Equal(t, old.TaskStateCompleted, got.Result.Status.State, answer)
	get := call("tasks/get", `{"id":"`+string(got.Result.ID)+`"}`)
	answer, _ = post(t, srv.URL+"/rpc", get, "Authorization", "Bearer ann")
	require.Contains(t, answer, `"state":"completed"`)
	answer, _ = post(t, srv.URL+"/rpc", get, "Authorization", "Bearer bob")
	require.Contains(t, answer, `"code":-32001`)
	answer, _ = post(t, srv.URL+"/rpc", get)
	require.NotContains(t, answer, `"result"`)

	answer, _ = post(t, srv.URL+"/rpc", call("agent/getAuthenticatedExtendedCard", `{}`), "Authorization", "Bearer ann")
	var card struct{ Result old.AgentCard }
	require.NoError(t, json.Unmarshal([]byte(answer), &card), answer)
	require.Equal(t, srv.URL+"/rpc", card.Result.URL, answer)
}

// An agent whose callers are not asked who they are has no card for those it knows.
func TestNoExtendedCard(t *testing.T) {
	srv := newArbor(t, talker(t, scripted.New()))
	answer, _ := post(t, srv.URL+"/rpc", call("agent/getAuthenticatedExtendedCard", `{}`))
	require.Contains(t, answer, `"code":-32007`)
}

// Canceling the turn here cancels the turn there.
func TestCancelReachesArbor(t *testing.T) {
	begun, _, root := newSlow(t)
	srv := newArbor(t, root)
	f := newRunner(t, newOldRemote(t, srv.URL), runner.WithStreaming())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var id string
	for e, err := range f.Run(ctx, key, llm.UserText("hi")) {
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
			continue
		}
		if h, ok := e.Data.(*event.RemoteTask); ok && id == "" {
			id = h.TaskID
			<-begun
			cancel()
		}
	}
	task, err := newOldClient(t, srv.URL).GetTask(context.Background(), &old.TaskQueryParams{ID: old.TaskID(id)})
	require.NoError(t, err)
	require.Equal(t, old.TaskStateCanceled, task.Status.State)
}
