package wire

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/server/access"
)

// stub is a request handler whose answers a test chooses. What is not chosen echoes.
type stub struct {
	mu     sync.Mutex
	last   any             // the last request
	ctx    context.Context // of the last request
	err    error           // what every operation answers, if set
	events func(ctx context.Context) iter.Seq2[sdk.Event, error]
	send   func(ctx context.Context, req *sdk.SendMessageRequest) (sdk.SendMessageResult, error)
}

func (s *stub) saw(ctx context.Context, req any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.ctx = req, ctx
	return s.err
}

func (s *stub) seen() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

func echo(id sdk.TaskID) *sdk.Task {
	return &sdk.Task{ID: id, ContextID: "c", Status: sdk.TaskStatus{State: sdk.TaskStateCompleted}}
}

func (s *stub) SendMessage(ctx context.Context, req *sdk.SendMessageRequest) (sdk.SendMessageResult, error) {
	if err := s.saw(ctx, req); err != nil {
		return nil, err
	}
	if s.send != nil {
		return s.send(ctx, req)
	}
	return echo("new"), nil
}

func (s *stub) stream(ctx context.Context, req any) iter.Seq2[sdk.Event, error] {
	if err := s.saw(ctx, req); err != nil {
		return func(yield func(sdk.Event, error) bool) { yield(nil, err) }
	}
	if s.events != nil {
		return s.events(ctx)
	}
	return func(yield func(sdk.Event, error) bool) { yield(echo("streamed"), nil) }
}

func (s *stub) SendStreamingMessage(ctx context.Context, req *sdk.SendMessageRequest) iter.Seq2[sdk.Event, error] {
	return s.stream(ctx, req)
}

func (s *stub) SubscribeToTask(ctx context.Context, req *sdk.SubscribeToTaskRequest) iter.Seq2[sdk.Event, error] {
	return s.stream(ctx, req)
}

func (s *stub) GetTask(ctx context.Context, req *sdk.GetTaskRequest) (*sdk.Task, error) {
	return echo(req.ID), s.saw(ctx, req)
}

func (s *stub) ListTasks(ctx context.Context, req *sdk.ListTasksRequest) (*sdk.ListTasksResponse, error) {
	return &sdk.ListTasksResponse{Tasks: []*sdk.Task{}}, s.saw(ctx, req)
}

func (s *stub) CancelTask(ctx context.Context, req *sdk.CancelTaskRequest) (*sdk.Task, error) {
	return echo(req.ID), s.saw(ctx, req)
}

func (s *stub) CreateTaskPushConfig(ctx context.Context, req *sdk.PushConfig) (*sdk.PushConfig, error) {
	return req, s.saw(ctx, req)
}

func (s *stub) GetTaskPushConfig(ctx context.Context, req *sdk.GetTaskPushConfigRequest) (*sdk.PushConfig, error) {
	return &sdk.PushConfig{TaskID: req.TaskID, ID: req.ID, URL: "https://example.com"}, s.saw(ctx, req)
}

func (s *stub) ListTaskPushConfigs(ctx context.Context, req *sdk.ListTaskPushConfigRequest) (*sdk.ListTaskPushConfigResponse, error) {
	return &sdk.ListTaskPushConfigResponse{Configs: []*sdk.PushConfig{}}, s.saw(ctx, req)
}

func (s *stub) DeleteTaskPushConfig(ctx context.Context, req *sdk.DeleteTaskPushConfigRequest) error {
	return s.saw(ctx, req)
}

func (s *stub) GetExtendedAgentCard(ctx context.Context, req *sdk.GetExtendedAgentCardRequest) (*sdk.AgentCard, error) {
	return &sdk.AgentCard{Name: "extended"}, s.saw(ctx, req)
}

// serveFront serves a front over HTTP on loopback.
func serveFront(t *testing.T, f Front) *httptest.Server {
	t.Helper()
	return listen(t, frontOf(t, f))
}

