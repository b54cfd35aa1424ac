package wire

import (
	"strings"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"
)

var testTime = time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)

func TestSnakeCaseIsAccepted(t *testing.T) {
	const snake = `{
		"message": {
			"message_id": "m", "context_id": "c", "task_id": "t", "role": "ROLE_USER",
			"reference_task_ids": ["r"],
			"parts": [
				{"text": "hi", "media_type": "text/plain", "metadata": {"some_key": {"inner_key": 1}}},
				{"data": {"user_name": "x", "userName": "y", "media_type": [{"a_b": 1}]}}
			],
			"metadata": {"task_id": "kept", "https://x/y_z": {"page_size": 7}}
		},
		"configuration": {
			"accepted_output_modes": ["text/plain"], "history_length": 3, "return_immediately": true,
			"task_push_notification_config": {"task_id": "t", "url": "https://example.com", "authentication": {"scheme": "Bearer"}}
		},
		"metadata": {"message_id": "kept"}
	}`
	handler := &stub{}
	server := serveFront(t, Front{Handler: handler})
	three := 3
	want := &sdk.SendMessageRequest{
		Message: &sdk.Message{
			ID: "m", ContextID: "c", TaskID: "t", Role: sdk.MessageRoleUser, ReferenceTasks: []sdk.TaskID{"r"},
			Parts: sdk.ContentParts{
				{Content: sdk.Text("hi"), MediaType: "text/plain", Metadata: map[string]any{"some_key": map[string]any{"inner_key": 1.0}}},
				{Content: sdk.Data{Value: map[string]any{"user_name": "x", "userName": "y", "media_type": []any{map[string]any{"a_b": 1.0}}}}},
			},
			Metadata: map[string]any{"task_id": "kept", "https://x/y_z": map[string]any{"page_size": 7.0}},
		},
		Config: &sdk.SendMessageConfig{
			AcceptedOutputModes: []string{"text/plain"}, HistoryLength: &three, ReturnImmediately: true,
			PushConfig: &sdk.PushConfig{TaskID: "t", URL: "https://example.com", Auth: &sdk.PushAuthInfo{Scheme: "Bearer"}},
		},
		Metadata: map[string]any{"message_id": "kept"},
	}
	got := call(t, "POST", server.URL+"/rpc", rpcBody("SendMessage", snake))
	require.Zero(t, got.code(t), got.body)
	require.Equal(t, want, handler.seen())
	got = call(t, "POST", server.URL+"/message:send", snake)
	require.Equal(t, 200, got.status, got.body)
	require.Equal(t, want, handler.seen())

	got = call(t, "GET", server.URL+"/tasks?context_id=c&page_size=7&page_token=p&history_length=3&include_artifacts=true&status=TASK_STATE_WORKING&status_timestamp_after=2025-10-28T10:30:00.000Z", "")
	require.Equal(t, 200, got.status, got.body)
	after := time.Date(2025, 10, 28, 10, 30, 0, 0, time.UTC)
	require.Equal(t, &sdk.ListTasksRequest{ContextID: "c", PageSize: 7, PageToken: "p", HistoryLength: &three, IncludeArtifacts: true,
		Status: sdk.TaskStateWorking, StatusTimestampAfter: &after}, handler.seen())
}

func TestFormsOfProtoJSONAreAccepted(t *testing.T) {
	handler := &stub{}
	server := serveFront(t, Front{Handler: handler})
	got := call(t, "POST", server.URL+"/rpc", rpcBody("SendMessage", `{
		"message": {"messageId": "m", "contextId": null, "role": 1, "parts": [
			{"raw": "_-8", "mediaType": "image/png", "text": null},
			{"raw": "aGk", "mediaType": "image/png"}, {"raw": "aG\r\nk=", "mediaType": "image/png"}, {"raw": "", "mediaType": "image/png"}
		]},
		"configuration": {"historyLength": "10"}, "metadata": null, "unknown": [{"x": null}]
	}`))
	require.Zero(t, got.code(t), got.body)
	req := handler.seen().(*sdk.SendMessageRequest)
	require.Equal(t, sdk.MessageRoleUser, req.Message.Role)
	require.Equal(t, []byte{0xff, 0xef}, req.Message.Parts[0].Raw())
	require.Equal(t, "hi", string(req.Message.Parts[1].Raw()))
	require.Equal(t, "hi", string(req.Message.Parts[2].Raw()))
	require.Empty(t, req.Message.Parts[3].Raw())
	require.Equal(t, 10, *req.Config.HistoryLength)
}

