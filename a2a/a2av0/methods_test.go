package a2av0_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	old "github.com/a2aproject/a2a-go/a2a"
	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a/a2av0"
	"github.com/agentarbor/arbor/internal/testing/must"
)

// stub answers every operation as the test says.
type stub struct {
	a2asrv.RequestHandler
	err    error
	task   *sdk.Task
	hooks  []*sdk.PushConfig
	card   *sdk.AgentCard
	stream func(ctx context.Context, yield func(sdk.Event, error) bool)

	mu   sync.Mutex
	last any
	call *a2asrv.CallContext
}

func (s *stub) note(ctx context.Context, req any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = req
	s.call, _ = a2asrv.CallContextFrom(ctx)
	return s.err
}

func (s *stub) GetTask(ctx context.Context, r *sdk.GetTaskRequest) (*sdk.Task, error) {
	return s.task, s.note(ctx, r)
}
func (s *stub) CancelTask(ctx context.Context, r *sdk.CancelTaskRequest) (*sdk.Task, error) {
	return s.task, s.note(ctx, r)
}
func (s *stub) SendMessage(ctx context.Context, r *sdk.SendMessageRequest) (sdk.SendMessageResult, error) {
	return s.task, s.note(ctx, r)
}
func (s *stub) events(ctx context.Context, r any) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		if err := s.note(ctx, r); err != nil {
			yield(nil, err)
		} else {
			s.stream(ctx, yield)
		}
	}
}
func (s *stub) SubscribeToTask(ctx context.Context, r *sdk.SubscribeToTaskRequest) iter.Seq2[sdk.Event, error] {
	return s.events(ctx, r)
}
func (s *stub) SendStreamingMessage(ctx context.Context, r *sdk.SendMessageRequest) iter.Seq2[sdk.Event, error] {
	return s.events(ctx, r)
}
func (s *stub) GetTaskPushConfig(ctx context.Context, r *sdk.GetTaskPushConfigRequest) (*sdk.PushConfig, error) {
	return s.hooks[0], s.note(ctx, r)
}
func (s *stub) ListTaskPushConfigs(ctx context.Context, r *sdk.ListTaskPushConfigRequest) (*sdk.ListTaskPushConfigResponse, error) {
	if err := s.note(ctx, r); err != nil {
		return nil, err
	}
	if r.PageToken == "" && len(s.hooks) > 1 {
		return &sdk.ListTaskPushConfigResponse{Configs: s.hooks[:1], NextPageToken: "rest"}, nil
	}
	return &sdk.ListTaskPushConfigResponse{Configs: s.hooks[min(1, max(0, len(s.hooks)-1)):]}, nil
}
func (s *stub) CreateTaskPushConfig(ctx context.Context, r *sdk.PushConfig) (*sdk.PushConfig, error) {
	return r, s.note(ctx, r)
}
func (s *stub) DeleteTaskPushConfig(ctx context.Context, r *sdk.DeleteTaskPushConfigRequest) error {
	return s.note(ctx, r)
}
func (s *stub) GetExtendedAgentCard(ctx context.Context, r *sdk.GetExtendedAgentCardRequest) (*sdk.AgentCard, error) {
	return s.card, s.note(ctx, r)
}

func serve(t *testing.T, s *stub) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(a2av0.NewHandler(s, 0))
	t.Cleanup(srv.Close)
	return srv
}

// post sends a body and returns the answer and its type.
func post(t *testing.T, url, body string, header ...string) (answer, contentType string) {
	t.Helper()
	req := must.Get(http.NewRequest(http.MethodPost, url, strings.NewReader(body)))
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp := must.Get(http.DefaultClient.Do(req))
	defer resp.Body.Close()
	data := must.Get(io.ReadAll(resp.Body))
	return string(data), resp.Header.Get("Content-Type")
}

func call(method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":12345678901234567890,"method":%q,"params":%s}`, method, params)
}

const hello = `{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text","text":"hi"},{"kind":"data","data":{"a":1}},{"kind":"file","file":{"uri":"https://f.example","mimeType":"image/png"}}]}}`