func frontOf(t *testing.T, f Front) http.Handler {
	t.Helper()
	if f.Handler == nil {
		f.Handler = &stub{}
	}
	if _, ok := f.Handler.(*Checks); !ok {
		f.Handler = NewChecks(f.Handler, nil, nil, f.Tenants, nil, nil)
	}
	if f.Card == nil {
		f.Card = func(w http.ResponseWriter, _ *http.Request, tenant string) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"name":"`+tenant+`"}`)
		}
	}
	if f.Logger == nil {
		f.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	return must.Get(New(f))
}

func listen(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	access.Harden(server.Config)
	server.Start()
	t.Cleanup(server.Close)
	return server
}

// reply is an answer that was read to its end.
type reply struct {
	status int
	header http.Header
	body   string
}

func (r reply) mediaType() string {
	t, _, _ := strings.Cut(r.header.Get("Content-Type"), ";")
	return t
}

// code is the code of a JSON-RPC error, 0 if there is none.
func (r reply) code(t *testing.T) int {
	t.Helper()
	var answer struct {
		JSONRPC string
		Error   struct{ Code int }
	}
	require.NoError(t, json.Unmarshal([]byte(r.body), &answer), r.body)
	require.Equal(t, "2.0", answer.JSONRPC, r.body)
	return answer.Error.Code
}

// reason is the reason in an error's google.rpc.ErrorInfo, in either binding.
func (r reply) reason(t *testing.T) (reason string, metadata map[string]string) {
	t.Helper()
	type detail struct {
		Type     string `json:"@type"`
		Reason   string
		Domain   string
		Metadata map[string]string
	}
	var answer struct {
		Error struct{ Data, Details []detail }
	}
	require.NoError(t, json.Unmarshal([]byte(r.body), &answer), r.body)
	for _, d := range append(answer.Error.Data, answer.Error.Details...) {
		if d.Type == "type.googleapis.com/google.rpc.ErrorInfo" {
			return d.Reason, d.Metadata
		}
	}
	return "", nil
}

// call sends a request; headers come in pairs, and "" removes one.
func call(t *testing.T, method, url, body string, headers ...string) reply {
	t.Helper()
	req := request(t, method, url, body, headers...)
	resp := must.Get(http.DefaultTransport.RoundTrip(req))
	defer resp.Body.Close()
	data := must.Get(io.ReadAll(resp.Body))
	return reply{resp.StatusCode, resp.Header, string(data)}
}

// direct is call without a network, for tests in which time passes as they say.
func direct(t *testing.T, h http.Handler, method, path, body string, headers ...string) reply {
	t.Helper()
	req := request(t, method, "http://localhost"+path, body, headers...)
	if req.Body == nil {
		req.Body = http.NoBody // as a server has it
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return reply{w.Code, w.Result().Header, w.Body.String()}
}

func request(t *testing.T, method, url, body string, headers ...string) *http.Request {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body)))
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	} else {
		req.Body, req.ContentLength = nil, 0
	}
	for i := 0; i < len(headers); i += 2 {
		switch name, value := headers[i], headers[i+1]; {
		case name == "Host":
			req.Host = value
		case value == "":
			req.Header.Del(name)
		default:
			req.Header.Add(name, value)
		}
	}
	if values := req.Header.Values("Content-Type"); len(values) > 1 {
		req.Header.Set("Content-Type", values[len(values)-1])
	}
	return req
}

// rpcBody is a JSON-RPC request.
func rpcBody(method, params string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`
}

const hello = `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]}}`

// frames reads the data of an event stream.
func frames(r io.Reader) iter.Seq[string] {
	return func(yield func(string) bool) {
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && !yield(data) {
				return
			}
		}
	}
}

