package serve

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

// mcpPath is where serve has the protocol.
const mcpPath = "/mcp"

// MCPCommand makes the command mcp.
func MCPCommand(f *factory.Factory) *cobra.Command {
	var model, prices string
	cmd := f.WithPath(&cobra.Command{
		Short: "Serve the tree to one MCP client over standard input and output",
		Long: `Serves the tree as a server of the Model Context Protocol, over standard input and
output, to the program that started this command, until the input ends. The server has
one tool, ask, which passes a message to the tree and returns its answer. Warnings go to
standard error.`,
	}, "mcp", 0, func(cmd *cobra.Command, path string, _ []string) error {
		return mcpOverStdio(cmd.Context(), f, path, model, prices)
	})
	f.DBFlag(cmd.Flags())
	f.ModelFlag(cmd.Flags(), &model)
	factory.PricesFlag(cmd.Flags(), &prices)
	return cmd
}

func mcpOverStdio(ctx context.Context, f *factory.Factory, path, model, prices string) error {
	tree, err := f.Load(path, model)
	if err != nil {
		return err
	}
	f.AtEnd(func() { tree.End() })
	db, err := f.OpenDB(ctx, true)
	if err != nil {
		return err
	}
	if err := f.Start(ctx, tree, db, false, prices); err != nil {
		return err
	}
	tree.PrepareRemotes(ctx)
	server, err := f.MCP.Server(tree.Runner, session.DefaultUser, tools.By{}, access.Options{}, access.NewLimit(0, 0), f.Warnings())
	if err != nil {
		return factory.Usage(err)
	}
	f.Notice(tree)
	ctx, done := f.Interrupts.Turn(ctx)
	defer done()
	err = server.Serve(ctx, io.NopCloser(f.Stdin), unclosed{f.Stdout})
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// unclosed is an output that stays open.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }
