package wire

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
)

func TestEnvelopes(t *testing.T) {
	const ok = 0
	get := func(head string) string { return `{` + head + `"method":"GetTask","params":{"id":"t"}}` }
	tests := []struct {
		name, body string
		code       int
		id         string // of the answer; "": null
	}{
		{"a string as id", get(`"jsonrpc":"2.0","id":"a\"b",`), ok, `"a\"b"`},
		{"an empty string as id", get(`"jsonrpc":"2.0","id":"",`), ok, `""`},
		{"a number as id", get(`"jsonrpc":"2.0","id":0,`), ok, `0`},
		{"a negative number as id", get(`"jsonrpc":"2.0","id":-7,`), ok, `-7`},
		{"a number that no float holds", get(`"jsonrpc":"2.0","id":12345678901234567891,`), ok, `12345678901234567891`},
		{"null as id", get(`"jsonrpc":"2.0","id":null,`), ok, `null`},
		{"spaces around", " \r\n\t" + get(` "jsonrpc" : "2.0" , "id" : 1 ,`) + "\n ", ok, `1`},
		{"escaped names", `{"\u006asonrpc":"\u0032.0","id":1,"method":"Get\u0054ask","params":{"id":"t"}}`, ok, `1`},
		{"members that it does not know", get(`"jsonrpc":"2.0","id":1,"x":[{"a":1}],`), ok, `1`},
		{"names in other case do not count", get(`"jsonrpc":"2.0","id":1,"METHOD":"CancelTask","ID":2,`), ok, `1`},
		{"no params where none are needed", `{"jsonrpc":"2.0","id":1,"method":"ListTasks"}`, ok, `1`},
		{"params that are null", `{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":null}`, ok, `1`},

		{"a fraction as id", get(`"jsonrpc":"2.0","id":1.5,`), -32600, ""},
		{"a whole fraction as id", get(`"jsonrpc":"2.0","id":1.0,`), -32600, ""},
		{"an exponent as id", get(`"jsonrpc":"2.0","id":1e3,`), -32600, ""},
		{"a list as id", get(`"jsonrpc":"2.0","id":[],`), -32600, ""},
		{"an object as id", get(`"jsonrpc":"2.0","id":{"bad":"type"},`), -32600, ""},
		{"a flag as id", get(`"jsonrpc":"2.0","id":true,`), -32600, ""},
		{"an id that is too long", get(`"jsonrpc":"2.0","id":"` + strings.Repeat("x", 2000) + `",`), -32600, ""},
		{"a notification", get(`"jsonrpc":"2.0",`), -32600, ""},
		{"another version", get(`"jsonrpc":"1.0","id":1,`), -32600, `1`},
		{"no version", get(`"id":1,`), -32600, `1`},
		{"a number as version", get(`"jsonrpc":2.0,"id":1,`), -32600, `1`},
		{"no method", `{"jsonrpc":"2.0","id":1}`, -32600, `1`},
		{"an empty method", `{"jsonrpc":"2.0","id":1,"method":""}`, -32600, `1`},
		{"a number as method", `{"jsonrpc":"2.0","id":1,"method":1}`, -32600, `1`},
		{"an unknown method", `{"jsonrpc":"2.0","id":1,"method":"Nothing"}`, -32601, `1`},
		{"a method of 0.3", `{"jsonrpc":"2.0","id":1,"method":"message/send"}`, -32601, `1`},
		{"a method in lower case", `{"jsonrpc":"2.0","id":1,"method":"gettask"}`, -32601, `1`},
		{"params that are a list", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":["t"]}`, -32602, `1`},
		{"params that are a string", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":"t"}`, -32602, `1`},
		{"a batch", `[` + get(`"jsonrpc":"2.0","id":1,`) + `]`, -32600, ""},
		{"an empty batch", `[]`, -32600, ""},
		{"a string", `"hi"`, -32600, ""},
		{"a number", `1`, -32600, ""},
		{"null", `null`, -32600, ""},
		{"an empty object", `{}`, -32600, ""},

		{"spaces alone", "  ", -32700, ""},
		{"no JSON", `hello`, -32700, ""},
		{"half of it", `{"jsonrpc":"2.0"`, -32700, ""},
		{"something behind it", get(`"jsonrpc":"2.0","id":1,`) + `x`, -32700, ""},
		{"a second one behind it", get(`"jsonrpc":"2.0","id":1,`) + `{}`, -32700, ""},
		{"a comma too many", `{"jsonrpc":"2.0","id":1,"method":"GetTask",}`, -32700, ""},
		{"no UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"GetTask\"}", -32700, ""},
		{"a byte order mark", "\xef\xbb\xbf{}", -32700, ""},
		{"UTF-16", "{\x00}\x00", -32700, ""},
		{"nested endlessly", strings.Repeat("[", 100000), -32700, ""},
		{"nested deeply", strings.Repeat("[", 20000) + strings.Repeat("]", 20000), -32700, ""},
		{"nested deeply in params", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"metadata":{"a":` + strings.Repeat(`[`, 5000) + strings.Repeat(`]`, 5000) + `}}}`, -32700, ""},
		{"the id twice", get(`"jsonrpc":"2.0","id":1,"id":2,`), -32700, ""},
		{"the method twice", get(`"jsonrpc":"2.0","id":1,"method":"ListTasks",`), -32700, ""},
		{"a field twice, escaped", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"a","\u0069d":"b"}}`, -32700, ""},
		{"a key twice in metadata", rpcBody("SendMessage", `{"metadata":{"a":{"k":1,"k":2}}}`), -32700, ""},
		{"an unknown field twice", rpcBody("GetTask", `{"id":"a","x":1,"x":2}`), -32700, ""},
		{"nested deeply where nobody looks", rpcBody("GetTask", `{"id":"t","x":`+strings.Repeat(`{"a":`, 200)+"1"+strings.Repeat("}", 200)+`}`), -32700, ""},
	}
	server := serveFront(t, Front{})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := call(t, "POST", server.URL+"/rpc", test.body)
			require.Equal(t, 200, got.status)
			require.Equal(t, "application/json", got.mediaType())
			require.Equal(t, test.code, got.code(t), got.body)
			id := test.id
			if id == "" {
				id = "null"
			}
			answer := must.JSON[struct{ ID json.RawMessage }](got.body)
			require.Equal(t, id, string(answer.ID), got.body)
			require.Equal(t, test.code == ok, strings.Contains(got.body, `"result"`))
			if test.code != ok && json.Valid([]byte(test.body)) {
				return
			}
			if test.code == -32700 {
				got = call(t, "POST", server.URL+"/message:send", test.body)
				require.Equal(t, 400, got.status)
				reason, _ := got.reason(t)
				require.Equal(t, "PARSE_ERROR", reason)
			}
		})
	}
	got := call(t, "POST", server.URL+"/rpc", rpcBody("GetTask", `{"id":"t","metadata":[{"id":{"k":1}}],"id":"u"}`))
	require.Contains(t, got.body, `the body cannot be read: one object contains a key twice: \"id\"`)
	got = call(t, "POST", server.URL+"/message:send", "")
	require.Equal(t, 415, got.status, "no body has no type")
	got = call(t, "POST", server.URL+"/message:send", `[`+hello+`]`)
	require.Equal(t, 400, got.status)
}

