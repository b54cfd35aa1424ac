package a2aserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// Server serves one tree, or several as tenants, as A2A agents. It is an http.Handler
// and safe for concurrent use.
type Server struct {
	config
	store   session.Store
	tail    session.Tail
	trees   map[string]*served // by tenant
	hooks   *pushes            // nil: no push notifications
	http    http.Handler
	ledgers ledgers

	background context.Context // of all turns
	stop       context.CancelCauseFunc
	turns      sync.WaitGroup

	mu      sync.Mutex // guards what follows
	closed  bool
	running map[session.Key][]*execution
	posting map[pushTask]bool // tasks whose events are posted; true: look at it again
}

// served is one tree of a server.
type served struct {
	*Server
	tenant string
	app    string // of its sessions' keys
	id     string // by which chains of agents name it
	runner *runner.Runner
}

// config is what the options say.
type config struct {
	app        string
	base       *url.URL
	version    string
	roots      map[string]agent.Agent // by tenant
	runnerOpts []runner.Option
	wait       time.Duration
	auth       Authenticator
	logger     *slog.Logger
	more       []sdk.AgentInterface
	compat     *Compat
	pushOpts   *PushOptions
	keepAlive  time.Duration
	maxBody    int64
	errs       []error
}

// Option configures a Server.
type Option func(*config)

// WithURL sets the public base URL of the server, which the card names. Without it the
// card names the host that the request for it came to.
func WithURL(base string) Option {
	return func(c *config) {
		u, err := url.Parse(base)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			c.errs = append(c.errs, errors.New("the public URL is not an absolute http or https URL without user, query and fragment"))
			return
		}
		c.base = u
	}
}

// WithApp sets the app part of the keys of sessions, session.DefaultApp if it is not
// set. The sessions of a tenant have the tenant's name in its place.
func WithApp(app string) Option { return func(c *config) { c.app = app } }

// WithTenant serves another tree at the same address, under the name that requests give
// as their tenant.
func WithTenant(name string, root agent.Agent) Option {
	return func(c *config) {
		if err := agent.CheckName(name); err != nil {
			c.errs = append(c.errs, fmt.Errorf("tenant %.64q: a tenant is named as agents are: %w", name, err))
		} else if c.roots[name] != nil {
			c.errs = append(c.errs, fmt.Errorf("tenant %q is given twice", name))
		}
		c.roots[name] = root
	}
}

// WithRunnerOptions configures the runners of all trees: limits, budgets, interceptors.
func WithRunnerOptions(opts ...runner.Option) Option {
	return func(c *config) { c.runnerOpts = append(c.runnerOpts, opts...) }
}

// WithWait sets how long a message waits for another task of its context to end before
// it is refused. The default is 30 s.
func WithWait(d time.Duration) Option { return func(c *config) { c.wait = d } }

// WithAuthenticator asks who calls. Each caller has its own contexts and tasks, and
// does not see others'. Without it everybody is the same caller.
func WithAuthenticator(a Authenticator) Option { return func(c *config) { c.auth = a } }

// WithLogger sets the logger; by default nothing is logged.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.logger = l } }

// WithInterface names a further interface in the card, such as the address at which the
// same server is served over gRPC.
func WithInterface(i sdk.AgentInterface) Option {
	return func(c *config) { c.more = append(c.more, i) }
}

// WithCompat also serves clients of protocol 0.3.
func WithCompat(compat Compat) Option { return func(c *config) { c.compat = &compat } }

// WithPush configures push notifications; WithoutPush refuses them.
func WithPush(o PushOptions) Option { return func(c *config) { c.pushOpts = &o } }

// WithoutPush refuses push notifications, and the card says so.
func WithoutPush() Option { return func(c *config) { c.pushOpts = nil } }

// WithKeepAlive sets after which silence a stream sends a comment, so that nothing on
// the way closes it. The default is 15 s; a negative one sends none.
func WithKeepAlive(d time.Duration) Option { return func(c *config) { c.keepAlive = d } }

// WithMaxBody bounds the body of a request in bytes. The default is 4 MiB.
func WithMaxBody(n int64) Option { return func(c *config) { c.maxBody = n } }

// WithVersion sets the version of the agent that the card names; the default is "0".
func WithVersion(v string) Option { return func(c *config) { c.version = v } }

