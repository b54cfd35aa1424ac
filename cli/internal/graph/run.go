package graph

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/agentgraph/graphtest"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/cli/internal/turn"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/llm"
)

// readInput returns the input as JSON in one line.
func (g *runOptions) readInput() (json.RawMessage, error) {
	if g.flags.Changed("text") {
		if !utf8.ValidString(g.text) {
			return nil, factory.Usagef("--text is not valid UTF-8")
		}
		return event.EncodeJSON(g.text), nil
	}
	name, file := strings.CutPrefix(g.input, "@")
	from := name
	switch {
	case file:
	case !g.flags.Changed("input") && (g.f.Stdin == nil || factory.IsTerminal(g.f.Stdin)):
		return nil, factory.Usagef("the input is missing: give --input JSON or --text TEXT, or pipe JSON to standard input")
	case !g.flags.Changed("input"), g.input == "-":
		name, from = "-", "standard input"
	default:
		return checkInput([]byte(g.input), "--input")
	}
	data, err := g.f.Read("the input", name, factory.MaxMessage)
	if err != nil {
		return nil, err
	}
	return checkInput(data, from)
}

// checkInput returns an error for input that is not JSON. The error says how to pass a text.
func checkInput(data []byte, from string) (json.RawMessage, error) {
	text := strings.TrimSpace(strings.TrimPrefix(string(data), "\ufeff"))
	switch {
	case len(data) > factory.MaxMessage:
		return nil, factory.Usagef("%s: the input is longer than %d MiB", from, factory.MaxMessage>>20)
	case text == "":
		return nil, factory.Usagef("%s: the input is empty: give JSON, such as '{}', or --text TEXT", from)
	case !utf8.ValidString(text):
		return nil, factory.Usagef("%s: the input is not valid UTF-8", from)
	}
	var raw json.RawMessage
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return nil, factory.Usagef("%s is not JSON (%w): a text needs quotes of its own, such as '\"%s\"', or --text TEXT", from, err, visible.Cut(visible.Line(strings.Trim(text, `"`)), 20))
	}
	return event.EncodeJSON(raw), nil
}

// runOptions is one execution of arbor graph run.
type runOptions struct {
	f           *factory.Factory
	file        string
	agents      agentOptions
	input, text string
	flags       *pflag.FlagSet
	mockFile    string
	resume      bool
	turn.DecisionOptions
	turn.Options
}

func runCommand(f *factory.Factory) *cobra.Command {
	g := &runOptions{f: f}
	cmd := factory.Command("run FILE", func(cmd *cobra.Command, args []string) error {
		g.file, g.flags = args[0], cmd.Flags()
		return g.run(cmd.Context())
	})
	fs := cmd.Flags()
	fs.StringVar(&g.input, "input", "", "pass `JSON` to the entrypoint (@FILE: read a file, -: read standard input)")
	fs.StringVar(&g.text, "text", "", "pass `TEXT` to the entrypoint instead of --input")
	fs.StringVar(&g.mockFile, "mock", "", "read the agents' results, by id, from the YAML `FILE`")
	g.agents.flags(fs)
	fs.BoolVar(&g.resume, "resume", false, "resume the run of --session that was interrupted or is waiting")
	g.DecisionOptions.Flags(fs, "with --resume, approve the waiting `CALL` (repeatable)",
		"with --resume, deny the waiting `CALL` (repeatable)", "give `TEXT` as the reason for denials")
	turn.AddFlags(f, cmd, &g.Options)
	f.JSONFlag(fs, "print one JSON object")
	return cmd
}

func (g *runOptions) run(ctx context.Context) error {
	if err := g.check(); err != nil {
		return err
	}
	var input json.RawMessage
	var err error
	if !g.resume {
		if input, err = g.readInput(); err != nil {
			return err
		}
	}
	var mocks graphtest.Mocks
	if g.mockFile != "" {
		if mocks, err = g.mocks(); err != nil {
			return err
		}
	}
	graph, err := g.load(mocks)
	if err != nil {
		return err
	}
	opts, err := mocks.Agents(graph)
	if err != nil {
		return factory.Usage(err)
	}
	root, models, err := g.build(graph, mocks, opts)
	if err != nil {
		return err
	}
	c, err := g.open(ctx, root, models)
	if err != nil {
		return err
	}
	return g.turn(ctx, c, root, input)
}

// check returns an error if the flags do not fit together.
func (g *runOptions) check() error {
	f := g.f
	switch {
	case g.flags.Changed("input") && g.flags.Changed("text"):
		return factory.Usagef("--input and --text exclude each other: give only one of them")
	case g.resume && (g.flags.Changed("input") || g.flags.Changed("text")):
		return factory.Usagef("--resume uses the input of the run: leave out --input and --text")
	case g.resume && g.Session == "":
		return factory.Usagef("--resume needs --session: %s sessions ls lists the sessions", f.Name)
	}
	fs := g.flags
	return cmp.Or(
		factory.Needs(fs, "approve", "resume"),
		factory.Needs(fs, "answer", "resume"),
		factory.Needs(fs, "deny", "resume"),
		g.DecisionOptions.Check(fs),
	)
}

func (g *runOptions) mocks() (graphtest.Mocks, error) {
	data, err := g.f.Read("--mock", g.mockFile, agentgraph.MaxFile)
	if err != nil {
		return nil, err
	}
	mocks, err := graphtest.LoadMocks(data, g.mockFile)
	if err != nil {
		return nil, factory.Usage(err)
	}
	return mocks, nil
}

// load loads the graph. References of nodes with mocks count as existing.
func (g *runOptions) load(mocks graphtest.Mocks) (*agentgraph.Graph, error) {
	known, err := g.agents.known(g.f, g.file)
	if err != nil {
		return nil, err
	}
	if len(mocks) > 0 {
		shape, err := agentgraph.LoadFile(g.file, agentgraph.WithAnyRef())
		if err == nil { // report a misspelt id before the reference that lacks a mock
			err = mocks.Check(shape)
		}
		if shape != nil && err != nil {
			return nil, factory.Usage(err)
		}
	}
	mocked := agentgraph.WithNodes(slices.Collect(maps.Keys(mocks))...)
	return loadGraph(g.f, g.file, append(known, mocked)...)
}

// build returns the graph's agent. It resolves models only if an agent may need one.
func (g *runOptions) build(graph *agentgraph.Graph, mocks graphtest.Mocks, opts []agentgraph.AgentOption) (*agentgraph.Agent, *factory.Models, error) {
	var (
		models  *factory.Models
		missing bool
		err     error
		resolve = agentgraph.Resolvers()
	)
	if len(mocks.Unmocked(graph)) > 0 {
		if models, err = g.f.Models(g.f.Model); err != nil {
			return nil, nil, err
		}
		named := func(name string) (llm.Model, error) { return models.Named(name, func() { missing = true }) }
		beside, err := agentfile.Resolver(cmp.Or(g.agents.folder, filepath.Dir(g.file)), agentfile.WithModel(named), agentfile.WithTools(g.f.Tools...), agentfile.WithGuards(g.f.Guards...), agentfile.WithGetenv(g.f.Getenv), factory.Bindings(g.f))
		if err != nil {
			return nil, nil, factory.Usagef("%s", factory.Plain(err, "agentfile"))
		}
		resolve = agentgraph.Resolvers(agentgraph.ResolveDocuments(graph.Agents, named, g.f.Tools...), beside)
	}
	root, err := agentgraph.New(graph, resolve, opts...)
	switch {
	case err != nil:
		return nil, nil, noAgents(g.f, err)
	case missing:
		return nil, nil, models.Missing
	}
	return root, models, nil
}

// noAgents prints the reasons why agents of a graph cannot be built.
func noAgents(f *factory.Factory, err error) error {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	if len(lines) == 1 {
		return factory.Usage(err)
	}
	for _, line := range lines {
		fmt.Fprintln(f.Stderr, visible.Line(line))
	}
	f.Say("%s with the graph's agents", render.Count(len(lines), "problem"))
	return factory.Exit(factory.StatusUsage)
}
