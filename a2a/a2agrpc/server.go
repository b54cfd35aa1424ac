package a2agrpc

import (
	"errors"
	"log/slog"
	"time"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/access"
)

// The limits of a server that [NewServer] makes.
const (
	// maxStreams bounds the calls that one connection has open.
	maxStreams = 1024
	// minPing is the shortest time between two pings of a client. Clients that ping more
	// often are disconnected.
	minPing = 20 * time.Second
)

type logTo struct {
	grpc.EmptyServerOption
	logger *slog.Logger
}

// WithLogger has [NewServer] log panics, and answers that cannot be encoded. Clients learn only
// that something failed.
func WithLogger(l *slog.Logger) grpc.ServerOption { return logTo{logger: l} }

// NewServer makes a gRPC server for s with limits: of messages ([access.MaxBody]), of calls that one
// connection has open (1,024), of metadata (64 KiB), of the time for a handshake (20 s) and of
// pings (one in 20 s). It notices clients that are gone,
// closes connections that are idle for 15 minutes, and its Stop waits for the calls it ends. The
// options are used last; without grpc.Creds connections are not encrypted, which section 7.1 of
// A2A 1.0 asks for outside of a machine. For client certificates, grpc.Creds must have them
// verified.
//
// The caller serves and stops it. GracefulStop waits for streams that are open; closing s first
// ends them.
func NewServer(s *a2aserver.Server, opts ...grpc.ServerOption) (*grpc.Server, error) {
	if s == nil {
		return nil, errors.New("a2agrpc: there is no server to serve")
	}
	var logger *slog.Logger
	all := limits()
	for _, o := range opts {
		switch o := o.(type) {
		case nil:
			return nil, errors.New("a2agrpc: an option is nil")
		case logTo:
			logger = o.logger
		default:
			all = append(all, o)
		}
	}
	server := grpc.NewServer(all...)
	Register(server, s, logger)
	return server, nil
}

// Register adds the A2A service to a gRPC server that has other services too. Who calls, and in
// which version of the protocol, is checked and panics are caught within the service; limits are
// those of the server, which by default are few. The logger gets what clients are not told; nil
// logs nothing. Like all registrations it ends the process if the service is there already.
func Register(r grpc.ServiceRegistrar, s *a2aserver.Server, logger *slog.Logger) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	pb.RegisterA2AServiceServer(r, &service{handler: s.RequestHandler(), authenticate: s.Authenticate, params: s.ServiceParams, logger: logger, sendTimeout: sendTimeout})
}

// limits are the options of a server that sets no others.
func limits() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(access.MaxBody),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.ConnectionTimeout(20 * time.Second),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		// A client that is gone without saying so is noticed within 80 seconds.
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: 15 * time.Minute, Time: time.Minute, Timeout: 20 * time.Second}),
		grpc.WaitForHandlers(true),
	}
}
