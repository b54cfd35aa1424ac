// Package graph is the command graph: check, run, test and draw graphs of agents.
package graph

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/agentgraph/graphdraw"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/internal/confined"
	"github.com/agentarbor/arbor/internal/render"
)

// Command returns the command graph.
func Command(f *factory.Factory) *cobra.Command {
	return factory.Group("graph",
		validateCommand(f), runCommand(f), testCommand(f), drawCommand(f), schemaCommand(f))
}

// agentOptions are the flags that name the existing agents.
type agentOptions struct {
	folder string
	names  []string
}

func (a *agentOptions) flags(fs *pflag.FlagSet) {
	fs.StringVar(&a.folder, "agents", "", "read the agents from `DIR`: Markdown files, or YAML documents of kind Agent")
	fs.StringSliceVar(&a.names, "refs", nil, "treat these `NAMES` of agents (tool:NAME for tools) as existing, separated by commas")
}

func validateCommand(f *factory.Factory) *cobra.Command {
	var agents agentOptions
	cmd := factory.Command("validate FILE", func(_ *cobra.Command, args []string) error { return validateGraph(f, args[0], agents) })
	agents.flags(cmd.Flags())
	f.JSONFlag(cmd.Flags(), "print the problems as a JSON array of {code, path, line, message}")
	return cmd
}

func schemaCommand(f *factory.Factory) *cobra.Command {
	return factory.Command("schema", func(*cobra.Command, []string) error {
		_, err := f.Stdout.Write(agentgraph.Schema())
		return err
	})
}

func validateGraph(f *factory.Factory, file string, agents agentOptions) error {
	known, err := agents.known(f, file)
	if err != nil {
		return err
	}
	graph, err := agentgraph.LoadFile(file, known...)
	if err != nil {
		return badGraph(f, err)
	}
	if f.JSON {
		fmt.Fprintln(f.Stdout, "[]")
	}
	for _, w := range graph.Warnings {
		f.Say("%s:%d: %s", file, w.Line, w.Message)
	}
	if !f.JSON {
		fmt.Fprintf(f.Stdout, "ok: %s, %s\n", render.Count(len(graph.Nodes), "agent"), render.Count(len(graph.Edges), "edge"))
	}
	return nil
}

// badGraph prints the problems of a graph that could not be loaded, and returns the
// command's error.
func badGraph(f *factory.Factory, err error) error {
	var bad *agentgraph.Error
	if !errors.As(err, &bad) {
		return factory.Usagef("%s", factory.Plain(err, "agentgraph"))
	}
	return f.Problems(bad.Problems, strings.Split(bad.Error(), "\n"))
}

// known returns the options for the existing agents and tools: the program's tools, and the agents of the flags or,
// without these flags, those in the folder of the graph's file.
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
	case a.folder == "": // reading the file reports a wrong path
		return opts, nil
	}
	return nil, factory.Usagef("--agents: %s", factory.Plain(err, "agentgraph"))
}

func drawCommand(f *factory.Factory) *cobra.Command {
	var format string
	cmd := factory.Command("draw FILE", func(_ *cobra.Command, args []string) error { return drawGraph(f, args[0], format) })
	cmd.Flags().StringVarP(&format, "format", "f", "mermaid", "draw in this `FORMAT`: mermaid, dot or svg")
	return cmd
}

func drawGraph(f *factory.Factory, file, format string) error {
	if err := factory.OneOf("--format", format, "mermaid", "dot", "svg"); err != nil {
		return err
	}
	draw := map[string]func(*graphdraw.Picture, io.Writer) error{"mermaid": (*graphdraw.Picture).Mermaid, "dot": (*graphdraw.Picture).DOT, "svg": (*graphdraw.Picture).SVG}[format]
	graph, err := agentgraph.LoadFile(file, agentgraph.WithAnyRef())
	if err != nil {
		return badGraph(f, err)
	}
	for _, w := range graph.Warnings {
		f.Say("%s:%d: %s", file, w.Line, w.Message)
	}
	var out bytes.Buffer
	p, err := graphdraw.Of(graph)
	if err == nil {
		err = draw(p, &out)
	}
	if err != nil {
		return factory.Usagef("%s: %s", file, factory.Plain(err, "graphdraw"))
	}
	if format == "mermaid" && (out.Len() > graphdraw.MermaidMaxTextSize || bytes.Count(out.Bytes(), []byte("->")) > graphdraw.MermaidMaxEdges) {
		f.Say("Mermaid refuses flowcharts of this size unless maxTextSize and maxEdges are set; --format svg and dot have no such bounds")
	}
	_, err = f.Stdout.Write(out.Bytes())
	return err
}
