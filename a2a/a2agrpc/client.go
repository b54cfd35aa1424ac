package a2agrpc

import (
	"context"
	"crypto/tls"
	"math"
	"net"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	a2agrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/agentarbor/arbor/a2a"
)

const (
	// By default, servers close connections that ping more often than every five minutes.
	pingEvery   = 5*time.Minute + 10*time.Second
	pingTimeout = 20 * time.Second
	// idleAfter is the time after which a connection without calls is closed.
	idleAfter = 5 * time.Minute
	// maxHeaders bounds the metadata of one answer in bytes.
	maxHeaders = 64 << 10
)

// reconnect is faster than gRPC's default, with which calls fail for up to two minutes after a server has returned.
var reconnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second},
	MinConnectTimeout: 10 * time.Second,
}

type plaintext struct{ grpc.EmptyDialOption }

// WithPlaintext allows [Binding] to connect without TLS, unless the scheme of a card's interface is https or grpcs. It
// is for networks that encrypt all connections, such as a service mesh. Connections to loopback addresses do not need
// it.
func WithPlaintext() grpc.DialOption { return plaintext{} }

// Binding returns the binding for gRPC of A2A 1.0, for a2a.WithBinding. The URL of an interface is an address with or
// without a scheme: agents.example.com:443, dns:///agents.example.com:443, grpc://agents.example.com or
// https://agents.example.com. A path in it is ignored, because gRPC has none. Connections use TLS with the
// configuration of the remote agent. They use none on loopback, and with [WithPlaintext] anywhere, unless the scheme is
// https or grpcs.
//
// The remote agent's credentials are sent as metadata, under the same rules as headers: only if the server's origin,
// such as https://agents.example.com:8443, is that of the card or a trusted one. API keys for a query are not sent,
// because gRPC has no query. Time and size limits are those of the remote agent; the size limit applies to one message
// and to a stream as a whole. The remote agent's dialer resolves names and checks addresses, without a proxy.
//
// Each fetched card has one connection. The first call opens it, five minutes without calls close it, and the next call
// opens it again. It is closed for good when nothing uses the card any more. The call after a lost connection
// reconnects.
//
// The options are applied last and can replace all of these settings: the keep-alive (a ping every five minutes while
// calls are open, the most that servers accept by default), the dialer, or the transport credentials. To change the
// latter, prefer the remote agent's TLS configuration.
func Binding(opts ...grpc.DialOption) a2a.Binding {
	plain := false
	for _, o := range opts {
		if _, ok := o.(plaintext); ok {
			plain = true
		}
	}
	return a2a.Binding{Protocol: sdk.TransportProtocolGRPC, Version: string(sdk.Version),
		Dial: func(_ context.Context, i *sdk.AgentInterface, env a2a.Environment) (a2aclient.Transport, error) {
			return dial(i, env, plain, opts)
		}}
}

func dial(i *sdk.AgentInterface, env a2a.Environment, plain bool, opts []grpc.DialOption) (a2aclient.Transport, error) {
	to, err := parseTarget(i.URL, plain)
	if err != nil {
		return nil, err
	}
	creds := insecure.NewCredentials()
	if to.secure {
		config := &tls.Config{MinVersion: tls.VersionTLS12}
		if env.TLS != nil {
			config = env.TLS.Clone()
		}
		creds = credentials.NewTLS(config)
	}
	limit := int(min(env.MaxResponse, math.MaxInt32))
	all := []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(limit)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingEvery, Timeout: pingTimeout}),
		grpc.WithConnectParams(reconnect),
		grpc.WithIdleTimeout(idleAfter),
		grpc.WithMaxHeaderListSize(maxHeaders),
		grpc.WithDisableServiceConfig(),
		grpc.WithNoProxy(),
		grpc.WithStatsHandler(sendRecorder{}),
	}
	t := &transport{env: env, target: to.url(), limit: limit}
	if env.DialContext != nil {
		all = append(all, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			conn, err := env.DialContext(ctx, "tcp", address)
			if err != nil {
				t.dialError.Store(&err)
			}
			return conn, err
		}))
	}
	// The dialer receives the name, and checks the addresses that it resolves to.
	conn, err := grpc.NewClient("passthrough:///"+to.address, append(all, opts...)...)
	if err != nil {
		return nil, err
	}
	t.conn, t.client = conn, pb.NewA2AServiceClient(conn)
	t.Transport = a2agrpc.NewGRPCTransportFromClient(t.client)
	return t, nil
}

// Interface returns the gRPC interface for the card of a server, for a2aserver.WithInterface. The url is where peers
// reach the server of [NewServer] or [Register], such as agents.example.com:8443.
//
// A scheme or path in it is removed, because the SDKs' clients pass the text to gRPC as an address; the port that http
// or https implies is added. Clients decide whether to use TLS: those of [Binding] use it everywhere except on
// loopback, unless they are configured otherwise.
func Interface(url string) sdk.AgentInterface {
	return sdk.AgentInterface{URL: bareAddress(url), ProtocolBinding: sdk.TransportProtocolGRPC, ProtocolVersion: sdk.Version}
}
