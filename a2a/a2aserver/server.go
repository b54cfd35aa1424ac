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
	"sync"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/agentarbor/arbor/a2a/a2aserver/push"
	"github.com/agentarbor/arbor/a2a/cardsign"
	"github.com/agentarbor/arbor/a2a/internal/wire"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/tail"
)

// Server serves one tree, or several as tenants, as A2A agents. It is an http.Handler and safe for concurrent use.
type Server struct {
	config
	store   live.Store
	shared  bool               // other code also uses the turns of the tree itself
	trees   map[string]*served // by tenant
	hooks   *push.Sender       // nil if push notifications are off
	front   http.Handler
	checked a2asrv.RequestHandler // the operations with the checks for all bindings
	ledgers ledgers

	arrivals arrivals

	background context.Context // ends the posts to webhooks
	stop       context.CancelFunc
	posts      sync.WaitGroup

	mu         sync.Mutex // guards the fields below
	closed     bool
	posting    map[push.Task]bool // tasks whose events are being posted; true means to read the task again
	firstPause time.Duration      // before the first retry to read a task for its webhooks
}

// served is one tree of a server.
type served struct {
	*Server
	tenant string
	app    string // the app in the keys of its sessions
	id     string // its name in the chains of agents
	turns  *live.Turns

	documentMu sync.Mutex // guards document
	document   *cardDocument
}

// config contains the values of the options.
type config struct {
	app        string
	base       *url.URL
	local      *url.URL               // where HTTP is served if there is no public URL; may have no host
	roots      map[string]agent.Agent // by tenant
	runnerOpts []runner.Option
	wait       time.Duration
	auth       Authenticator
	logger     *slog.Logger
	more       []sdk.AgentInterface
	compat     *wire.Legacy
	pushOpts   *push.Options
	web        HTTPOptions
	card       CardOptions
	maxFile    int64
	direct     func(*sdk.Message) bool
	errs       []error
}

// Option configures a Server.
type Option func(*config)

// WithURL sets the public base URL of the server, which the card names. Without it, the card names the host of each
// request for it.
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

// WithLocalURL sets the URL at which the server is reached over HTTP. The extended card uses it for clients of other
// bindings, which do not send it. If it has no host, as in http://:8420, the card names the host that the client
// called. Without a public and a local URL, such a client gets no extended card.
func WithLocalURL(base string) Option {
	return func(c *config) {
		u, err := url.Parse(base)
		if err != nil || u.Port() == "" || u.Scheme != "http" && u.Scheme != "https" {
			c.errs = append(c.errs, errors.New("the local URL is not an http or https URL with a port"))
		}
		c.local = u
	}
}

// WithApp sets the app in the keys of sessions. The sessions of a tenant have the tenant's name instead. Defaults to
// session.DefaultApp.
func WithApp(app string) Option { return func(c *config) { c.app = app } }

// WithTenant serves another tree at the same address. Requests select it with this name as their tenant.
func WithTenant(name string, root agent.Agent) Option {
	return func(c *config) {
		if err := agent.CheckName(name); err != nil {
			c.errs = append(c.errs, fmt.Errorf("invalid tenant name %.64q: %w", name, err))
		} else if c.roots[name] != nil {
			c.errs = append(c.errs, fmt.Errorf("tenant %q is given twice", name))
		}
		c.roots[name] = root
	}
}

// WithRunnerOptions configures the runners of all trees, for example with limits, budgets and interceptors.
func WithRunnerOptions(opts ...runner.Option) Option {
	return func(c *config) { c.runnerOpts = append(c.runnerOpts, opts...) }
}

// WithWait sets how long a message waits for the end of another task of its context before the server refuses it.
// Defaults to 30 s.
func WithWait(d time.Duration) Option { return func(c *config) { c.wait = d } }

// WithAuthenticator sets how the server identifies callers. Each caller has separate contexts and tasks, and does not
// see those of others. Without it, all requests have the same caller.
func WithAuthenticator(a Authenticator) Option { return func(c *config) { c.auth = a } }

// WithLogger sets the logger. By default the server logs nothing.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.logger = l } }

// WithInterface adds an interface to the card, such as the address of the same server over gRPC. A URL that is only a
// port, such as :9000, gets the host of the other URLs of the card.
func WithInterface(i sdk.AgentInterface) Option {
	return func(c *config) { c.more = append(c.more, i) }
}

// ErrTooManyCalls reports that a call was refused because its caller has too many open calls. The error is also an
// a2a.ErrServerError.
var ErrTooManyCalls = wire.ErrTooManyCalls

// WithCompat also serves clients of protocol 0.3. Package a2a/a2av0 creates what it needs.
func WithCompat(legacy wire.Legacy) Option { return func(c *config) { c.compat = &legacy } }

// WithPush configures push notifications. By default they are on with the zero Options.
func WithPush(o push.Options) Option { return func(c *config) { c.pushOpts = &o } }

// WithoutPush refuses push notifications, and the card says so.
func WithoutPush() Option { return func(c *config) { c.pushOpts = nil } }

