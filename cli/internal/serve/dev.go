package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

// devKeeps is the memory for requests to models that dev keeps, in bytes.
const devKeeps = 32 << 20

// DevCommand returns the command dev.
func DevCommand(f *factory.Factory) *cobra.Command {
	o, shut := &options{keep: devKeeps, dev: true}, false
	cmd := f.WithPath("dev", func(cmd *cobra.Command, path string, _ []string) error {
		o.open = !shut
		return serve(cmd.Context(), f, path, o)
	})
	serveFlags(f, cmd.Flags(), o)
	cmd.Flags().BoolVar(&shut, "no-open", false, "do not open a browser")
	return cmd
}

// workshop returns the options with which the owner can try things on the page. Only dev has them, and only if no other
// machine can reach the server.
func (s *service) workshop() []server.Option {
	if !s.dev || !onLoopback(s.web.Addr()) || s.url != "" && !loopbackURL(s.url) {
		return nil
	}
	w := server.Workshop{Restart: !s.files.Noticed()}
	if s.f.Build == nil {
		w.Change, w.Body, w.Write = s.changed, s.body, s.write
	}
	return []server.Option{server.WithWorkshop(w)}
}

// changed returns a runner of the tree in the current files, with a change.
func (s *service) changed(_ context.Context, c server.Change) (*runner.Runner, func(), error) {
	t, err := s.with(c)
	if err != nil {
		return nil, nil, err
	}
	if err := s.start(t); err != nil {
		t.End()
		return nil, nil, err
	}
	return t.Runner, t.End, nil
}

// with loads the tree in the current files, with a change.
func (s *service) with(c server.Change) (*factory.LoadedTree, error) {
	s.loading.Lock()
	defer s.loading.Unlock()
	sources, connect := s.f.Sources, s.f.ConnectServers
	defer func() { s.f.Sources, s.f.ConnectServers = sources, connect }() // keep those of the tree that is served
	return s.f.Load(s.path, agentfile.WithChange(c.Agent, agentfile.Change{Description: c.Description, Instructions: c.Instructions, Model: c.Model}))
}

// fileOf returns the Markdown file of an agent of the served tree.
func (s *service) fileOf(agent string) (string, error) {
	s.loading.Lock()
	defer s.loading.Unlock()
	if at, ok := s.f.Sources(agent); ok && strings.HasSuffix(at.File, ".md") {
		return at.File, nil
	}
	return "", fmt.Errorf("no Markdown file describes the agent %s", agent)
}

func (s *service) body(_ context.Context, agent string) (server.Body, error) {
	file, err := s.fileOf(agent)
	if err != nil {
		return server.Body{}, err
	}
	b, err := agentfile.ReadBody(file)
	return server.Body(b), err
}

// write changes the instructions in the file of an agent, if the tree can be loaded with them.
func (s *service) write(_ context.Context, agent string, b server.Body) (server.Body, error) {
	file, err := s.fileOf(agent)
	if err != nil {
		return server.Body{}, err
	}
	s.editing.Lock()
	defer s.editing.Unlock()
	t, err := s.with(server.Change{Agent: agent, Instructions: &b.Text})
	if err != nil {
		return server.Body{}, err
	}
	t.End()
	written, err := agentfile.WriteBody(file, agentfile.Body(b))
	if errors.Is(err, agentfile.ErrChanged) {
		err = server.ErrFileChanged
	}
	return server.Body(written), err
}

// openPage opens an address in a browser, if --open is set, a person uses the terminal, and there is a browser.
func openPage(f *factory.Factory, o *options, address string) {
	if !o.open || !factory.IsTerminal(f.Stderr) {
		return
	}
	var words []string
	switch runtime.GOOS {
	case "windows":
		words = []string{"rundll32", "url.dll,FileProtocolHandler"}
	case "darwin":
		words = []string{"open"}
	default:
		if f.Getenv("DISPLAY") == "" && f.Getenv("WAYLAND_DISPLAY") == "" {
			return
		}
		words = []string{"xdg-open"}
	}
	cmd := exec.Command(words[0], append(words[1:], address)...)
	apart(cmd)
	if err := cmd.Start(); err != nil {
		f.Say("no browser was opened: %s", err)
		return
	}
	go func() {
		if err := cmd.Wait(); err != nil {
			f.Say("no browser was opened: %s: %s", words[0], err)
		}
	}()
}

// mcpPath is the path of MCP in serve.
const mcpPath = "/mcp"

// MCPCommand returns the command mcp.
func MCPCommand(f *factory.Factory) *cobra.Command {
	cmd := f.WithPath("mcp", func(cmd *cobra.Command, path string, _ []string) error {
		return mcpOverStdio(cmd.Context(), f, path)
	})
	f.DBFlag(cmd.Flags())
	f.ModelFlag(cmd.Flags())
	f.PricesFlag(cmd.Flags())
	return cmd
}

func mcpOverStdio(ctx context.Context, f *factory.Factory, path string) error {
	tree, err := f.Load(path)
	if err != nil {
		return err
	}
	f.AtEnd(func() { tree.End() })
	db, err := f.OpenDB(ctx, true)
	if err != nil {
		return err
	}
	if err := f.Start(ctx, tree, db); err != nil {
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

// unclosed is an output that ignores Close.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }
