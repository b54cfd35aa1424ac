// Package serve has the commands that serve a tree: serve, dev and mcp.
package serve

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/a2a/cardsign"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/cli/internal/reload"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/tools"
)

// options holds the flags of serve, and values derived from them.
type options struct {
	addr, url     string
	apis          []string
	origins       []string
	grpc          string // the address, "" for none
	a2a03         bool
	mcp           bool
	tokenFile     string
	noToken       bool
	approver      []string
	clientTools   []string
	pageState     []string
	deciders      tools.By
	users         string
	tls           access.TLSFiles
	signKey       string
	webhookFile   string
	localWebhooks bool
	inspector     string
	noReload      bool
	metrics       string
	log           string
	drain         time.Duration
	adoptEvery    time.Duration
	limits        limitOptions
	keep          factory.Size
	kept          *server.Requests // nil without --keep-requests
	reloads       server.Reloads
	flags         *pflag.FlagSet
	open          bool // open the page in a browser, if there is one
	dev           bool // serve for the developer of the tree
}

// Command returns the command serve.
func Command(f *factory.Factory) *cobra.Command {
	o := &options{}
	cmd := f.WithPath("serve", func(cmd *cobra.Command, path string, _ []string) error { return serve(cmd.Context(), f, path, o) })
	serveFlags(f, cmd.Flags(), o)
	return cmd
}

// serveFlags adds the flags of serve. The values in o are the defaults.
func serveFlags(f *factory.Factory, fs *pflag.FlagSet, o *options) {
	o.flags = fs
	fs.StringVar(&o.addr, "addr", "127.0.0.1:8420", "listen on `HOST:PORT` (port 0: any free port)")
	fs.StringVar(&o.url, "url", "", "announce `URL` as the public address (default: the address that the client used)")
	fs.StringSliceVar(&o.apis, "apis", allAPIs[:], "serve these `APIS`: "+strings.Join(allAPIs[:], ", "))
	fs.StringSliceVar(&o.origins, "allow-origin", nil, "allow web pages from `ORIGIN`, such as https://app.example.com, to call with a token")
	if f.GRPC != nil {
		fs.StringVar(&o.grpc, "grpc", "", "also serve gRPC on `HOST:PORT`, without TLS")
	}
	if f.A2A03 != nil {
		fs.BoolVar(&o.a2a03, "a2a03", false, "also serve clients of A2A 0.3")
	}
	if f.MCP != nil && f.MCP.Server != nil {
		fs.BoolVar(&o.mcp, "mcp", false, "also serve the Model Context Protocol at "+mcpPath)
	}
	fs.StringVar(&o.tokenFile, "token-file", "", "read the owner's token from `FILE` (default: from "+factory.TokenVariable+", or generate one)")
	fs.StringSliceVar(&o.clientTools, "client-tools", []string{"all"}, "offer the tools that clients bring to these `AGENTS`: all, none, or names separated by commas")
	fs.StringSliceVar(&o.pageState, "page-state", nil, "let pages write these `KEYS` of a session's state over AG-UI, separated by commas (default: none)")
	fs.StringSliceVar(&o.approver, "approver", []string{"staff"}, "let these `APPROVERS` decide about waiting calls where agent, tool and rules set none: user, staff, or rights separated by commas")
	fs.BoolVar(&o.noToken, "no-token", false, "accept every caller as the owner; only on a loopback address")
	factory.UsersFlag(f, fs, &o.users)
	fs.StringVar(&o.tls.Cert, "tls-cert", "", "read the server's certificate from the PEM `FILE`, again whenever it changes")
	fs.StringVar(&o.tls.Key, "tls-key", "", "read the key of --tls-cert from the PEM `FILE`")
	fs.StringVar(&o.tls.ClientCA, "client-ca", "", "accept client certificates signed by the authorities in the PEM `FILE`; a certificate names a user of the users file")
	fs.StringVar(&o.signKey, "sign-key", "", "sign the agent card with the private key in the PEM `FILE`")
	fs.StringVar(&o.webhookFile, "webhook-file", "", "store the clients' push notification settings in `FILE` (default: in memory)")
	fs.BoolVar(&o.localWebhooks, "allow-local-webhooks", false, "allow push notifications to this machine and over http")
	fs.StringVar(&o.inspector, "inspector", "", "serve the page in `DIR` at /inspect/ instead of the built-in one")
	if f.Metrics != nil {
		fs.StringVar(&o.metrics, "metrics", "", "serve Prometheus metrics on `HOST:PORT`, without a token")
	}
	fs.StringVar(&o.log, "log", "", "log each request to standard error in this `FORMAT`: text or json")
	fs.DurationVar(&o.drain, "drain", 0, "when the server stops, give running turns `TIME` to end")
	fs.DurationVar(&o.adoptEvery, "take-over", time.Second, "look every `TIME` for turns whose process died, and adopt them (0: never)")
	o.limits.flags(fs)
	fs.Var(&o.keep, "keep-requests", "keep the last requests to models in `SIZE` of memory, such as 32MiB, and show them in the API as they were sent")
	f.DBFlag(fs)
	f.RedisFlag(fs)
	f.ModelFlag(fs)
	f.PricesFlag(fs)
	reload.Flag(f, fs, &o.noReload)
	f.DeskFlag(fs)
}

// check returns an error for invalid flags, before anything starts.
func (o *options) check() error {
	for _, other := range []string{"token-file", "users", "client-ca"} {
		if err := factory.Exclusive(o.flags, "no-token", other); err != nil {
			return err
		}
	}
	if err := factory.Needs(o.flags, "client-ca", "tls-cert"); err != nil {
		return err
	}
	if o.url != "" {
		if u, err := url.Parse(o.url); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return factory.Usagef("--url %s: give an address such as https://agents.example.com, without user, query and fragment", factory.WithoutPassword(o.url))
		}
	}
	if o.drain < 0 {
		return factory.Usagef("--drain %s: give a time that is not negative, such as 30s", o.drain)
	}
	if o.adoptEvery < 0 {
		return factory.Usagef("--take-over %s: give a time that is not negative, such as 5s (0: never)", o.adoptEvery)
	}
	if err := o.limits.check(); err != nil {
		return err
	}
	return o.checkAPIs()
}

// service is a server that [serve] sets up in steps.
type service struct {
	*options
	f    *factory.Factory
	path string

	files   *reload.Watched
	tree    *factory.LoadedTree // the newest one
	loading sync.Mutex          // held while a tree is loaded
	editing sync.Mutex          // held while the file of an agent is written

	certified *tls.Config      // nil without TLS
	keys      []byte           // of the signer
	signer    *cardsign.Signer // nil without --sign-key
	logger    *slog.Logger     // of requests, nil without --log
	measured  factory.Metrics

	web, grpcAt net.Listener // grpcAt is nil without --grpc
	who         *callers
	base        string // the public address
	a2a         []a2aserver.Option

	start     func(*factory.LoadedTree) error
	swap      func(*runner.Runner) // swaps the runner of the handler of MCP
	limit     *access.Limit        // of turns
	turns     *live.Turns
	handlers  []http.Handler
	closing   []closer // in this order
	listeners []listener
}

// gcPercent replaces Go's 100 as the growth of the heap, in percent of what is in use, that begins a collection. A stream
// then takes 30 kB less, for 3 % more processor time.
const gcPercent = 60

func serve(ctx context.Context, f *factory.Factory, path string, o *options) error {
	if f.Getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	}
	s := &service{options: o, f: f, path: path, swap: func(*runner.Runner) {}}
	for _, step := range []func(context.Context) error{s.configure, s.listen, s.announce, s.run, s.openHandlers, s.openA2A, s.openMCP} {
		if err := step(ctx); err != nil {
			if s.turns != nil { // they use the store, which the command closes
				_ = s.turns.Close(ctx)
			}
			return err
		}
	}
	s.listeners = append(s.listeners, webListener(s.web, o.limits.arrives(o.root(server.Mux(s.handlers...))), s.certified))
	if err := s.tellPage(); err != nil { // print it first, where people see it
		return err
	}
	f.Notice(s.tree)
	f.Say("serving %s at %s; %s", s.tree.Agents.Root().Agent.Name(), s.base, s.who.note)
	fmt.Fprintln(f.Stdout, strings.TrimSuffix(s.base, "/"))
	reload.KeepUp(ctx, f, s.files, f.Stderr, s.reload)
	return s.untilStopped(ctx)
}

// configure reads the files of the flags, and loads the tree.
func (s *service) configure(context.Context) (err error) {
	if err = s.check(); err != nil {
		return err
	}
	if s.a2a, err = a2aOptions(s.f, s.options); err != nil {
		return err
	}
	if s.keys, s.signer, err = s.options.signer(s.f); err != nil {
		return err
	}
	if s.logger, err = s.requestLog(s.f.Stderr); err != nil {
		return err
	}
	if s.tls != (access.TLSFiles{}) {
		s.tls.Logger = s.f.Warnings()
		if s.certified, err = s.tls.Config(); err != nil {
			return factory.Usagef("--tls-cert: %s", factory.Plain(err, "access"))
		}
	}
	s.files = reload.Watch(s.f, s.path, s.noReload)
	if s.tree, err = s.f.Load(s.path); err == nil {
		s.f.AtEnd(func() { s.tree.End() }) // the newest one
		s.sources()
	}
	return err
}

// sources sets the files of the agents of the last loaded tree for the page.
func (s *service) sources() {
	if of := s.f.Sources; of != nil {
		s.reloads.SetSources(func(agent string) (server.Source, bool) {
			at, ok := of(agent)
			return server.Source(at), ok
		})
	}
}

// listen opens the addresses, and determines the accepted callers.
func (s *service) listen(ctx context.Context) (err error) {
	if s.web, err = listen(s.f, "--addr", s.addr); err != nil {
		return err
	}
	all := []net.Listener{s.web}
	if s.grpc != "" {
		if s.grpcAt, err = listen(s.f, "--grpc", s.grpc); err != nil {
			return err
		}
		all = append(all, s.grpcAt)
		s.a2a = append(s.a2a, a2aserver.WithInterface(s.f.GRPC.Interface(s.announced(s.grpcAt.Addr()))))
	}
	s.who, err = callersOf(ctx, s.f, s.options, all)
	return err
}

// announce determines the public address, and sets up the metrics.
func (s *service) announce(context.Context) (err error) {
	scheme := "http://"
	if s.certified != nil {
		scheme = "https://"
	}
	switch s.base = s.url; {
	case s.base != "":
	case s.signer != nil && !onLoopback(s.web.Addr()):
		return factory.Usagef("--sign-key needs --url: a signed card must contain the server's public address")
	default:
		s.base = scheme + reachable(s.web.Addr())
		s.a2a = append(s.a2a, a2aserver.WithLocalURL(scheme+s.announced(s.web.Addr())))
	}
	s.measured, s.listeners, err = measured(s.f, s.options)
	return err
}

// run opens the store and starts the turns.
func (s *service) run(ctx context.Context) error {
	db, err := s.f.OpenDB(ctx, true)
	if err != nil {
		return err
	}
	store, err := db.Tail() // so that clients can also follow turns of other processes
	if err != nil {
		return err
	}
	runs := []runner.Option{runner.WithStreaming()}
	if s.keep > 0 {
		if s.kept, err = server.KeepRequests(int64(s.keep)); err != nil {
			return err
		}
		runs = append(runs, runner.WithInterceptors(s.kept))
	}
	s.start = func(t *factory.LoadedTree) error { return s.f.Start(ctx, t, store, runs...) }
	if err := s.start(s.tree); err != nil {
		return err
	}
	if s.deciders, err = tools.ReadBy(s.approver...); err != nil {
		return factory.Usagef("--approver: %w", err)
	}
	s.limit = access.NewLimit(s.limits.userTurns, s.limits.turns)
	opts := []live.Option{live.WithLimit(s.limit), live.WithLogger(s.f.Warnings()), live.WithApprover(s.deciders)}
	if s.measured.Observer != nil {
		opts = append(opts, live.WithObserver(s.measured.Observer))
	}
	if db.Path != factory.MemoryDB { // no other process has it
		opts = append(opts, live.WithAdoption(s.adoptEvery))
	}
	s.turns, err = live.New(s.tree.Runner, store, opts...)
	return err
}