func TestParamsThatAreRefused(t *testing.T) {
	message := func(fields string) string { return `{"message":{` + fields + `}}` }
	const valid = `"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]`
	tests := []struct {
		name, operation, params string
		field                   string // in the error
	}{
		{"two spellings", "SendMessage", message(`"message_id":"a",` + valid), "message.messageId"},
		{"two spellings below", "SendMessage", message(`"messageId":"m","role":"ROLE_USER","parts":[{"text":"x","mediaType":"a/b","media_type":"c/d"}]`), "message.parts[0].mediaType"},
		{"role unknown", "SendMessage", message(`"messageId":"m","role":"user","parts":[{"text":"x"}]`), "message.role"},
		{"role as an unknown number", "SendMessage", message(`"messageId":"m","role":9,"parts":[{"text":"x"}]`), "message.role"},
		{"role of the agent", "SendMessage", message(`"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"x"}]`), "message.role"},
		{"no role", "SendMessage", message(`"messageId":"m","parts":[{"text":"x"}]`), "message.role"},
		{"no id", "SendMessage", message(`"role":"ROLE_USER","parts":[{"text":"x"}]`), "message.messageId"},
		{"an id that is too long", "SendMessage", message(`"messageId":"` + strings.Repeat("x", 1025) + `","role":"ROLE_USER","parts":[{"text":"x"}]`), "message.messageId"},
		{"no parts", "SendMessage", message(`"messageId":"m","role":"ROLE_USER"`), "message.parts"},
		{"empty parts", "SendMessage", message(`"messageId":"m","role":"ROLE_USER","parts":[]`), "message.parts"},
		{"an empty part", "SendMessage", message(`"messageId":"m","role":"ROLE_USER","parts":[{}]`), "message.parts[0]"},
		{"a part that is null", "SendMessage", message(`"messageId":"m","role":"ROLE_USER","parts":[null]`), "message.parts[0]"},
		{"two contents", "SendMessage", message(`"messageId":"m","role":"ROLE_USER","parts":[{"text":"x","url":"https://x"}]`), "message.parts[0]"},
		{"a text that is a number", "SendMessage", message(`"messageId":"m","role":"ROLE_USER","parts":[{"text":1}]`), "message.parts[0].text"},
		{"metadata that is a list", "SendMessage", message(valid + `,"metadata":[]`), "message.metadata"},
		{"parts that are an object", "SendMessage", message(`"messageId":"m","role":"ROLE_USER","parts":{}`), "message.parts"},
		{"no base64", "SendMessage", message(`"messageId":"m","role":"ROLE_USER","parts":[{"raw":"\"\\!"}]`), "message.parts[0].raw"},
		{"half of base64", "SendMessage", message(`"messageId":"m","role":"ROLE_USER","parts":[{"raw":"AAAAA"}]`), "message.parts[0].raw"},
		{"an empty URL", "SendMessage", message(`"messageId":"m","role":"ROLE_USER","parts":[{"url":""}]`), "message.parts[0].url"},
		{"data that is null", "SendMessage", message(`"messageId":"m","role":"ROLE_USER","parts":[{"data":null}]`), "message.parts[0].data"},
		{"a media type that is none", "SendMessage", message(`"messageId":"m","role":"ROLE_USER","parts":[{"text":"x","mediaType":"text"}]`), "message.parts[0].mediaType"},
		{"no message", "SendMessage", `{}`, "message"},
		{"message that is null", "SendMessage", `{"message":null}`, "message"},
		{"push without URL", "SendMessage", `{"message":{` + valid + `},"configuration":{"taskPushNotificationConfig":{}}}`, "configuration.taskPushNotificationConfig.url"},
		{"negative history", "GetTask", `{"id":"t","historyLength":-1}`, "historyLength"},
		{"fractional history", "GetTask", `{"id":"t","historyLength":1.5}`, "historyLength"},
		{"history too large", "GetTask", `{"id":"t","historyLength":2147483648}`, "historyLength"},
		{"history that is no number", "GetTask", `{"id":"t","historyLength":"0x1"}`, "historyLength"},
		{"history in hexadecimal", "GetTask", `{"id":"t","historyLength":"0x1p4"}`, "historyLength"},
		{"history that is infinite", "GetTask", `{"id":"t","historyLength":"Infinity"}`, "historyLength"},
		{"page too small", "ListTasks", `{"pageSize":0}`, "pageSize"},
		{"page too large", "ListTasks", `{"pageSize":101}`, "pageSize"},
		{"state unknown", "ListTasks", `{"status":"TASK_STATE_RUNNING"}`, "status"},
		{"state of 0.3", "ListTasks", `{"status":"working"}`, "status"},
		{"time without zone", "ListTasks", `{"statusTimestampAfter":"2025-10-28T10:30:00"}`, "statusTimestampAfter"},
		{"a word for a flag", "ListTasks", `{"includeArtifacts":"true"}`, "includeArtifacts"},
		{"no task", "GetTask", `{}`, "id"},
		{"no task to cancel", "CancelTask", `{"id":""}`, "id"},
		{"no task to subscribe to", "SubscribeToTask", `{"ID":"t"}`, "id"},
		{"no configuration", "GetTaskPushNotificationConfig", `{"taskId":"t"}`, "id"},
		{"no URL", "CreateTaskPushNotificationConfig", `{"taskId":"t"}`, "url"},
		{"an unknown tenant", "GetTask", `{"id":"t","tenant":"nobody"}`, "tenant"},
		{"params that are a list", "GetTask", `["t"]`, ""},
	}
	server := serveFront(t, Front{})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := call(t, "POST", server.URL+"/rpc", rpcBody(test.operation, test.params))
			require.Equal(t, -32602, got.code(t), got.body)
			require.Contains(t, got.body, `"id":1`)
			require.Equal(t, strings.HasPrefix(test.name, "two spellings"), strings.Contains(got.body, "twice, as"))
			if test.field != "" {
				require.Contains(t, got.body, `"field":"`+test.field+`"`)
			}
			if test.operation == "SendMessage" {
				got = call(t, "POST", server.URL+"/message:send", test.params)
				require.Equal(t, 400, got.status, got.body)
			}
		})
	}
}

func TestQueriesThatAreRefused(t *testing.T) {
	server := serveFront(t, Front{})
	for _, query := range []string{
		"pageSize=0", "pageSize=150", "pageSize=x", "pageSize=1&pageSize=2", "pageSize=1&page_size=1", "historyLength=-5",
		"status=TASK_STATE_RUNNING", "includeArtifacts=yes", "statusTimestampAfter=yesterday", "tenant=nobody", "a=%zz", "a=1;b=2", "contextId=%ff",
	} {
		got := call(t, "GET", server.URL+"/tasks?"+query, "")
		require.Equal(t, 400, got.status, query)
		reason, _ := got.reason(t)
		require.Equal(t, "INVALID_PARAMS", reason, query)
	}
	require.Equal(t, 200, call(t, "GET", server.URL+"/tasks?other=1&other=2&pageSize=&status=", "").status)
	got := call(t, "POST", server.URL+"/tasks/a:cancel", `{"id":"b"}`)
	require.Equal(t, 400, got.status, "the body contradicts the path")
}
