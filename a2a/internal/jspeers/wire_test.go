package jspeers_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/session/sessiontest"
)

// answer is a response to a request that was written by hand.
type answer struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

func (a *answer) decode(t *testing.T, v any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(a.Body), v), "%d: %s", a.Status, a.Body)
}

// fetch sends a request as a script does that uses no library but fetch. A body that
// is not nil is sent as JSON.
func (c *caller) fetch(method, url string, headers map[string]string, body any) *answer {
	c.t.Helper()
	params := map[string]any{"method": method, "url": url}
	if headers != nil {
		params["headers"] = headers
	}
	if body != nil {
		data, err := json.Marshal(body)
		require.NoError(c.t, err)
		params["body"] = string(data)
	}
	var a answer
	require.NoError(c.t, c.call(target{}, "fetch", params, &a))
	return &a
}

type rpc struct {
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func request(method string, params any) map[string]any {
	return map[string]any{"jsonrpc": "2.0", "id": "1", "method": method, "params": params}
}

func oneHello(names ...string) map[string]any {
	return map[string]any{"message": map[string]any{names[0]: "m1", "role": "ROLE_USER", "parts": []any{map[string]any{"text": "hello"}}}}
}

// A client says which version it speaks, and is told if it is not spoken here.
func TestVersions(t *testing.T) {
	t.Parallel()
	c := startCaller(t, "client.mjs")
	at := serveFrom(t, sessiontest.Memory(t), support(t)).url
	for version, spoken := range map[string]bool{"1.0": true, "": true, "2.0": false, "0.2": false, "x": false} {
		headers := map[string]string{"Content-Type": "application/json"}
		if version != "" {
			headers["A2A-Version"] = version
		}
		var r rpc
		a := c.fetch("POST", at+"/rpc", headers, request("SendMessage", oneHello("messageId")))
		a.decode(t, &r)
		require.Equal(t, spoken, r.Error == nil, "%q: %s", version, a.Body)
		if !spoken {
			require.Equal(t, -32009, r.Error.Code)
		}

		headers["Content-Type"] = "application/a2a+json"
		a = c.fetch("POST", at+"/message:send", headers, oneHello("messageId"))
		if spoken {
			require.Equal(t, http.StatusOK, a.Status, "%q: %s", version, a.Body)
			continue
		}
		require.Equal(t, http.StatusBadRequest, a.Status)
		require.Contains(t, a.Body, "VERSION_NOT_SUPPORTED")
	}
}

// Where 0.3 is spoken too, who names no version speaks 0.3, and is not answered in 1.0.
func TestVersionsWithTheOldOne(t *testing.T) {
	t.Parallel()
	c := startCaller(t, "client.mjs")
	at := serve(t, support(t)).url
	old := map[string]any{"message": map[string]any{"kind": "message", "messageId": "m1", "role": "user", "parts": []any{map[string]any{"kind": "text", "text": "hello"}}}}
	for version, codes := range map[string]struct{ now, old int }{"1.0": {0, -32601}, "": {-32601, 0}, "0.3": {-32601, 0}, "2.0": {-32009, -32009}} {
		headers := map[string]string{"Content-Type": "application/json"}
		if version != "" {
			headers["A2A-Version"] = version
		}
		for _, try := range []struct {
			method string
			params any
			code   int
		}{{"SendMessage", oneHello("messageId"), codes.now}, {"message/send", old, codes.old}} {
			var r rpc
			a := c.fetch("POST", at+"/rpc", headers, request(try.method, try.params))
			a.decode(t, &r)
			if try.code == 0 {
				require.Nil(t, r.Error, "%q: %s", version, a.Body)
				continue
			}
			require.NotNil(t, r.Error, "%q: %s", version, a.Body)
			require.Equal(t, try.code, r.Error.Code, "%q: %s", version, a.Body)
		}
	}
}

// Parameters are understood in the names of the schema as well as in those of its JSON.
func TestSnakeCase(t *testing.T) {
	t.Parallel()
	c := startCaller(t, "client.mjs")
	at := serve(t, support(t)).url
	headers := map[string]string{"Content-Type": "application/json", "A2A-Version": "1.0"}
	params := oneHello("message_id")
	params["message"].(map[string]any)["context_id"] = "snake"
	params["configuration"] = map[string]any{"history_length": 0, "return_immediately": false}
	var r rpc
	c.fetch("POST", at+"/rpc", headers, request("SendMessage", params)).decode(t, &r)
	require.Nil(t, r.Error)
	var result update
	require.NoError(t, json.Unmarshal(r.Result, &result))
	require.Equal(t, "snake", result.Task.ContextID)
	require.Empty(t, result.Task.History)
	require.Equal(t, state("completed"), result.Task.Status.State)

	c.fetch("POST", at+"/rpc/", headers, request("ListTasks", map[string]any{"context_id": "snake", "page_size": 1, "include_artifacts": true})).decode(t, &r)
	require.Nil(t, r.Error)
	var list struct{ Tasks []task }
	require.NoError(t, json.Unmarshal(r.Result, &list))
	require.Len(t, list.Tasks, 1)
	require.NotEmpty(t, list.Tasks[0].Artifacts)
}

// The card of a server is the one that the SDK's own checks of form expect, and a
// browser or proxy may keep it.
func TestCard(t *testing.T) {
	t.Parallel()
	c := startCaller(t, "client.mjs")
	at := serve(t, support(t)).url
	a := c.fetch("GET", at+cardPath, nil, nil)
	require.Equal(t, http.StatusOK, a.Status)
	require.NotEmpty(t, a.Headers["etag"])
	require.NotEmpty(t, a.Headers["cache-control"])
	var card map[string]any
	a.decode(t, &card)
	for _, required := range []string{"name", "description", "version", "supportedInterfaces", "capabilities", "defaultInputModes", "defaultOutputModes", "skills"} {
		require.Contains(t, card, required)
	}
	again := c.fetch("GET", at+cardPath, map[string]string{"If-None-Match": a.Headers["etag"]}, nil)
	require.Equal(t, http.StatusNotModified, again.Status)

	for _, binding := range []string{"JSONRPC", "HTTP+JSON"} {
		var read map[string]any
		require.NoError(t, c.call(target{Card: at + cardPath, Binding: binding}, "extendedCard", nil, &read))
		require.Equal(t, card["name"], read["name"])
		require.Equal(t, card["supportedInterfaces"], read["supportedInterfaces"])
	}
}
