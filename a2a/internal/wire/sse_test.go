package wire

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/server/access"
)

// open sends a request and leaves the answer's body unread.
func open(t *testing.T, ctx context.Context, method, url, body string) *http.Response {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(ctx, method, url, strings.NewReader(body)))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	resp := must.Get(http.DefaultTransport.RoundTrip(req))
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// fromChannel makes events of what a test sends; it ends with the channel or the request.
func fromChannel(events <-chan sdk.Event) func(context.Context) iter.Seq2[sdk.Event, error] {
	return func(ctx context.Context) iter.Seq2[sdk.Event, error] {
		return func(yield func(sdk.Event, error) bool) {
			for {
				select {
				case <-ctx.Done():
					return
				case event, ok := <-events:
					if !ok || !yield(event, nil) {
						return
					}
				}
			}
		}
	}
}

func update(word string) sdk.Event {
	return &sdk.TaskArtifactUpdateEvent{TaskID: "t", ContextID: "c", Append: true, Artifact: &sdk.Artifact{ID: "a", Parts: sdk.ContentParts{sdk.NewTextPart(word)}}}
}

func TestAnErrorBeforeTheFirstEventIsPlain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The handler takes its time, so that keep-alives would come first.
		late := &stub{events: func(context.Context) iter.Seq2[sdk.Event, error] {
			return func(yield func(sdk.Event, error) bool) {
				time.Sleep(20 * time.Second) // of the bubble
				yield(nil, sdk.ErrTaskNotFound)
			}
		}}
		h := frontOf(t, Front{Handler: late, KeepAlive: time.Second})
		compat := frontOf(t, Front{Handler: late, KeepAlive: time.Second, Legacy: testCompat()})

		got := direct(t, h, "POST", "/rpc", rpcBody("SubscribeToTask", `{"id":"t"}`))
		require.Equal(t, "application/json", got.mediaType())
		require.Equal(t, -32001, got.code(t))

		got = direct(t, h, "POST", "/tasks/t:subscribe", "", "Accept", "text/event-stream")
		require.Equal(t, 404, got.status)
		require.Equal(t, "application/json", got.mediaType())

		got = direct(t, h, "POST", "/message:stream", hello, "Accept", "text/event-stream")
		require.Equal(t, 404, got.status)

		// Clients of 0.3 read nothing but streams where they ask for one.
		got = direct(t, compat, "POST", "/rpc", rpcBody("tasks/resubscribe", `{"id":"t"}`), "A2A-Version", "0.3")
		require.Equal(t, "text/event-stream", got.mediaType())
		require.Contains(t, got.body, `"code":-32001`)
	})
}

func TestInvalidParamsOfStreamsArePlain(t *testing.T) {
	server := serveFront(t, Front{})
	got := call(t, "POST", server.URL+"/rpc", rpcBody("SendStreamingMessage", `{}`))
	require.Equal(t, "application/json", got.mediaType())
	require.Equal(t, -32602, got.code(t))
	require.Equal(t, 400, call(t, "POST", server.URL+"/message:stream", `{}`).status)
}

func TestAStreamWithoutEventsIsAnError(t *testing.T) {
	none := &stub{events: func(context.Context) iter.Seq2[sdk.Event, error] {
		return func(func(sdk.Event, error) bool) {}
	}}
	server := serveFront(t, Front{Handler: none})
	require.Equal(t, -32603, call(t, "POST", server.URL+"/rpc", rpcBody("SubscribeToTask", `{"id":"t"}`)).code(t))
	require.Equal(t, 500, call(t, "GET", server.URL+"/tasks/t:subscribe", "").status)
}

