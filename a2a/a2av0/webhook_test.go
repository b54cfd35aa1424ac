package a2av0_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/a2a/a2aserver/push"
	"github.com/agentarbor/arbor/a2a/a2av0"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// A webhook of a client of 0.3 gets tasks in its form, the last one with all there is.
func TestWebhook(t *testing.T) {
	bodies := make(chan map[string]any, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		var task map[string]any
		_ = json.Unmarshal(data, &task)
		bodies <- task
	}))
	defer hook.Close()
	greeter := must.Get(llmagent.New("greeter", "Greet.", scripted.Always("m", scripted.Reply(scripted.Text("Hello ", "there.")))))
	s := must.Get(a2aserver.New(greeter, sessiontest.Memory(t), a2av0.Server(), a2aserver.WithPush(push.Options{AllowHTTP: true, AllowLoopback: true})))
	defer s.Close(t.Context())
	srv := httptest.NewServer(s)
	defer srv.Close()
	body := `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"m1","role":"user","parts":[{"kind":"text","text":"hi"}]},
		"configuration":{"blocking":true,"pushNotificationConfig":{"url":"` + hook.URL + `"}}}}`
	resp := must.Get(http.Post(srv.URL+"/rpc", "application/json", bytes.NewBufferString(body)))
	answer := must.Get(io.ReadAll(resp.Body))
	require.NoError(t, resp.Body.Close())
	require.NotContains(t, string(answer), `"error"`)
	for task := range bodies {
		require.Equal(t, "task", task["kind"], "%v", task)
		status := task["status"].(map[string]any)
		if status["state"] != "completed" {
			continue
		}
		artifact := task["artifacts"].([]any)[0].(map[string]any)
		require.Equal(t, "Hello there.", artifact["parts"].([]any)[0].(map[string]any)["text"])
		return
	}
}
