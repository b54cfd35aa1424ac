package a2aconformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strings"
)

// Authorize adds a caller's credentials to a request.
type Authorize func(r *http.Request, caller string)

// JSONRPC is the JSON-RPC binding at a URL. A nil client is the default client, a nil
// authorize adds nothing.
func JSONRPC(url string, client *http.Client, authorize Authorize) Binding {
	h := wire{client, authorize}
	request := func(ctx context.Context, r Request) (*http.Response, error) {
		body := map[string]any{"jsonrpc": "2.0", "id": 7, "method": r.Operation}
		if r.Params != nil {
			body["params"] = r.Params
		}
		return h.do(ctx, r, http.MethodPost, url, body, "application/json")
	}
	result := func(data []byte) (json.RawMessage, error) {
		var answer struct {
			JSONRPC string          `json:"jsonrpc"`
			ID      any             `json:"id"`
			Result  json.RawMessage `json:"result"`
			Error   *struct {
				Code    int              `json:"code"`
				Message string           `json:"message"`
				Data    []map[string]any `json:"data"`
			} `json:"error"`
		}
		if err := json.Unmarshal(data, &answer); err != nil {
			return nil, fmt.Errorf("no JSON-RPC: %w: %.200q", err, data)
		}
		if answer.JSONRPC != "2.0" || answer.ID != 7.0 && answer.Error == nil {
			return nil, fmt.Errorf("no answer to the request: %.200q", data)
		}
		if e := answer.Error; e != nil {
			return nil, detailed(&Error{Code: e.Code, Message: e.Message}, e.Data)
		}
		return answer.Result, nil
	}
	malformed := func(name string, code int, body string) Malformed {
		return h.malformed(name, code, http.MethodPost, url, body, result)
	}
	return h.binding(Binding{Name: "JSONRPC", Code: codeJSONRPC,
		Malformed: []Malformed{
			malformed("no JSON", -32700, `{"jsonrpc":`),
			malformed("no version of JSON-RPC", -32600, `{"id":7,"method":"GetTask","params":{"id":"x"}}`),
			malformed("another version of JSON-RPC", -32600, `{"jsonrpc":"1.0","id":7,"method":"GetTask","params":{"id":"x"}}`),
			malformed("no method", -32600, `{"jsonrpc":"2.0","id":7}`),
			malformed("a method that is not there", -32601, `{"jsonrpc":"2.0","id":7,"method":"NoSuchMethod"}`),
			malformed("params that are a list", -32602, `{"jsonrpc":"2.0","id":7,"method":"GetTask","params":["x"]}`),
			malformed("params of other types", -32602, `{"jsonrpc":"2.0","id":7,"method":"GetTask","params":{"id":{"x":1}}}`),
			malformed("a message of another type", -32602, `{"jsonrpc":"2.0","id":7,"method":"SendMessage","params":{"message":"hello"}}`),
			malformed("no params", -32602, `{"jsonrpc":"2.0","id":7,"method":"SendMessage"}`),
		}}, request, result)
}

// route is the method and the path of an operation in HTTP+JSON, with the fields in the path.
type route struct{ method, path string }

var routes = map[string]route{
	"SendMessage":                      {"POST", "/message:send"},
	"SendStreamingMessage":             {"POST", "/message:stream"},
	"GetTask":                          {"GET", "/tasks/{id}"},
	"ListTasks":                        {"GET", "/tasks"},
	"CancelTask":                       {"POST", "/tasks/{id}:cancel"},
	"SubscribeToTask":                  {"POST", "/tasks/{id}:subscribe"},
	"CreateTaskPushNotificationConfig": {"POST", "/tasks/{taskId}/pushNotificationConfigs"},
	"GetTaskPushNotificationConfig":    {"GET", "/tasks/{taskId}/pushNotificationConfigs/{id}"},
	"ListTaskPushNotificationConfigs":  {"GET", "/tasks/{taskId}/pushNotificationConfigs"},
	"DeleteTaskPushNotificationConfig": {"DELETE", "/tasks/{taskId}/pushNotificationConfigs/{id}"},
	"GetExtendedAgentCard":             {"GET", "/extendedAgentCard"},
}

