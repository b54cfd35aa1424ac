package a2a_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a/internal/testing/remotetest"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// wire is a peer on loopback that a test writes by hand, call by call, for what no
// well-behaved server does.
type wire struct {
	*httptest.Server
	card *sdk.AgentCard

	mu     sync.Mutex
	calls  []call
	answer func(w http.ResponseWriter, c call)
}

// call is one call of JSON-RPC.
type call struct {
	Method string          `json:"method"`
	ID     json.RawMessage `json:"id"`
	Params struct {
		ID      string       `json:"id"`
		Message *sdk.Message `json:"message"`
	} `json:"params"`
	header http.Header
	number int // of the calls of this method, from 1
	ctx    context.Context
}

func newWire(t *testing.T, answer func(w http.ResponseWriter, c call)) *wire {
	t.Helper()
	p := &wire{answer: answer}
	mux := http.NewServeMux()
	mux.HandleFunc("/rpc", func(w http.ResponseWriter, req *http.Request) {
		c := call{header: req.Header.Clone(), ctx: req.Context()}
		if err := json.NewDecoder(req.Body).Decode(&c); err != nil {
			t.Errorf("a call that is none: %v", err)
		}
		p.mu.Lock()
		c.number = len(p.of(c.Method)) + 1
		p.calls = append(p.calls, c)
		answer := p.answer
		p.mu.Unlock()
		answer(w, c)
	})
	mux.HandleFunc("/.well-known/agent-card.json", func(w http.ResponseWriter, req *http.Request) {
		a2asrv.NewStaticAgentCardHandler(p.card).ServeHTTP(w, req)
	})
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Server.Close)
	p.card = &sdk.AgentCard{Name: "Billing", Version: "1", Capabilities: sdk.AgentCapabilities{Streaming: true},
		SupportedInterfaces: []*sdk.AgentInterface{sdk.NewAgentInterface(p.URL+"/rpc", sdk.TransportProtocolJSONRPC)}}
	return p
}

// set changes what the peer answers from now on.
func (p *wire) set(answer func(w http.ResponseWriter, c call)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

// of returns the calls of a method; the caller holds the lock.
func (p *wire) of(method string) (found []call) {
	for _, c := range p.calls {
		if c.Method == method {
			found = append(found, c)
		}
	}
	return found
}

func (p *wire) made(method string) []call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of(method)
}

const (
	sends      = "SendStreamingMessage"
	gets       = "GetTask"
	subscribes = "SubscribeToTask"
	cancels    = "CancelTask"
)

// reply answers with one value.
func (c call) reply(w http.ResponseWriter, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, c.ID, result)
}

// fail answers with an error of the protocol.
func (c call) fail(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, c.ID, code, message)
}

// stream answers with events, at once.
func (c call) stream(w http.ResponseWriter, events ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		e = strings.ReplaceAll(e, "\n", "") // between values; within them it is escaped
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", c.ID, e)
		w.(http.Flusher).Flush()
	}
}

// breaks cuts the connection in the middle of a response.
func breaks() { panic(http.ErrAbortHandler) }

// The errors of JSON-RPC that tests answer with (A2A 1.0, section 5.4).
const (
	taskNotFound = -32001
	unsupported  = -32004
	internal     = -32603
)

// taskJSON is a task of the state; artifacts are pairs of ids and texts.
func taskJSON(state, words string, artifacts ...string) string {
	return fmt.Sprintf(`{"id":"t1","contextId":"c1","status":%s,"artifacts":[%s]}`, statusJSON(state, words), artifactsJSON(artifacts))
}

func statusJSON(state, words string) string {
	if words == "" {
		return fmt.Sprintf(`{"state":"TASK_STATE_%s"}`, state)
	}
	return fmt.Sprintf(`{"state":"TASK_STATE_%s","message":{"messageId":"m-%s","role":"ROLE_AGENT","parts":[{"text":%q}]}}`, state, state, words)
}

func artifactsJSON(pairs []string) string {
	var list []string
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, fmt.Sprintf(`{"artifactId":%q,"parts":[{"text":%q}]}`, pairs[i], pairs[i+1]))
	}
	return strings.Join(list, ",")
}

func taskEvent(state, words string, artifacts ...string) string {
	return `{"task":` + taskJSON(state, words, artifacts...) + `}`
}

func statusEvent(state, words string) string {
	return fmt.Sprintf(`{"statusUpdate":{"taskId":"t1","contextId":"c1","status":%s}}`, statusJSON(state, words))
}

func deltaEvent(id, text string) string { return artifactEvent(id, text, true) }

func artifactEvent(id, text string, more bool) string {
	return fmt.Sprintf(`{"artifactUpdate":{"taskId":"t1","contextId":"c1","append":%v,"artifact":%s}}`, more, artifactsJSON([]string{id, text}))
}

func messageEvent(text string) string {
	return fmt.Sprintf(`{"message":{"messageId":"m1","role":"ROLE_AGENT","contextId":"c1","parts":[{"text":%q}]}}`, text)
}

func (f *fixture) resume() ([]*event.Event, string, error) {
	return f.Collect(f.Resume(context.Background(), key))
}

// again is the fixture after its process has died: nothing is left but the store.
func again(t *testing.T, store session.Store, root agent.Agent, opts ...runner.Option) *fixture {
	t.Helper()
	return &fixture{remotetest.NewClientWithStore(t, store, root, opts...)}
}

// crashed returns a copy of the session as a crash behind the n-th event of a type
// leaves it.
func (f *fixture) crashed(t *testing.T, typ string, n int) session.Store {
	t.Helper()
	ctx := context.Background()
	copied := sessiontest.Memory(t)
	lease := must.Get(sessiontest.Acquire(ctx, copied, key, session.Self()))
	var write []*event.Event
	for _, e := range must.All(f.Store.Load(ctx, key, 0)) {
		own := *e
		write = append(write, &own)
		if e.Type() == typ {
			if n--; n == 0 {
				break
			}
		}
	}
	require.Zero(t, n, "no such event")
	require.NoError(t, sessiontest.Append(ctx, copied, key, 0, lease, write...))
	require.NoError(t, sessiontest.Release(ctx, copied, key, lease))
	return copied
}

func (f *fixture) active(t *testing.T) string {
	t.Helper()
	return must.Get(f.Active(context.Background(), key))
}
