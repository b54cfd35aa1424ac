// Package serve has the commands that serve a tree: serve, dev and mcp.
package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/cli/internal/reload"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server"
	"github.com/agentarbor/arbor/tools"
)

// treeProblems returns an error of a reload as clients are told it.
func treeProblems(err error) (all []server.TreeProblem) {
	var files *agentfile.Error
	if errors.As(err, &files) {
		for _, p := range files.Problems {
			all = append(all, server.TreeProblem{File: p.File, Line: p.Line, Message: p.Message})
		}
		return all
	}
	for _, line := range factory.ProblemLines(err) {
		all = append(all, server.TreeProblem{Message: line})
	}
	return all
}

// options is what the flags of serve say.
type options struct {
	addr, url     string
	doors         []string
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
	desk          bool
	model         string
	prices        string
	noReload      bool
	metrics       string
	log           string
	drain         time.Duration
	takeOver      time.Duration
	limits        limitOptions
	keep          size
	kept          *server.Requests // nil without --keep-requests
	reloads       server.Reloads
	open          bool // the page, in a browser, if there is one
}

// Command makes the command serve.
func Command(f *factory.Factory) *cobra.Command {
	how := &options{}
	cmd := f.WithPath(&cobra.Command{
		Short: "Serve the tree over HTTP: OpenAI APIs, AG-UI, A2A, and a native API",
		Long: `Serves the tree until an interrupt. One address serves several APIs for the same sessions:
the native API at /api/v1, chat completions and responses for OpenAI clients at /v1, AG-UI
at /agui, A2A 1.0 at /rpc and the root, and a page for people at /inspect/, to which the
root redirects browsers. The address is printed to standard output.

Callers need a token, as "Authorization: Bearer TOKEN". The owner's token comes from
` + factory.TokenVariable + ` or --token-file; if neither is set, a token is generated and printed to
standard error. The owner has the sessions of the other commands and may see the sessions of
all users. Give other people tokens of their own, with --users and "` + f.Name + ` users add".

The first interrupt stops the server: no new turn starts, running turns get --drain to end,
the others are interrupted so that they can be resumed, and the status is 0. The second
interrupt ends the server immediately.`,
	}, "serve", 0, func(cmd *cobra.Command, path string, _ []string) error { return serve(cmd.Context(), f, path, how) })
	serveFlags(f, cmd.Flags(), how)
	return cmd
}

// serveFlags adds the flags of serve, whose values in how are the defaults.
func serveFlags(f *factory.Factory, fs *pflag.FlagSet, how *options) {
	fs.StringVar(&how.addr, "addr", "127.0.0.1:8420", "listen on `HOST:PORT` (port 0: any free port)")
	fs.StringVar(&how.url, "url", "", "announce `URL` as the public address (default: the address that the client used)")
	fs.StringSliceVar(&how.doors, "apis", allDoors[:], "serve these `APIS`: "+strings.Join(allDoors[:], ", "))
	fs.StringSliceVar(&how.origins, "allow-origin", nil, "allow web pages from `ORIGIN`, such as https://app.example.com, to call with a token")
	if f.GRPC != nil {
		fs.StringVar(&how.grpc, "grpc", "", "also serve gRPC on `HOST:PORT`, without TLS")
	}
	if f.A2A03 != nil {
		fs.BoolVar(&how.a2a03, "a2a03", false, "also serve clients of A2A 0.3")
	}
	if f.MCP != nil {
		fs.BoolVar(&how.mcp, "mcp", false, "also serve the Model Context Protocol at "+mcpPath)
	}
	fs.StringVar(&how.tokenFile, "token-file", "", "read the owner's token from `FILE` (default: from "+factory.TokenVariable+", or generate one)")
	fs.StringSliceVar(&how.clientTools, "client-tools", []string{"all"}, "offer the tools that clients bring to these `AGENTS`: all, none, or names separated by commas")
	fs.StringSliceVar(&how.pageState, "page-state", nil, "let pages write these `KEYS` of a session's state over AG-UI, separated by commas (default: none)")
	fs.StringSliceVar(&how.approver, "approver", []string{"staff"}, "let these `APPROVERS` decide about waiting calls where agent, tool and rules set none: user, staff, or rights separated by commas")
	fs.BoolVar(&how.noToken, "no-token", false, "accept every caller as the owner; only on a loopback address")
	factory.UsersFlag(f, fs, &how.users)
	fs.StringVar(&how.tls.Cert, "tls-cert", "", "read the server's certificate from the PEM `FILE`, again whenever it changes")
	fs.StringVar(&how.tls.Key, "tls-key", "", "read the key of --tls-cert from the PEM `FILE`")
	fs.StringVar(&how.tls.ClientCA, "client-ca", "", "accept client certificates signed by the authorities in the PEM `FILE`; a certificate names a user of the users file")
	fs.StringVar(&how.signKey, "sign-key", "", "sign the agent card with the private key in the PEM `FILE`")
	fs.StringVar(&how.webhookFile, "webhook-file", "", "store the clients' push notification settings in `FILE` (default: in memory)")
	fs.BoolVar(&how.localWebhooks, "allow-local-webhooks", false, "allow push notifications to this machine and over http")
	fs.StringVar(&how.inspector, "inspector", "", "serve the page in `DIR` at /inspect/ instead of the built-in one")
	if f.Metrics != nil {
		fs.StringVar(&how.metrics, "metrics", "", "serve Prometheus metrics on `HOST:PORT`, without a token")
	}
	fs.StringVar(&how.log, "log", "", "log each request to standard error in this `FORMAT`: "+logFormats)
	fs.DurationVar(&how.drain, "drain", 0, "when the server stops, give running turns `TIME` to end")
	fs.DurationVar(&how.takeOver, "take-over", time.Second, "look every `TIME` for turns whose process died, and adopt them (0: never)")
	how.limits.flags(fs)
	fs.Var(&how.keep, "keep-requests", "keep the last requests to models in `SIZE` of memory, such as 32MiB, and show them in the API as they were sent")
	f.DBFlag(fs)
	f.RedisFlag(fs)
	f.ModelFlag(fs, &how.model)
	factory.PricesFlag(fs, &how.prices)
	reload.Flag(f, fs, &how.noReload)
	factory.DeskFlag(fs, &how.desk)
}