// HTTPJSON is the HTTP+JSON binding below a URL. A nil client is the default client, a nil
// authorize adds nothing.
func HTTPJSON(base string, client *http.Client, authorize Authorize) Binding {
	h := wire{client, authorize}
	request := func(ctx context.Context, r Request) (*http.Response, error) {
		at, ok := routes[r.Operation]
		if !ok {
			return nil, fmt.Errorf("HTTP+JSON has no operation %q", r.Operation)
		}
		rest := maps.Clone(r.Params)
		path := at.path
		for _, name := range []string{"taskId", "id"} {
			if strings.Contains(path, "{"+name+"}") {
				path = strings.Replace(path, "{"+name+"}", url.PathEscape(fmt.Sprint(rest[name])), 1)
				delete(rest, name)
			}
		}
		if at.method == http.MethodPost {
			return h.do(ctx, r, at.method, base+path, rest, "application/a2a+json")
		}
		query := url.Values{}
		for name, value := range rest {
			query.Set(name, fmt.Sprint(value))
		}
		return h.do(ctx, r, at.method, base+path+"?"+query.Encode(), nil, "")
	}
	malformed := func(name string, code int, method, path, body string) Malformed {
		return h.malformed(name, code, method, base+path, body, status)
	}
	return h.binding(Binding{Name: "HTTP+JSON", Code: codeHTTP,
		Malformed: []Malformed{
			malformed("no JSON", 400, http.MethodPost, "/message:send", `{"message":`),
			malformed("a list", 400, http.MethodPost, "/message:send", `[]`),
			malformed("a message of another type", 400, http.MethodPost, "/message:stream", `{"message":"hello"}`),
			malformed("a query of another type", 400, http.MethodGet, "/tasks?pageSize=many", ""),
			malformed("a state that is none", 400, http.MethodGet, "/tasks?status=TASK_STATE_BORED", ""),
			malformed("a time that is none", 400, http.MethodGet, "/tasks?statusTimestampAfter=yesterday", ""),
			malformed("an operation that is not there", 404, http.MethodPost, "/message:forget", `{}`),
			malformed("a method that is not there", 405, http.MethodDelete, "/tasks", ""),
		}}, request, status)
}

// status reads what HTTP+JSON answers: a value, or a google.rpc.Status.
func status(data []byte) (json.RawMessage, error) {
	var answer struct {
		Error *struct {
			Code    int              `json:"code"`
			Message string           `json:"message"`
			Details []map[string]any `json:"details"`
		} `json:"error"`
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return json.RawMessage("{}"), nil
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return nil, fmt.Errorf("no JSON: %w: %.200q", err, data)
	}
	if e := answer.Error; e != nil {
		return nil, detailed(&Error{Code: e.Code, Message: e.Message}, e.Details)
	}
	return data, nil
}

func detailed(e *Error, details []map[string]any) *Error {
	for _, d := range details {
		if d["@type"] == "type.googleapis.com/google.rpc.ErrorInfo" {
			e.Reason, _ = d["reason"].(string)
			e.Domain, _ = d["domain"].(string)
		}
	}
	return e
}

// wire makes HTTP requests.
type wire struct {
	client    *http.Client
	authorize Authorize
}

// binding adds the calls to a binding: how they are sent, and what the payload of an answer
// holds.
func (h wire) binding(b Binding, request func(context.Context, Request) (*http.Response, error), value func([]byte) (json.RawMessage, error)) Binding {
	b.Absence = true
	b.Call = func(ctx context.Context, r Request) (json.RawMessage, error) {
		res, err := request(ctx, r)
		if err != nil {
			return nil, err
		}
		return h.read(res, value)
	}
	b.Stream = func(ctx context.Context, r Request) iter.Seq2[json.RawMessage, error] {
		return h.stream(func() (*http.Response, error) { return request(ctx, r) }, value)
	}
	return b
}

