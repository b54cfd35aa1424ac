package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/tools"
)

// The limits of a server that sets none.
const (
	// defaultStartTimeout is how long a turn waits for a server to start and to list its tools.
	defaultStartTimeout = 30 * time.Second
	// startLimit is how long a server that is not Required may take to start, while turns continue
	// without its tools.
	startLimit = 5 * time.Minute
	// defaultMaxTools is how many tools of a server are used; endpoints refuse long lists.
	defaultMaxTools = 100
	// maxMessage bounds, in bytes, one message of a server. The call that a longer one
	// answers fails.
	maxMessage = 16 << 20
)

// The bounds of calls that are kept while a turn waits for an answer.
const (
	maxParked = 64
	parkedFor = 30 * time.Minute
)

// The time between two attempts to reach a server that cannot be reached.
const (
	firstPause = time.Second
	lastPause  = time.Minute
)

// ErrClosed is the error of a Server that was closed.
var ErrClosed = errors.New("mcp: the server is closed")

// Server is a server of the Model Context Protocol as a source of tools. It is started
// when tools are first asked for, once for all agents that use it, and again when it has
// ended. It is safe for concurrent use.
type Server struct {
	name string
	at   Endpoint
	config
	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	mu       sync.Mutex
	conn     *conn         // nil before the first one
	trying   chan struct{} // closed when the attempt under way has ended
	greeting greeting      // the one that succeeded last
	failed   error         // the last attempt
	slow     error         // the start timeout has passed once: callers get this and do not wait until the server can be used
	said     func() string // what it said last, "" or "; it said: " and some words
	pause    time.Duration // before the next attempt
	next     time.Time
	listing  listing
	parked   map[place]*call
}

type config struct {
	prefix     string
	filter     []string
	idempotent []string
	approval   []string
	timeout    time.Duration
	start      time.Duration
	maxOutput  int
	maxTools   int
	resources  bool
	prompts    bool
	required   bool
	logger     *slog.Logger
}

// Option configures a Server.
type Option func(*config)

// WithPrefix begins the names of all its tools with a text, such as "files_".
func WithPrefix(prefix string) Option { return func(c *config) { c.prefix = prefix } }

// WithTools chooses tools by the names that the server gives them, without the prefix:
// names, or patterns as of path.Match. Without it all are used.
func WithTools(patterns ...string) Option {
	return func(c *config) { c.filter = append(c.filter, patterns...) }
}

// WithIdempotent says of which tools a call may be made again after a crash has left its
// outcome unknown, as WithTools names them. What the server says of that counts for
// nothing.
func WithIdempotent(patterns ...string) Option {
	return func(c *config) { c.idempotent = append(c.idempotent, patterns...) }
}

// WithApproval says which tools' calls wait for an approval, as WithTools names them or with the
// prefix; "*" is all. As long as one of the names is that of no tool, all calls are refused.
func WithApproval(patterns ...string) Option {
	return func(c *config) { c.approval = append(c.approval, patterns...) }
}

// WithTimeout bounds one call. 0 is tools.DefaultTimeout.
func WithTimeout(d time.Duration) Option { return func(c *config) { c.timeout = d } }

// WithStartTimeout bounds how long a turn waits for the server to start and to list its tools. A
// server that takes longer continues to start, up to 5 minutes, and agents get its tools as soon as
// it can be used. One that is [Required] fails instead. Defaults to 30 seconds, also if d is 0.
func WithStartTimeout(d time.Duration) Option { return func(c *config) { c.start = d } }

// WithMaxOutput bounds, in bytes, what a model reads of one result. 0 is
// tools.DefaultMaxOutput.
func WithMaxOutput(n int) Option { return func(c *config) { c.maxOutput = n } }

// WithMaxTools bounds how many tools are used: the first n of those that the server lists and [WithTools] chooses. A
// notice reports the others. Defaults to 100, also if n is 0, because endpoints refuse long lists.
func WithMaxTools(n int) Option { return func(c *config) { c.maxTools = n } }

// WithResources adds the tools list_resources and read_resource.
func WithResources() Option { return func(c *config) { c.resources = true } }

// WithPrompts adds the tools list_prompts and get_prompt.
func WithPrompts() Option { return func(c *config) { c.prompts = true } }

// Required makes the server's tools necessary. Without it an agent goes without the tools of a
// server that cannot be reached, and a notice says so. With it, runner.Start returns an error that
// wraps tools.ErrRequired, and so ends each turn that needs the server; a tool that WithTools
// names and the server does not have counts as well.
func Required() Option { return func(c *config) { c.required = true } }

// WithLogger logs what a subprocess writes to standard error, and what is wrong with what
// a server sends. Defaults to slog.Default().
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.logger = l } }

