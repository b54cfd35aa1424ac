package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/internal/confined"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
)

func (p *program) graphCommand() *cobra.Command {
	return group("graph", "Check, run and test graphs of agents (OSSA AgentGraph)",
		p.graphValidateCommand(), p.graphRunCommand(), p.graphTestCommand(), p.graphDrawCommand(), p.graphSchemaCommand())
}

// graphAgents are the flags that say which agents exist.
type graphAgents struct {
	folder string
	names  []string
}

func (a *graphAgents) flags(fs *pflag.FlagSet) {
	fs.StringVar(&a.folder, "agents", "", "read the agents from `DIR`: Markdown files, or YAML documents of kind Agent")
	fs.StringSliceVar(&a.names, "refs", nil, "treat these `NAMES` of agents (tool:NAME for tools) as existing, separated by commas")
}

func (p *program) graphValidateCommand() *cobra.Command {
	var (
		agents graphAgents
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "validate FILE",
		Short: "Report every problem of a graph, with its line",
		Long: `Checks an AgentGraph file and prints every problem on a line of its own, as
file:line: path: message [code]. The status is 2 if there is a problem. Nothing is run.

The agents of the graph must exist in the same file, in the folder of the file, or where
--agents and --refs say.`,
		Args: exactly("FILE"),
		RunE: func(_ *cobra.Command, args []string) error { return p.validateGraph(args[0], agents, asJSON) },
	}
	agents.flags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the problems as a JSON array of {code, path, line, message}")
	return cmd
}

func (p *program) graphSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON schema of graphs, for editors",
		Args:  exactly(),
		RunE: func(*cobra.Command, []string) error {
			_, err := p.Stdout.Write(agentgraph.Schema())
			return err
		},
	}
}

func (p *program) validateGraph(file string, agents graphAgents, asJSON bool) error {
	known, err := agents.known(p, file)
	if err != nil {
		return err
	}
	graph, err := agentgraph.LoadFile(file, known...)
	if err != nil {
		return p.badGraph(file, err, asJSON)
	}
	if asJSON {
		fmt.Fprintln(p.Stdout, "[]")
	}
	for _, w := range graph.Warnings {
		p.say("%s:%d: %s", file, w.Line, w.Message)
	}
	if !asJSON {
		fmt.Fprintf(p.Stdout, "ok: %s, %s\n", render.Count(len(graph.Nodes), "agent"), render.Count(len(graph.Edges), "edge"))
	}
	return nil
}

// badGraph prints the problems of a graph that could not be loaded, and returns the
// command's error.
func (p *program) badGraph(file string, err error, asJSON bool) error {
	var bad *agentgraph.Error
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return usagef("%s: there is no such file", file)
	case !errors.As(err, &bad):
		return usagef("%s", strings.TrimPrefix(err.Error(), "agentgraph: "))
	case asJSON:
		render.JSON(p.Stdout, bad.Problems)
	default:
		for _, problem := range bad.Problems {
			fmt.Fprintln(p.Stdout, visible.Line(bad.Line(problem)))
		}
	}
	p.say("%s", render.Count(len(bad.Problems), "problem"))
	return statusError(StatusUsage)
}

// known says which agents and tools exist: the program's tools, and those agents that the
// flags give, or without any flag those in the folder of the graph's file.
func (a graphAgents) known(p *program, file string) ([]agentgraph.Option, error) {
	opts := []agentgraph.Option{agentgraph.WithRefs(append(agentfile.ToolRefs(p.tools...), a.names...)...)}
	folder := a.folder
	if folder == "" {
		if len(a.names) > 0 {
			return opts, nil
		}
		folder = filepath.Dir(file)
	}
	found, err := agentfile.ReadFolder(confined.Folder(folder))
	switch {
	case err == nil:
		return append(opts, agentgraph.WithFolder(found)), nil
	case a.folder == "": // reading the file says what is wrong with its path
		return opts, nil
	}
	return nil, usagef("--agents %s: the folder cannot be read: %w", a.folder, err)
}
