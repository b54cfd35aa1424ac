// Package graph has the command graph: check, run, test and draw graphs of agents.
package graph

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
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/internal/confined"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
)

// Command makes the command graph.
func Command(f *factory.Factory) *cobra.Command {
	return factory.Group("graph", "Check, run and test graphs of agents (OSSA AgentGraph)",
		validateCommand(f), runCommand(f), testCommand(f), drawCommand(f), schemaCommand(f))
}

// agentOptions are the flags that say which agents exist.
type agentOptions struct {
	folder string
	names  []string
}

func (a *agentOptions) flags(fs *pflag.FlagSet) {
	fs.StringVar(&a.folder, "agents", "", "read the agents from `DIR`: Markdown files, or YAML documents of kind Agent")
	fs.StringSliceVar(&a.names, "refs", nil, "treat these `NAMES` of agents (tool:NAME for tools) as existing, separated by commas")
}

func validateCommand(f *factory.Factory) *cobra.Command {
	var (
		agents agentOptions
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "validate FILE",
		Short: "Report every problem of a graph, with its line",
		Long: `Checks an AgentGraph file and prints every problem on a line of its own, as
file:line: path: message [code]. The status is 2 if there is a problem. Nothing is run.

The agents of the graph must exist in the same file, in the folder of the file, or where
--agents and --refs say.`,
		Args: factory.Exactly("FILE"),
		RunE: func(_ *cobra.Command, args []string) error { return validateGraph(f, args[0], agents, asJSON) },
	}
	agents.flags(cmd.Flags())
	cmd.Flags().BoolVarP(&asJSON, "json", "j", false, "print the problems as a JSON array of {code, path, line, message}")
	return cmd
}

func schemaCommand(f *factory.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON schema of graphs, for editors",
		Args:  factory.Exactly(),
		RunE: func(*cobra.Command, []string) error {
			_, err := f.Stdout.Write(agentgraph.Schema())
			return err
		},
	}
}

func validateGraph(f *factory.Factory, file string, agents agentOptions, asJSON bool) error {
	known, err := agents.known(f, file)
	if err != nil {
		return err
	}
	graph, err := agentgraph.LoadFile(file, known...)
	if err != nil {
		return badGraph(f, file, err, asJSON)
	}
	if asJSON {
		fmt.Fprintln(f.Stdout, "[]")
	}
	for _, w := range graph.Warnings {
		f.Say("%s:%d: %s", file, w.Line, w.Message)
	}
	if !asJSON {
		fmt.Fprintf(f.Stdout, "ok: %s, %s\n", render.Count(len(graph.Nodes), "agent"), render.Count(len(graph.Edges), "edge"))
	}
	return nil
}

// badGraph prints the problems of a graph that could not be loaded, and returns the
// command's error.
func badGraph(f *factory.Factory, file string, err error, asJSON bool) error {
	var bad *agentgraph.Error
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return factory.Usagef("%s: there is no such file", file)
	case !errors.As(err, &bad):
		return factory.Usagef("%s", strings.TrimPrefix(err.Error(), "agentgraph: "))
	case asJSON:
		render.JSON(f.Stdout, bad.Problems)
	default:
		for _, problem := range bad.Problems {
			fmt.Fprintln(f.Stdout, visible.Line(bad.Line(problem)))
		}
	}
	f.Say("%s", render.Count(len(bad.Problems), "problem"))
	return factory.Exit(factory.StatusUsage)
}

// known says which agents and tools exist: the program's tools, and those agents that the
// flags give, or without any flag those in the folder of the graph's file.
func (a agentOptions) known(f *factory.Factory, file string) ([]agentgraph.Option, error) {
	opts := []agentgraph.Option{agentgraph.WithRefs(append(agentfile.ToolRefs(f.Tools...), a.names...)...)}
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
	return nil, factory.Usagef("--agents %s: the folder cannot be read: %w", a.folder, err)
}