var now = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// The forms on the wire, as the schema of 0.3 has them.
func TestWire(t *testing.T) {
	task := &sdk.Task{ID: "t", ContextID: "c", Status: sdk.TaskStatus{State: sdk.TaskStateInputRequired, Timestamp: &now,
		Message: &sdk.Message{ID: "q", Role: sdk.MessageRoleAgent, Parts: sdk.ContentParts{sdk.NewTextPart("?")}}},
		Artifacts: []*sdk.Artifact{{ID: "a", Parts: nil}}, History: []*sdk.Message{{ID: "m", Role: sdk.MessageRoleUser, Parts: sdk.ContentParts{sdk.NewDataPart([]any{1.0})}}}}
	s := &stub{task: task, hooks: []*sdk.PushConfig{{TaskID: "t", ID: "one", URL: "https://h.example"}, {TaskID: "t", ID: "two", URL: "https://h.example", Auth: &sdk.PushAuthInfo{Scheme: "Bearer", Credentials: "x"}}}}
	srv := serve(t, s)
	asTask := `{"kind":"task","id":"t","contextId":"c","status":{"state":"input-required","timestamp":"2026-11-21T10:00:00Z",
		"message":{"kind":"message","messageId":"q","role":"agent","parts":[{"kind":"text","text":"?"}]}},
		"artifacts":[{"artifactId":"a","parts":[]}],
		"history":[{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"data","data":{"value":[1]},"metadata":{"data_part_compat":true}}]}]}`
	one := `{"taskId":"t","pushNotificationConfig":{"id":"one","url":"https://h.example"}}`
	two := `{"taskId":"t","pushNotificationConfig":{"id":"two","url":"https://h.example","authentication":{"schemes":["Bearer"],"credentials":"x"}}}`
	for name, c := range map[string]struct{ method, params, result string }{
		"send":               {"message/send", hello, asTask},
		"get":                {"tasks/get", `{"id":"t"}`, asTask},
		"cancel":             {"tasks/cancel", `{"id":"t"}`, asTask},
		"set":                {"tasks/pushNotificationConfig/set", one, one},
		"get a hook":         {"tasks/pushNotificationConfig/get", `{"id":"t","pushNotificationConfigId":"one"}`, one},
		"get without a name": {"tasks/pushNotificationConfig/get", `{"id":"t"}`, one},
		"list":               {"tasks/pushNotificationConfig/list", `{"id":"t"}`, `[` + one + `,` + two + `]`},
		"delete":             {"tasks/pushNotificationConfig/delete", `{"id":"t","pushNotificationConfigId":"one"}`, `null`},
	} {
		answer, contentType := post(t, srv.URL, call(c.method, c.params))
		require.Equal(t, "application/json", contentType, name)
		require.JSONEq(t, `{"jsonrpc":"2.0","id":12345678901234567890,"result":`+c.result+`}`, answer, name)
		require.Contains(t, answer, `"id":12345678901234567890,`, name)
		require.Contains(t, answer, `"result":`, name)
	}
	s.hooks = nil
	answer, _ := post(t, srv.URL, call("tasks/pushNotificationConfig/list", `{"id":"t"}`))
	require.Contains(t, answer, `"result":[]`)
	answer, _ = post(t, srv.URL, call("tasks/pushNotificationConfig/get", `{"id":"t"}`))
	require.Contains(t, answer, `"code":-32001`)
}

func TestSendConfiguration(t *testing.T) {
	s := &stub{task: &sdk.Task{ID: "t", ContextID: "c"}}
	srv := serve(t, s)
	for blocking, immediately := range map[string]bool{`{}`: false, `{"blocking":true}`: false, `{"blocking":false}`: true} {
		answer, _ := post(t, srv.URL, call("message/send", strings.Replace(hello, `{"message"`, `{"configuration":`+blocking+`,"message"`, 1)))
		require.Contains(t, answer, `"state":"unknown"`)
		require.Equal(t, immediately, s.last.(*sdk.SendMessageRequest).Config.ReturnImmediately, blocking)
	}
	config := `{"acceptedOutputModes":["text/plain"],"historyLength":3,"pushNotificationConfig":{"url":"https://h.example","token":"x"}}`
	post(t, srv.URL, call("message/send", strings.Replace(hello, `{"message"`, `{"configuration":`+config+`,"message"`, 1)))
	got := s.last.(*sdk.SendMessageRequest)
	require.Equal(t, []string{"text/plain"}, got.Config.AcceptedOutputModes)
	require.Equal(t, 3, *got.Config.HistoryLength)
	require.Equal(t, "https://h.example", got.Config.PushConfig.URL)
	require.Equal(t, sdk.MessageRoleUser, got.Message.Role)
	require.Equal(t, "hi", got.Message.Parts[0].Text())
	require.Equal(t, map[string]any{"a": 1.0}, got.Message.Parts[1].Data())
	require.Equal(t, sdk.URL("https://f.example"), got.Message.Parts[2].URL())
}

