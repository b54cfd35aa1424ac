package cli

import (
	"context"
	"io/fs"
	"os"
	"sync"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

// Option configures [Main] and [Run].
type Option func(*program)

// WithName sets the command's name in help, messages and the default database's
// path. The default is "arbor".
func WithName(name string) Option { return func(p *program) { p.name = name } }

// WithTree gives the command its tree: the commands then take no PATH, and no
// --model, because the tree's agents have their models already.
func WithTree(root agent.Agent) Option {
	return func(p *program) {
		p.build = func(llm.Model) (agent.Agent, error) { return root, nil }
		p.ownModel = true
	}
}

// WithTreeFunc gives the command its tree, made for the model that the flags and
// the environment name, or for the offline model. The commands then take no
// PATH. For tree and lint the model is one that answers nothing.
func WithTreeFunc(build func(model llm.Model) (agent.Agent, error)) Option {
	return func(p *program) { p.build, p.ownModel = build, false }
}

// WithFiles gives the command a folder of Markdown agents from a file system,
// usually an embedded one. The commands then take no PATH.
func WithFiles(fsys fs.FS, dir string) Option {
	return func(p *program) { p.files, p.dir = fsys, dir }
}

// WithTools registers tools that Markdown agents can name.
func WithTools(tools ...tools.Tool) Option {
	return func(p *program) { p.tools = append(p.tools, tools...) }
}

// WithGuards registers guards that Markdown agents can name.
func WithGuards(guards ...agent.Guard) Option {
	return func(p *program) { p.guards = append(p.guards, guards...) }
}

// WithRunnerOptions configures the runners of the commands that run turns: limits, budgets,
// prices, interceptors.
func WithRunnerOptions(opts ...runner.Option) Option {
	return func(p *program) { p.runnerOptions = append(p.runnerOptions, opts...) }
}

// WithDesk lets conversations of the program's tree go to a person at a desk, and those of
// other trees if --desk is given. Without it they wait for who answers with the command
// desk, which is [human.Log].
func WithDesk(desk human.Desk, opts ...human.Option) Option {
	return func(p *program) { p.desk, p.deskOptions = desk, opts }
}

// Main runs the command with the process's arguments, streams and environment
// and ends the process with its status. The first interrupt or termination
// signal ends the turn under way, the second one the program.
func Main(opts ...Option) {
	in := watchSignals(os.Exit)
	streams := Streams{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv}
	os.Exit(run(context.Background(), os.Args[1:], streams, in, opts))
}

// Run runs the command with these arguments, without the program's name, and
// returns its exit status. The end of ctx is like an interrupt: the turn is cut
// off cleanly and the status is 130.
func Run(ctx context.Context, args []string, streams Streams, opts ...Option) int {
	return run(ctx, args, streams, &interrupts{}, opts)
}

func run(ctx context.Context, args []string, streams Streams, in *interrupts, opts []Option) int {
	p := &program{Streams: streams, name: "arbor", interrupts: in}
	if p.Getenv == nil {
		p.Getenv = func(string) string { return "" }
	}
	for _, o := range opts {
		if o != nil {
			o(p)
		}
	}
	p.out = &firstError{w: p.Stdout}
	p.Stdout = p.out
	defer p.close()
	cmd := p.command()
	cmd.SetArgs(append([]string{}, args...)) // nil would mean the process's own
	err := cmd.ExecuteContext(ctx)
	if !p.began {
		err = asUsage(err)
	}
	if err == nil {
		err = p.out.failed()
	}
	return p.finish(err)
}

// program is one execution of the command.
type program struct {
	Streams
	name       string
	interrupts *interrupts

	build    func(llm.Model) (agent.Agent, error) // nil unless given
	ownModel bool
	files    fs.FS // nil unless given
	dir      string
	tools    []tools.Tool
	guards   []agent.Guard

	runnerOptions []runner.Option

	desk        human.Desk // nil unless given
	deskOptions []human.Option

	postgres      func(ctx context.Context, address string) (session.Store, error) // nil: not built in
	redis         Redis                                                            // nil: not built in
	grpc          *GRPC                                                            // nil: not built in
	mcp           *MCP                                                             // nil: not built in
	openMCP       func(agentfile.MCPServer) (tools.Set, error)
	metrics       func() (Metrics, error) // nil: not built in
	a2a03         a2aserver.Option        // nil: not built in
	a2a03Bindings []a2a.Binding

	out      *firstError // Stdout
	saying   sync.Mutex  // guards Stderr
	place    place
	server   serverFlags
	tape     tape
	timeouts openai.Timeouts // of the models' endpoint, by flags
	began    bool            // the command line was right, and the command has begun
	// sources says which file an agent of the tree that was loaded last comes from; nil for a tree of the program's own.
	sources func(agent string) (agentfile.Source, bool)
	// connectServers starts the servers of that tree, and says what is wrong with them; nil for a tree of the program's own.
	connectServers func(context.Context) []agentfile.Problem
	closer         []func()
}

// embedded reports whether the tree is part of the program, so that commands
// take no PATH.
func (p *program) embedded() bool { return p.build != nil || p.files != nil }

// atEnd registers what is to be closed when the command is over.
func (p *program) atEnd(f func()) { p.closer = append(p.closer, f) }

func (p *program) close() {
	for i := len(p.closer) - 1; i >= 0; i-- {
		p.closer[i]()
	}
	p.closer = nil
}
