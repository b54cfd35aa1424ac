package cli

import (
	"context"
	"io/fs"
	"os"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

// Option configures [Main] and [Run].
type Option func(*factory.Factory)

// WithName sets the command's name in help, messages and the default database's path. Defaults to "arbor".
func WithName(name string) Option { return func(f *factory.Factory) { f.Name = name } }

// WithTree gives the command its tree. The commands then take no PATH, and no --model, because the tree's agents
// already have models.
func WithTree(root agent.Agent) Option {
	return func(f *factory.Factory) {
		f.Build = func(llm.Model) (agent.Agent, error) { return root, nil }
		f.OwnModel = true
	}
}

// WithTreeFunc gives the command its tree. build gets the model that the flags and the environment name, or the offline
// model. The commands then take no PATH. For tree and lint the model answers nothing.
func WithTreeFunc(build func(model llm.Model) (agent.Agent, error)) Option {
	return func(f *factory.Factory) { f.Build, f.OwnModel = build, false }
}

// WithFiles gives the command a folder of Markdown agents from a file system, usually an embedded one. The commands
// then take no PATH.
func WithFiles(fsys fs.FS, dir string) Option {
	return func(f *factory.Factory) { f.Files, f.Dir = fsys, dir }
}

// WithTools registers tools that Markdown agents can name.
func WithTools(tools ...tools.Tool) Option {
	return func(f *factory.Factory) { f.Tools = append(f.Tools, tools...) }
}

// WithGuards registers guards that Markdown agents can name.
func WithGuards(guards ...agent.Guard) Option {
	return func(f *factory.Factory) { f.Guards = append(f.Guards, guards...) }
}

// WithRunnerOptions configures the runners of the commands that run turns: limits, budgets, prices, interceptors.
func WithRunnerOptions(opts ...runner.Option) Option {
	return func(f *factory.Factory) { f.RunnerOptions = append(f.RunnerOptions, opts...) }
}

// WithDesk sends conversations of the program's tree to a person at a desk, and those of other trees if --desk is
// given. Without it, they wait for a person who answers with the command desk, which is [human.Log].
func WithDesk(desk human.Desk, opts ...human.Option) Option {
	return func(f *factory.Factory) { f.Desk, f.DeskOptions = desk, opts }
}

// Streams are the streams of a command: Stdin, Stdout, Stderr, and Getenv, which looks up an environment variable (nil
// finds none). Streams that are an *os.File may be terminals.
type Streams = factory.Streams

// The exit statuses of the command.
const (
	StatusAnswered    = factory.StatusAnswered    // 0
	StatusFindings    = factory.StatusFindings    // 1: an evaluation is below its threshold, sessions differ, a tree may route badly
	StatusUsage       = factory.StatusUsage       // 2: bad input or configuration
	StatusFailed      = factory.StatusFailed      // 3: the model or a tool failed, or transfers were rejected
	StatusLimit       = factory.StatusLimit       // 4: the turn reached a limit
	StatusApproval    = factory.StatusApproval    // 5: the turn waits for an approval
	StatusBusy        = factory.StatusBusy        // 6: another turn holds the session
	StatusInterrupted = factory.StatusInterrupted // 130: by a signal, or because the output was closed
)

// Main runs the command with the process's arguments, streams and environment, and ends the process with its status.
// The first interrupt or termination signal cancels the running turn, the second one ends the program.
func Main(opts ...Option) {
	in := factory.WatchSignals(os.Exit)
	streams := Streams{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv}
	os.Exit(execute(context.Background(), os.Args[1:], streams, in, opts))
}

// Run runs the command with these arguments, without the program's name, and returns its exit status. The end of ctx
// acts as an interrupt: the turn is cancelled, and the status is 130.
func Run(ctx context.Context, args []string, streams Streams, opts ...Option) int {
	return execute(ctx, args, streams, &factory.Interrupts{}, opts)
}

func execute(ctx context.Context, args []string, streams Streams, in *factory.Interrupts, opts []Option) int {
	f := &factory.Factory{Output: factory.Output{Streams: streams, Name: "arbor"}, Interrupts: in}
	if f.Getenv == nil {
		f.Getenv = func(string) string { return "" }
	}
	for _, o := range opts {
		if o != nil {
			o(f)
		}
	}
	f.Out = &factory.FirstError{W: f.Stdout}
	f.Stdout = f.Out
	defer f.Close()
	cmd := command(f)
	cmd.SetArgs(append([]string{}, args...)) // nil would mean the arguments of the process
	err := cmd.ExecuteContext(ctx)
	switch wrote := f.Out.Failed(); {
	case wrote != nil && (err == nil || !f.Began): // such as that of --version
		err = wrote
	case err != nil && !f.Began: // the command line's parser refused it
		err = factory.Usagef("%s", err)
	}
	return f.Finish(err)
}

// Every program stores sessions in SQLite, and supports A2A 1.0 over JSON-RPC and HTTP+JSON. Other stores and protocols
// are large, so a program has them only with these options; the command arbor has all of them.
type (
	// GRPC is the gRPC binding of A2A, as package a2a/a2agrpc implements it. Binding connects to remote agents that
	// files name. Interface returns the entry of the card for a server at a URL. Server returns the server of a tree,
	// with the limit of a message in bytes and a logger for errors that clients do not see.
	GRPC = factory.GRPC
	// GRPCServer contains the methods of a *grpc.Server that serve uses: Serve, GracefulStop and Stop.
	GRPCServer = factory.GRPCServer
	// MCP is the Model Context Protocol, as packages agentfile/agentmcp and mcpserver implement it. Servers returns a
	// function that opens the servers of files, and one that ends them. Server returns the server of a tree, with the
	// user of clients without a name, the approver of approvals that name nobody, and the limit of turns.
	MCP = factory.MCP
	// MCPServer contains the methods of a *mcpserver.Server that the commands use: those of http.Handler, Serve and
	// Swap.
	MCPServer = factory.MCPServer
	// Metrics are the metrics of serve. Interceptor and Observer are those of package telemetry, and Handler serves
	// /metrics.
	Metrics = factory.Metrics
	// Redis is a function that adds a live tail to a store, as package session/redis implements it. Its arguments are
	// the URL of a server, the store, the interval at which it checks for missed events, and a logger.
	Redis = factory.Redis
)

// WithMCP lets agents of files use the tools of servers of the Model Context Protocol; cli.MCP{Servers:
// agentmcp.Opener} opens them. If Server is set, the program also has the command mcp, and serve has the flag --mcp.
func WithMCP(m MCP) Option { return func(f *factory.Factory) { f.MCP = &m } }

// WithMetrics gives serve the flag --metrics.
func WithMetrics(of func() (Metrics, error)) Option {
	return func(f *factory.Factory) { f.Metrics = of }
}

// WithGRPC supports remote agents over gRPC, and gives serve the flag --grpc.
func WithGRPC(g GRPC) Option { return func(f *factory.Factory) { f.GRPC = &g } }

// WithA2A03 supports remote agents of protocol 0.3 through the bindings, and gives serve the flag --a2a03, which adds
// the option to its server. Package a2a/a2av0 has both.
func WithA2A03(bindings []a2a.Binding, server a2aserver.Option) Option {
	return func(f *factory.Factory) { f.A2A03, f.A2A03Bindings = server, bindings }
}

// WithPostgres lets --db be the postgres:// address of a database. open connects to it, as package session/postgres
// does.
func WithPostgres(open func(ctx context.Context, address string) (session.Store, error)) Option {
	return func(f *factory.Factory) { f.Postgres = open }
}

// WithRedis gives commands the flag --redis.
func WithRedis(r Redis) Option { return func(f *factory.Factory) { f.Redis = r } }
