package a2agrpc_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	sdkgrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2agrpc"
	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// arbor is our own server over gRPC on loopback, with its card beside it.
type arbor struct {
	*a2aserver.Server
	address string
	cardURL string
	grpc    *grpc.Server
}

func newArbor(t *testing.T, root agent.Agent, grpcOpts []grpc.ServerOption, opts ...a2aserver.Option) *arbor {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	s := must.Get(a2aserver.New(root, sessiontest.Memory(t), append([]a2aserver.Option{a2aserver.WithInterface(a2agrpc.Interface(listener.Addr().String()))}, opts...)...))
	server := must.Get(a2agrpc.NewServer(s, nil, grpcOpts...))
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() {
		require.NoError(t, s.Close(context.Background()))
		server.Stop()
	})
	a := &arbor{s, listener.Addr().String(), "", server}
	card := &sdk.AgentCard{Name: root.Name(), Description: "d", Version: "1", Capabilities: sdk.AgentCapabilities{Streaming: true},
		SupportedInterfaces: []*sdk.AgentInterface{ptr(a2agrpc.Interface(a.address))}}
	cards := httptest.NewServer(a2asrv.NewStaticAgentCardHandler(card))
	t.Cleanup(cards.Close)
	a.cardURL = cards.URL + "/.well-known/agent-card.json"
	return a
}

func ptr[T any](v T) *T { return &v }

// library is a client of the protocol library alone.
func (a *arbor) library(t *testing.T, opts ...grpc.DialOption) *a2aclient.Client {
	t.Helper()
	if len(opts) == 0 {
		opts = []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	}
	c := must.Get(a2aclient.NewFromEndpoints(context.Background(), []*sdk.AgentInterface{ptr(a2agrpc.Interface(a.address))}, sdkgrpc.WithGRPCTransport(opts...)))
	t.Cleanup(func() { _ = c.Destroy() })
	return c
}

// as is a client of this module with a token.
func (a *arbor) as(t *testing.T, token string) a2aclient.Transport {
	t.Helper()
	c := must.Get(a2agrpc.Binding().Dial(context.Background(), ptr(a2agrpc.Interface(a.address)), a2a.Environment{MaxResponse: 1 << 20,
		Credentials: func(context.Context, *url.URL) (http.Header, error) {
			return http.Header{"Authorization": {"Bearer " + token}}, nil
		}}))
	t.Cleanup(func() { _ = c.Destroy() })
	return c
}

func talker(t *testing.T, script *scripted.Script, opts ...llmagent.Option) agent.Agent {
	t.Helper()
	return must.Get(llmagent.New("helper", "You help.", script.Model("helper"), opts...))
}

// slow says something and goes on when it is told to, or ends with its turn.
type slow struct {
	begun chan struct{}
	free  chan struct{}
}

func newSlow(t *testing.T) (*slow, agent.Agent) {
	t.Helper()
	s := &slow{make(chan struct{}, 10), make(chan struct{})}
	a := must.Get(agent.New("slow", "Takes its time.", func(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			id := inv.NewID()
			if !yield(&event.Event{ID: id, Partial: true, Attempt: 1, Data: &event.Text{Content: "thinking"}}, nil) {
				return
			}
			s.begun <- struct{}{}
			select {
			case <-s.free:
			case <-ctx.Done():
				yield(nil, context.Cause(ctx))
				return
			}
			for i := range 20 {
				if !yield(&event.Event{ID: id, Partial: true, Attempt: 1, Data: &event.Text{Content: fmt.Sprint(" ", i)}}, nil) {
					return
				}
			}
			yield(&event.Event{ID: id, Data: &event.Text{Content: "thinking 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19"}}, nil)
		}
	}))
	return s, a
}

func words(text string) *sdk.Message {
	return sdk.NewMessage(sdk.MessageRoleUser, sdk.NewTextPart(text))
}

func firstError(events iter.Seq2[sdk.Event, error]) error {
	for _, err := range events {
		return err
	}
	return nil
}

// What a user follows or waits for ends when the user's token is revoked; the turn continues.
func TestRevoked(t *testing.T) {
	s, root := newSlow(t)
	accounts := must.Get(access.NewAccounts(access.Account{Name: "ann", Token: access.HashToken("ann")}))
	auth := must.Get(a2aserver.Declare(accounts, nil))
	a := newArbor(t, root, nil, a2aserver.WithAuthenticator(auth))
	ctx, c := context.Background(), a.as(t, "ann")
	res := must.Get(c.SendMessage(ctx, nil, &sdk.SendMessageRequest{Message: words("go"), Config: &sdk.SendMessageConfig{ReturnImmediately: true}}))
	<-s.begun
	var last error
	for _, err := range c.SubscribeToTask(ctx, nil, &sdk.SubscribeToTaskRequest{ID: res.(*sdk.Task).ID}) {
		if err == nil {
			require.NoError(t, accounts.Replace())
		}
		last = err
	}
	require.ErrorIs(t, last, sdk.ErrUnauthenticated)
	require.NoError(t, accounts.Replace(access.Account{Name: "ann", Token: access.HashToken("ann")}))
	waits := make(chan error, 1)
	go func() { waits <- must.Err(c.SendMessage(ctx, nil, &sdk.SendMessageRequest{Message: words("wait")})) }()
	<-s.begun
	require.NoError(t, accounts.Replace())
	require.ErrorIs(t, <-waits, sdk.ErrUnauthenticated)
	require.NoError(t, accounts.Replace(access.Account{Name: "ann", Token: access.HashToken("ann")}))
	close(s.free)
	for _, err := range c.SubscribeToTask(ctx, nil, &sdk.SubscribeToTaskRequest{ID: res.(*sdk.Task).ID}) {
		last = err
	}
	require.NotErrorIs(t, last, sdk.ErrUnauthenticated)
}