// check refuses flags that say nothing sensible, before anything is begun.
func (how *options) check() error {
	if how.url != "" {
		if u, err := url.Parse(how.url); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return factory.Usagef("--url must be such as https://agents.example.com, without user, query and fragment")
		}
	}
	if how.drain < 0 {
		return factory.Usagef("--drain %s: give a time such as 30s", how.drain)
	}
	if how.takeOver < 0 {
		return factory.Usagef("--take-over %s: give a time such as 5s, or 0 to take over none", how.takeOver)
	}
	if err := how.limits.check(); err != nil {
		return err
	}
	return how.checkDoors()
}

func serve(ctx context.Context, f *factory.Factory, path string, how *options) error {
	if err := how.check(); err != nil {
		return err
	}
	opts, err := a2aOptions(f, how)
	if err != nil {
		return err
	}
	keys, signer, err := how.signer()
	if err != nil {
		return err
	}
	logger, err := how.requestLog(f.Stderr)
	if err != nil {
		return err
	}
	certified, err := certified(f, how)
	if err != nil {
		return err
	}
	files := reload.Watch(f, path, how.noReload)
	tree, err := f.Load(path, how.model)
	if err != nil {
		return err
	}
	f.AtEnd(func() { tree.End() }) // the newest one
	listener, err := listen(f, "--addr", how.addr)
	if err != nil {
		return err
	}
	all := []net.Listener{listener}
	if how.grpc != "" {
		l, err := listen(f, "--grpc", how.grpc)
		if err != nil {
			return err
		}
		all = append(all, l)
		opts = append(opts, a2aserver.WithInterface(f.GRPC.Interface(how.announced(l.Addr()))))
	}
	who, err := callersOf(ctx, f, how, all)
	if err != nil {
		return err
	}
	base, scheme := how.url, "http://"
	if certified != nil {
		scheme = "https://"
	}
	switch {
	case base != "":
	case signer != nil && !onLoopback(listener.Addr()):
		return factory.Usagef("--sign-key needs --url: a signed card must contain the server's public address")
	default:
		base = scheme + reachable(listener.Addr())
		opts = append(opts, a2aserver.WithLocalURL(scheme+how.announced(listener.Addr())))
	}
	measured, ways, err := measured(f, how)
	if err != nil {
		return err
	}
	db, err := f.OpenDB(ctx, true)
	if err != nil {
		return err
	}
	store, err := db.Tail() // so that turns of other processes can be followed, too
	if err != nil {
		return err
	}
	runs := []runner.Option{runner.WithStreaming()}
	if how.keep > 0 {
		if how.kept, err = server.KeepRequests(int64(how.keep)); err != nil {
			return err
		}
		runs = append(runs, runner.WithInterceptors(how.kept))
	}
	start := func(t *factory.LoadedTree) error { return f.Start(ctx, t, store, how.desk, how.prices, runs...) }
	if err := start(tree); err != nil {
		return err
	}
	if how.deciders, err = tools.ReadBy(how.approver...); err != nil {
		return factory.Usagef("--approver: %w", err)
	}
	limit := access.NewLimit(how.limits.userTurns, how.limits.turns)
	turnOpts := []live.Option{live.WithLimit(limit), live.WithLogger(f.Warnings()), live.WithApprover(how.deciders)}
	if measured.Observer != nil {
		turnOpts = append(turnOpts, live.WithObserver(measured.Observer))
	}
	if db.Path != factory.MemoryDB { // which no other process has
		turnOpts = append(turnOpts, live.WithTakeOver(how.takeOver))
	}
	turns, err := live.New(tree.Runner, store, turnOpts...)
	if err != nil {
		return err
	}
	let := how.limits.of(access.Options{Users: who, Hosts: hostOf(how.url), Origins: how.origins})
	web := let
	web.Logger, web.Observer = logger, measured.Observer
	web.Expose = []string{"ETag", "Location", "Retry-After", "X-Request-Id", "Arbor-Session", "Arbor-Ignored"}
	guard, err := access.New(web)
	if err != nil {
		return err
	}
	doors, err := webDoors(f, how, turns, guard, who)
	if err != nil {
		return err
	}
	if !how.has(doorAPI) {
		doors = append(doors, server.Health(turns))
	}
	closing := []closer{turns}
	if how.has(doorA2A) {
		s, err := a2aServer(f, how, turns, who, signer, base, opts)
		if err != nil {
			return err
		}
		doors = append(doors, server.At("", named(doorA2A, s)))
		closing = append([]closer{s}, closing...)
		if keys != nil {
			doors = append(doors, keySet(keys))
		}
		if how.grpc != "" {
			d, err := grpcDoor(f, all[1], s, int(how.limits.body))
			if err != nil {
				return err
			}
			ways = append(ways, d)
		}
	}
	swap := func(*runner.Runner) {}
	if how.mcp {
		var mcp http.Handler
		if mcp, swap, err = serveMCP(f, tree.Runner, how.deciders, let, limit); err != nil {
			return err
		}
		doors = append(doors, server.At(mcpPath, named("mcp", mcp)))
	}
	ways = append(ways, webDoor(listener, how.limits.arrives(how.root(server.Mux(doors...))), certified))
	f.Notice(tree)
	f.Say("serving %s at %s; %s", tree.Agents.Root().Agent.Name(), base, who.told)
	if err := tellPage(f, how, who, base); err != nil {
		return err
	}
	fmt.Fprintln(f.Stdout, strings.TrimSuffix(base, "/"))
	reload.KeepUp(ctx, f, files, f.Stderr, func() (_ *agent.Tree, err error) {
		defer func() {
			if err != nil {
				how.reloads.Refused(treeProblems(err)...)
			} else {
				how.reloads.Took()
			}
		}()
		next, err := f.Load(path, how.model)
		if err != nil {
			return nil, err
		}
		if err = start(next); err == nil {
			err = turns.Swap(next.Runner, tree.End)
		}
		if err != nil {
			next.End()
			return nil, err
		}
		swap(next.Runner)
		tree = next
		return next.Agents, nil
	})
	return untilStopped(ctx, f, how.drain, turns, closing, ways)
}