func TestInvalidRequests(t *testing.T) {
	srv := serve(t, &stub{task: &sdk.Task{ID: "t"}})
	for name, c := range map[string]struct {
		body string
		code int
	}{
		"no JSON":               {`{`, -32700},
		"a method of 1.0":       {call("GetTask", `{"id":"t"}`), -32601},
		"no params":             {`{"jsonrpc":"2.0","id":1,"method":"tasks/get"}`, -32602},
		"params of a list":      {call("tasks/get", `[]`), -32602},
		"an id of a number":     {call("tasks/get", `{"id":5}`), -32602},
		"no message":            {call("message/send", `{"configuration":{"pushNotificationConfig":{"url":"https://h.example"}}}`), -32602},
		"no message, streaming": {call("message/stream", `{}`), -32602},
		"a negative length":     {call("tasks/get", `{"id":"t","historyLength":-1}`), -32602},
		"and in what is sent":   {call("message/send", strings.Replace(hello, `{"message"`, `{"configuration":{"historyLength":-1},"message"`, 1)), -32602},
		"an unknown part":       {call("message/send", `{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"hologram"}]}}`), -32602},
	} {
		answer, contentType := post(t, srv.URL, c.body)
		if strings.HasSuffix(name, "streaming") {
			answer, contentType = onlyFrame(t, answer, contentType)
		}
		require.Equal(t, "application/json", contentType, name)
		var got struct {
			JSONRPC string
			Error   struct{ Code int }
			Result  json.RawMessage
		}
		require.NoError(t, json.Unmarshal([]byte(answer), &got), name)
		require.Equal(t, c.code, got.Error.Code, "%s: %s", name, answer)
		require.Nil(t, got.Result)
		require.Contains(t, answer, `"id":`, name)
	}
}

// onlyFrame returns what the one frame of a stream holds, and its type.
func onlyFrame(t *testing.T, answer, contentType string) (data, dataType string) {
	t.Helper()
	require.Equal(t, "text/event-stream", contentType)
	data, ok := strings.CutPrefix(answer, "data: ")
	require.True(t, ok, answer)
	data, ok = strings.CutSuffix(data, "\n\n")
	require.True(t, ok, answer)
	require.NotContains(t, data, "\n")
	return data, "application/json"
}