// New makes a server for the tree below root. Tasks are projections of the sessions in
// the store, so they are there after a restart, and a session that was begun elsewhere
// is a context. The store stays the caller's; if it is a session.Tail, tasks can be
// followed word by word through all processes that use it, else within this one.
// Tasks with stored webhooks that a restart cut off are taken up again at once, others
// when a client asks for them.
//
// The error reports all problems of the options and of the trees at once.
func New(root agent.Agent, store session.Store, opts ...Option) (*Server, error) {
	s := &Server{running: make(map[session.Key][]*execution), posting: make(map[pushTask]bool), trees: make(map[string]*served)}
	s.config = config{app: session.DefaultApp, version: "0", roots: map[string]agent.Agent{"": root}, wait: 30 * time.Second,
		logger: slog.New(slog.DiscardHandler), pushOpts: &PushOptions{}}
	s.ledgers.byID = make(map[session.Key]*ledger)
	for i, o := range opts {
		if o == nil {
			return nil, fmt.Errorf("a2aserver: option %d is nil", i)
		}
		o(&s.config)
	}
	errs := s.errs
	if store == nil {
		return nil, errors.Join(append(errs, errors.New("a2aserver: the store is nil"))...)
	}
	if s.logger == nil {
		errs = append(errs, errors.New("a2aserver: the logger is nil"))
	}
	s.store = store
	if tail, ok := store.(session.Tail); ok {
		s.tail = tail
	} else {
		live, err := session.NewLive(store)
		if err != nil {
			return nil, err
		}
		s.store, s.tail = live, live
	}
	unique := rand.Text() // of this process, if the server has no address to be known by
	for tenant, root := range s.roots {
		t := &served{Server: s, tenant: tenant, app: tenant, id: unique + "/" + tenant}
		if s.base != nil {
			t.id = strings.TrimSuffix(s.base.String(), "/") + "/" + tenant
		}
		if tenant == "" {
			t.app = s.app
		} else if tenant == s.app {
			errs = append(errs, fmt.Errorf("tenant %q has the name of the app: their sessions would be the same", tenant))
		}
		var err error
		t.runner, err = runner.New(root, s.store, append([]runner.Option{runner.WithLogger(s.logger), runner.WithStreaming()}, s.runnerOpts...)...)
		if err != nil {
			errs = append(errs, err)
		}
		s.trees[tenant] = t
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if s.pushOpts != nil {
		var err error
		if s.hooks, err = newPushes(*s.pushOpts, pushDeps{log: s.logger}); err != nil {
			return nil, err
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/rpc", a2asrv.NewJSONRPCHandler(handler{s}))
	mux.Handle("/", a2asrv.NewRESTHandler(handler{s}))
	mux.HandleFunc("GET /.well-known/agent-card.json", func(w http.ResponseWriter, r *http.Request) {
		base := "http://" + r.Host
		if s.base != nil {
			base = strings.TrimSuffix(s.base.String(), "/")
		}
		card, err := s.cardAt("", base)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(card)
	})
	s.http = mux
	s.background, s.stop = context.WithCancelCause(context.Background())
	if s.hooks != nil && s.pushOpts.Store != nil {
		s.turns.Go(func() {
			if err := s.recover(); err != nil && s.background.Err() == nil {
				s.logger.Error("not all tasks with webhooks could be taken up again", "error", err)
			}
		})
	}
	return s, nil
}

// RequestHandler returns the server's operations, for further bindings such as gRPC.
// Its callers authenticate with [Server.Authenticate] first.
func (s *Server) RequestHandler() a2asrv.RequestHandler { return handler{s} }

// Authenticate returns a context that carries the caller, for bindings that are not
// HTTP. The error is a2a.ErrUnauthenticated or a2a.ErrUnauthorized, or says why the
// credentials could not be checked.
func (s *Server) Authenticate(ctx context.Context, c Credentials) (context.Context, error) {
	if s.auth == nil {
		return ctx, nil
	}
	caller, err := s.auth.Authenticate(ctx, c)
	if err != nil {
		return nil, err
	}
	return withCaller(ctx, caller), nil
}

// ServeHTTP implements http.Handler: the card, JSON-RPC at /rpc and HTTP+JSON.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.http.ServeHTTP(w, r) }

// Close stops all turns and streams, and waits for them until the context ends. What
// was cut off can be resumed: this server's successor does so when a client asks for
// the task. The store stays open. Closing twice does nothing.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	s.stop(errStopped)
	done := make(chan struct{})
	go func() {
		s.turns.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = fmt.Errorf("a2aserver: not all turns have ended: %w", context.Cause(ctx))
	}
	if s.hooks != nil {
		err = errors.Join(err, s.hooks.close(ctx))
	}
	return err
}

// Card returns the card of a tenant's tree, or of the tree itself for "".
func (s *Server) Card(tenant string) (*sdk.AgentCard, error) {
	base := ""
	if s.base != nil {
		base = strings.TrimSuffix(s.base.String(), "/")
	}
	return s.cardAt(tenant, base)
}

func (s *Server) cardAt(tenant, base string) (*sdk.AgentCard, error) {
	t := s.trees[tenant]
	if t == nil {
		return nil, fmt.Errorf("a2aserver: there is no tenant %q", tenant)
	}
	root := t.runner.Tree().Root().Agent
	card := &sdk.AgentCard{Name: root.Name(), Description: root.Description(), Version: s.version,
		Capabilities:      sdk.AgentCapabilities{Streaming: true, PushNotifications: s.hooks != nil, ExtendedAgentCard: s.auth != nil},
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Skills: []sdk.AgentSkill{{ID: root.Name(), Name: root.Name(), Description: root.Description(), Tags: []string{}}}}
	card.SupportedInterfaces = append(card.SupportedInterfaces,
		&sdk.AgentInterface{URL: base + "/rpc", ProtocolBinding: sdk.TransportProtocolJSONRPC, ProtocolVersion: sdk.Version, Tenant: tenant},
		&sdk.AgentInterface{URL: base, ProtocolBinding: sdk.TransportProtocolHTTPJSON, ProtocolVersion: sdk.Version, Tenant: tenant})
	for _, i := range s.more {
		card.SupportedInterfaces = append(card.SupportedInterfaces, &i)
	}
	return card, nil
}
