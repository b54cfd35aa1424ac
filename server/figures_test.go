package server_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/race"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/agui"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/server/openaiapi"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sqlite"
	"github.com/agentarbor/arbor/session/tail"
)

// The figures of docs/performance.md and docs/limits.md. Run them with
//
//	go test ./server -run '^$' -bench .

// pouring is a model that says what a function makes of the number of the delta, until it says "".
type pouring func(ctx context.Context, n int) string

func (pouring) Name() string { return "m" }

func (p pouring) Generate(ctx context.Context, _ *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		for n := 0; ; n++ {
			text := p(ctx, n)
			if ctx.Err() != nil {
				yield(llm.Chunk{}, context.Cause(ctx))
				return
			}
			if text == "" {
				yield(llm.Chunk{Finish: llm.FinishStop}, nil)
				return
			}
			if !yield(llm.Chunk{Text: text}, nil) {
				return
			}
		}
	}
}

func saying(tb testing.TB, delta func(n int) string) agent.Agent {
	tb.Helper()
	return must.Get(llmagent.New("clerk", "You answer.", pouring(func(_ context.Context, n int) string { return delta(n) })))
}

// stand is a server of all APIs, and its turns.
type stand struct {
	turns *live.Turns
	run   *runner.Runner
	web   http.Handler
}

func newStand(tb testing.TB, a agent.Agent, db session.Store) *stand {
	tb.Helper()
	store := must.Get(tail.New(db))
	run := must.Get(runner.New(a, store, runner.WithStreaming()))
	turns := must.Get(live.New(run, store, live.WithLimit(access.NewLimit(2000, 0))))
	tb.Cleanup(func() { require.NoError(tb, turns.Close(context.Background())) })
	verify := must.Get(access.Secrets(map[string]string{stormToken: "ann"}))
	bearer := must.Get(access.Bearer(verify))
	guard := must.Get(access.New(access.Options{Users: bearer, Streams: access.NewLimit(2000, 0)}))
	api := must.Get(server.New(turns, server.WithGuard(guard)))
	chat := must.Get(openaiapi.New(turns, openaiapi.WithGuard(guard)))
	return &stand{turns, run, server.Mux(api, chat, must.Get(agui.New(turns, agui.WithGuard(guard))))}
}

func (s *stand) listen(tb testing.TB) string {
	tb.Helper()
	web := httptest.NewUnstartedServer(s.web)
	access.Harden(web.Config)
	web.Start()
	tb.Cleanup(web.Close)
	return web.URL
}

// post sends a request of the owner's, and checks the status.
func post(ctx context.Context, base, path, accept, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+stormToken)
	r.Header.Set("Content-Type", "application/json")
	if accept != "" {
		r.Header.Set("Accept", accept)
	} else {
		r.Header.Set("Prefer", "wait=30")
	}
	res, err := http.DefaultClient.Do(r)
	if err == nil && res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		return nil, fmt.Errorf("%s: %d %s", path, res.StatusCode, body)
	}
	return res, err
}

// A turn over HTTP beside the bare runner's, in memory and on a file, and beside a request whose
// handler does nothing.
func BenchmarkTurn(b *testing.B) {
	b.Run("nothing", func(b *testing.B) {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, `{"state":"done"}`)
		}))
		defer web.Close()
		b.ReportAllocs()
		for range b.N {
			res := must.Get(post(b.Context(), web.URL, "/", "", `{"content":"hello"}`))
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
	})
	hello := func(n int) string { return []string{"Hello, ", "you.", ""}[n] }
	for _, where := range []string{"memory", "sqlite"} {
		open := func(b *testing.B) session.Store {
			if where == "memory" {
				return session.NewMemory()
			}
			db := must.Get(sqlite.Open(filepath.Join(b.TempDir(), "s.db")))
			b.Cleanup(func() { require.NoError(b, db.Close()) })
			return db
		}
		b.Run(where+"/bare", func(b *testing.B) {
			s := newStand(b, saying(b, hello), open(b))
			b.ReportAllocs()
			for n := range b.N {
				must.Get(runner.Collect(s.run.Run(b.Context(), session.Key{App: "app", User: "ann", ID: strconv.Itoa(n % 8)}, llm.UserText("hello"))))
			}
		})
		b.Run(where+"/http", func(b *testing.B) {
			s := newStand(b, saying(b, hello), open(b))
			base := s.listen(b)
			b.ReportAllocs()
			for n := range b.N {
				path, body := "/api/v1/sessions/"+strconv.Itoa(n%8)+"/turns", `{"content":"hello"}`
				if n < 8 {
					path, body = "/api/v1/sessions", fmt.Sprintf(`{"id":"%d","content":"hello"}`, n)
				}
				res := must.Get(post(b.Context(), base, path, "", body))
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
		})
	}
}

// A stream in which nothing happens costs little, and nothing once it has ended.
func TestStreamFootprint(t *testing.T) {
	const streams, most = 1000, 40 << 10
	if race.Enabled {
		t.Skip("the race detector takes memory of its own")
	}
	s := newStand(t, saying(t, func(n int) string { return []string{"Hello.", ""}[n] }), session.NewMemory())
	must.Get(runner.Collect(s.run.Run(t.Context(), session.Key{App: "app", User: "ann", ID: "s"}, llm.UserText("hello"))))
	web := httptest.NewServer(s.web)
	defer web.Close()
	use := func() (heap uint64, goroutines int) {
		for range 5 { // each halves the stacks that are too large
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse, runtime.NumGoroutine()
	}
	heap, goroutines := use()
	// Clients are connections and nothing else, so that what is measured is the server's.
	conns := make([]net.Conn, 0, streams)
	leave := func() {
		for _, c := range conns {
			_ = c.Close()
		}
		conns = nil
	}
	defer leave()
	for range streams {
		c := must.Get(net.Dial("tcp", web.Listener.Addr().String()))
		conns = append(conns, c)
		_, err := fmt.Fprintf(c, "GET /api/v1/sessions/s/events?after=%d HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nAccept: text/event-stream\r\n\r\n", 1, stormToken)
		require.NoError(t, err)
	}
	for _, c := range conns {
		require.NoError(t, c.SetReadDeadline(time.Now().Add(2*time.Minute)))
		for seen := ""; !strings.Contains(seen, "harness_end"); {
			buf := make([]byte, 4096)
			n := must.Get(c.Read(buf))
			seen += string(buf[:n])
		}
	}
	must.Wait(t, func() bool { return runtime.NumGoroutine() <= goroutines+2*streams+10 }) // two goroutines a stream
	nowHeap, nowGoroutines := use()
	t.Logf("%d bytes and %.2f goroutines a stream", (int64(nowHeap)-int64(heap))/streams, float64(nowGoroutines-goroutines)/streams)
	require.LessOrEqual(t, (int64(nowHeap)-int64(heap))/streams, int64(most))
	leave()
	must.Wait(t, func() bool { return runtime.NumGoroutine() <= goroutines+10 })
}