// Every error has its code, streaming or not. One that comes before the first event is the only
// frame of its stream: clients of 0.3 read nothing else.
func TestErrors(t *testing.T) {
	for err, code := range map[error]int{
		sdk.ErrTaskNotFound: -32001, sdk.ErrTaskNotCancelable: -32002, sdk.ErrPushNotificationNotSupported: -32003, sdk.ErrUnsupportedOperation: -32004,
		sdk.ErrUnsupportedContentType: -32005, sdk.ErrInvalidAgentResponse: -32006, sdk.ErrExtendedCardNotConfigured: -32007, sdk.ErrInvalidParams: -32602,
		sdk.ErrExtensionSupportRequired: -32008, sdk.ErrVersionNotSupported: -32009, sdk.ErrInvalidRequest: -32600, sdk.ErrInternalError: -32603,
		sdk.ErrUnauthenticated: -31401, sdk.ErrUnauthorized: -31403, sdk.ErrServerError: -32000, sdk.ErrParseError: -32700, sdk.ErrMethodNotFound: -32601,
	} {
		srv := serve(t, &stub{err: sdk.NewError(err, "words for the caller"), hooks: []*sdk.PushConfig{{}}})
		for _, body := range []string{call("message/send", hello), call("message/stream", hello), call("tasks/get", `{"id":"t"}`), call("tasks/cancel", `{"id":"t"}`),
			call("tasks/resubscribe", `{"id":"t"}`), call("tasks/pushNotificationConfig/set", `{"taskId":"t","pushNotificationConfig":{"url":"u"}}`),
			call("tasks/pushNotificationConfig/get", `{"id":"t"}`), call("tasks/pushNotificationConfig/list", `{"id":"t"}`),
			call("tasks/pushNotificationConfig/delete", `{"id":"t","pushNotificationConfigId":"x"}`), call("agent/getAuthenticatedExtendedCard", `{}`)} {
			code := code
			if err == sdk.ErrUnsupportedOperation && strings.Contains(body, "getAuthenticatedExtendedCard") {
				code = -32007 // what 0.3 says of an agent without such a card
			}
			answer, contentType := post(t, srv.URL, body)
			if strings.Contains(body, "message/stream") || strings.Contains(body, "tasks/resubscribe") {
				answer, contentType = onlyFrame(t, answer, contentType)
			}
			require.Equal(t, "application/json", contentType)
			require.JSONEq(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":12345678901234567890,"error":{"code":%d,"message":"words for the caller"}}`, code), answer)
		}
	}
	for _, err := range []error{errors.New("open /etc/secret"), fmt.Errorf("%w: open /etc/secret", sdk.ErrInternalError)} {
		answer, _ := post(t, serve(t, &stub{err: err}).URL, call("tasks/get", `{"id":"t"}`))
		require.NotContains(t, answer, "secret")
		require.Contains(t, answer, "-32603")
	}
}

func status(state sdk.TaskState) *sdk.TaskStatusUpdateEvent {
	return &sdk.TaskStatusUpdateEvent{TaskID: "t", ContextID: "c", Status: sdk.TaskStatus{State: state}}
}

// The last event of a stream says that it is the last one.
func TestStream(t *testing.T) {
	for state, word := range map[sdk.TaskState]string{sdk.TaskStateCompleted: "completed", sdk.TaskStateFailed: "failed", sdk.TaskStateCanceled: "canceled",
		sdk.TaskStateRejected: "rejected", sdk.TaskStateInputRequired: "input-required", sdk.TaskStateAuthRequired: "auth-required"} {
		srv := serve(t, &stub{stream: func(_ context.Context, yield func(sdk.Event, error) bool) {
			yield(&sdk.Task{ID: "t", ContextID: "c", Status: sdk.TaskStatus{State: sdk.TaskStateSubmitted}}, nil)
			yield(status(sdk.TaskStateWorking), nil)
			yield(&sdk.TaskArtifactUpdateEvent{TaskID: "t", ContextID: "c", Append: true, LastChunk: true, Artifact: &sdk.Artifact{ID: "a", Parts: sdk.ContentParts{sdk.NewTextPart("x")}}}, nil)
			yield(status(state), nil)
		}})
		for _, method := range []string{"message/stream", "tasks/resubscribe"} {
			params := hello
			if method == "tasks/resubscribe" {
				params = `{"id":"t"}`
			}
			answer, contentType := post(t, srv.URL, call(method, params))
			require.Equal(t, "text/event-stream", contentType)
			var results []string
			for line := range strings.Lines(answer) {
				if data, ok := strings.CutPrefix(line, "data: "); ok {
					var r struct {
						ID     json.Number
						Result json.RawMessage
					}
					require.NoError(t, json.Unmarshal([]byte(data), &r))
					require.Equal(t, "12345678901234567890", r.ID.String())
					results = append(results, string(r.Result))
				}
			}
			require.Len(t, results, 4)
			require.JSONEq(t, `{"kind":"task","id":"t","contextId":"c","status":{"state":"submitted"}}`, results[0])
			require.JSONEq(t, `{"kind":"status-update","taskId":"t","contextId":"c","final":false,"status":{"state":"working"}}`, results[1])
			require.JSONEq(t, `{"kind":"artifact-update","taskId":"t","contextId":"c","append":true,"lastChunk":true,"artifact":{"artifactId":"a","parts":[{"kind":"text","text":"x"}]}}`, results[2])
			require.JSONEq(t, `{"kind":"status-update","taskId":"t","contextId":"c","final":true,"status":{"state":"`+word+`"}}`, results[3])
		}
	}
}

// Webhooks and streams are told events in the same form.
func TestEvent(t *testing.T) {
	event := must.Get(a2av0.Event(&sdk.Task{ID: "t", ContextID: "c", Status: sdk.TaskStatus{State: sdk.TaskStateAuthRequired}}))
	body := must.Get(json.Marshal(event))
	require.JSONEq(t, `{"kind":"task","id":"t","contextId":"c","status":{"state":"auth-required"}}`, string(body))
	event = must.Get(a2av0.Event(status(sdk.TaskStateAuthRequired)))
	require.True(t, event.(*old.TaskStatusUpdateEvent).Final)
}

func TestParameters(t *testing.T) {
	s := &stub{task: &sdk.Task{ID: "t"}}
	srv := serve(t, s)
	post(t, srv.URL, call("tasks/get", `{"id":"t"}`), "X-A2A-Extensions", "https://a.example, https://b.example", "Authorization", "Bearer x", "X-Other", "y")
	require.Equal(t, []string{"https://a.example", "https://b.example"}, s.call.Extensions().RequestedURIs())
	version, _ := s.call.ServiceParams().Get("A2A-Version")
	require.Equal(t, []string{"0.3"}, version)
	_, found := s.call.ServiceParams().Get("Authorization")
	require.False(t, found)
	other, _ := s.call.ServiceParams().Get("x-other")
	require.Equal(t, []string{"y"}, other)
}
