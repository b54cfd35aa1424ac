package sdkgaps

import (
	"context"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/stretchr/testify/require"
)

// mended fails a test whose gap the SDK no longer has.
func mended(t *testing.T, gap bool, does, remove string) {
	t.Helper()
	require.True(t, gap, "the SDK %s now: delete %s", does, remove)
}

// executor answers every message with a message.
type executor struct{}

func (executor) Execute(context.Context, *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		yield(sdk.NewMessage(sdk.MessageRoleAgent, sdk.NewTextPart("hello")), nil)
	}
}

func (executor) Cancel(context.Context, *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(func(sdk.Event, error) bool) {}
}

// ask sends a request to a handler of the SDK, as a client of version 1.0 does.
func ask(h http.Handler, method, path, body string, header ...string) (*http.Response, string) {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("A2A-Version", "1.0")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	data, _ := io.ReadAll(w.Body)
	return w.Result(), string(data)
}

func rest() http.Handler { return a2asrv.NewRESTHandler(a2asrv.NewHandler(executor{})) }

const send = `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]}}`

// The other tests ask for the same with one thing changed.
func TestRequest(t *testing.T) {
	resp, body := ask(rest(), "POST", "/message:send", send)
	require.Equal(t, 200, resp.StatusCode, body)
}

func TestVersionIsNotChecked(t *testing.T) {
	resp, _ := ask(rest(), "POST", "/message:send", send, "A2A-Version", "9.9")
	mended(t, resp.StatusCode == 200, "checks A2A-Version", "version.go of a2a/internal/wire")
}

func TestContentTypeIsNotChecked(t *testing.T) {
	resp, _ := ask(rest(), "POST", "/message:send", send, "Content-Type", "text/css")
	mended(t, resp.StatusCode == 200, "checks Content-Type", "the check in a2a/internal/wire/http.go")
}

func TestSnakeCaseIsNotRead(t *testing.T) {
	resp, _ := ask(rest(), "POST", "/message:send", strings.Replace(send, "messageId", "message_id", 1))
	mended(t, resp.StatusCode != 200, "reads fields in snake_case", "Fit of a2a/internal/sdkjson")
}

func TestEnumsAreNotReadAsNumbers(t *testing.T) {
	resp, _ := ask(rest(), "POST", "/message:send", strings.Replace(send, `"ROLE_USER"`, "1", 1))
	mended(t, resp.StatusCode != 200, "reads ProtoJSON in all its forms", "Fit of a2a/internal/sdkjson")
}

func TestErrorBeforeTheFirstEventIsAFrame(t *testing.T) {
	resp, _ := ask(rest(), "POST", "/tasks/none:subscribe", "")
	mended(t, resp.StatusCode == 200, "answers an early error of a stream with its status", "the first event of a2a/internal/wire/sse.go")
}

func TestEnvelopesAreNotChecked(t *testing.T) {
	h := a2asrv.NewJSONRPCHandler(a2asrv.NewHandler(executor{}))
	for what, body := range map[string]string{
		"a fraction as id":     `{"jsonrpc":"2.0","id":1.5,"method":"ListTasks"}`,
		"a notification":       `{"jsonrpc":"2.0","method":"ListTasks"}`,
		"a method twice":       `{"jsonrpc":"2.0","id":1,"method":"none","method":"ListTasks"}`,
		"data after the body":  `{"jsonrpc":"2.0","id":1,"method":"ListTasks"}{}`,
		"the digits of an id ": `{"jsonrpc":"2.0","id":12345678901234567891,"method":"ListTasks"}`,
	} {
		_, body := ask(h, "POST", "/", body)
		mended(t, !strings.Contains(body, "-32600") && !strings.Contains(body, "12345678901234567891"), "checks "+what, "readEnvelope of a2a/internal/wire")
	}
	_, body := ask(a2asrv.NewJSONRPCHandler(deleter{a2asrv.NewHandler(executor{})}), "POST", "/",
		`{"jsonrpc":"2.0","id":1,"method":"DeleteTaskPushNotificationConfig","params":{"taskId":"t","id":"c"}}`)
	mended(t, !strings.Contains(body, `"result"`) && !strings.Contains(body, `"error"`), "answers a deletion", "the empty result in a2a/internal/wire/operations.go")
}

func TestCardHasNoCacheHeaders(t *testing.T) {
	resp, _ := ask(a2asrv.NewStaticAgentCardHandler(&sdk.AgentCard{Name: "n"}), "GET", "/.well-known/agent-card.json", "")
	mended(t, resp.Header.Get("ETag") == "", "sends an ETag with a card", "the headers in a2aserver/card_document.go")
}
