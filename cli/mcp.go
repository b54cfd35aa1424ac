package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

// MCP is the Model Context Protocol, as packages agentfile/agentmcp and mcpserver have it.
type MCP struct {
	// Servers makes what opens the servers that files name, and what ends all of them. It
	// logs what people should know.
	Servers func(logger *slog.Logger) (open func(agentfile.MCPServer) (tools.Set, error), end func() error)
	// Server makes what serves a tree. Its clients are user where nobody is asked, and approver
	// decides where nothing else says it. turns bounds the turns that run at the same time.
	Server func(r *runner.Runner, user string, approver tools.By, who access.Options, turns *access.Limit, logger *slog.Logger) (MCPServer, error)
}

// MCPServer is what the commands need of a *mcpserver.Server.
type MCPServer interface {
	http.Handler
	Serve(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error
	Swap(*runner.Runner)
}

// WithMCP lets agents of files have the tools of servers of the Model Context Protocol, and
// gives the program the command mcp and serve the flag --mcp.
func WithMCP(m MCP) Option { return func(p *program) { p.mcp = &m } }

// mcpServers lets files name servers, if the program has them built in. They are started when
// an agent needs them, and end with the command.
func (p *program) mcpServers() []agentfile.Option {
	if p.mcp == nil {
		return nil
	}
	if p.openMCP == nil {
		open, end := p.mcp.Servers(p.warnings())
		p.openMCP = open
		p.atEnd(func() { _ = end() })
	}
	return []agentfile.Option{agentfile.WithMCP(p.openMCP)}
}

// mcpPath is where serve has the protocol.
const mcpPath = "/mcp"

// serveMCP makes what serves the protocol. Swap has it serve another tree.
func (p *program) serveMCP(r *runner.Runner, approver tools.By, who access.Options, turns *access.Limit) (web http.Handler, swap func(*runner.Runner), err error) {
	s, err := p.mcp.Server(r, owner.Name, approver, who, turns, p.warnings())
	if err != nil {
		return nil, nil, usageError{err}
	}
	return s, s.Swap, nil
}

func (p *program) mcpCommand() *cobra.Command {
	var model, prices string
	cmd := p.withPath(&cobra.Command{
		Short: "Serve the tree to one MCP client over standard input and output",
		Long: `Serves the tree as a server of the Model Context Protocol, over standard input and
output, to the program that started this command, until the input ends. The server has
one tool, ask, which passes a message to the tree and returns its answer. Warnings go to
standard error.`,
	}, "mcp", 0, func(cmd *cobra.Command, path string, _ []string) error {
		return p.mcpOverStdio(cmd.Context(), path, model, prices)
	})
	p.dbFlag(cmd.Flags())
	p.modelFlag(cmd.Flags(), &model)
	pricesFlag(cmd.Flags(), &prices)
	return cmd
}

func (p *program) mcpOverStdio(ctx context.Context, path, model, prices string) error {
	tree, err := p.plant(path, model)
	if err != nil {
		return err
	}
	p.atEnd(func() { tree.end() })
	db, err := p.openDB(ctx, true)
	if err != nil {
		return err
	}
	if err := p.start(ctx, tree, db, false, prices); err != nil {
		return err
	}
	tree.prepare(ctx)
	server, err := p.mcp.Server(tree.Runner, session.DefaultUser, tools.By{}, access.Options{}, access.NewLimit(0, 0), p.warnings())
	if err != nil {
		return usageError{err}
	}
	(&conversation{planted: tree, p: p}).notice()
	ctx, done := p.interrupts.turn(ctx)
	defer done()
	err = server.Serve(ctx, io.NopCloser(p.Stdin), unclosed{p.Stdout})
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// unclosed is an output that stays open.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }
