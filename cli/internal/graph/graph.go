// Package graph is the command graph: check, run, test and draw graphs of agents.
package graph

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/agentgraph/graphdraw"
	"github.com/agentarbor/arbor/agentgraph/graphtest"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/internal/confined"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/internal/yamldoc"
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
	graph, err := loadGraph(f, file, known...)
	if err != nil {
		return err
	}
	if f.JSON {
		fmt.Fprintln(f.Stdout, "[]")
	} else {
		fmt.Fprintf(f.Stdout, "ok: %s, %s\n", render.Count(len(graph.Nodes), "agent"), render.Count(len(graph.Edges), "edge"))
	}
	return nil
}

// loadGraph loads a graph and prints its warnings. If it has problems, it prints them, and returns the command's error.
func loadGraph(f *factory.Factory, file string, opts ...agentgraph.Option) (*agentgraph.Graph, error) {
	graph, err := agentgraph.LoadFile(file, opts...)
	var bad *agentgraph.Error
	switch {
	case errors.As(err, &bad):
		return nil, f.Problems(bad.Problems, strings.Split(bad.Error(), "\n"))
	case err != nil:
		return nil, factory.Usagef("%s", factory.Plain(err, "agentgraph"))
	}
	for _, w := range graph.Warnings {
		f.Say("%s:%d: %s", file, w.Line, w.Message)
	}
	return graph, nil
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
	graph, err := loadGraph(f, file, agentgraph.WithAnyRef())
	if err != nil {
		return err
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

// testOptions holds the flags of graph test.
type testOptions struct {
	agents agentOptions
	only   string // a part of the names of the cases to run
}

func testCommand(f *factory.Factory) *cobra.Command {
	var o testOptions
	cmd := factory.Command("test CASES…", func(cmd *cobra.Command, args []string) error { return testGraphs(cmd.Context(), f, args, o) })
	o.agents.flags(cmd.Flags())
	cmd.Flags().StringVar(&o.only, "run", "", "run only cases whose names match `REGEXP`")
	f.JSONFlag(cmd.Flags(), "print one JSON object a line for each case")
	return cmd
}

// testedCase is the JSON of a case with --json.
type testedCase struct {
	File        string             `json:"file"`
	Line        int                `json:"line"`
	Name        string             `json:"name"`
	OK          bool               `json:"ok"`
	Differences []string           `json:"differences"`
	Result      *agentgraph.Result `json:"result"`
}

func testGraphs(ctx context.Context, f *factory.Factory, files []string, o testOptions) error {
	wanted, err := regexp.Compile(o.only)
	if err != nil {
		return factory.Usagef("--run: %w", err)
	}
	var opts []graphtest.LoadOption
	if o.agents.folder != "" || len(o.agents.names) > 0 {
		known, err := o.agents.known(f, "")
		if err != nil {
			return err
		}
		opts = append(opts, graphtest.WithKnown(known...))
	}
	cases, err := factory.Cases(files, func(file string) ([]graphtest.Case, error) { return caseFile(file, opts) })
	if err != nil {
		return err
	}
	turn, done := f.Interrupts.Turn(ctx)
	defer done()
	ran, failed := 0, 0
	for i := range cases {
		c := &cases[i]
		if !wanted.MatchString(c.Name) {
			continue
		}
		out, err := c.Run(turn)
		if turn.Err() != nil {
			return context.Canceled
		}
		if err != nil {
			return factory.Usagef("%s:%d: %s: %w", c.File, c.Line, c.Name, err)
		}
		if ran++; !out.OK() {
			failed++
		}
		tested(f, c, out)
		if err := f.Out.Failed(); err != nil {
			return err
		}
	}
	if ran == 0 {
		return factory.Usagef("--run %s: none of %s has such a name", factory.QuoteArg(o.only), render.Count(len(cases), "case"))
	}
	total := render.Count(ran, "case") + " passed"
	if failed > 0 {
		total = fmt.Sprintf("%d of %s failed", failed, render.Count(ran, "case"))
	}
	if f.JSON {
		f.Say("%s", total)
	} else {
		fmt.Fprintln(f.Stdout, total)
	}
	if failed > 0 {
		return factory.Exit(factory.StatusFailed)
	}
	return nil
}

// caseFile reads a file of cases, and checks that each agent of a graph that runs has a mock.
func caseFile(file string, opts []graphtest.LoadOption) ([]graphtest.Case, error) {
	found, err := graphtest.LoadCaseFile(file, opts...)
	if err != nil {
		return nil, err
	}
	var problems []graphtest.Problem
	for _, c := range found {
		if c.Refused != nil {
			continue
		}
		for _, n := range c.Mocks.Unmocked(c.Graph) {
			problems = append(problems, graphtest.Problem{File: c.File, Line: c.Line, Message: fmt.Sprintf("the case %s: its agent %s has no mock", c.Name, n.ID)})
		}
	}
	return found, yamldoc.AsError(problems)
}

// tested prints the result of a case.
func tested(f *factory.Factory, c *graphtest.Case, out *graphtest.Outcome) {
	if f.JSON {
		t := testedCase{c.File, c.Line, c.Name, out.OK(), out.Differences, &out.Result}
		if c.Refused != nil {
			t.Result = nil
		}
		if t.Differences == nil {
			t.Differences = []string{}
		}
		render.JSON(f.Stdout, t)
		return
	}
	terminal := f.TerminalOf(f.Stdout)
	word := terminal.Paint(render.Green, "ok  ")
	if !out.OK() {
		word = terminal.Paint(render.Red, "FAIL")
	}
	fmt.Fprintf(f.Stdout, "%s %s\n", word, visible.Line(c.Name))
	for _, d := range out.Differences {
		fmt.Fprintf(f.Stdout, "     %s\n", visible.Line(d))
	}
}
