package a2agrpc_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2agrpc"
	"github.com/agentarbor/arbor/a2a/internal/testing/remotetest"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
)

// A node without the binding says which package has it.
func TestWithoutBinding(t *testing.T) {
	p := newPeer(t, true, remotetest.Completes("x"))
	r := must.Get(a2a.Remote("billing", p.cardURL))
	err := r.(agent.Readier).Ready(context.Background())
	var e *a2a.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, a2a.CodeCard, e.Code)
	require.ErrorContains(t, err, "a2a/a2agrpc")
}

// Credentials go to the origin of the card and to trusted ones; a port of its own makes an
// origin of its own.
func TestCredentials(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		p := newPeer(t, true, remotetest.Completes("ok"))
		opts := []a2a.Option{a2a.WithBearer("hunter2"), a2a.WithHeader("X-Key", "k"), a2a.WithHeader("Connection", "close")}
		if trusted {
			opts = append(opts, a2a.WithTrustedOrigin("http://"+p.address))
		}
		_, _, err := remotetest.NewClient(t, newRemote(t, p.cardURL, opts...)).Turn("hi")
		require.NoError(t, err)
		md := p.seen()[0]
		if trusted {
			require.Equal(t, []string{"Bearer hunter2"}, md.Get("authorization"))
			require.Equal(t, []string{"k"}, md.Get("x-key"))
			require.Empty(t, md.Get("connection"))
		} else {
			require.Empty(t, md.Get("authorization"))
			require.Empty(t, md.Get("x-key"))
		}
	}
}

func TestTooLarge(t *testing.T) {
	one := strings.Repeat("x", 3000)
	for name, c := range map[string]struct {
		execute   remotetest.Execute
		streaming bool
	}{
		"one message": {remotetest.Completes(strings.Repeat(one, 10)), true},
		"one answer":  {remotetest.Completes(strings.Repeat(one, 10)), false},
		"a long stream": {func(ctx context.Context, ec *a2asrv.ExecutorContext, yield func(sdk.Event, error) bool) {
			yield(sdk.NewSubmittedTask(ec, ec.Message), nil)
			for range 10 {
				yield(sdk.NewStatusUpdateEvent(ec, sdk.TaskStateWorking, sdk.NewMessage(sdk.MessageRoleAgent, sdk.NewTextPart(one))), nil)
			}
			<-ctx.Done()
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, c.streaming, c.execute)
			_, _, err := remotetest.NewClient(t, newRemote(t, p.cardURL, a2a.WithMaxResponse(20_000))).Turn("hi")
			var e *a2a.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, a2a.CodeTooLarge, e.Code)
			require.ErrorContains(t, err, "20000 bytes")
		})
	}
}

// What the server does not take is not the answer's size.
func TestRequestTooLarge(t *testing.T) {
	p := newPeer(t, true, remotetest.Completes("x"), grpc.MaxRecvMsgSize(1000))
	_, _, err := remotetest.NewClient(t, newRemote(t, p.cardURL, a2a.WithMaxResponse(1000))).Turn(strings.Repeat("x", 2000))
	var e *a2a.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, a2a.CodeProtocol, e.Code)
	require.ErrorContains(t, err, "larger than max")
}

// proxy passes connections on, and can cut them.
type proxy struct {
	net.Listener
	conns chan net.Conn
}

func newProxy(t *testing.T, to string) *proxy {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	p := &proxy{l, make(chan net.Conn, 10)}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			go func() { pipe(out, in) }()
			go func() { pipe(in, out) }()
			p.conns <- in
		}
	}()
	return p
}

func pipe(to, from net.Conn) {
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
			to.Close()
			from.Close()
			return
		}
	}
}

// A connection that breaks is not the end of the task: it is taken up again over a new one.
func TestBrokenConnection(t *testing.T) {
	release := make(chan struct{})
	p := newPeer(t, true, func(_ context.Context, ec *a2asrv.ExecutorContext, yield func(sdk.Event, error) bool) {
		yield(sdk.NewSubmittedTask(ec, ec.Message), nil)
		first := sdk.NewArtifactEvent(ec, sdk.NewTextPart("All "))
		yield(first, nil)
		<-release
		yield(sdk.NewArtifactUpdateEvent(ec, first.Artifact.ID, sdk.NewTextPart("of it.")), nil)
		yield(sdk.NewStatusUpdateEvent(ec, sdk.TaskStateCompleted, nil), nil)
	})
	front := newProxy(t, p.address)
	p.card.SupportedInterfaces[0].URL = front.Addr().String()
	f := remotetest.NewClient(t, newRemote(t, p.cardURL), runner.WithStreaming())
	var stored []*event.Event
	for e, err := range f.Run(context.Background(), remotetest.Key, llm.UserText("hi")) {
		require.NoError(t, err)
		if !e.Partial {
			stored = append(stored, e)
		} else if e.Text() == "All " {
			(<-front.conns).Close()
			close(release)
		}
	}
	require.Equal(t, []string{"All of it."}, remotetest.Texts(stored))
	require.Len(t, p.messages(), 1)
}