// Whatever is sent, the answer is an HTTP answer with a JSON-RPC response or an error of HTTP+JSON.
func FuzzBodies(f *testing.F) {
	for _, params := range []string{hello, `{}`, `{"id":"t"}`, `{"pageSize":1}`, `{"taskId":"t","url":"https://x"}`} {
		for _, method := range []string{"SendMessage", "SendStreamingMessage", "ListTasks", "CreateTaskPushNotificationConfig"} {
			f.Add([]byte(rpcBody(method, params)))
		}
		f.Add([]byte(params))
	}
	f.Add([]byte(`{"jsonrpc":"2.0","id":"\ud800","method":"GetTask","params":{"id":"\u0000"}}`))
	f.Add([]byte(`[{"jsonrpc":"2.0"}]`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"message_id":1,"messageId":null,"parts":[{"raw":"=","data":null}]}}}`))
	h := must.Get(New(Front{Handler: NewChecks(&stub{}, nil, nil, nil, nil, nil), Legacy: testCompat(), Card: func(http.ResponseWriter, *http.Request, string) {}}))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, path := range []string{"/rpc", "/message:send", "/message:stream", "/tasks/t:cancel"} {
			for _, version := range []string{"1.0", "0.3"} {
				r := httptest.NewRequest("POST", path, strings.NewReader(string(body)))
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("A2A-Version", version)
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				require.NotZero(t, w.Body.Len())
				if strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream") {
					continue
				}
				require.NotEqual(t, 500, w.Code, w.Body.String())
				var answer struct {
					JSONRPC string
					Result  json.RawMessage
					Error   *struct{ Code int }
				}
				require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer), w.Body.String())
				if path == "/rpc" {
					require.Equal(t, "2.0", answer.JSONRPC)
					require.True(t, (answer.Error == nil) != (answer.Result == nil), w.Body.String())
				}
				if answer.Error != nil {
					require.NotZero(t, answer.Error.Code)
					require.NotEqual(t, -32603, answer.Error.Code, w.Body.String())
				}
			}
		}
	})
}