func TestEventsComeOneByOne(t *testing.T) {
	for _, binding := range []string{"JSON-RPC", "HTTP+JSON", "0.3"} {
		t.Run(binding, func(t *testing.T) {
			events := make(chan sdk.Event)
			f := Front{Handler: &stub{events: fromChannel(events)}, KeepAlive: -1}
			path, body := "/rpc", rpcBody("SubscribeToTask", `{"id":"t"}`)
			switch binding {
			case "HTTP+JSON":
				path, body = "/tasks/t:subscribe", "{}"
			case "0.3":
				f.Legacy, body = testCompat(), rpcBody("tasks/resubscribe", `{"id":"t"}`)
			}
			server := serveFront(t, f)
			go func() { events <- echo("t") }()
			resp := open(t, t.Context(), "POST", server.URL+path, body) // returns with the header
			require.Equal(t, 200, resp.StatusCode)
			require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
			require.Equal(t, "no", resp.Header.Get("X-Accel-Buffering"))
			next, stop := iter.Pull(frames(resp.Body))
			defer stop()
			for i := range 3 {
				if i > 0 {
					events <- update(fmt.Sprint("word ", i))
				}
				data, ok := next() // each can be read before the next is sent
				require.True(t, ok)
				require.True(t, json.Valid([]byte(data)))
				require.Equal(t, binding != "HTTP+JSON", strings.HasPrefix(data, `{"jsonrpc":"2.0","id":1,"result":{`), data)
				if i > 0 {
					require.Contains(t, data, fmt.Sprint("word ", i))
				}
			}
			close(events)
			_, ok := next()
			require.False(t, ok)
		})
	}
}

func TestALaterErrorIsTheLastFrame(t *testing.T) {
	broken := &stub{events: func(context.Context) iter.Seq2[sdk.Event, error] {
		return func(yield func(sdk.Event, error) bool) {
			_ = yield(echo("t"), nil) && yield(nil, errSecretive)
		}
	}}
	unencodable := &stub{events: func(context.Context) iter.Seq2[sdk.Event, error] {
		return func(yield func(sdk.Event, error) bool) {
			bad := echo("t")
			bad.Metadata = map[string]any{"f": func() {}}
			_ = yield(echo("t"), nil) && yield(bad, nil)
		}
	}}
	panics := &stub{events: func(context.Context) iter.Seq2[sdk.Event, error] {
		return func(yield func(sdk.Event, error) bool) {
			yield(echo("t"), nil)
			panic("hunter2")
		}
	}}
	for _, handler := range []*stub{broken, unencodable, panics} {
		server := serveFront(t, Front{Handler: handler})
		got := call(t, "POST", server.URL+"/rpc", rpcBody("SubscribeToTask", `{"id":"t"}`))
		require.Equal(t, 2, strings.Count(got.body, "data: "), got.body)
		require.Contains(t, got.body, `"code":-32603`)
		require.NotContains(t, got.body, "hunter2")

		got = call(t, "GET", server.URL+"/tasks/t:subscribe", "")
		require.Equal(t, 200, got.status)
		require.Equal(t, 2, strings.Count(got.body, "data: "), got.body)
		require.Contains(t, got.body, "event: error\ndata: {\"error\":{\"code\":500,")
		require.NotContains(t, got.body, "hunter2")
	}
}

func TestKeepAlivesFillSilence(t *testing.T) {
	events := make(chan sdk.Event, 1)
	server := serveFront(t, Front{Handler: &stub{events: fromChannel(events)}, KeepAlive: time.Millisecond})
	events <- echo("t")
	resp := open(t, t.Context(), "POST", server.URL+"/rpc", rpcBody("SubscribeToTask", `{"id":"t"}`))
	lines := bufio.NewScanner(resp.Body)
	comments := 0
	for comments < 3 && lines.Scan() {
		if strings.HasPrefix(lines.Text(), ":") {
			comments++
		}
	}
	require.Equal(t, 3, comments)
	events <- update("still here")
	for lines.Scan() && !strings.Contains(lines.Text(), "still here") {
	}
	require.Contains(t, lines.Text(), "still here")
	close(events)
}

func TestAClientThatGoesEndsTheHandler(t *testing.T) {
	for _, path := range []string{"/rpc", "/tasks/t:subscribe"} {
		ended := make(chan struct{})
		handler := &stub{events: func(ctx context.Context) iter.Seq2[sdk.Event, error] {
			return func(yield func(sdk.Event, error) bool) {
				defer close(ended)
				if yield(echo("t"), nil) {
					<-ctx.Done()
				}
			}
		}}
		server := serveFront(t, Front{Handler: handler, KeepAlive: -1})
		ctx, cancel := context.WithCancel(t.Context())
		body := "{}"
		if path == "/rpc" {
			body = rpcBody("SubscribeToTask", `{"id":"t"}`)
		}
		resp := open(t, ctx, "POST", server.URL+path, body)
		require.Equal(t, 200, resp.StatusCode)
		cancel()
		<-ended
	}
}

// serveNarrow serves a front over connections whose buffers are small, so that they fill soon.
func serveNarrow(t *testing.T, f Front) *httptest.Server {
	t.Helper()
	f.Card = func(http.ResponseWriter, *http.Request, string) {}
	h := must.Get(New(f))
	server := httptest.NewUnstartedServer(h)
	server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		_ = c.(*net.TCPConn).SetWriteBuffer(4096)
		return ctx
	}
	server.Start()
	t.Cleanup(server.Close)
	return server
}

// failing is a writer whose client goes away after some writes, which nobody else notices.
type failing struct {
	header http.Header
	left   int
}

func (f *failing) Header() http.Header { return f.header }
func (f *failing) WriteHeader(int)     {}
func (f *failing) Flush()              {}
func (f *failing) Write(p []byte) (int, error) {
	if f.left--; f.left < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

func TestAKeepAliveThatFailsEndsTheStream(t *testing.T) {
	w := access.NewWriter(&failing{make(http.Header), 2}, time.Second)
	err := serveStream(t.Context(), w, time.Millisecond, false, func() {}, func(ctx context.Context) iter.Seq2[sdk.Event, error] {
		return func(yield func(sdk.Event, error) bool) {
			if yield(echo("t"), nil) {
				<-ctx.Done()
				require.ErrorIs(t, context.Cause(ctx), access.ErrClientGone)
				require.False(t, yield(echo("t"), nil))
			}
		}
	}, func(sdk.Event) ([]byte, error) { return []byte("{}"), nil }, func(error) access.Frame { return access.Frame{} })
	require.NoError(t, err)
}

// A user who is revoked is told nothing more.
func TestARevokedUsersStreamEnds(t *testing.T) {
	accounts := must.Get(access.NewAccounts(access.Account{Name: "ann", Token: access.HashToken("good")}))
	ctx := must.Get(access.Authenticate(t.Context(), accounts, access.Credentials{Header: func(string) []string { return []string{"Bearer good"} }}))
	w := httptest.NewRecorder()
	err := serveStream(ctx, access.NewWriter(w, 0), -1, false, func() {}, func(ctx context.Context) iter.Seq2[sdk.Event, error] {
		return func(yield func(sdk.Event, error) bool) {
			if yield(echo("t"), nil) {
				require.NoError(t, accounts.Replace())
				<-ctx.Done()
				yield(nil, context.Cause(ctx))
			}
		}
	}, func(sdk.Event) ([]byte, error) { return []byte("{}"), nil }, func(err error) access.Frame { return access.Frame{Data: []byte(err.Error())} })
	require.NoError(t, err)
	require.Equal(t, "data: {}\n\ndata: "+access.ErrRevoked.Error()+"\n\n", w.Body.String())
}

// A client that stops reading is cut off, and holds up nobody meanwhile.
func TestAClientThatDoesNotReadIsCutOff(t *testing.T) {
	for _, binding := range []string{"JSON-RPC", "0.3", "keep-alives only"} {
		t.Run(binding, func(t *testing.T) {
			ended := make(chan error, 1)
			handler := &stub{}
			handler.events = func(ctx context.Context) iter.Seq2[sdk.Event, error] {
				return func(yield func(sdk.Event, error) bool) {
					defer func() { ended <- context.Cause(ctx) }()
					word := update("x")
					for yield(word, nil) && binding != "keep-alives only" {
					}
					<-ctx.Done()
				}
			}
			f := Front{Handler: handler, Access: access.Options{WriteTimeout: 500 * time.Millisecond}, KeepAlive: time.Millisecond}
			body := rpcBody("SubscribeToTask", `{"id":"t"}`)
			if binding == "0.3" {
				f.Legacy, body = testCompat(), rpcBody("tasks/resubscribe", `{"id":"t"}`)
			}
			server := serveNarrow(t, f)
			conn := must.Get(net.Dial("tcp", server.Listener.Addr().String()))
			defer conn.Close()
			require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4096))
			_, err := fmt.Fprintf(conn, "POST /rpc HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			require.NoError(t, err)
			require.Equal(t, 200, call(t, "GET", server.URL+"/tasks/other", "").status)
			require.Error(t, <-ended)
		})
	}
}

