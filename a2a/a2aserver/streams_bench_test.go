package a2aserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/internal/race"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/session"
)

// footprint is what a process uses.
type footprint struct {
	Heap, Stacks, Goroutines int64
}

func measure() footprint {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return footprint{int64(m.HeapAlloc), int64(m.StackInuse), int64(runtime.NumGoroutine())}
}

const benchVariable = "ARBOR_A2ASERVER_BENCH"

// TestBenchServer is the process that serves the streams of [BenchmarkStreams]: an agent
// that says half of its answer, and the other half when /release was asked for.
func TestBenchServer(t *testing.T) {
	if os.Getenv(benchVariable) == "" {
		t.Skip("run by BenchmarkStreams")
	}
	var gate atomic.Pointer[chan struct{}]
	hold := func() {
		ch := make(chan struct{})
		gate.Store(&ch)
	}
	hold()
	model := scripted.Func("billing", func(*llm.Request) scripted.Answer {
		return scripted.Reply(scripted.Text("I see "), scripted.WaitFor(*gate.Load()), scripted.Text("two charges."))
	})
	root := must.Get(llmagent.New("billing", "You refund.", model))
	s := must.Get(a2aserver.New(root, session.NewMemory(), a2aserver.WithoutPush()))
	mux := http.NewServeMux()
	mux.HandleFunc("/hold", func(http.ResponseWriter, *http.Request) { hold() })
	mux.HandleFunc("/release", func(http.ResponseWriter, *http.Request) { close(*gate.Load()) })
	mux.HandleFunc("/footprint", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(measure()) })
	mux.Handle("/", s)
	lis := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	fmt.Println(lis.Addr())
	require.NoError(t, http.Serve(lis, mux))
}

// benchServer starts that process.
func benchServer(t testing.TB) (url string, ask func(path string) footprint) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestBenchServer$")
	cmd.Env = append(os.Environ(), benchVariable+"=1", "GORACE=atexit_sleep_ms=0")
	out := must.Get(cmd.StdoutPipe())
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var line strings.Builder
	for one := make([]byte, 1); !strings.HasSuffix(line.String(), "\n"); {
		_, err := out.Read(one)
		require.NoError(t, err)
		line.Write(one)
	}
	url = "http://" + strings.TrimSpace(line.String())
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return url, func(path string) (f footprint) {
		res, err := client.Get(url + path)
		require.NoError(t, err)
		defer res.Body.Close()
		data := must.Get(io.ReadAll(res.Body))
		_ = json.Unmarshal(data, &f) // only one of the paths has an answer
		return f
	}
}

// open is n answers under way, of which the first half was heard.
type open struct {
	heard, done sync.WaitGroup
	failed      atomic.Int64
}

func (o *open) begin(n int, one func(i int, heard func()) error) {
	o.heard.Add(n)
	for i := range n {
		o.done.Go(func() {
			var once sync.Once
			heard := func() { once.Do(o.heard.Done) }
			if err := one(i, heard); err != nil {
				o.failed.Add(1)
			}
			heard()
		})
	}
}