func TestFrontServesEveryOperationInBothBindings(t *testing.T) {
	handler := &stub{}
	server := serveFront(t, Front{Handler: handler})
	tests := []struct {
		operation, params      string
		method, path, restBody string
		request                any
		result                 string
	}{
		{"SendMessage", hello, "POST", "/message:send", hello, &sdk.SendMessageRequest{}, `"task":`},
		{"GetTask", `{"id":"t"}`, "GET", "/tasks/t", "", &sdk.GetTaskRequest{ID: "t"}, `"id":"t"`},
		{"ListTasks", `{}`, "GET", "/tasks", "", &sdk.ListTasksRequest{}, `"tasks":[]`},
		{"CancelTask", `{"id":"t"}`, "POST", "/tasks/t:cancel", "", &sdk.CancelTaskRequest{ID: "t"}, `"id":"t"`},
		{"CreateTaskPushNotificationConfig", `{"taskId":"t","url":"https://x"}`, "POST", "/tasks/t/pushNotificationConfigs", `{"url":"https://x"}`,
			&sdk.PushConfig{TaskID: "t", URL: "https://x"}, `"url":"https://x"`},
		{"GetTaskPushNotificationConfig", `{"taskId":"t","id":"p"}`, "GET", "/tasks/t/pushNotificationConfigs/p", "",
			&sdk.GetTaskPushConfigRequest{TaskID: "t", ID: "p"}, `"id":"p"`},
		{"ListTaskPushNotificationConfigs", `{"taskId":"t"}`, "GET", "/tasks/t/pushNotificationConfigs", "",
			&sdk.ListTaskPushConfigRequest{TaskID: "t"}, `"configs":[]`},
		{"DeleteTaskPushNotificationConfig", `{"taskId":"t","id":"p"}`, "DELETE", "/tasks/t/pushNotificationConfigs/p", "",
			&sdk.DeleteTaskPushConfigRequest{TaskID: "t", ID: "p"}, `{}`},
		{"GetExtendedAgentCard", `{}`, "GET", "/extendedAgentCard", "", &sdk.GetExtendedAgentCardRequest{}, `"name":"extended"`},
		{"SendStreamingMessage", hello, "POST", "/message:stream", hello, &sdk.SendMessageRequest{}, `"task":`},
		{"SubscribeToTask", `{"id":"t"}`, "POST", "/tasks/t:subscribe", "", &sdk.SubscribeToTaskRequest{ID: "t"}, `"task":`},
	}
	for _, test := range tests {
		t.Run(test.operation, func(t *testing.T) {
			got := call(t, "POST", server.URL+"/rpc", rpcBody(test.operation, test.params))
			require.Equal(t, 200, got.status, got.body)
			require.Contains(t, got.body, test.result)
			rpc := handler.seen()
			require.IsType(t, test.request, rpc)

			got = call(t, test.method, server.URL+test.path, test.restBody)
			require.Equal(t, 200, got.status, got.body)
			require.Contains(t, got.body, test.result)
			require.Equal(t, rpc, handler.seen(), "the bindings differ")
			if _, send := test.request.(*sdk.SendMessageRequest); !send {
				require.Equal(t, test.request, rpc)
			}
		})
	}
}

func TestDeleteOverJSONRPCHasAResult(t *testing.T) {
	const request = `{"taskId":"t","id":"p"}`
	got := call(t, "POST", serveFront(t, Front{}).URL+"/rpc", rpcBody("DeleteTaskPushNotificationConfig", request))
	require.JSONEq(t, `{"jsonrpc":"2.0","id":1,"result":{}}`, got.body)
}

func TestNewFrontRefuses(t *testing.T) {
	card := func(http.ResponseWriter, *http.Request, string) {}
	for _, tenants := range [][]string{{""}, {"rpc"}, {"tasks"}, {".well-known"}, {".."}, {"a/b"}, {"a", "a"}, {"message:send"}} {
		require.Error(t, must.Err(New(Front{Handler: &stub{}, Card: card, Tenants: tenants})), tenants)
	}
	require.Error(t, must.Err(New(Front{Card: card})))
	require.Error(t, must.Err(New(Front{Handler: &stub{}})))
}

func TestExtensionsAreSplitAndActivatedOnesAnswered(t *testing.T) {
	handler := &stub{}
	handler.send = func(ctx context.Context, _ *sdk.SendMessageRequest) (sdk.SendMessageResult, error) {
		extensions, ok := a2asrv.ExtensionsFrom(ctx)
		require.True(t, ok)
		extensions.Activate(&sdk.AgentExtension{URI: "urn:b"})
		return echo("t"), nil
	}
	server := serveFront(t, Front{Handler: handler})
	got := call(t, "POST", server.URL+"/message:send", hello, "A2A-Extensions", "urn:a, urn:b", "Authorization", "Bearer secret", "Cookie", "k=secret")
	require.Equal(t, "urn:b", got.header.Get("A2A-Extensions"))
	extensions, _ := a2asrv.ExtensionsFrom(handler.ctx)
	require.Equal(t, []string{"urn:a", "urn:b"}, extensions.RequestedURIs())
	callContext, _ := a2asrv.CallContextFrom(handler.ctx)
	for name, values := range callContext.ServiceParams().List() {
		require.NotContains(t, strings.Join(values, ""), "secret", name)
	}
}

// What a client asks for is looked through one by one, so that it must not be endless.
func TestManyExtensions(t *testing.T) {
	all := make([]string, 10_000)
	for i := range all {
		all[i] = fmt.Sprint("urn:x:", i)
	}
	h := http.Header{}
	h.Add("A2A-Extensions", strings.Join(all[:5000], ","))
	h.Add("A2A-Extensions", strings.Join(all[5000:], ","))
	got, ok := ServiceParams(h, nil).Get("A2A-Extensions")
	require.True(t, ok)
	require.Equal(t, all[:maxExtensions], got)
}
