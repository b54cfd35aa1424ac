package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/servers"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server"
	"github.com/agentarbor/arbor/server/agui"
	"github.com/agentarbor/arbor/server/openaiapi"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/postgres"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
	"github.com/agentarbor/arbor/session/tail"
)

// The figures of docs/server.md. Run them with
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
	a, err := llmagent.New("clerk", "You answer.", pouring(func(_ context.Context, n int) string { return delta(n) }))
	require.NoError(tb, err)
	return a
}

// stand is a server of all APIs, and its turns.
type stand struct {
	turns *live.Turns
	run   *runner.Runner
	web   http.Handler
}

func newStand(tb testing.TB, a agent.Agent, db session.Store) *stand {
	tb.Helper()
	store, err := tail.New(db)
	require.NoError(tb, err)
	run, err := runner.New(a, store, runner.WithStreaming())
	require.NoError(tb, err)
	turns, err := live.New(run, store, live.WithLimit(access.NewLimit(2000, 0)))
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, turns.Close(context.Background())) })
	verify, err := access.Secrets(map[string]string{stormToken: "ann"})
	require.NoError(tb, err)
	bearer, err := access.Bearer(verify)
	require.NoError(tb, err)
	guard, err := access.New(access.Options{Users: bearer, Streams: access.NewLimit(2000, 0)})
	require.NoError(tb, err)
	api, err := server.New(turns, server.WithGuard(guard))
	require.NoError(tb, err)
	chat, err := openaiapi.New(turns, openaiapi.WithGuard(guard))
	require.NoError(tb, err)
	page, err := agui.New(turns, agui.WithGuard(guard))
	require.NoError(tb, err)
	return &stand{turns, run, server.Mux(api, chat, page)}
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
			res, err := post(b.Context(), web.URL, "/", "", `{"content":"hello"}`)
			require.NoError(b, err)
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
			db, err := sqlite.Open(filepath.Join(b.TempDir(), "s.db"))
			require.NoError(b, err)
			b.Cleanup(func() { require.NoError(b, db.Close()) })
			return db
		}
		b.Run(where+"/bare", func(b *testing.B) {
			s := newStand(b, saying(b, hello), open(b))
			b.ReportAllocs()
			for n := range b.N {
				_, err := runner.Collect(s.run.Run(b.Context(), session.Key{App: "app", User: "ann", ID: strconv.Itoa(n % 8)}, llm.UserText("hello")))
				require.NoError(b, err)
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
				res, err := post(b.Context(), base, path, "", body)
				require.NoError(b, err)
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
		})
	}
}

// percentiles reports the median and the 99th percentile of durations.
func percentiles(b *testing.B, took []time.Duration) {
	b.Helper()
	require.NotEmpty(b, took)
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e6, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e6, "p99-ms")
	b.ReportMetric(0, "ns/op") // it is the pace of the model
}

// stamped is an agent that says the time, so often and in such steps.
func stamped(tb testing.TB, deltas int, pace time.Duration) agent.Agent {
	tb.Helper()
	a, err := llmagent.New("clerk", "You answer.", pouring(func(ctx context.Context, n int) string {
		if n == deltas {
			return ""
		}
		select {
		case <-time.After(pace):
		case <-ctx.Done():
		}
		return strconv.FormatInt(time.Now().UnixNano(), 10) + " "
	}))
	require.NoError(tb, err)
	return a
}

// latencies reads a stream of native frames to its end, and returns how old deltas were.
func latencies(body io.Reader) (took []time.Duration, err error) {
	lines := bufio.NewReader(body)
	for {
		line, err := lines.ReadString('\n')
		now := time.Now()
		if errors.Is(err, io.EOF) {
			return took, nil
		} else if err != nil {
			return took, err
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok || !strings.Contains(data, `"partial":true`) {
			continue
		}
		var e event.Event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return took, err
		}
		if d, ok := e.Data.(*event.Text); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(d.Content), 10, 64)
			if err != nil {
				return took, err
			}
			took = append(took, now.Sub(time.Unix(0, n)))
		}
	}
}