// streamers are who opens streams: the SDK's client, and a remote node in a turn.
func streamers(t testing.TB, url string) map[string]func(round, i int, heard func()) error {
	transport := &http.Transport{MaxIdleConnsPerHost: 1000}
	t.Cleanup(transport.CloseIdleConnections)
	client := must.Get(a2aclient.NewFromEndpoints(context.Background(), []*sdk.AgentInterface{{URL: url + "/rpc", ProtocolBinding: sdk.TransportProtocolJSONRPC, ProtocolVersion: sdk.Version}},
		a2aclient.WithJSONRPCTransport(&http.Client{Transport: transport})))
	node := must.Get(a2a.Remote("billing", url, a2a.WithHTTPClient(&http.Client{Transport: transport})))
	r := newRunner(t, node, true)
	return map[string]func(round, i int, heard func()) error{
		"client": func(_, _ int, heard func()) (failed error) {
			var last sdk.Event
			for e, err := range client.SendStreamingMessage(context.Background(), askParts()) {
				if err != nil {
					return err
				}
				if _, ok := e.(*sdk.TaskArtifactUpdateEvent); ok {
					heard()
				}
				last = e
			}
			if u, ok := last.(*sdk.TaskStatusUpdateEvent); !ok || u.Status.State != sdk.TaskStateCompleted {
				return fmt.Errorf("the stream ended with %T", last)
			}
			return nil
		},
		"node": func(round, i int, heard func()) error {
			said := ""
			for e, err := range r.Run(context.Background(), session.ID(fmt.Sprint("s", round, "-", i)), llm.UserText(complaint)) {
				if err != nil {
					return err
				}
				if e.Type() == event.TypeText {
					heard()
					if !e.Partial {
						said = e.Text()
					}
				}
			}
			if said != "I see two charges." {
				return fmt.Errorf("it said %q", said)
			}
			return nil
		},
	}
}

// BenchmarkStreams opens streams at once to a server in another process, lets all of them
// wait in the middle, and then come to their ends. It reports what one open stream costs
// the server and the client, and how long all of them take from their beginning to their
// end beside the wait.
func BenchmarkStreams(b *testing.B) {
	for _, n := range []int{200} {
		url, ask := benchServer(b)
		for name, one := range streamers(b, url) {
			b.Run(fmt.Sprintf("%s/streams=%d", name, n), func(b *testing.B) {
				round := 0
				for b.Loop() {
					b.StopTimer()
					round++
					_ = one // warmed up by the first round
					ask("/hold")
					serverBefore, before := ask("/footprint"), measure()
					b.StartTimer()
					var o open
					begun := time.Now()
					o.begin(n, func(i int, heard func()) error { return one(round, i, heard) })
					o.heard.Wait()
					opening := time.Since(begun)
					b.StopTimer()
					server, here := ask("/footprint"), measure()
					b.StartTimer()
					begun = time.Now()
					ask("/release")
					o.done.Wait()
					b.ReportMetric(float64((opening + time.Since(begun)).Milliseconds()), "ms/all")
					per := func(now, then int64) float64 { return float64(now-then) / float64(n) }
					b.ReportMetric(per(server.Heap+server.Stacks, serverBefore.Heap+serverBefore.Stacks), "server-B/stream")
					b.ReportMetric(per(server.Goroutines, serverBefore.Goroutines), "server-goroutines/stream")
					b.ReportMetric(per(here.Heap+here.Stacks, before.Heap+before.Stacks), "client-B/stream")
					b.ReportMetric(per(here.Goroutines, before.Goroutines), "client-goroutines/stream")
					if o.failed.Load() > 0 {
						b.Fatalf("%d streams failed", o.failed.Load())
					}
				}
			})
		}
	}
}

// TestManyStreamsAtOnce has 200 turns of a remote agent under way at once: all of them
// come to their ends, in both processes.
func TestManyStreamsAtOnce(t *testing.T) {
	n := 200
	if race.Enabled || testing.Short() {
		n = 50
	}
	url, ask := benchServer(t)
	for name, one := range streamers(t, url) {
		t.Run(name, func(t *testing.T) {
			ask("/hold")
			before := ask("/footprint")
			var o open
			o.begin(n, func(i int, heard func()) error { return one(0, i, heard) })
			o.heard.Wait()
			held := ask("/footprint")
			ask("/release")
			o.done.Wait()
			require.Zero(t, o.failed.Load())
			require.LessOrEqual(t, held.Goroutines-before.Goroutines, int64(12*n), "goroutines a stream")
			require.Eventually(t, func() bool { return ask("/footprint").Goroutines <= before.Goroutines+int64(2*n) }, 10*time.Second, 20*time.Millisecond,
				"idle connections apart, nothing is left of the streams")
		})
	}
}
