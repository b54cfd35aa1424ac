package cli

import (
	"context"
	"crypto/tls"
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
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server"
	"github.com/agentarbor/arbor/tools"
)

// serving is what the flags of serve say.
type serving struct {
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
	limits        serveLimits
	keep          size
	kept          *server.Requests // nil without --keep-requests
	reloads       server.Reloads
	open          bool // the page, in a browser, if there is one
}

func (p *program) serveCommand() *cobra.Command {
	how := &serving{}
	cmd := p.withPath(&cobra.Command{
		Short: "Serve the tree over HTTP: to OpenAI clients, AG-UI, A2A, and an API of its own",
		Long: `Serves the tree until an interrupt. One address has several doors, and a session is
the same at all of them: the native API at /api/v1, chat completions and responses
for OpenAI clients at /v1, AG-UI at /agui, A2A 1.0 at /rpc and the root, and a page for
people at /inspect/, to which the root leads a browser. The address goes to standard output.

Whoever calls needs a token, as "Authorization: Bearer TOKEN". The owner's is what
` + tokenVariable + ` or the file of --token-file holds; without either one is made and said
on standard error. The owner has the sessions of the other commands, and may see those
of everybody: give others tokens of their own, with --users and "` + p.name + ` users add".

The first interrupt stops the server: no turn begins any more, those under way get the
time of --drain to end, the rest is cut off so that it can be gone on with, and the
status is 0. The second one ends it at once.`,
	}, "serve", 0, func(cmd *cobra.Command, path string, _ []string) error { return p.serve(cmd.Context(), path, how) })
	p.serveFlags(cmd.Flags(), how)
	return cmd
}

// serveFlags adds the flags of serve, whose values in how are the defaults.
func (p *program) serveFlags(fs *pflag.FlagSet, how *serving) {
	fs.StringVar(&how.addr, "addr", "127.0.0.1:8420", "`HOST:PORT` to listen at; port 0 is any free one")
	fs.StringVar(&how.url, "url", "", "public `URL` of the server (default: the address that a client uses)")
	fs.StringSliceVar(&how.doors, "doors", allDoors[:], "`DOORS` to open: "+strings.Join(allDoors[:], ", "))
	fs.StringSliceVar(&how.origins, "allow-origin", nil, "`ORIGIN` of web pages that may call with a token, such as https://app.example.com")
	if p.grpc != nil {
		fs.StringVar(&how.grpc, "grpc", "", "`HOST:PORT` to serve gRPC at as well, without TLS")
	}
	if p.a2a03 != nil {
		fs.BoolVar(&how.a2a03, "a2a03", false, "answer clients of A2A 0.3 as well")
	}
	if p.mcp != nil {
		fs.BoolVar(&how.mcp, "mcp", false, "serve the Model Context Protocol as well, at "+mcpPath)
	}
	fs.StringVar(&how.tokenFile, "token-file", "", "`FILE` that holds the owner's token (default: what "+tokenVariable+" holds, or a new one)")
	fs.StringSliceVar(&how.clientTools, "client-tools", []string{"all"}, "`AGENTS` that are offered the tools which clients bring along: all, none, or names with commas between them")
	fs.StringSliceVar(&how.pageState, "page-state", nil, "`KEYS` of a session's state that pages can write over AG-UI, with commas between them (default: none)")
	fs.StringSliceVar(&how.approver, "approver", []string{"staff"}, "`WHO` decides about calls that wait where nothing else says it: user, staff, or the names of rights, with commas between them")
	fs.BoolVar(&how.noToken, "no-token", false, "let every program of this machine in as the owner; only at a loopback address")
	p.usersFlag(fs, &how.users)
	fs.StringVar(&how.tls.Cert, "tls-cert", "", "PEM `FILE` with the certificate of the server; it is read again when it changes")
	fs.StringVar(&how.tls.Key, "tls-key", "", "PEM `FILE` with the key of --tls-cert")
	fs.StringVar(&how.tls.ClientCA, "client-ca", "", "PEM `FILE` with authorities: a client certificate of theirs is the user of the users file that it names")
	fs.StringVar(&how.signKey, "sign-key", "", "PEM `FILE` with the private key that signs the card")
	fs.StringVar(&how.webhookFile, "webhook-file", "", "`FILE` that keeps over restarts where clients want push notifications (default: kept in memory)")
	fs.BoolVar(&how.localWebhooks, "allow-local-webhooks", false, "send push notifications to this machine too, and over http")
	fs.StringVar(&how.inspector, "inspector", "", "`DIR` with another page to serve at /inspect/")
	if p.metrics != nil {
		fs.StringVar(&how.metrics, "metrics", "", "`HOST:PORT` to serve metrics for Prometheus at, without a token")
	}
	fs.StringVar(&how.log, "log", "", "log a line for each request on standard error, as `FORMAT` "+logFormats)
	fs.DurationVar(&how.drain, "drain", 0, "`TIME` that turns get to end when the server is stopped")
	fs.DurationVar(&how.takeOver, "take-over", time.Second, "`TIME` between two looks for turns whose process has gone, which go on here; 0 never looks")
	how.limits.flags(fs)
	fs.Var(&how.keep, "keep-requests", "`SIZE` of memory, such as 32MiB, for the last requests to models, which the API then shows as they were sent")
	p.dbFlag(fs)
	p.redisFlag(fs)
	p.modelFlag(fs, &how.model)
	pricesFlag(fs, &how.prices)
	p.reloadFlag(fs, &how.noReload)
	deskFlag(fs, &how.desk)
}