// The time from when a model gave a delta until its client has it: with one stream beside the
// bare runner, and with 200 streams of 20 deltas a second, of a server in a process of its own.
func BenchmarkDelta(b *testing.B) {
	const deltas = 200
	b.Run("bare", func(b *testing.B) {
		s := newStand(b, stamped(b, deltas, 5*time.Millisecond), session.NewMemory())
		var took []time.Duration
		for n := range b.N {
			for e, err := range s.run.Run(b.Context(), session.ID(strconv.Itoa(n)), llm.UserText("hello")) {
				require.NoError(b, err)
				if d, ok := e.Data.(*event.Text); ok && e.Partial {
					at, err := strconv.ParseInt(strings.TrimSpace(d.Content), 10, 64)
					require.NoError(b, err)
					took = append(took, time.Since(time.Unix(0, at)))
				}
			}
		}
		percentiles(b, took)
	})
	b.Run("one", func(b *testing.B) {
		base := newStand(b, stamped(b, deltas, 5*time.Millisecond), session.NewMemory()).listen(b)
		var took []time.Duration
		for n := range b.N {
			res, err := post(b.Context(), base, "/api/v1/sessions", "text/event-stream", fmt.Sprintf(`{"id":"s%d","content":"hello"}`, n))
			require.NoError(b, err)
			more, err := latencies(res.Body)
			require.NoError(b, err)
			_ = res.Body.Close()
			took = append(took, more...)
		}
		percentiles(b, took)
	})
	b.Run("200", func(b *testing.B) {
		base := standElsewhere(b)
		var took []time.Duration
		for n := range b.N {
			var all sync.WaitGroup
			var mu sync.Mutex
			for i := range 200 {
				all.Go(func() {
					res, err := post(b.Context(), base, "/api/v1/sessions", "text/event-stream", fmt.Sprintf(`{"id":"s%d-%d","content":"hello"}`, n, i))
					if err != nil {
						b.Error(err)
						return
					}
					defer res.Body.Close()
					more, err := latencies(res.Body)
					if err != nil {
						b.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					took = append(took, more...)
				})
			}
			all.Wait()
		}
		percentiles(b, took)
	})
}

// standEnv makes a process of this test a server for BenchmarkDelta.
const standEnv = "ARBOR_STAND"

// standServer serves until it is killed.
func standServer() error {
	tb := &testing.B{}
	s := newStand(tb, stamped(tb, 40, 50*time.Millisecond), session.NewMemory())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	web := &http.Server{Handler: s.web}
	access.Harden(web)
	return web.Serve(l)
}

func standElsewhere(b *testing.B) string {
	b.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), standEnv+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	addr, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(b, err)
	return "http://" + strings.TrimSpace(addr)
}

// A streamed answer of 1,000 deltas through each API.
func BenchmarkAPIs(b *testing.B) {
	a := func(b *testing.B) agent.Agent {
		return saying(b, func(n int) string {
			if n == 1000 {
				return ""
			}
			return "word "
		})
	}
	read := func(b *testing.B, res *http.Response, err error) {
		require.NoError(b, err)
		data, err := io.ReadAll(res.Body)
		require.NoError(b, err)
		_ = res.Body.Close()
		require.GreaterOrEqual(b, strings.Count(string(data), "word "), 1000)
	}
	b.Run("native", func(b *testing.B) {
		base := newStand(b, a(b), session.NewMemory()).listen(b)
		for n := range b.N {
			res, err := post(b.Context(), base, "/api/v1/sessions", "text/event-stream", fmt.Sprintf(`{"id":"s%d","content":"hello"}`, n))
			read(b, res, err)
		}
	})
	b.Run("chat", func(b *testing.B) {
		base := newStand(b, a(b), session.NewMemory()).listen(b)
		for range b.N {
			res, err := post(b.Context(), base, "/v1/chat/completions", "text/event-stream", `{"model":"clerk","stream":true,"messages":[{"role":"user","content":"hello"}]}`)
			read(b, res, err)
		}
	})
	b.Run("responses", func(b *testing.B) {
		base := newStand(b, a(b), session.NewMemory()).listen(b)
		for range b.N {
			res, err := post(b.Context(), base, "/v1/responses", "text/event-stream", `{"model":"clerk","stream":true,"input":"hello"}`)
			read(b, res, err)
		}
	})
	b.Run("agui", func(b *testing.B) {
		base := newStand(b, a(b), session.NewMemory()).listen(b)
		for n := range b.N {
			res, err := post(b.Context(), base, "/agui", "text/event-stream", fmt.Sprintf(`{"threadId":"t%d","runId":"r%d","state":{},"messages":[{"id":"m1","role":"user","content":"hello"}],"tools":[],"context":[],"forwardedProps":{}}`, n, n))
			read(b, res, err)
		}
	})
}