// A server that is gone is an error that says so; one that is back is reached again.
func TestServerRestarts(t *testing.T) {
	p := newPeer(t, true, remotetest.Completes("One."))
	f := remotetest.NewClient(t, newRemote(t, p.cardURL))
	_, _, err := f.Turn("hi")
	require.NoError(t, err)
	p.grpc.Stop()
	_, _, err = f.Turn("still there?")
	var e *a2a.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, a2a.CodeUnreachable, e.Code)
	p.serve(t, p.address, a2asrv.NewHandler(p))
	p.set(remotetest.Completes("Back."))
	must.Wait(t, func() bool { // it is not tried again before a moment has passed
		events, _, err := f.Turn("and now?")
		return err == nil && len(remotetest.Texts(events)) == 1 && remotetest.Texts(events)[0] == "Back."
	})
}

// What a status means, and whether the conversation goes back to who handed it over: it does if nothing can have happened
// there, and only then.
func TestStatusOfPeers(t *testing.T) {
	for name, c := range map[string]struct {
		err  error // nil: the server is gone
		code a2a.ErrorCode
		back bool
	}{
		"no server answers":    {nil, a2a.CodeUnreachable, true},
		"refused in words":     {status.Error(codes.InvalidArgument, "not like this"), a2a.CodeProtocol, true},
		"no credentials":       {status.Error(codes.Unauthenticated, "who are you"), a2a.CodeUnauthorized, true},
		"not allowed":          {status.Error(codes.PermissionDenied, "not you"), a2a.CodeUnauthorized, true},
		"overloaded":           {status.Error(codes.Unavailable, "later"), a2a.CodeUnreachable, false},
		"rate limit":           {status.Error(codes.ResourceExhausted, "slowly"), a2a.CodeProtocol, true},
		"an answer too large":  {status.Error(codes.ResourceExhausted, "grpc: received message larger than max (9 vs. 8)"), a2a.CodeTooLarge, false},
		"an exception, python": {status.Error(codes.Unknown, "Exception calling application"), a2a.CodeProtocol, false},
		"no such service":      {status.Error(codes.Unimplemented, "unknown service"), a2a.CodeProtocol, true},
		"its time is over":     {status.Error(codes.DeadlineExceeded, "too slow"), a2a.CodeTimeout, false},
		"it ended the call":    {status.Error(codes.Canceled, "shutting down"), a2a.CodeUnreachable, false},
		"no status of gRPC":    {errors.New("plain"), a2a.CodeProtocol, false},
		"words about itself":   {status.Error(codes.Internal, "the disk is full"), a2a.CodeProtocol, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, true, remotetest.Completes("x"))
			p.broken = func(string) error { return c.err }
			remote := newRemote(t, p.cardURL)
			require.NoError(t, remote.(agent.Readier).Ready(context.Background()))
			if c.err == nil {
				p.grpc.Stop()
			}
			_, _, err := remotetest.NewClient(t, remote).Turn("hi")
			var e *a2a.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, c.code, e.Code, "%v", err)

			script := scripted.New().Add("support", scripted.Reply(scripted.CallID("t1", "transfer_to_agent", `{"agent_name":"billing"}`)), scripted.Reply(scripted.Text("Billing is closed.")))
			support := must.Get(llmagent.New("support", "You route.", script.Model("support"), llmagent.WithSubAgents(remote)))
			_, _, err = remotetest.NewClient(t, support).Turn("hi")
			require.Equal(t, c.back, err == nil, "%v", err)
			require.Equal(t, c.back, script.Done() == nil, "the source is asked again")
		})
	}
}

// Streams of gRPC carry no keep-alives: the task of a stream that falls silent is subscribed to again.
func TestSilentTask(t *testing.T) {
	again := make(chan struct{})
	p := newPeer(t, true, func(_ context.Context, ec *a2asrv.ExecutorContext, yield func(sdk.Event, error) bool) {
		yield(sdk.NewSubmittedTask(ec, ec.Message), nil)
		<-again
		yield(sdk.NewArtifactEvent(ec, sdk.NewTextPart("At last.")), nil)
		yield(sdk.NewStatusUpdateEvent(ec, sdk.TaskStateCompleted, nil), nil)
	}, grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		if strings.HasSuffix(info.FullMethod, "/SubscribeToTask") {
			close(again)
		}
		return handle(srv, stream)
	}))
	c := remotetest.NewClient(t, newRemote(t, p.cardURL, a2a.WithIdleTimeout(500*time.Millisecond)))
	require.Equal(t, []string{"At last."}, remotetest.Texts(c.NoError(c.Turn("hi"))))
}

// A peer that takes longer than the idle limit to answer a request for a task is asked again.
func TestSilentRequest(t *testing.T) {
	var asked, canceled atomic.Int32
	p := newPeer(t, true, func(_ context.Context, ec *a2asrv.ExecutorContext, yield func(sdk.Event, error) bool) {
		if yield(sdk.NewSubmittedTask(ec, ec.Message), nil) {
			yield(sdk.NewArtifactEvent(ec, sdk.NewTextPart("At last.")), nil)
			yield(sdk.NewStatusUpdateEvent(ec, sdk.TaskStateCompleted, nil), nil)
		}
	}, grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		if strings.HasSuffix(info.FullMethod, "/SubscribeToTask") {
			<-stream.Context().Done()
			return stream.Context().Err()
		}
		return handle(srv, &broken{ServerStream: stream})
	}), grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		switch {
		case strings.HasSuffix(info.FullMethod, "/CancelTask"):
			canceled.Add(1)
		case strings.HasSuffix(info.FullMethod, "/GetTask") && asked.Add(1) == 1:
			<-ctx.Done()
		}
		return handle(ctx, req)
	}))
	c := remotetest.NewClient(t, newRemote(t, p.cardURL, a2a.WithIdleTimeout(500*time.Millisecond)))
	require.Equal(t, []string{"At last."}, remotetest.Texts(c.NoError(c.Turn("hi"))))
	require.Greater(t, asked.Load(), int32(1))
	require.Zero(t, canceled.Load())
}

// broken is a stream that ends after its first message.
type broken struct {
	grpc.ServerStream
	sent bool
}

func (s *broken) SendMsg(m any) error {
	if s.sent {
		return status.Error(codes.Unavailable, "the connection broke")
	}
	s.sent = true
	return s.ServerStream.SendMsg(m)
}

// TLS is used where the address asks for it, with the certificate of the environment.
func TestTLS(t *testing.T) {
	authority := newAuthority(t)
	p := newPeer(t, true, remotetest.Completes("Secret."), authority.serverOption(t))
	i := &sdk.AgentInterface{URL: "https://" + p.address + "/ignored", ProtocolBinding: sdk.TransportProtocolGRPC, ProtocolVersion: "1.0"}
	var asked *url.URL
	env := a2a.Environment{MaxResponse: 1 << 20, TLS: &tls.Config{RootCAs: authority.pool, Certificates: []tls.Certificate{authority.issue(t, "ann")}},
		Credentials: func(_ context.Context, target *url.URL) (http.Header, error) { asked = target; return nil, nil }}
	client := must.Get(a2agrpc.Binding().Dial(context.Background(), i, env))
	defer client.Destroy()
	_, err := client.GetTask(context.Background(), nil, &sdk.GetTaskRequest{ID: "none"})
	require.ErrorIs(t, err, sdk.ErrTaskNotFound)
	require.Equal(t, "https://"+p.address, asked.String())

	env.TLS = nil
	stranger := must.Get(a2agrpc.Binding().Dial(context.Background(), i, env))
	defer stranger.Destroy()
	_, err = stranger.GetTask(context.Background(), nil, &sdk.GetTaskRequest{ID: "none"})
	var unreachable *url.Error
	require.ErrorAs(t, err, &unreachable, "nobody trusts the authority")
}

// The guard of addresses is asked at dial time, with the name.
func TestGuard(t *testing.T) {
	i := &sdk.AgentInterface{URL: "internal.example:50051", ProtocolBinding: sdk.TransportProtocolGRPC, ProtocolVersion: "1.0"}
	var dialed string
	notPublic := errors.New("the address is not public")
	env := a2a.Environment{MaxResponse: 1 << 20, DialContext: func(_ context.Context, network, addr string) (net.Conn, error) {
		dialed = network + " " + addr
		return nil, notPublic
	}}
	client := must.Get(a2agrpc.Binding().Dial(context.Background(), i, env))
	defer client.Destroy()
	require.ErrorIs(t, must.Err(client.GetTask(context.Background(), nil, &sdk.GetTaskRequest{ID: "none"})), notPublic)
	require.Equal(t, "tcp internal.example:50051", dialed)
}
