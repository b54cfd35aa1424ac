package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/access"
)

// stopWithin is how long serve waits for turns and connections to end.
const stopWithin = 10 * time.Second

// listen opens the address of a flag. The listener is closed at the end of the command.
func listen(f *factory.Factory, flag, addr string) (net.Listener, error) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, factory.Usagef("%s %s: write HOST:PORT, such as 127.0.0.1:8420", flag, visible.Cut(addr, 60))
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		if cause, ok := errors.AsType[*net.OpError](err); ok {
			err = cause.Err // the message already contains the address
		}
		hint := "use an address of this machine, such as 127.0.0.1:8420"
		if errors.Is(err, syscall.EADDRINUSE) {
			hint = "use another port, or port 0 for any free one"
		}
		return nil, factory.Usagef("%s %s: %w; %s", flag, visible.Cut(addr, 60), err, hint)
	}
	f.AtEnd(func() { _ = l.Close() })
	return l, nil
}

// onLoopback reports whether only this machine can reach an address.
func onLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// reachable returns an address in a form that clients on this machine can use.
func reachable(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return addr.String()
	}
	return net.JoinHostPort("localhost", fmt.Sprint(tcp.Port))
}

// announced returns an address for the card: only the port if it has the host of the public URL, and otherwise the
// address that a client can use.
func (o *options) announced(addr net.Addr) string {
	if tcp, ok := addr.(*net.TCPAddr); ok && (o.url != "" || tcp.IP.IsUnspecified()) {
		return fmt.Sprint(":", tcp.Port)
	}
	return addr.String()
}

// listener serves clients until stop is called, or it fails.
type listener struct {
	serve func() error
	stop  func(context.Context) error
}

// webListener serves HTTP, under TLS if there is a certificate.
func webListener(l net.Listener, h http.Handler, certified *tls.Config) listener {
	web := &http.Server{Handler: h, TLSConfig: certified, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)} // drop messages about faults of clients, such as broken connections
	access.Harden(web)
	serve := func() error { return web.Serve(l) }
	if certified != nil {
		serve = func() error { return web.ServeTLS(l, "", "") }
	}
	return listener{serve, func(ctx context.Context) error {
		err := web.Shutdown(ctx)
		if err != nil {
			_ = web.Close()
		}
		return err
	}}
}

func grpcListener(f *factory.Factory, l net.Listener, s *a2aserver.Server, maxBody int) (listener, error) {
	server, err := f.GRPC.Server(s, maxBody, f.Warnings())
	return listener{func() error { return server.Serve(l) }, func(ctx context.Context) error {
		ended := make(chan struct{})
		go func() {
			server.GracefulStop()
			close(ended)
		}()
		select {
		case <-ended:
			return nil
		case <-ctx.Done():
			server.Stop()
			<-ended
			return ctx.Err()
		}
	}}, err
}

// closer is closed when the server ends.
type closer interface{ Close(context.Context) error }

// untilStopped serves until a signal, the end of ctx, or the failure of a listener.
func (s *service) untilStopped(ctx context.Context) error {
	ctx, done := s.f.Interrupts.Turn(ctx)
	defer done()
	failed := make(chan error, len(s.listeners))
	for _, d := range s.listeners {
		go func() { failed <- d.serve() }()
	}
	var failure error
	select {
	case <-ctx.Done():
	case failure = <-failed:
	}
	ctx = context.WithoutCancel(ctx)
	if s.drain > 0 && failure == nil {
		s.f.Say("turns under way have %s to end", s.drain)
		ending, cancel := context.WithTimeout(ctx, s.drain)
		_ = s.turns.Drain(ending) // the remaining turns are cancelled below
		cancel()
	}
	err := s.stop(ctx)
	switch {
	case failure != nil:
		return fmt.Errorf("the server failed: %w", failure)
	case err != nil:
		return fmt.Errorf("not everything ended within %s: %w", stopWithin, err)
	}
	s.f.Say("stopped")
	return nil
}

// stop closes the listeners, then the turns, which also ends the streams that keep connections open.
func (s *service) stop(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, stopWithin)
	defer cancel()
	stopped := make(chan error, len(s.listeners))
	for _, d := range s.listeners {
		go func() { stopped <- d.stop(ctx) }()
	}
	for _, c := range s.closing {
		err = errors.Join(err, c.Close(ctx))
	}
	for range s.listeners {
		if <-stopped != nil {
			err = errors.Join(err, errors.New("connections were still open"))
		}
	}
	return err
}

// measured sets up the metrics if --metrics is given, and returns them with the listener that serves them.
func measured(f *factory.Factory, o *options) (factory.Metrics, []listener, error) {
	if o.metrics == "" {
		return factory.Metrics{}, nil, nil
	}
	l, err := listen(f, "--metrics", o.metrics)
	if err != nil {
		return factory.Metrics{}, nil, err
	}
	m, err := f.Metrics()
	if err != nil {
		return m, nil, err
	}
	f.RunnerOptions = append(f.RunnerOptions, runner.WithInterceptors(m.Interceptor))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m.Handler)
	f.Say("metrics at http://%s/metrics", reachable(l.Addr()))
	return m, []listener{webListener(l, mux, nil)}, nil
}

// requestLog returns a logger that writes one line per request, nil without --log.
func (o *options) requestLog(w io.Writer) (*slog.Logger, error) {
	switch o.log {
	case "":
		return nil, nil
	case "text":
		return slog.New(slog.NewTextHandler(w, nil)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, nil)), nil
	}
	return nil, factory.OneOf("--log", o.log, "text", "json")
}

// limitOptions are the limits of clients' requests.
type limitOptions struct {
	turns, userTurns     int
	streams, userStreams int
	open                 *access.Limit // of open streams in all APIs; nil until check
	body                 factory.Size
	bodyTime             time.Duration
}

func (l *limitOptions) flags(fs *pflag.FlagSet) {
	l.body = access.MaxBody
	fs.IntVar(&l.turns, "max-turns", 256, "run at most `N` turns at the same time, for all users together")
	fs.IntVar(&l.userTurns, "max-user-turns", 32, "run at most `N` turns at the same time for one user")
	fs.IntVar(&l.streams, "max-streams", access.MaxAllStreams, "keep at most `N` streams open, for all users together")
	fs.IntVar(&l.userStreams, "max-user-streams", access.MaxStreams, "keep at most `N` streams open for one user")
	fs.Var(&l.body, "max-body", "accept request bodies of at most `SIZE`")
	fs.DurationVar(&l.bodyTime, "body-time", time.Minute, "wait at most `TIME` for the body of a request")
}

func (l *limitOptions) check() error {
	for name, n := range map[string]int{"max-turns": l.turns, "max-user-turns": l.userTurns, "max-streams": l.streams, "max-user-streams": l.userStreams} {
		if err := factory.InRange("--"+name, n, 1, 0); err != nil {
			return err
		}
	}
	if l.bodyTime <= 0 {
		return factory.Usagef("--body-time %s: give a time of more than 0, such as 30s", l.bodyTime)
	}
	l.open = access.NewLimit(l.userStreams, l.streams)
	return nil
}

// arrives limits the time of bodies at paths without a handler, too, which read none: net/http waits for the rest of a
// body before it closes a connection.
func (l *limitOptions) arrives(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != http.NoBody {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(l.bodyTime))
		}
		next.ServeHTTP(w, r)
	})
}
