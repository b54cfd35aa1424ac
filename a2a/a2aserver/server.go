package a2aserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/agentarbor/arbor/a2a/a2aserver/push"
	"github.com/agentarbor/arbor/a2a/cardsign"
	"github.com/agentarbor/arbor/a2a/internal/wire"
	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/tail"
)

// Server serves one tree, or several as tenants, as A2A agents. It is an http.Handler
// and safe for concurrent use.
type Server struct {
	config
	store   live.Store
	shared  bool               // the turns of the tree itself are others' too
	trees   map[string]*served // by tenant
	hooks   *push.Sender       // nil: no push notifications
	front   http.Handler
	checked a2asrv.RequestHandler // the operations behind the checks of all bindings
	ledgers ledgers

	background context.Context // of what webhooks are told
	stop       context.CancelFunc
	posts      sync.WaitGroup

	mu         sync.Mutex // guards what follows
	closed     bool
	posting    map[push.Task]bool // tasks whose events are posted; true: look at it again
	firstPause time.Duration      // before a task that could not be read is read again for its webhooks
}

// served is one tree of a server.
type served struct {
	*Server
	tenant string
	app    string // of its sessions' keys
	id     string // by which chains of agents name it
	turns  *live.Turns
}

// config is what the options say.
type config struct {
	app        string
	base       *url.URL
	local      *url.URL               // without a public URL, where HTTP is served; its host may be missing
	roots      map[string]agent.Agent // by tenant
	runnerOpts []runner.Option
	wait       time.Duration
	auth       Authenticator
	logger     *slog.Logger
	more       []sdk.AgentInterface
	compat     *Compat
	pushOpts   *push.Options
	web        HTTPOptions
	card       CardOptions
	maxFile    int64
	direct     func(*sdk.Message) bool
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

// WithLocalURL sets where the server is reached over HTTP, for the extended cards of clients that call over another
// binding and so do not say it. Without a host, as in http://:8420, the card names the host that the client called.
// Without either URL such a client gets no extended card.
func WithLocalURL(base string) Option {
	return func(c *config) {
		u, err := url.Parse(base)
		if err != nil || u.Port() == "" || u.Scheme != "http" && u.Scheme != "https" {
			c.errs = append(c.errs, errors.New("the local URL is not an http or https URL with a port"))
		}
		c.local = u
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
// same server is served over gRPC. A URL that is only a port, such as :9000, gets the host that the rest of the card
// names.
func WithInterface(i sdk.AgentInterface) Option {
	return func(c *config) { c.more = append(c.more, i) }
}

// Compat serves version 0.3 of the protocol beside version 1.0. The package a2a/a2av0 makes one.
type Compat struct {
	// Legacy is the JSON-RPC binding. Webhooks get its events.
	Legacy wire.Legacy
	// Card returns a card that peers of both versions can read.
	Card func(*sdk.AgentCard) ([]byte, error)
}

// ErrTooManyCalls is in the error of a call that is refused because its caller has too many
// under way. It is an a2a.ErrServerError, too.
var ErrTooManyCalls = wire.ErrTooManyCalls

// WithCompat also serves clients of protocol 0.3.
func WithCompat(compat Compat) Option { return func(c *config) { c.compat = &compat } }

// WithPush configures push notifications; WithoutPush refuses them.
func WithPush(o push.Options) Option { return func(c *config) { c.pushOpts = &o } }

// WithoutPush refuses push notifications, and the card says so.
func WithoutPush() Option { return func(c *config) { c.pushOpts = nil } }

// HTTPOptions are the limits of the HTTP bindings, and who may reach them. The zero value
// is safe.
type HTTPOptions struct {
	// Hosts are names under which the server is reached, besides those of loopback and
	// that of its public URL. A server that listens on loopback refuses requests for
	// others, because a page in a browser can point a name of its own at it.
	Hosts []string
	// Origins are the origins of web pages that may call, such as
	// https://app.example.com; "*" is any. By default only the server's own may.
	Origins []string
	// MaxBody bounds the body of a request in bytes; 0 is [access.MaxBody].
	MaxBody int64
	// Streams bounds the streams, and the requests that wait for an answer, that a caller has open in all
	// bindings, and those of all callers. Other APIs may share it. nil is [access.MaxStreams] and [access.MaxAllStreams].
	Streams *access.Limit
	// Turns bounds the turns that run for a caller, and for all; nil is 1,024 for a caller. [NewOn] does
	// not use it.
	Turns *access.Limit
	// KeepAlive is the silence after which a stream sends a comment, so that nothing
	// on the way closes it; 0 is 15 s, a negative one sends none.
	KeepAlive time.Duration
	// BodyTimeout bounds the time that a request's body takes to arrive; 0 is a minute.
	BodyTimeout time.Duration
	// WriteTimeout bounds the time that a client takes to accept a piece of an answer;
	// 0 is 30 s. A slower one is disconnected; no turn waits for it.
	WriteTimeout time.Duration
}

// WithHTTP sets limits of the HTTP bindings.
func WithHTTP(o HTTPOptions) Option { return func(c *config) { c.web = o } }

// CardOptions are what the card says besides what the tree says of itself.
type CardOptions struct {
	// Version is the agent's own version; "" is 0.
	Version  string
	Provider *sdk.AgentProvider
	// InputModes are the media types of parts that clients may send; none are text,
	// JSON, the usual images and PDF. What a model makes of them is its own.
	InputModes []string
	// Signer signs the card. It needs a public URL.
	Signer *cardsign.Signer
}

// WithCard says more in the card.
func WithCard(o CardOptions) Option { return func(c *config) { c.card = o } }

// WithMaxFile bounds the bytes of a file that is sent as a part of an artifact, 4 MiB without
// it. In the place of a larger one is a line that says so.
func WithMaxFile(bytes int64) Option { return func(c *config) { c.maxFile = bytes } }

// WithDirectAnswers answers the messages that direct says with a message instead of a task,
// once the turn is over: it holds all that the agent has said and made. Over a stream it is
// the only event. The client gets a task nevertheless if it does not want to wait, and if the
// turn does not come to its end, because it failed or waits for something. What continues a task is never
// answered so. direct must be safe for concurrent use, and must not change the message.
func WithDirectAnswers(direct func(*sdk.Message) bool) Option {
	return func(c *config) { c.direct = direct }
}

// New makes a server for the tree below root. Tasks are projections of the sessions in
// the store, so they are there after a restart, and a session that was begun elsewhere
// is a context. The store stays the caller's; if it is a session.Tail, tasks can be
// followed word by word through all processes that use it, else within this one.
// Tasks with stored webhooks that a restart cut off are taken up again at once, others
// when a client asks for them.
//
// The error reports all problems of the options and of the trees at once.
func New(root agent.Agent, store session.Store, opts ...Option) (*Server, error) {
	if store == nil {
		return nil, errors.New("a2aserver: the store is nil")
	}
	follows, ok := store.(live.Store)
	if !ok {
		var err error
		if follows, err = tail.New(store); err != nil {
			return nil, err
		}
	}
	return newServer(root, nil, follows, opts)
}

// NewOn is [New] for a tree whose turns are begun elsewhere, too: what is begun here is
// followed there, and the other way round. The turns stay the caller's, who closes them
// after the server. When they get another tree, the card describes that one. [WithRunnerOptions] and [HTTPOptions].Turns
// do not apply to these turns.
func NewOn(turns *live.Turns, opts ...Option) (*Server, error) {
	if turns == nil {
		return nil, errors.New("a2aserver: the turns are nil")
	}
	return newServer(turns.Runner().Tree().Root().Agent, turns, turns.Store(), opts)
}

func newServer(root agent.Agent, turns *live.Turns, store live.Store, opts []Option) (*Server, error) {
	s := &Server{store: store, shared: turns != nil, posting: make(map[push.Task]bool), firstPause: time.Second, trees: make(map[string]*served)}
	s.config = config{app: session.DefaultApp, roots: map[string]agent.Agent{"": root}, wait: 30 * time.Second,
		logger: slog.New(slog.DiscardHandler), pushOpts: &push.Options{}, maxFile: 4 << 20}
	s.ledgers.byID = make(map[session.Key]*ledger)
	if err := option.Apply(&s.config, opts); err != nil {
		return nil, fmt.Errorf("a2aserver: %w", err)
	}
	errs := s.errs
	if s.logger == nil {
		errs = append(errs, errors.New("a2aserver: the logger is nil"))
	}
	if err := session.CheckKey(session.Key{App: s.app, User: session.DefaultUser, ID: "a"}); err != nil {
		errs = append(errs, fmt.Errorf("a2aserver: the app %.64q cannot be in the key of a session", s.app))
	}
	if err := errors.Join(append(errs, s.plant(turns))...); err != nil {
		return nil, err
	}
	if s.pushOpts != nil {
		var err error
		var legacy push.Encoder
		if s.compat != nil {
			legacy = s.compat.Legacy.Event
		}
		if s.hooks, err = push.New(*s.pushOpts, s.logger, legacy); err != nil {
			return nil, fmt.Errorf("a2aserver: %w", err)
		}
	}
	if err := s.serve(); err != nil {
		return nil, err
	}
	s.background, s.stop = context.WithCancel(context.Background())
	if s.hooks != nil && s.pushOpts.Store != nil {
		s.posts.Go(func() {
			if err := s.recover(); err != nil && s.background.Err() == nil {
				s.logger.Error("the updates of some tasks cannot be posted to their webhooks after this restart", "error", err)
			}
		})
	}
	return s, nil
}

// plant makes the trees, that of "" on turns of others if there are any.
func (s *Server) plant(turns *live.Turns) error {
	unique := rand.Text() // of this process, if the server has no address to be known by
	limit := s.web.Turns
	if limit == nil {
		limit = access.NewLimit(0, 0)
	}
	var errs []error
	for tenant, root := range s.roots {
		t := &served{Server: s, tenant: tenant, app: tenant, id: unique + "/" + tenant}
		if s.base != nil {
			t.id = strings.TrimSuffix(s.base.String(), "/") + "/" + tenant
		}
		if tenant == "" {
			t.app, t.turns = s.app, turns
		} else if tenant == s.app {
			errs = append(errs, fmt.Errorf("tenant %q has the name of the app: their sessions would be the same", tenant))
		}
		s.trees[tenant] = t
		if t.turns != nil {
			continue
		}
		run, err := runner.New(root, s.store, append([]runner.Option{runner.WithLogger(s.logger), runner.WithStreaming()}, s.runnerOpts...)...)
		if err == nil {
			t.turns, err = live.New(run, s.store, live.WithApp(s.app), live.WithLimit(limit), live.WithAutoResume(began), live.WithLogger(s.logger))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// RequestHandler returns the server's operations, for further bindings such as gRPC.
// Its callers authenticate with [Server.Authenticate] first.
func (s *Server) RequestHandler() a2asrv.RequestHandler { return s.checked }

// Authenticate returns a context that carries the caller, for bindings that are not
// HTTP. The error is a2a.ErrUnauthenticated or a2a.ErrUnauthorized, or says why the
// credentials could not be checked.
func (s *Server) Authenticate(ctx context.Context, c access.Credentials) (context.Context, error) {
	ctx, err := wire.Authenticate(ctx, s.auth, c)
	if err != nil {
		return nil, err
	}
	if s.local != nil {
		ctx = wire.WithBase(ctx, s.localURL(c))
	}
	return ctx, nil
}

// ServiceParams returns what handlers may see of the headers of a request, or of what another binding has in their
// place: all but credentials, and each extension of the lists of A2A-Extensions, at most 64.
func (s *Server) ServiceParams(h http.Header) *a2asrv.ServiceParams {
	return wire.ServiceParams(h, wire.Secrets(s.auth))
}

// localURL is the base URL for a client that calls over another binding than HTTP.
func (s *Server) localURL(c access.Credentials) string {
	u := *s.local
	if u.Hostname() == "" && c.Header != nil {
		for _, called := range c.Header(":authority") {
			if to, err := url.Parse("//" + called); err == nil && wire.IsHost(called) {
				u.Host = net.JoinHostPort(to.Hostname(), u.Port())
			}
		}
	}
	if u.Hostname() == "" {
		u.Host = "localhost" + u.Host
	}
	return u.String()
}

// ServeHTTP implements http.Handler: the card, JSON-RPC at /rpc and HTTP+JSON.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.front.ServeHTTP(w, r) }

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
	s.stop()
	var ends sync.WaitGroup
	var errs []error
	var mu sync.Mutex // guards errs
	for _, t := range s.trees {
		if s.shared && t.tenant == "" {
			continue
		}
		ends.Go(func() {
			err := t.turns.Close(ctx)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	ends.Wait()
	posted := make(chan struct{})
	go func() {
		s.posts.Wait()
		close(posted)
	}()
	select {
	case <-posted:
	case <-ctx.Done():
		errs = append(errs, fmt.Errorf("a2aserver: not all webhooks were notified: %w", context.Cause(ctx)))
	}
	if s.hooks != nil {
		errs = append(errs, s.closeHooks(ctx))
	}
	return errors.Join(errs...)
}

// closeHooks delivers what waits for webhooks. Where their configs are stored, those that
// do not answer at once hear the rest after the restart.
func (s *Server) closeHooks(ctx context.Context) error {
	if s.pushOpts.Store == nil {
		return s.hooks.Close(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := s.hooks.Close(ctx); err != nil {
		s.logger.Info("webhooks get the remaining updates after the restart", "error", err)
	}
	return nil
}