// byHeader knows callers by their bearer tokens or certificates.
type byHeader struct{}

func (byHeader) Authenticate(_ context.Context, c access.Credentials) (access.User, error) {
	if len(c.Certificates) > 0 {
		return access.User{Name: c.Certificates[0].Subject.CommonName}, nil
	}
	switch h := c.Header("authorization"); {
	case len(h) == 1 && h[0] == "Bearer ann", len(h) == 1 && h[0] == "Bearer bob":
		return access.User{Name: h[0][len("Bearer "):]}, nil
	case len(h) == 1 && h[0] == "Bearer guest":
		return access.User{}, access.ErrForbidden
	case len(h) == 1 && h[0] == "Bearer guesser":
		return access.User{}, &access.RefusedError{Status: http.StatusTooManyRequests, Message: "too many wrong credentials"}
	case len(h) == 1 && h[0] == "Bearer broken":
		return access.User{}, errors.New("the directory at ldap://secret does not answer")
	}
	return access.User{}, access.ErrUnauthenticated
}

func (byHeader) Schemes() map[sdk.SecuritySchemeName]sdk.SecurityScheme {
	return map[sdk.SecuritySchemeName]sdk.SecurityScheme{"bearer": sdk.HTTPAuthSecurityScheme{Scheme: "Bearer"}}
}

// Whoever does not say who they are gets nothing, and the tasks of others are not there.
func TestCallers(t *testing.T) {
	script := scripted.New().Add("helper", scripted.Reply(scripted.Text("Hello Ann.")))
	a := newArbor(t, talker(t, script), nil, a2aserver.WithAuthenticator(byHeader{}))
	as := func(token string) a2aclient.Transport { return a.as(t, token) }
	ctx := context.Background()
	_, err := a.library(t).SendMessage(ctx, &sdk.SendMessageRequest{Message: words("hi")})
	require.ErrorIs(t, err, sdk.ErrUnauthenticated)
	require.ErrorIs(t, must.Err(as("guest").GetTask(ctx, nil, &sdk.GetTaskRequest{ID: "x"})), sdk.ErrUnauthorized)
	_, err = as("guesser").GetTask(ctx, nil, &sdk.GetTaskRequest{ID: "x"})
	require.ErrorIs(t, err, a2aserver.ErrTooManyCalls)
	require.ErrorContains(t, err, "too many wrong credentials")
	_, err = as("broken").GetTask(ctx, nil, &sdk.GetTaskRequest{ID: "x"})
	require.ErrorIs(t, err, sdk.ErrInternalError)
	require.NotContains(t, err.Error(), "secret")
	res := must.Get(as("ann").SendMessage(ctx, nil, &sdk.SendMessageRequest{Message: words("hi")}))
	id := res.(*sdk.Task).ID
	must.Get(as("ann").GetTask(ctx, nil, &sdk.GetTaskRequest{ID: id}))
	require.ErrorIs(t, must.Err(as("bob").GetTask(ctx, nil, &sdk.GetTaskRequest{ID: id})), sdk.ErrTaskNotFound)
	list := must.Get(as("bob").ListTasks(ctx, a2aclient.ServiceParams{"authorization": {"Bearer bob"}}, &sdk.ListTasksRequest{}))
	require.Empty(t, list.Tasks)
}

// A refused token is fetched anew, and the call is made once more with it.
func TestRefusedCredentials(t *testing.T) {
	for _, next := range []string{"ann", "old"} {
		a := newArbor(t, talker(t, scripted.New()), nil, a2aserver.WithAuthenticator(byHeader{}))
		token, refused := "old", 0
		c := must.Get(a2agrpc.Binding().Dial(context.Background(), ptr(a2agrpc.Interface(a.address)), a2a.Environment{MaxResponse: 1 << 20,
			Credentials: func(context.Context, *url.URL) (http.Header, error) {
				return http.Header{"Authorization": {"Bearer " + token}}, nil
			},
			Refused: func(h http.Header) {
				require.Equal(t, "Bearer old", h.Get("Authorization"))
				token = next
				refused++
			}}))
		for _, call := range []func() error{
			func() error { _, err := c.GetTask(context.Background(), nil, &sdk.GetTaskRequest{ID: "x"}); return err },
			func() error {
				return firstError(c.SubscribeToTask(context.Background(), nil, &sdk.SubscribeToTaskRequest{ID: "x"}))
			},
		} {
			token, refused = "old", 0
			if next == "old" {
				require.ErrorIs(t, call(), sdk.ErrUnauthenticated)
			} else {
				require.ErrorIs(t, call(), sdk.ErrTaskNotFound)
			}
			require.Equal(t, 1, refused)
		}
		require.NoError(t, c.Destroy())
	}
}

