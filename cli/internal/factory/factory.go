// Package factory holds what the commands share: streams, environment, messages and exit statuses, how to load a
// tree and its models, how to open a store and find a session in it, and the flags that several commands have.
package factory

import (
	"context"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"sync"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

// Factory is one execution of the command.
type Factory struct {
	Streams
	Name       string
	Interrupts *Interrupts

	Build    func(llm.Model) (agent.Agent, error) // nil unless given
	OwnModel bool
	Files    fs.FS // nil unless given
	Dir      string
	Tools    []tools.Tool
	Guards   []agent.Guard

	RunnerOptions []runner.Option

	Desk        human.Desk // nil unless given
	DeskOptions []human.Option

	Postgres      func(ctx context.Context, address string) (session.Store, error) // nil: not built in
	Redis         Redis                                                            // nil: not built in
	GRPC          *GRPC                                                            // nil: not built in
	MCP           *MCP                                                             // nil: not built in
	openMCP       func(agentfile.MCPServer) (tools.Set, error)
	Metrics       func() (Metrics, error) // nil: not built in
	A2A03         a2aserver.Option        // nil: not built in
	A2A03Bindings []a2a.Binding

	Out      *FirstError // Stdout
	saying   sync.Mutex  // guards Stderr
	Place    place
	Server   serverFlags
	Tape     tape
	timeouts openai.Timeouts // of the models' endpoint, by flags
	Began    bool            // the command line was right, and the command has begun
	// Sources says which file an agent of the tree that was loaded last comes from; nil for a tree of the program's own.
	Sources func(agent string) (agentfile.Source, bool)
	// ConnectServers starts the servers of that tree, and says what is wrong with them; nil for a tree of the program's own.
	ConnectServers func(context.Context) []agentfile.Problem
	closer         []func()
}

// Embedded reports whether the tree is part of the program, so that commands
// take no PATH.
func (f *Factory) Embedded() bool { return f.Build != nil || f.Files != nil }

// AtEnd registers what is to be closed when the command is over.
func (f *Factory) AtEnd(end func()) { f.closer = append(f.closer, end) }

// Close closes what was registered, the last first.
func (f *Factory) Close() {
	for i := len(f.closer) - 1; i >= 0; i-- {
		f.closer[i]()
	}
	f.closer = nil
}

// MCP is the Model Context Protocol, as packages agentfile/agentmcp and mcpserver have it.
type MCP struct {
	// Servers makes what opens the servers that files name, and what ends all of them. It
	// logs what people should know.
	Servers func(logger *slog.Logger) (open func(agentfile.MCPServer) (tools.Set, error), end func() error)
	// Server makes what serves a tree. Its clients are user where nobody is asked, and approver
	// decides where nothing else says it. turns bounds the turns that run at the same time. Without it the program
	// serves no tree by this protocol.
	Server func(r *runner.Runner, user string, approver tools.By, who access.Options, turns *access.Limit, logger *slog.Logger) (MCPServer, error)
}

// MCPServer is what the commands need of a *mcpserver.Server.
type MCPServer interface {
	http.Handler
	Serve(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error
	Swap(*runner.Runner)
}

// mcpServers lets files name servers, if the program has them built in. They are started when
// an agent needs them, and end with the command.
func mcpServers(f *Factory) []agentfile.Option {
	if f.MCP == nil {
		return nil
	}
	if f.openMCP == nil {
		open, end := f.MCP.Servers(f.Warnings())
		f.openMCP = open
		f.AtEnd(func() { _ = end() })
	}
	return []agentfile.Option{agentfile.WithMCP(f.openMCP)}
}

// Metrics are what serve measures: package telemetry makes the interceptor and the observer.
type Metrics struct {
	Interceptor agent.Interceptor
	Observer    access.Observer
	// Handler answers at the path /metrics.
	Handler http.Handler
}

// GRPC is the gRPC binding of A2A, as package a2a/a2agrpc has it.
type GRPC struct {
	// Binding reaches remote agents that files name.
	Binding a2a.Binding
	// Interface is what the card says of the server at a URL.
	Interface func(url string) sdk.AgentInterface
	// Server makes what serves a tree. It logs what clients do not get to know.
	Server func(s *a2aserver.Server, maxBody int, logger *slog.Logger) (GRPCServer, error)
}

// GRPCServer is what serve needs of a *grpc.Server.
type GRPCServer interface {
	Serve(net.Listener) error
	GracefulStop()
	Stop()
}

// Bindings returns the option with the A2A bindings that the program has built in.
func Bindings(f *Factory) agentfile.Option {
	list := f.A2A03Bindings
	if f.GRPC != nil {
		list = append(list[:len(list):len(list)], f.GRPC.Binding)
	}
	return agentfile.WithRemoteOptions(a2a.WithBinding(list...))
}