// guarded returns the options of the guards of all APIs.
func (s *service) guarded() access.Options {
	return access.Options{Users: s.who, Hosts: hostOf(s.url), Origins: s.origins,
		Streams: s.limits.open, MaxBody: int64(s.limits.body), BodyTimeout: s.limits.bodyTime}
}

// openHandlers returns the handlers of all APIs except A2A and MCP.
func (s *service) openHandlers(context.Context) error {
	web := s.guarded()
	web.Logger, web.Observer = s.logger, s.measured.Observer
	web.Expose = []string{"ETag", "Location", "Retry-After", "X-Request-Id", "Arbor-Session", "Arbor-Ignored"}
	guard, err := access.New(web)
	if err != nil { // the limits are checked
		return factory.Usagef("--allow-origin: %s", factory.Plain(err, "access"))
	}
	if s.handlers, err = webHandlers(s.f, s.options, s.turns, guard, s.who, s.workshop()...); err != nil {
		return err
	}
	if !s.has(apiNative) {
		s.handlers = append(s.handlers, server.Health(s.turns))
	}
	s.closing = []closer{s.turns}
	return nil
}

func (s *service) openA2A(context.Context) error {
	if !s.has(apiA2A) {
		return nil
	}
	a, err := s.a2aServer()
	if err != nil {
		return err
	}
	s.handlers = append(s.handlers, server.At("", named(apiA2A, a)))
	s.closing = append([]closer{a}, s.closing...)
	if s.keys != nil {
		s.handlers = append(s.handlers, keySet(s.keys))
	}
	if s.grpcAt == nil {
		return nil
	}
	d, err := grpcListener(s.f, s.grpcAt, a, int(s.limits.body))
	s.listeners = append(s.listeners, d)
	return err
}

func (s *service) openMCP(context.Context) error {
	if !s.mcp {
		return nil
	}
	m, err := s.f.MCP.Server(s.tree.Runner, factory.Owner.Name, s.deciders, s.guarded(), s.limit, s.f.Warnings())
	if err != nil {
		return factory.Usage(err)
	}
	s.swap = m.Swap
	s.handlers = append(s.handlers, server.At(mcpPath, named("mcp", m)))
	return nil
}

// reload makes new turns run the tree in the current files.
func (s *service) reload() (_ *agent.Tree, err error) {
	defer func() {
		if err != nil {
			s.reloads.Failed(treeProblems(err)...)
		} else {
			s.reloads.Loaded()
		}
	}()
	s.loading.Lock()
	defer s.loading.Unlock()
	next, err := s.f.Load(s.path)
	if err != nil {
		return nil, err
	}
	if err = s.start(next); err == nil {
		err = s.turns.Swap(next.Runner, s.tree.End)
	}
	if err != nil {
		next.End()
		return nil, err
	}
	s.swap(next.Runner)
	s.tree = next
	s.sources()
	return next.Agents, nil
}

// treeProblems returns the problems of a reload in the form for clients.
func treeProblems(err error) []server.TreeProblem {
	if problems, _ := factory.ProblemsOf(err); problems != nil {
		return problems
	}
	return []server.TreeProblem{{Message: strings.TrimSpace(err.Error())}}
}

// hostOf returns the host of a public URL, if there is one.
func hostOf(public string) []string {
	if u, err := url.Parse(public); err == nil && u.Host != "" {
		return []string{u.Host}
	}
	return nil
}

// tellPage prints the address of the page, and opens it for a developer. The address signs the owner in once.
func (s *service) tellPage() error {
	if !s.has(apiInspector) {
		return nil
	}
	page, how := strings.TrimSuffix(s.base, "/")+"/inspect/", ""
	if s.who.signIn != nil {
		code, err := s.who.signIn.Code(factory.Owner.Name)
		if err != nil {
			return err
		}
		page, how = page+"#code="+code, " (once, within five minutes)"
	}
	s.f.Say("page at %s%s", page, how)
	openPage(s.f, s.options, page)
	return nil
}