// A client certificate that the connection verified names the caller.
func TestClientCertificates(t *testing.T) {
	authority := newAuthority(t)
	a := newArbor(t, talker(t, scripted.New().Add("helper", scripted.Reply(scripted.Text("Hello Ann.")))), []grpc.ServerOption{authority.serverOption(t)},
		a2aserver.WithAuthenticator(byHeader{}))
	dial := func(name string) a2aclient.Transport {
		c := must.Get(a2agrpc.Binding().Dial(context.Background(), &sdk.AgentInterface{URL: "https://" + a.address, ProtocolBinding: sdk.TransportProtocolGRPC, ProtocolVersion: sdk.Version}, a2a.Environment{MaxResponse: 1 << 20,
			TLS: &tls.Config{RootCAs: authority.pool, Certificates: []tls.Certificate{authority.issue(t, name)}}}))
		t.Cleanup(func() { _ = c.Destroy() })
		return c
	}
	res := must.Get(dial("ann").SendMessage(context.Background(), nil, &sdk.SendMessageRequest{Message: words("hi")}))
	_, err := dial("bob").GetTask(context.Background(), nil, &sdk.GetTaskRequest{ID: res.(*sdk.Task).ID})
	require.ErrorIs(t, err, sdk.ErrTaskNotFound)
}

// What the card says is an address that gRPC itself can use, as the SDKs' clients do with it.
func TestInterfaceIsAnAddress(t *testing.T) {
	for given, want := range map[string]string{
		"agents.example.com:8443": "agents.example.com:8443", "http://127.0.0.1:8443": "127.0.0.1:8443", "https://[::1]:8443/a2a": "[::1]:8443",
		"https://agents.example.com": "agents.example.com:443", "http://agents.example.com/": "agents.example.com:80",
		"dns:///agents.example.com:8443": "dns:///agents.example.com:8443", "127.0.0.1:8443": "127.0.0.1:8443", "": "",
	} {
		require.Equal(t, want, a2agrpc.Interface(given).URL, given)
	}
	a := newArbor(t, talker(t, scripted.New().Add("helper", scripted.Reply(scripted.Text("Hello.")))), nil)
	conn := must.Get(grpc.NewClient(a2agrpc.Interface("http://"+a.address).URL, grpc.WithTransportCredentials(insecure.NewCredentials())))
	defer conn.Close()
	_, err := pb.NewA2AServiceClient(conn).GetTask(t.Context(), &pb.GetTaskRequest{Id: "none"})
	require.Equal(t, codes.NotFound, status.Code(err), "%v", err)
}

func TestNewServer(t *testing.T) {
	require.Error(t, must.Err(a2agrpc.NewServer(nil, nil)))
	_, root := newSlow(t)
	s := must.Get(a2aserver.New(root, sessiontest.Memory(t)))
	require.Error(t, must.Err(a2agrpc.NewServer(s, nil, nil)))
	other := grpc.NewServer()
	a2agrpc.Register(other, s, nil)
	require.Contains(t, other.GetServiceInfo(), "lf.a2a.v1.A2AService")
	require.NoError(t, s.Close(context.Background()))
}

// A name inside of a network that encrypts by itself is reached without TLS only where the program allows it.
func TestPlaintext(t *testing.T) {
	a := newArbor(t, talker(t, scripted.New().Add("helper", scripted.Reply(scripted.Text("Hello.")))), nil)
	dial := func(opts ...grpc.DialOption) (a2aclient.Transport, error) {
		return a2agrpc.Binding(opts...).Dial(context.Background(), &sdk.AgentInterface{URL: "http://agents.internal", ProtocolBinding: sdk.TransportProtocolGRPC,
			ProtocolVersion: sdk.Version}, a2a.Environment{MaxResponse: 1 << 20, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, a.address)
		}})
	}
	require.ErrorContains(t, must.Err(dial()), "a2agrpc.WithPlaintext allows that")
	c := must.Get(dial(a2agrpc.WithPlaintext()))
	defer func() { require.NoError(t, c.Destroy()) }()
	res := must.Get(c.SendMessage(context.Background(), nil, &sdk.SendMessageRequest{Message: words("hi")}))
	require.Equal(t, sdk.TaskStateCompleted, res.(*sdk.Task).Status.State)
}