// check refuses flags that say nothing sensible, before anything is begun.
func (how *serving) check() error {
	if how.url != "" {
		if u, err := url.Parse(how.url); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return usagef("--url must be such as https://agents.example.com, without user, query and fragment")
		}
	}
	if how.drain < 0 {
		return usagef("--drain %s: give a time such as 30s", how.drain)
	}
	if how.takeOver < 0 {
		return usagef("--take-over %s: give a time such as 5s, or 0 to take over none", how.takeOver)
	}
	if err := how.limits.check(); err != nil {
		return err
	}
	return how.checkDoors()
}

func (p *program) serve(ctx context.Context, path string, how *serving) error {
	if err := how.check(); err != nil {
		return err
	}
	opts, err := p.a2aOptions(how)
	if err != nil {
		return err
	}
	keys, signer, err := how.signer()
	if err != nil {
		return err
	}
	logger, err := how.requestLog(p.Stderr)
	if err != nil {
		return err
	}
	certified, err := p.certified(how)
	if err != nil {
		return err
	}
	files := p.watch(path, how.noReload)
	tree, err := p.plant(path, how.model)
	if err != nil {
		return err
	}
	p.atEnd(func() { tree.end() }) // the newest one
	listener, err := p.listen("--addr", how.addr)
	if err != nil {
		return err
	}
	all := []net.Listener{listener}
	if how.grpc != "" {
		l, err := p.listen("--grpc", how.grpc)
		if err != nil {
			return err
		}
		all = append(all, l)
		opts = append(opts, a2aserver.WithInterface(p.grpc.Interface(how.announced(l.Addr()))))
	}
	who, err := p.callers(ctx, how, all)
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
		return usagef("--sign-key needs --url: a card that is signed must say where the server is for everybody")
	default:
		base = scheme + reachable(listener.Addr())
		opts = append(opts, a2aserver.WithLocalURL(scheme+how.announced(listener.Addr())))
	}
	measured, ways, err := p.measured(how)
	if err != nil {
		return err
	}
	db, err := p.openDB(ctx, true)
	if err != nil {
		return err
	}
	store, err := db.tail() // so that turns of other processes can be followed, too
	if err != nil {
		return err
	}
	runs := []runner.Option{runner.WithStreaming(), runner.WithLogger(p.warnings())}
	if how.keep > 0 {
		if how.kept, err = server.KeepRequests(int64(how.keep)); err != nil {
			return err
		}
		runs = append(runs, runner.WithInterceptors(how.kept))
	}
	start := func(t *planted) error { return p.start(ctx, t, store, how.desk, how.prices, runs...) }
	if err := start(tree); err != nil {
		return err
	}
	if how.deciders, err = tools.ReadBy(how.approver...); err != nil {
		return usagef("--approver: %w", err)
	}
	limit := access.NewLimit(how.limits.userTurns, how.limits.turns)
	turnOpts := []live.Option{live.WithLimit(limit), live.WithLogger(p.warnings()), live.WithApprover(how.deciders)}
	if measured.Observer != nil {
		turnOpts = append(turnOpts, live.WithObserver(measured.Observer))
	}
	if db.path != memoryDB { // which no other process has
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
	doors, err := p.webDoors(how, turns, guard, who)
	if err != nil {
		return err
	}
	if !how.has(doorAPI) {
		doors = append(doors, server.Health(turns))
	}
	closing := []closer{turns}
	if how.has(doorA2A) {
		s, err := p.a2aServer(how, turns, who, signer, base, opts)
		if err != nil {
			return err
		}
		doors = append(doors, server.At("", named(doorA2A, s)))
		closing = append([]closer{s}, closing...)
		if keys != nil {
			doors = append(doors, keySet(keys))
		}
		if how.grpc != "" {
			d, err := p.grpcDoor(all[1], s)
			if err != nil {
				return err
			}
			ways = append(ways, d)
		}
	}
	swap := func(*runner.Runner) {}
	if how.mcp {
		var mcp http.Handler
		if mcp, swap, err = p.serveMCP(tree.Runner, how.deciders, let, limit); err != nil {
			return err
		}
		doors = append(doors, server.At(mcpPath, named("mcp", mcp)))
	}
	ways = append(ways, webDoor(listener, how.limits.arrives(how.root(server.Mux(doors...))), certified))
	(&conversation{planted: tree, p: p}).notice()
	p.say("serving %s at %s; %s", tree.tree.Root().Agent.Name(), base, who.told)
	if err := p.tellPage(how, who, base); err != nil {
		return err
	}
	fmt.Fprintln(p.Stdout, strings.TrimSuffix(base, "/"))
	p.keepUp(ctx, files, p.Stderr, func() (_ *agent.Tree, err error) {
		defer func() {
			if err != nil {
				how.reloads.Refused(treeProblems(err)...)
			} else {
				how.reloads.Took()
			}
		}()
		next, err := p.plant(path, how.model)
		if err != nil {
			return nil, err
		}
		if err = start(next); err == nil {
			err = turns.Swap(next.Runner, tree.end)
		}
		if err != nil {
			next.end()
			return nil, err
		}
		swap(next.Runner)
		tree = next
		return next.tree, nil
	})
	return p.untilStopped(ctx, how.drain, turns, closing, ways)
}

// certified returns the server's TLS, nil without.
func (p *program) certified(how *serving) (*tls.Config, error) {
	if how.tls == (access.TLSFiles{}) {
		return nil, nil
	}
	how.tls.Logger = p.warnings()
	c, err := how.tls.Config()
	if err != nil {
		return nil, usagef("--tls-cert: %s", strings.TrimPrefix(err.Error(), "access: "))
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
func (p *program) tellPage(how *serving, who *callers, base string) error {
	if !how.has(doorInspector) {
		return nil
	}
	page := strings.TrimSuffix(base, "/") + "/inspect/"
	if who.signIn == nil {
		p.say("page at %s", page)
		p.openPage(how, page)
		return nil
	}
	code, err := who.signIn.Code(owner.Name)
	if err != nil {
		return err
	}
	page += "#code=" + code
	p.say("page at %s (once, within five minutes)", page)
	p.openPage(how, page)
	return nil
}