// HTTPOptions contains the limits of the HTTP bindings, and who may call them. The zero value is safe.
type HTTPOptions struct {
	// Hosts are host names of the server in addition to loopback names and the host of its public URL. A server that
	// listens on loopback refuses requests for other hosts, because a page in a browser can resolve its own host name
	// to loopback.
	Hosts []string
	// Origins are the origins of web pages that may call, such as https://app.example.com; "*" allows all. Defaults to
	// the server's own origin.
	Origins []string
	// MaxBody is the largest size of a request's body, in bytes. Defaults to [access.MaxBody].
	MaxBody int64
	// Streams limits the open streams and the requests that wait for an answer, per caller and in total, over all
	// bindings. Other APIs may share it. Defaults to [access.MaxStreams] and [access.MaxAllStreams].
	Streams *access.Limit
	// Turns limits the running turns, per caller and in total. Defaults to 1,024 per caller. [NewOn] does not use it.
	Turns *access.Limit
	// KeepAlive is the time without an event after which a stream sends a comment, so that proxies do not close it.
	// Defaults to 15 s. A negative value sends none.
	KeepAlive time.Duration
	// BodyTimeout limits the time in which a request's body must arrive. Defaults to one minute.
	BodyTimeout time.Duration
	// WriteTimeout limits the time in which a client must accept a piece of an answer. Defaults to 30 s. The server
	// disconnects a slower client. No turn waits for a client.
	WriteTimeout time.Duration
}

// WithHTTP sets the limits of the HTTP bindings.
func WithHTTP(o HTTPOptions) Option { return func(c *config) { c.web = o } }

// CardOptions contains what the card says in addition to what the tree provides.
type CardOptions struct {
	// Version is the version of the agent. Defaults to "0".
	Version  string
	Provider *sdk.AgentProvider
	// InputModes are the media types of the parts that clients may send. Defaults to text, JSON, the usual images and
	// PDF. Whether a model can use them depends on the model.
	InputModes []string
	// Signer signs the card. It requires a public URL.
	Signer *cardsign.Signer
}

// WithCard sets the additional content of the card.
func WithCard(o CardOptions) Option { return func(c *config) { c.card = o } }

// WithMaxFile sets the largest size in bytes of a file that is sent as a part of an artifact. In the place of a larger
// file the client gets a text that says so. Defaults to 4 MiB.
func WithMaxFile(bytes int64) Option { return func(c *config) { c.maxFile = bytes } }

// WithDirectAnswers answers the messages for which direct returns true with a message instead of a task. The message is
// sent when the turn is over, and contains all texts and files of the agent. In a stream it is the only event. The
// client gets a task nevertheless if it does not want to wait, if the turn fails or waits for something, and if its
// message continues a task. direct must be safe for concurrent use, and must not change the message.
func WithDirectAnswers(direct func(*sdk.Message) bool) Option {
	return func(c *config) { c.direct = direct }
}

// New returns a server for the tree below root. Tasks are projections of the sessions in the store, so they survive a
// restart, and a session that was started elsewhere is a context. The caller closes the store. If the store is a
// live.Store, clients can follow the text of a task through every process that uses the store, and otherwise only
// through this process. Tasks that a restart interrupted are resumed at once if they have stored webhooks, and
// otherwise when a client asks for them.
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

// NewOn is [New] for turns that other code starts as well: clients of this server can follow turns that were started
// elsewhere, and the reverse. The caller closes the turns after the server. If the tree of the turns is replaced, the
// card describes the new tree. [WithRunnerOptions] and [HTTPOptions].Turns do not apply to these turns.
func NewOn(turns *live.Turns, opts ...Option) (*Server, error) {
	if turns == nil {
		return nil, errors.New("a2aserver: turns is nil")
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
		errs = append(errs, fmt.Errorf("a2aserver: the app %.64q is not valid in a session key", s.app))
	}
	if err := errors.Join(append(errs, s.loadTenants(turns))...); err != nil {
		return nil, err
	}
	if s.pushOpts != nil {
		var err error
		var legacy push.Encoder
		if s.compat != nil {
			legacy = s.compat.Event
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

// loadTenants creates the trees. The tree of the tenant "" runs on the given turns, if there are any.
func (s *Server) loadTenants(turns *live.Turns) error {
	unique := rand.Text() // names this process if the server has no URL
	limit := s.web.Turns
	if limit == nil {
		limit = access.NewLimit(0, 0)
	}
	var errs []error
	for tenant, root := range s.roots {
		t := &served{Server: s, tenant: tenant, app: tenant, id: unique + "/" + tenant}
		if s.base != nil {
			t.id = s.publicURL() + "/" + tenant
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
			t.turns, err = live.New(run, s.store, live.WithApp(s.app), live.WithLimit(limit), live.WithAutoResume(startedByA2A), live.WithLogger(s.logger))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// RequestHandler returns the server's operations for further bindings such as gRPC. Its callers must authenticate with
// [Server.Authenticate] first.
func (s *Server) RequestHandler() a2asrv.RequestHandler { return s.checked }

// Authenticate returns a context that contains the caller, for bindings other than HTTP. The error is
// a2a.ErrUnauthenticated or a2a.ErrUnauthorized, or says why the credentials could not be checked.
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

// ServiceParams returns the headers of a request, or their equivalent in another binding, that handlers may see: all
// except credentials. The lists of A2A-Extensions are split, into at most 64 extensions.
func (s *Server) ServiceParams(h http.Header) *a2asrv.ServiceParams {
	return wire.ServiceParams(h, wire.Secrets(s.auth))
}

// localURL returns the base URL for a client of a binding other than HTTP.
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

// ServeHTTP implements http.Handler. It serves the card, JSON-RPC at /rpc, and HTTP+JSON.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.front.ServeHTTP(w, r) }

// Close stops all turns and streams, and waits for them until the context ends. The interrupted turns can be resumed:
// the next server with the store does so when a client asks for the task. Close does not close the store. Further calls
// do nothing.
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

// closeHooks delivers the events that wait for webhooks. If the configs are stored, it waits for one second at most,
// because the other webhooks receive the rest after a restart.
func (s *Server) closeHooks(ctx context.Context) error {
	if s.pushOpts.Store == nil {
		return s.hooks.Close(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := s.hooks.Close(ctx); err != nil {
		s.logger.Info("webhooks will receive the remaining updates after a restart", "error", err)
	}
	return nil
}
