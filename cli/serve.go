package cli

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/a2a/a2aserver/push"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/runner"
)

// serving is what the flags of serve say.
type serving struct {
	addr, url     string
	grpc          string // the address, "" for none
	a2a03         bool
	mcp           bool
	tokenFile     string
	noToken       bool
	signKey       string
	webhookFile   string
	localWebhooks bool
	desk          bool
	model         string
	prices        string
	noReload      bool
}

func (p *program) serveCommand() *cobra.Command {
	how := &serving{}
	cmd := p.withPath(&cobra.Command{
		Short: "Serve the tree to others over the A2A protocol",
		Long: `Serves the tree as an agent of the A2A protocol, version 1.0, until an interrupt.
The agent's card, which tells clients all they need, stands at
/.well-known/agent-card.json; its address goes to standard output. JSON-RPC is at
/rpc, HTTP+JSON at the root, and /healthz answers while the server is well.

Whoever calls needs a token, as "Authorization: Bearer TOKEN". It is what
` + tokenVariable + ` or the file of --token-file holds; without either one is made and
said on standard error. The conversations are sessions of the database, so that
tasks are still there after a restart.

The first interrupt stops the server: turns are cut off so that they can be gone on
with, and the status is 0. The second one ends it at once.`,
	}, "serve", 0, func(cmd *cobra.Command, path string, _ []string) error { return p.serve(cmd.Context(), path, how) })
	fs := cmd.Flags()
	fs.StringVar(&how.addr, "addr", "127.0.0.1:8420", "`HOST:PORT` to listen at; port 0 is any free one")
	fs.StringVar(&how.url, "url", "", "public `URL` of the server, for the card (default: the address that a client uses)")
	if p.grpc != nil {
		fs.StringVar(&how.grpc, "grpc", "", "`HOST:PORT` to serve gRPC at as well, without TLS")
	}
	if p.a2a03 != nil {
		fs.BoolVar(&how.a2a03, "a2a03", false, "answer clients of protocol 0.3 as well")
	}
	if p.mcp != nil {
		fs.BoolVar(&how.mcp, "mcp", false, "serve the Model Context Protocol as well, at "+mcpPath)
	}
	fs.StringVar(&how.tokenFile, "token-file", "", "`FILE` that holds the token (default: what "+tokenVariable+" holds, or a new one)")
	fs.BoolVar(&how.noToken, "no-token", false, "let every program of this machine in; only at a loopback address")
	fs.StringVar(&how.signKey, "sign-key", "", "PEM `FILE` with the private key that signs the card")
	fs.StringVar(&how.webhookFile, "webhook-file", "", "`FILE` that keeps over restarts where clients want push notifications (default: kept in memory)")
	fs.BoolVar(&how.localWebhooks, "allow-local-webhooks", false, "send push notifications to this machine too, and over http")
	p.dbFlag(fs)
	p.redisFlag(fs)
	p.modelFlag(fs, &how.model)
	pricesFlag(fs, &how.prices)
	p.reloadFlag(fs, &how.noReload)
	deskFlag(fs, &how.desk)
	return cmd
}

func (p *program) serve(ctx context.Context, path string, how *serving) error {
	opts, err := p.serveOptions(how)
	if err != nil {
		return err
	}
	keys, signer, err := how.signer()
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
		opts = append(opts, a2aserver.WithInterface(p.grpc.Interface(how.grpcURL(l.Addr()))))
	}
	auth, told, err := p.serveToken(how, all)
	if err != nil {
		return err
	}
	base := how.url
	switch {
	case base != "":
	case signer != nil && !onLoopback(listener.Addr()):
		return usagef("--sign-key needs --url: a card that is signed must say where the server is for everybody")
	default:
		base = "http://" + reachable(listener.Addr())
	}
	opts = append(opts, a2aserver.WithAuthenticator(auth), a2aserver.WithCard(a2aserver.CardOptions{Signer: signer}))
	if how.url != "" || signer != nil {
		opts = append(opts, a2aserver.WithURL(base))
	}
	db, err := p.openDB(ctx, true)
	if err != nil {
		return err
	}
	store, err := db.tail() // so that turns of other processes can be followed, too
	if err != nil {
		return err
	}
	start := func(t *planted) error {
		return p.start(t, store, how.desk, how.prices, runner.WithStreaming(), runner.WithLogger(p.warnings()))
	}
	if err := start(tree); err != nil {
		return err
	}
	turns, err := live.New(tree.Runner, store, live.WithLogger(p.warnings()))
	if err != nil {
		return err
	}
	server, err := a2aserver.NewOn(turns, opts...)
	if err != nil {
		return usageError{err}
	}
	web, swap := handler(server, keys), func(*runner.Runner) {}
	if how.mcp {
		if web, swap, err = p.serveMCP(how, tree.Runner, auth, web); err != nil {
			return err
		}
	}
	doors := []door{webDoor(all[0], web)}
	if how.grpc != "" {
		d, err := p.grpcDoor(all[1], server)
		if err != nil {
			return err
		}
		doors = append(doors, d)
	}
	(&conversation{planted: tree, p: p}).notice()
	p.say("serving %s at %s; %s", tree.tree.Root().Agent.Name(), base, told)
	fmt.Fprintln(p.Stdout, strings.TrimSuffix(base, "/")+"/.well-known/agent-card.json")
	p.keepUp(ctx, files, p.Stderr, func() (*agent.Tree, error) {
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
	return p.untilStopped(ctx, server, turns, doors)
}

// serveOptions returns the options that do not depend on the address.
func (p *program) serveOptions(how *serving) ([]a2aserver.Option, error) {
	webhooks := push.Options{AllowLoopback: how.localWebhooks, AllowHTTP: how.localWebhooks}
	if how.webhookFile != "" {
		file, err := push.NewFile(how.webhookFile)
		if err != nil {
			return nil, usagef("--webhook-file: %s", strings.TrimPrefix(err.Error(), "push: "))
		}
		webhooks.Store = file
	}
	opts := []a2aserver.Option{a2aserver.WithLogger(p.warnings()), a2aserver.WithPush(webhooks)}
	if how.url != "" {
		if u, err := url.Parse(how.url); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return nil, usagef("--url must be such as https://agents.example.com, without user, query and fragment")
		}
	}
	if how.a2a03 {
		opts = append(opts, p.a2a03)
	}
	return opts, nil
}
