package endpoint

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/agentarbor/arbor/llm"
)

// Server is a [Handler] on its own port of 127.0.0.1.
type Server struct {
	url    string
	http   *http.Server
	cancel context.CancelFunc
	served chan struct{}

	mu     sync.Mutex
	bodies [][]byte
}

// WithRecording keeps the body of every chat request that a [Server] receives, for [Server.Requests]. It has no effect
// on a [Handler]; see [WithRecorder].
func WithRecording() Option {
	return func(h *handler) {
		if h.server != nil {
			h.record = h.server.keep
		}
	}
}

// Start serves models on a free port of 127.0.0.1 until Close. It returns an error if it cannot open a port.
func Start(models func(name string) (llm.Model, bool), opts ...Option) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("endpoint: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{url: "http://" + l.Addr().String() + "/v1", cancel: cancel, served: make(chan struct{})}
	opts = append([]Option{func(h *handler) { h.server = s }}, opts...)
	s.http = &http.Server{
		Handler:           Handler(models, opts...),
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	go func() {
		defer close(s.served)
		_ = s.http.Serve(l) // it ends after Close, with ErrServerClosed
	}()
	return s, nil
}

// URL returns the base URL for clients, such as http://127.0.0.1:40123/v1.
func (s *Server) URL() string { return s.url }

// Close stops the server and every running answer. It may be called twice.
func (s *Server) Close() error {
	s.cancel()
	err := s.http.Close()
	<-s.served
	return err
}

// Requests returns the received bodies, oldest first. It returns none unless the server was started with
// [WithRecording].
func (s *Server) Requests() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.bodies)
}

func (s *Server) keep(body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bodies = append(s.bodies, body)
}
