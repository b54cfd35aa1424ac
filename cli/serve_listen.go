package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/cli/internal/render"
	"github.com/agentarbor/arbor/live"
)

// stopWithin bounds how long serve waits for turns and connections to end.
const stopWithin = 10 * time.Second

// listen opens the address that a flag gives. It is closed at the end of the command.
func (p *program) listen(flag, addr string) (net.Listener, error) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, usagef("%s %s: an address is HOST:PORT, such as 127.0.0.1:8420", flag, render.Cut(addr, 60))
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		var cause *net.OpError
		if errors.As(err, &cause) {
			err = cause.Err // the address is said already
		}
		return nil, usagef("%s %s: %w; port 0 takes any that is free", flag, render.Cut(addr, 60), err)
	}
	p.atEnd(func() { _ = l.Close() })
	return l, nil
}

// onLoopback reports whether only this machine can reach an address.
func onLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// reachable returns an address as clients on this machine can use it.
func reachable(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return addr.String()
	}
	return net.JoinHostPort("localhost", fmt.Sprint(tcp.Port))
}

// grpcURL returns what the card says of the gRPC server: that it is at the host of the
// public URL, if there is one.
func (how *serving) grpcURL(addr net.Addr) string {
	scheme, host := "http", reachable(addr)
	if u, err := url.Parse(how.url); err == nil && u.Host != "" {
		_, port, _ := net.SplitHostPort(host) // an address of a listener has one
		scheme, host = u.Scheme, net.JoinHostPort(u.Hostname(), port)
	}
	return scheme + "://" + host
}

// keySetPath is where clients find the public key that verifies the card's signature.
const keySetPath = "/.well-known/jwks.json"

// handler returns the server with what the command adds to it: whether it is well, and
// the key set, which is nil without a signature.
func handler(server http.Handler, keys []byte) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", server)
	answer := func(typ string, body []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", typ)
			w.Header().Set("Cache-Control", "no-store")
			_, _ = w.Write(body) // a client that has gone needs no answer
		}
	}
	mux.HandleFunc("GET /healthz", answer("text/plain; charset=utf-8", []byte("ok\n")))
	if keys != nil {
		mux.HandleFunc("GET "+keySetPath, answer("application/jwk-set+json", keys))
	}
	return mux
}

// door is a way in: what serves it until stop is called, or it fails.
type door struct {
	serve func() error
	stop  func(context.Context) error
}

func webDoor(l net.Listener, h http.Handler) door {
	web := &http.Server{Handler: h, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)} // clients' faults, such as broken connections
	access.Harden(web)
	return door{func() error { return web.Serve(l) }, func(ctx context.Context) error {
		err := web.Shutdown(ctx)
		if err != nil {
			_ = web.Close()
		}
		return err
	}}
}

func (p *program) grpcDoor(l net.Listener, s *a2aserver.Server) (door, error) {
	server, err := p.grpc.Server(s, p.warnings())
	return door{func() error { return server.Serve(l) }, func(ctx context.Context) error {
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

// untilStopped serves until a signal, the end of ctx, or the failure of a door.
func (p *program) untilStopped(ctx context.Context, server *a2aserver.Server, turns *live.Turns, doors []door) error {
	ctx, done := p.interrupts.turn(ctx)
	defer done()
	failed := make(chan error, len(doors))
	for _, d := range doors {
		go func() { failed <- d.serve() }()
	}
	var failure error
	select {
	case <-ctx.Done():
	case failure = <-failed:
	}
	// All at once: listeners close first, and the streams that keep connections open
	// end with the turns.
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	stopped := make(chan error, len(doors))
	for _, d := range doors {
		go func() { stopped <- d.stop(within) }()
	}
	err := errors.Join(server.Close(within), turns.Close(within))
	for range doors {
		if <-stopped != nil {
			err = errors.Join(err, errors.New("connections were still open"))
		}
	}
	switch {
	case failure != nil:
		return fmt.Errorf("the server cannot go on: %w", failure)
	case err != nil:
		return fmt.Errorf("not everything ended within %s: %w", stopWithin, err)
	}
	p.say("stopped")
	return nil
}

// warnings returns a logger that says what is a warning or worse.
func (p *program) warnings() *slog.Logger { return slog.New(warnings{sayer{p}}) }

// warnings hands on what is a warning or worse.
type warnings struct{ slog.Handler }

func (w warnings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }
