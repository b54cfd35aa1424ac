package a2agrpc

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/server/access"
)

// Limits of a server of [NewServer].
const (
	// maxStreams bounds the number of open calls on one connection.
	maxStreams = 1024
	// minPing is the minimum time between two pings of a client. Clients that ping more often are disconnected.
	minPing = 20 * time.Second
)

// NewServer returns a gRPC server for s with limits: on messages ([access.MaxBody]), on open calls of one connection
// (1,024), on metadata (64 KiB), on the time of a handshake (20 s) and on pings (one in 20 s). The server detects dead
// clients and closes connections that are idle for 15 minutes. Its Stop waits for the handlers of the calls that it
// ends. The options are applied last. Without grpc.Creds, connections are not encrypted, which section 7.1 of A2A 1.0
// requires between machines. For client certificates, grpc.Creds must verify them.
//
// The logger receives panics and the errors that clients do not; nil logs nothing. The caller serves and stops the
// server. GracefulStop waits for open streams; close s first to end them.
func NewServer(s *a2aserver.Server, logger *slog.Logger, opts ...grpc.ServerOption) (*grpc.Server, error) {
	if s == nil {
		return nil, errors.New("a2agrpc: the server is nil")
	}
	if slices.Contains(opts, nil) {
		return nil, errors.New("a2agrpc: an option is nil")
	}
	server := grpc.NewServer(append(limits(), opts...)...)
	Register(server, s, logger)
	return server, nil
}

// Register adds the A2A service to a gRPC server that also has other services. The service itself checks the caller and
// the protocol version, and recovers from panics. Limits are those of the server, which has few by default. The logger
// receives the errors that clients do not; nil logs nothing. Like all registrations, Register ends the process if the
// service is already registered.
func Register(r grpc.ServiceRegistrar, s *a2aserver.Server, logger *slog.Logger) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	pb.RegisterA2AServiceServer(r, &service{handler: s.RequestHandler(), authenticate: s.Authenticate, params: s.ServiceParams, logger: logger, sendTimeout: sendTimeout})
}

// limits returns the default options of a server.
func limits() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(access.MaxBody),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.ConnectionTimeout(20 * time.Second),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		// A dead client is detected within 80 seconds.
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: 15 * time.Minute, Time: time.Minute, Timeout: 20 * time.Second}),
		grpc.WaitForHandlers(true),
	}
}