// New makes a source of tools. Its name stands in messages to people and to models. Nothing
// is started yet; the error says what is wrong with the name, the endpoint or an option.
func New(name string, at Endpoint, opts ...Option) (*Server, error) {
	s := &Server{name: name, at: at, parked: map[place]*call{}, pause: firstPause, said: nothing}
	err := option.Apply(&s.config, opts)
	switch {
	case name == "":
		err = errors.New("the name is empty")
	case err != nil:
	case at == nil:
		err = errors.New("the endpoint is nil")
	case s.timeout < 0 || s.start < 0 || s.maxOutput < 0 || s.maxTools < 0:
		err = errors.New("a limit is negative")
	case s.prefix != "" && tools.CheckName(s.prefix) != nil:
		err = fmt.Errorf("the prefix %q: letters, digits, _ and - are allowed", s.prefix)
	default:
		err = at.check()
	}
	for _, p := range slices.Concat(s.filter, s.idempotent, s.approval) {
		if _, bad := path.Match(p, ""); err == nil && (bad != nil || p == "") {
			err = fmt.Errorf("%q is not a pattern for names of tools", p)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("mcp server %q: %w", name, err)
	}
	if s.start == 0 {
		s.start = defaultStartTimeout
	}
	if s.maxTools == 0 {
		s.maxTools = defaultMaxTools
	}
	if s.logger == nil {
		s.logger = slog.Default()
	}
	s.logger = s.logger.With("mcp", name)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Name returns the name that was given to New.
func (s *Server) Name() string { return s.name }

// String returns what drawings of a tree call the server.
func (s *Server) String() string { return "mcp " + s.name }

// Close ends the server's process or its connection, and the calls that run. It waits for
// both, some seconds at most, and may be called more than once.
func (s *Server) Close() error {
	s.cancel()
	s.mu.Lock()
	c, trying := s.conn, s.trying
	s.mu.Unlock()
	if trying != nil {
		<-trying
		s.mu.Lock()
		c = s.conn
		s.mu.Unlock()
	}
	if c != nil {
		c.close()
	}
	return nil
}

// errorf is an error for people and models, with the server's name.
func (s *Server) errorf(format string, args ...any) error {
	return fmt.Errorf("mcp server %s: "+format, append([]any{s.name}, args...)...)
}

// ready returns a connection that works and, if the caller wants tools, whose tools are listed. It
// starts an attempt unless one is under way, and waits for it; the attempt continues when the wait ends.
// Once the start timeout has passed, no caller waits until the server can be used.
func (s *Server) ready(ctx context.Context, listed bool) (*conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var patience <-chan time.Time
	for {
		switch {
		case s.ctx.Err() != nil:
			return nil, ErrClosed
		case s.conn != nil && s.conn.alive() && (!listed || s.current()):
			return s.conn, nil
		case s.trying != nil:
		case s.failed != nil && time.Now().Before(s.next):
			return nil, s.failed
		default:
			s.trying = make(chan struct{})
			go s.try(s.trying)
		}
		if s.slow != nil {
			return nil, s.slow
		}
		if patience == nil && !s.required { // else the attempt ends with the start timeout
			patience = time.After(s.start)
		}
		if err := s.wait(ctx, s.trying, patience); err != nil {
			return nil, err
		}
		listed = false // a server that changes its list all the time is not asked all the time
	}
}

// wait waits for an attempt. The caller holds mu, which is free meanwhile.
func (s *Server) wait(ctx context.Context, trying chan struct{}, patience <-chan time.Time) error {
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-trying:
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.failed
	case <-patience:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.trying != trying:
		return s.failed
	case s.slow == nil:
		s.slow = s.errorf("it has not answered within %s; its tools can be used once it does%s", s.start, s.said())
		s.logger.Warn("an MCP server is slow, and agents continue without its tools", "error", s.slow)
	}
	return s.slow
}

// limit bounds one attempt.
func (s *Server) limit() time.Duration {
	if s.required {
		return s.start
	}
	return max(s.start, startLimit)
}

// current reports whether the list of tools is that of the connection. The caller holds mu.
func (s *Server) current() bool { return s.listing.of == s.conn && !s.conn.stale.Load() }

// try makes one attempt to reach the server and to list its tools, and notes what came of it.
func (s *Server) try(done chan struct{}) {
	err := s.reach()
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(done)
	level := slog.LevelWarn
	if s.failed != nil || s.slow != nil {
		level = slog.LevelDebug // until it has been reached once more
	}
	s.trying, s.failed = nil, err
	if err != nil {
		s.next = time.Now().Add(s.pause)
		s.pause = min(2*s.pause, lastPause)
		s.logger.Log(s.ctx, level, "an MCP server cannot be reached", "error", err)
		return
	}
	if s.slow != nil {
		s.logger.Info("an MCP server has started, and agents have its tools")
	}
	s.pause, s.slow = firstPause, nil
}

// reach connects to the server unless it is connected, and lists its tools.
func (s *Server) reach() error {
	ctx, cancel := context.WithTimeout(s.ctx, s.limit())
	defer cancel()
	s.mu.Lock()
	c, form := s.conn, s.greeting
	s.mu.Unlock()
	if c == nil || !c.alive() {
		var err error
		if c, err = s.connect(ctx, form); form == probing && unsettled(ctx, err) {
			if form = older; refused(err) {
				form = patient
			}
			if other, e := s.connect(ctx, form); e == nil {
				c, err = other, nil
			}
		}
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.conn, s.greeting = c, form
		s.mu.Unlock()
	}
	return s.list(ctx, c)
}

// Listed returns the tools that the server has listed last, without asking it; nil before the first list. It is safe
// for concurrent use.
func (s *Server) Listed() *tools.Registry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listing.registry
}

// Tools implements tools.Set. The registry stays the same until the server says that its
// list has changed, or is started again with another one. The error says what of it cannot
// be used, or that the server cannot be reached; then there is the list of before.
func (s *Server) Tools(ctx context.Context) (*tools.Registry, error) {
	r, err := s.usable(ctx)
	if err != nil && s.required && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", tools.ErrRequired, err)
	}
	return r, err
}

// Start implements tools.Starter: it lists the tools of a server that is Required.
func (s *Server) Start(ctx context.Context) error {
	if !s.required {
		return nil
	}
	_, err := s.Tools(ctx)
	return err
}

func (s *Server) usable(ctx context.Context) (*tools.Registry, error) {
	_, err := s.ready(ctx, true)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && (s.listing.registry == nil || errors.Is(err, ErrClosed)) {
		return s.listing.registry, err
	}
	return s.listing.registry, s.listing.problem // a call will say that the server is away
}
