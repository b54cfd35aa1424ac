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

// The defaults and limits of a server.
const (
	// defaultStartTimeout is how long a turn waits for a server to start and to list its tools.
	defaultStartTimeout = 30 * time.Second
	// startLimit is how long a server that is not Required may take to start, while turns continue without its tools.
	startLimit = 5 * time.Minute
	// defaultMaxTools is the default number of tools of a server that agents use, because endpoints refuse long lists.
	defaultMaxTools = 100
	// maxMessage is the largest size of a message of a server, in bytes. If the answer to a call is larger, the call
	// fails.
	maxMessage = 16 << 20
)

// The limits of calls that are kept open while a turn waits for an answer.
const (
	maxParked = 64
	parkedFor = 30 * time.Minute
)

// The pauses between two attempts to connect to a server that cannot be reached.
const (
	firstPause = time.Second
	lastPause  = time.Minute
)

// ErrClosed is the error of a Server that was closed.
var ErrClosed = errors.New("mcp: the server is closed")

// Server is a server of the Model Context Protocol as a source of tools. It starts when its tools are first needed,
// once for all agents that use it, and starts again after it has ended. It is safe for concurrent use.
type Server struct {
	name string
	at   Endpoint
	config
	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	mu       sync.Mutex
	conn     *conn         // nil before the first connection
	trying   chan struct{} // closed when the current attempt ends
	greeting greeting      // the one that succeeded last
	failed   error         // the error of the last attempt
	slow     error         // set after the start timeout; callers do not wait then
	said     func() string // returns the last output of the server: "", or "; it said: " and a text
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

// WithPrefix adds a prefix to the names of all its tools, such as "files_".
func WithPrefix(prefix string) Option { return func(c *config) { c.prefix = prefix } }

// WithTools selects tools by the server's names, without the prefix. A pattern is a name, or a pattern for path.Match.
// Defaults to all tools.
func WithTools(patterns ...string) Option {
	return func(c *config) { c.filter = append(c.filter, patterns...) }
}

// WithIdempotent selects the tools whose calls may run again if a crash left the outcome unknown. The patterns are
// those of WithTools. The server's own annotations about this are ignored.
func WithIdempotent(patterns ...string) Option {
	return func(c *config) { c.idempotent = append(c.idempotent, patterns...) }
}

// WithApproval selects the tools whose calls wait for an approval. The patterns are those of WithTools, or contain the
// prefix; "*" selects all tools. While a pattern matches no tool, all calls are refused.
func WithApproval(patterns ...string) Option {
	return func(c *config) { c.approval = append(c.approval, patterns...) }
}

// WithTimeout limits the time of one call. Defaults to tools.DefaultTimeout, also if d is 0.
func WithTimeout(d time.Duration) Option { return func(c *config) { c.timeout = d } }

// WithStartTimeout limits how long a turn waits for the server to start and to list its tools. A server that takes
// longer continues to start, for up to 5 minutes, and agents get its tools as soon as it can be used. A server that is
// [Required] fails instead. Defaults to 30 seconds, also if d is 0.
func WithStartTimeout(d time.Duration) Option { return func(c *config) { c.start = d } }

// WithMaxOutput limits the size of a result for the model, in bytes. Defaults to tools.DefaultMaxOutput, also if n is
// 0.
func WithMaxOutput(n int) Option { return func(c *config) { c.maxOutput = n } }

// WithMaxTools limits the number of tools: agents use the first n of those that the server lists and [WithTools]
// selects. A notice reports the others. Defaults to 100, also if n is 0, because endpoints refuse long lists.
func WithMaxTools(n int) Option { return func(c *config) { c.maxTools = n } }

// WithResources adds the tools list_resources and read_resource.
func WithResources() Option { return func(c *config) { c.resources = true } }

// WithPrompts adds the tools list_prompts and get_prompt.
func WithPrompts() Option { return func(c *config) { c.prompts = true } }

// Required makes the server's tools necessary. Without it, if the server cannot be reached, an agent runs without its
// tools and a notice reports that. With it, runner.Start returns an error that wraps tools.ErrRequired, and each turn
// that needs the server ends with that error. The same applies if the server lacks a tool that WithTools names.
func Required() Option { return func(c *config) { c.required = true } }

// WithLogger sets the logger for the standard error of a subprocess and for invalid messages of a server. Defaults to
// slog.Default().
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.logger = l } }

// New returns a source of tools. Its name appears in messages to people and models. New does not start the server. The
// error reports an invalid name, endpoint or option.
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

// String returns the name of the server in drawings of a tree.
func (s *Server) String() string { return "mcp " + s.name }

// Close ends the server's process or connection and the running calls. It waits for both, for some seconds at most. It
// may be called more than once.
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

// errorf returns an error with the server's name for people and models.
func (s *Server) errorf(format string, args ...any) error {
	return fmt.Errorf("mcp server %s: "+format, append([]any{s.name}, args...)...)
}

// ready returns a working connection. If listed is set, its tools are listed as well. It starts an attempt unless one
// is running, and waits for it. If the caller stops waiting, the attempt continues. Once the start
// timeout has passed, callers get an error at once until the server can be used.
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
			go s.attempt(s.trying)
		}
		if s.slow != nil {
			return nil, s.slow
		}
		if patience == nil && !s.required { // otherwise the attempt ends with the start timeout
			patience = time.After(s.start)
		}
		if err := s.wait(ctx, s.trying, patience); err != nil {
			return nil, err
		}
		listed = false // do not list again and again if the server always reports changes
	}
}

// wait waits for an attempt. The caller holds mu, which wait releases meanwhile.
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

// limit returns the longest duration of one attempt.
func (s *Server) limit() time.Duration {
	if s.required {
		return s.start
	}
	return max(s.start, startLimit)
}

// current reports whether the list of tools belongs to the connection and is current. The caller holds mu.
func (s *Server) current() bool { return s.listing.of == s.conn && !s.conn.stale.Load() }

// attempt makes one attempt to connect to the server and to list its tools, and stores the result.
func (s *Server) attempt(done chan struct{}) {
	err := s.reach()
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(done)
	level := slog.LevelWarn
	if s.failed != nil || s.slow != nil {
		level = slog.LevelDebug // until the server was reached again
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

// Listed returns the tools of the server's last list without a request, or nil before the first list. It is safe for
// concurrent use.
func (s *Server) Listed() *tools.Registry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listing.registry
}

// Tools implements tools.Set. The registry stays the same until the server reports a change of its list, or starts
// again with another list. The error reports tools that cannot be used, or that the server cannot be reached. In that
// case the registry is that of the last list.
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
	return s.listing.registry, s.listing.problem // a call reports that the server cannot be reached
}