// Many streams that open and close leave nothing behind.
func TestStreamsLeaveNoGoroutines(t *testing.T) {
	events := make(chan sdk.Event)
	close(events)
	server := serveFront(t, Front{Handler: &stub{}, KeepAlive: time.Hour})
	one := func() { call(t, "POST", server.URL+"/rpc", rpcBody("SendStreamingMessage", hello)) }
	one()
	before := runtime.NumGoroutine()
	var all sync.WaitGroup
	for range 50 {
		all.Go(one)
	}
	all.Wait()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	must.Wait(t, func() bool { return runtime.NumGoroutine() <= before })
}

func TestPanicsAreInternalErrors(t *testing.T) {
	var logged strings.Builder
	var mu sync.Mutex
	logger := slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return logged.Write(p)
	}), nil))
	handler := &stub{send: func(context.Context, *sdk.SendMessageRequest) (sdk.SendMessageResult, error) { panic("hunter2") },
		events: func(context.Context) iter.Seq2[sdk.Event, error] { panic("hunter2") }}
	server := serveFront(t, Front{Handler: handler, Legacy: testCompat(), Logger: logger})
	for _, version := range []string{"1.0", "0.3"} {
		for _, method := range []string{"SendMessage", "SendStreamingMessage"} {
			got := call(t, "POST", server.URL+"/rpc", rpcBody(legacyName(version, method), hello), "A2A-Version", version)
			require.Contains(t, got.body, `"code":-32603`)
			require.NotContains(t, got.body, "hunter2")
			require.NotContains(t, got.body, ".go:")
		}
	}
	for _, path := range []string{"/message:send", "/message:stream"} {
		got := call(t, "POST", server.URL+path, hello)
		require.Equal(t, 500, got.status)
		require.Contains(t, got.body, "INTERNAL")
		require.NotContains(t, got.body, "hunter2")
	}
	mu.Lock()
	defer mu.Unlock()
	require.Contains(t, logged.String(), "hunter2")
	require.Contains(t, logged.String(), "sse_test.go")
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestHandlersOfOthersCanFlush(t *testing.T) {
	flushed := false
	server := serveFront(t, Front{Card: func(w http.ResponseWriter, _ *http.Request, _ string) {
		flusher, ok := w.(http.Flusher)
		flushed = ok
		_, _ = io.WriteString(w, "{}")
		flusher.Flush()
	}})
	require.Equal(t, 200, call(t, "GET", server.URL+"/.well-known/agent-card.json", "").status)
	require.True(t, flushed)
}

func TestAStreamThroughAWriterThatCannotFlush(t *testing.T) {
	h := must.Get(New(Front{Handler: NewChecks(&stub{}, nil, nil, nil, nil, nil), Card: func(http.ResponseWriter, *http.Request, string) {}}))
	recorder := httptest.NewRecorder()
	type plain struct{ http.ResponseWriter }
	r := httptest.NewRequest("POST", "/message:stream", strings.NewReader(hello))
	r.Header.Set("Content-Type", "application/json")
	h.ServeHTTP(plain{recorder}, r)
	require.Contains(t, recorder.Body.String(), `data: {"task":`)
}
