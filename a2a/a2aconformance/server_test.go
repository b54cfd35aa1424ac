package a2aconformance_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/agentarbor/arbor/a2a/a2aconformance"
	"github.com/agentarbor/arbor/a2a/a2agrpc"
	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/a2a/a2aserver/push"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/servers"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/session/sqlite"
	"github.com/agentarbor/arbor/tools"
)

// gate is what waits.
type gate struct {
	mu   sync.Mutex
	open chan struct{}
}

func (g *gate) hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
		g.open = make(chan struct{})
	default:
	}
}

func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}

func (g *gate) wait(ctx context.Context) error {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	select {
	case <-open:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// obedient is the agent that the suite wants, with a second one to which it hands over
// what is to be echoed: tasks span transfers.
func obedient(t testing.TB, g *gate) agent.Agent {
	t.Helper()
	check, err := tools.Func("check", "Checks.", func(tools.Context, struct{}) (string, error) { return "checked", nil }, tools.NeedsApproval(tools.ByUser()))
	require.NoError(t, err)
	answer := func(req *llm.Request) scripted.Answer {
		last := req.Messages[len(req.Messages)-1]
		if last.Role == llm.RoleTool {
			return scripted.Reply(scripted.Text("Thank ", "you."))
		}
		word, rest, _ := strings.Cut(last.PlainText(), " ")
		switch word {
		case "ask":
			return scripted.Reply(scripted.Call("check", `{}`))
		case "wait":
			return scripted.Reply(scripted.Text("begun"), scripted.Wait(g.wait), scripted.Text(" and ", "done"))
		case "fail":
			return scripted.Reply(scripted.Status(http.StatusBadRequest, 0))
		}
		return scripted.Reply(scripted.Text(strings.SplitAfter(rest, " ")...))
	}
	a, err := llmagent.New("obedient", "You obey.", scripted.Func("obedient", answer), llmagent.WithTools(check), llmagent.WithDescription("Does what it is told"))
	require.NoError(t, err)
	return a
}

// site is a server at addresses that stay over restarts.
type site struct {
	t       *testing.T
	path    string
	options func() []a2aserver.Option
	gate    *gate

	http     *httptest.Server
	handler  atomic.Pointer[a2aserver.Server]
	grpcAddr string
	grpc     *grpc.Server
	served   sync.WaitGroup
	store    *sqlite.Store
}

func newSite(t *testing.T, options func() []a2aserver.Option) *site {
	s := &site{t: t, path: filepath.Join(t.TempDir(), "s.db"), options: options, gate: &gate{open: make(chan struct{})}}
	s.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.handler.Load().ServeHTTP(w, r) }))
	lis, err := net.Listen("tcp", servers.Address(t))
	require.NoError(t, err)
	s.grpcAddr = lis.Addr().String()
	s.start(lis)
	t.Cleanup(func() {
		s.stop()
		s.http.Close()
	})
	return s
}

func (s *site) start(lis net.Listener) {
	var err error
	s.store, err = sqlite.Open(s.path)
	require.NoError(s.t, err)
	opts := append([]a2aserver.Option{a2aserver.WithURL(s.http.URL), a2aserver.WithInterface(a2agrpc.Interface("http://" + s.grpcAddr)),
		a2aserver.WithLogger(slog.New(slog.NewTextHandler(s.t.Output(), nil)))}, s.options()...)
	server, err := a2aserver.New(obedient(s.t, s.gate), s.store, opts...)
	require.NoError(s.t, err)
	s.grpc, err = a2agrpc.NewServer(server)
	require.NoError(s.t, err)
	s.handler.Store(server)
	g := s.grpc
	s.served.Go(func() { _ = g.Serve(lis) })
}

func (s *site) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	require.NoError(s.t, s.handler.Load().Close(ctx))
	s.grpc.Stop()
	s.served.Wait()
	require.NoError(s.t, s.store.Close())
}

func (s *site) restart() {
	s.stop()
	lis, err := net.Listen("tcp", s.grpcAddr)
	require.NoError(s.t, err)
	s.start(lis)
}

func (s *site) target(authorize func(caller string) string) a2aconformance.Target {
	conn, err := grpc.NewClient("passthrough:///"+s.grpcAddr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second}))
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, conn.Close()) })
	restart := func() {
		s.restart()
		// A call on the connection of before would fail; the client may not have noticed its end.
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if conn.GetState() == connectivity.Ready {
			require.True(s.t, conn.WaitForStateChange(ctx, connectivity.Ready))
		}
	}
	var header a2aconformance.Authorize
	var meta func(string) map[string]string
	if authorize != nil {
		header = func(r *http.Request, caller string) { r.Header.Set("Authorization", authorize(caller)) }
		meta = func(caller string) map[string]string { return map[string]string{"authorization": authorize(caller)} }
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 8}
	s.t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	return a2aconformance.Target{
		Bindings: []a2aconformance.Binding{a2aconformance.JSONRPC(s.http.URL+"/rpc", client, header), a2aconformance.HTTPJSON(s.http.URL, client, header), overGRPC(conn, meta)},
		Release:  s.gate.release, Hold: s.gate.hold, Restart: restart,
		BadMediaType: "application/x-nobody-takes-this", CardURL: s.http.URL + "/.well-known/agent-card.json",
	}
}

// A server with callers, push notifications and an extended card.
func TestServer(t *testing.T) {
	hooks := filepath.Join(t.TempDir(), "hooks")
	s := newSite(t, func() []a2aserver.Option {
		auth, err := a2aserver.BearerTokens(map[string]string{"token-of-ann": "ann", "token-of-bob": "bob"})
		require.NoError(t, err)
		store, err := push.NewFile(hooks)
		require.NoError(t, err)
		return []a2aserver.Option{a2aserver.WithAuthenticator(auth),
			a2aserver.WithPush(push.Options{AllowHTTP: true, AllowLoopback: true, Store: store})}
	})
	target := s.target(func(caller string) string { return "Bearer token-of-" + caller })
	target.Callers, target.Stranger = []string{"ann", "bob"}, "eve"
	target.Push, target.ExtendedCard = true, true
	a2aconformance.Run(t, target)
}

// A server that lets everybody in, and has nothing of what is optional.
func TestPlainServer(t *testing.T) {
	s := newSite(t, func() []a2aserver.Option { return []a2aserver.Option{a2aserver.WithoutPush()} })
	a2aconformance.Run(t, s.target(nil))
}