// certified returns the server's TLS, nil without.
func certified(f *factory.Factory, how *options) (*tls.Config, error) {
	if how.tls == (access.TLSFiles{}) {
		return nil, nil
	}
	how.tls.Logger = f.Warnings()
	c, err := how.tls.Config()
	if err != nil {
		return nil, factory.Usagef("--tls-cert: %s", strings.TrimPrefix(err.Error(), "access: "))
	}
	return c, nil
}

// hostOf returns the host of a public URL, if there is one.
func hostOf(public string) []string {
	if u, err := url.Parse(public); err == nil && u.Host != "" {
		return []string{u.Host}
	}
	return nil
}

// tellPage says where people look at the server, and opens it for a developer. The address lets the
// owner in once.
func tellPage(f *factory.Factory, how *options, who *callers, base string) error {
	if !how.has(doorInspector) {
		return nil
	}
	page := strings.TrimSuffix(base, "/") + "/inspect/"
	if who.signIn == nil {
		f.Say("page at %s", page)
		openPage(f, how, page)
		return nil
	}
	code, err := who.signIn.Code(factory.Owner.Name)
	if err != nil {
		return err
	}
	page += "#code=" + code
	f.Say("page at %s (once, within five minutes)", page)
	openPage(f, how, page)
	return nil
}