// A stream in which nothing happens costs little, and nothing once it has ended.
func TestStreamFootprint(t *testing.T) {
	const streams, most = 1000, 40 << 10
	if raceEnabled {
		t.Skip("the race detector takes memory of its own")
	}
	s := newStand(t, saying(t, func(n int) string { return []string{"Hello.", ""}[n] }), session.NewMemory())
	_, err := runner.Collect(s.run.Run(t.Context(), session.Key{App: "app", User: "ann", ID: "s"}, llm.UserText("hello")))
	require.NoError(t, err)
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
		c, err := net.Dial("tcp", web.Listener.Addr().String())
		require.NoError(t, err)
		conns = append(conns, c)
		_, err = fmt.Fprintf(c, "GET /api/v1/sessions/s/events?after=%d HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nAccept: text/event-stream\r\n\r\n", 1, stormToken)
		require.NoError(t, err)
	}
	for _, c := range conns {
		require.NoError(t, c.SetReadDeadline(time.Now().Add(30*time.Second)))
		for seen := ""; !strings.Contains(seen, "harness_end"); {
			buf := make([]byte, 4096)
			n, err := c.Read(buf)
			require.NoError(t, err)
			seen += string(buf[:n])
		}
	}
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines+2*streams+10 }, 20*time.Second, 20*time.Millisecond, "two goroutines a stream")
	nowHeap, nowGoroutines := use()
	t.Logf("%d bytes and %.2f goroutines a stream", (int64(nowHeap)-int64(heap))/streams, float64(nowGoroutines-goroutines)/streams)
	require.LessOrEqual(t, (int64(nowHeap)-int64(heap))/streams, int64(most))
	leave()
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines+10 }, 20*time.Second, 20*time.Millisecond)
}

// A page of events costs the same wherever it is in a log.
func BenchmarkPage(b *testing.B) {
	const long, page = 1_000_000, 500
	for name, open := range map[string]func(b *testing.B) session.Store{
		"sqlite": func(b *testing.B) session.Store {
			db, err := sqlite.Open(filepath.Join(b.TempDir(), "s.db"))
			require.NoError(b, err)
			return db
		},
		"postgres": func(b *testing.B) session.Store {
			db, err := postgres.Open(b.Context(), servers.Database(b))
			require.NoError(b, err)
			return db
		},
	} {
		b.Run(name, func(b *testing.B) {
			db := open(b)
			b.Cleanup(func() { require.NoError(b, db.Close()) })
			key := session.Key{App: "app", User: "ann", ID: "s"}
			lease, err := sessiontest.Acquire(b.Context(), db, key, session.Self())
			require.NoError(b, err)
			at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			for seq := int64(0); seq < long+1000; {
				batch := make([]*event.Event, 0, 5000)
				for range cap(batch) {
					n := seq + int64(len(batch)) + 1
					e := &event.Event{Seq: n, ID: strconv.FormatInt(n, 36), TurnID: "t", RunID: "r", Agent: "clerk", Path: "clerk", Time: at.Add(time.Duration(n) * time.Millisecond), Data: &event.Text{Content: "Some words of an answer."}}
					if n == 1 {
						e.Agent, e.Path, e.Data = "user", "", &event.User{Content: llm.Content{Text: "hello"}}
					}
					batch = append(batch, e)
				}
				require.NoError(b, sessiontest.Append(b.Context(), db, key, seq, lease, batch...))
				seq += int64(len(batch))
			}
			require.NoError(b, sessiontest.Release(b.Context(), db, key, lease))
			base := newStand(b, saying(b, func(int) string { return "" }), db).listen(b)
			for _, from := range []int{10, long} {
				b.Run(strconv.Itoa(from), func(b *testing.B) {
					for range b.N {
						r, err := http.NewRequest(http.MethodGet, fmt.Sprintf("%s/api/v1/sessions/s/events?after=%d&limit=%d", base, from, page), nil)
						require.NoError(b, err)
						r.Header.Set("Authorization", "Bearer "+stormToken)
						res, err := http.DefaultClient.Do(r)
						require.NoError(b, err)
						data, err := io.ReadAll(res.Body)
						require.NoError(b, err)
						_ = res.Body.Close()
						require.Equal(b, page, strings.Count(string(data), `"type":"text"`))
					}
				})
			}
		})
	}
}
