package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
)

const testKey = "sk-very-secret-0123456789"

// serve starts a real server on loopback and returns a model of it, without
// retries unless opts say otherwise.
func serve(t *testing.T, h http.HandlerFunc, opts ...Option) *Model {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	opts = append([]Option{WithBaseURL(s.URL + "/v1"), WithAPIKey(testKey), WithRetries(0), WithRetryDelay(0, 0)}, opts...)
	m, err := New("m", opts...)
	require.NoError(t, err)
	return m
}

// bodyOf serves a fixed body of server-sent events.
func bodyOf(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, body)
	}
}

func jsonOf(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
}

// delta is an event with a delta and, if not empty, a finish reason.
func delta(d, finish string) string {
	if finish != "" {
		finish = fmt.Sprintf(",\"finish_reason\":%q", finish)
	}
	return fmt.Sprintf("data: {\"model\":\"m-1\",\"choices\":[{\"index\":0,\"delta\":%s%s}]}\n\n", d, finish)
}

func text(s string) string {
	quoted, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return delta(`{"content":`+string(quoted)+`}`, "")
}

const done = "data: [DONE]\n\n"

var (
	hello  = &llm.Request{Messages: []llm.Message{llm.UserText("hi")}}
	helloS = &llm.Request{Messages: []llm.Message{llm.UserText("hi")}, Stream: true}
)

// result is an answer put together.
type result struct {
	Text, Reasoning string
	Calls           []llm.ToolCall
	Usage           *llm.Usage
	Model           string
	Finish          llm.FinishReason
}

func collect(ctx context.Context, m llm.Model, req *llm.Request) (result, error) {
	var r result
	for c, err := range m.Generate(ctx, req) {
		if err != nil {
			return r, err
		}
		if r.Finish != "" {
			return r, errors.New("a chunk came after the terminal one")
		}
		r.Text += c.Text
		r.Reasoning += c.Reasoning
		if c.Call != nil {
			r.Calls = append(r.Calls, *c.Call)
		}
		if c.Usage != nil {
			r.Usage = c.Usage
		}
		if c.Model != "" {
			r.Model = c.Model
		}
		r.Finish = c.Finish
	}
	if r.Finish == "" {
		return r, errors.New("no terminal chunk and no error")
	}
	return r, nil
}

func ask(t *testing.T, m llm.Model, req *llm.Request) (result, error) {
	t.Helper()
	return collect(t.Context(), m, req)
}

// fails asks and returns the *llm.Error that must come.
func fails(t *testing.T, m llm.Model, req *llm.Request) *llm.Error {
	t.Helper()
	_, err := ask(t, m, req)
	var e *llm.Error
	require.ErrorAs(t, err, &e)
	require.NotContains(t, err.Error(), testKey)
	require.NotContains(t, fmt.Sprintf("%+v %#v", err, err), testKey)
	return e
}

// sent asks once and returns the body that went over the wire.
func sent(t *testing.T, model string, req *llm.Request, opts ...Option) map[string]any {
	t.Helper()
	var raw []byte
	m := serve(t, func(w http.ResponseWriter, r *http.Request) {
		raw, _ = io.ReadAll(r.Body)
		if req.Stream {
			bodyOf(delta(`{}`, "stop")+done)(w, r)
		} else {
			jsonOf(`{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}`)(w, r)
		}
	}, opts...)
	_, err := ask(t, m.Named(model), req)
	require.NoError(t, err)
	var body map[string]any
	require.NoError(t, json.Unmarshal(raw, &body), string(raw))
	return body
}

// pipeClient returns a client whose connections are pipes to a server of h, for
// tests in a synctest bubble: time is faked, and a goroutine left over fails the
// test.
func pipeClient(h http.Handler) (client *http.Client, stop func()) {
	l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	srv := &http.Server{Handler: h}
	go func() { _ = srv.Serve(l) }()
	tr := &http.Transport{DialContext: l.dial}
	return &http.Client{Transport: tr}, func() {
		tr.CloseIdleConnections()
		_ = srv.Close()
	}
}

type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	a, b := net.Pipe()
	select {
	case l.conns <- b:
		return a, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	close(l.closed)
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

// cutAfter sends part of a body and then breaks the connection.
func cutAfter(part string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, part)
		flush(w)
		panic(http.ErrAbortHandler)
	}
}

func repeat(s string, n int) string { return strings.Repeat(s, n) }
