// Package factory is shared by the commands. It has their streams, environment, messages and exit statuses, loads trees
// and their models, opens stores, finds sessions, and defines common flags.
package factory

import (
	"context"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

// Factory is one execution of the command.
type Factory struct {
	Output
	Interrupts *Interrupts

	Build    func(llm.Model) (agent.Agent, error) // nil if not given
	OwnModel bool
	Files    fs.FS // nil if not given
	Dir      string
	Tools    []tools.Tool
	Guards   []agent.Guard

	RunnerOptions []runner.Option

	Desk        human.Desk // nil if not given
	DeskOptions []human.Option

	Postgres      func(ctx context.Context, address string) (session.Store, error) // nil: not built in
	Redis         Redis                                                            // nil: not built in
	GRPC          *GRPC                                                            // nil: not built in
	MCP           *MCP                                                             // nil: not built in
	openMCP       func(agentfile.MCPServer) (tools.Set, error)
	Metrics       func() (Metrics, error) // nil: not built in
	A2A03         a2aserver.Option        // nil: not built in
	A2A03Bindings []a2a.Binding

	Place    place
	Server   serverFlags
	Tape     tape
	Model    string       // the name of --model
	Prices   string       // the file of --prices
	ToDesk   bool         // --desk is given
	timeouts llm.Timeouts // of the models' endpoint, by flags
	Began    bool         // the command line is valid, and the command has started
	// Sources returns the file of an agent of the last loaded tree; nil for a tree of the program's own.
	Sources func(agent string) (agentfile.Source, bool)
	// ConnectServers starts the servers of that tree, and returns their problems; nil for a tree of the program's own.
	ConnectServers func(context.Context) []agentfile.Problem
	closer         []func()
}

// Embedded reports whether the tree is part of the program, so that commands
// take no PATH.
func (f *Factory) Embedded() bool { return f.Build != nil || f.Files != nil }

// AtEnd registers a function to call when the command ends.
func (f *Factory) AtEnd(end func()) { f.closer = append(f.closer, end) }

// Close calls the registered functions, the last one first.
func (f *Factory) Close() {
	for i := len(f.closer) - 1; i >= 0; i-- {
		f.closer[i]()
	}
	f.closer = nil
}

// MCP is the Model Context Protocol, as packages agentfile/agentmcp and mcpserver implement it.
type MCP struct {
	// Servers returns a function that opens the servers that files name, and one that ends all of them. The logger gets
	// messages for people.
	Servers func(logger *slog.Logger) (open func(agentfile.MCPServer) (tools.Set, error), end func() error)
	// Server returns the server of a tree. user is the user of clients without a name, approver decides approvals that
	// name nobody, and turns limits the turns that run at the same time. If Server is nil, the program cannot serve a
	// tree with this protocol.
	Server func(r *runner.Runner, user string, approver tools.By, who access.Options, turns *access.Limit, logger *slog.Logger) (MCPServer, error)
}

// MCPServer contains the methods of a *mcpserver.Server that the commands use.
type MCPServer interface {
	http.Handler
	Serve(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error
	Swap(*runner.Runner)
}

// mcpServers returns the option with which files may name servers, if the program has them built in. A server starts
// when an agent needs it, and ends with the command.
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

// Metrics are the metrics of serve. Package telemetry provides the interceptor and the observer.
type Metrics struct {
	Interceptor agent.Interceptor
	Observer    access.Observer
	// Handler serves the path /metrics.
	Handler http.Handler
}

// GRPC is the gRPC binding of A2A, as package a2a/a2agrpc implements it.
type GRPC struct {
	// Binding connects to remote agents that files name.
	Binding a2a.Binding
	// Interface returns the entry of the card for a server at a URL.
	Interface func(url string) sdk.AgentInterface
	// Server returns the server of a tree. The logger gets errors that clients do not see.
	Server func(s *a2aserver.Server, maxBody int, logger *slog.Logger) (GRPCServer, error)
}

// GRPCServer contains the methods of a *grpc.Server that serve uses.
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