func (h wire) malformed(name string, code int, method, url, body string, value func([]byte) (json.RawMessage, error)) Malformed {
	return Malformed{name, code, func(ctx context.Context, caller string) error {
		res, err := h.send(ctx, Request{Caller: caller}, method, url, strings.NewReader(body), "application/json")
		if err == nil {
			_, err = h.read(res, value)
		}
		return err
	}}
}

func (h wire) read(res *http.Response, value func([]byte) (json.RawMessage, error)) (json.RawMessage, error) {
	data, err := h.body(res)
	if err != nil {
		return nil, err
	}
	return value(data)
}

func (h wire) do(ctx context.Context, r Request, method, url string, body any, contentType string) (*http.Response, error) {
	if body == nil {
		return h.send(ctx, r, method, url, nil, "")
	}
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return h.send(ctx, r, method, url, bytes.NewReader(data), contentType)
}

func (h wire) send(ctx context.Context, r Request, method, url string, body io.Reader, contentType string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, err
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	req.Header.Set("A2A-Version", version(r))
	if len(r.Extensions) > 0 {
		req.Header.Set("A2A-Extensions", strings.Join(r.Extensions, ","))
	}
	if h.authorize != nil {
		h.authorize(req, r.Caller)
	}
	client := h.client
	if client == nil {
		client = http.DefaultClient
	}
	return client.Do(req)
}

func version(r Request) string {
	if r.Version == "" {
		return "1.0"
	}
	return r.Version
}

// body reads an answer that is no stream. The status of an error in HTTP must be that of
// its payload; JSON-RPC may say 200.
func (h wire) body(res *http.Response) (json.RawMessage, error) {
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	if kind := res.Header.Get("Content-Type"); len(data) > 0 && !strings.Contains(kind, "json") {
		return nil, &Error{Code: res.StatusCode, Message: fmt.Sprintf("an answer of type %q: %.200q", kind, data)}
	}
	var rpc struct {
		JSONRPC string `json:"jsonrpc"`
	}
	if json.Unmarshal(data, &rpc) == nil && rpc.JSONRPC != "" {
		return data, nil
	}
	value, err := status(data)
	var e *Error
	if errors.As(err, &e) && e.Code != res.StatusCode {
		return nil, fmt.Errorf("the HTTP status is %d, the error says %w", res.StatusCode, e)
	}
	if err == nil && res.StatusCode >= 300 {
		return nil, &Error{Code: res.StatusCode, Message: string(data)}
	}
	return value, err
}

// stream reads server-sent events (WHATWG HTML, section 9.2).
func (h wire) stream(begin func() (*http.Response, error), value func([]byte) (json.RawMessage, error)) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		res, err := begin()
		if err != nil {
			yield(nil, err)
			return
		}
		if kind := res.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
			data, err := h.read(res, value)
			if err == nil {
				err = fmt.Errorf("a stream was asked for and %q came: %.200q", kind, data)
			}
			yield(nil, err)
			return
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			yield(nil, fmt.Errorf("a stream with the status %d", res.StatusCode))
			return
		}
		lines := bufio.NewReader(res.Body)
		var data []byte
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				if !errors.Is(err, io.EOF) {
					yield(nil, err)
				}
				return
			}
			line = bytes.TrimRight(line, "\r\n")
			if field, ok := bytes.CutPrefix(line, []byte("data:")); ok {
				data = append(append(data, bytes.TrimPrefix(field, []byte(" "))...), '\n')
			}
			if len(line) > 0 || len(data) == 0 {
				continue
			}
			event, err := value(data)
			data = nil
			var e *Error
			if errors.As(err, &e) {
				e.InStream = true
			}
			if !yield(event, err) || err != nil {
				return
			}
		}
	}
}
