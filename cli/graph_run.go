package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/agentgraph/graphtest"
	"github.com/agentarbor/arbor/internal/confined"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/llm"
)

// graphRun is one execution of arbor graph run.
type graphRun struct {
	p           *program
	file        string
	agents      graphAgents
	input, text string
	given       func(flag string) bool
	mockFile    string
	resume      bool
	decided
	turnFlags
}

func (p *program) graphRunCommand() *cobra.Command {
	g := &graphRun{p: p}
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Run a graph and print its results",
		Long: `Runs a graph on a JSON input, and prints the result of each agent and how the run ended.
Without --input and --text, the input is read from standard input.

With --mock, a file has the agents' results, and no model is called for them. The run is
not stored, unless --session or --db is given.

The status is 0 if the run completed, with or without errors, or if the fallback gave the
output; 3 if it failed, 4 at a limit, 5 if it waits for an approval, 6 if another process
runs the session, and 130 after an interrupt.`,
		Args: exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			g.file, g.given = args[0], cmd.Flags().Changed
			return g.run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&g.input, "input", "", "pass `JSON` to the entrypoint (@FILE: read a file, -: read standard input)")
	fs.StringVar(&g.text, "text", "", "pass `TEXT` to the entrypoint instead of --input")
	fs.StringVar(&g.mockFile, "mock", "", "read the agents' results, by id, from the YAML `FILE`")
	g.agents.flags(fs)
	fs.BoolVar(&g.resume, "resume", false, "resume the run of --session that was interrupted or is waiting")
	g.decided.flags(fs, "with --resume, approve the waiting `CALL` (repeatable)",
		"with --resume, deny the waiting `CALL` (repeatable)", "give `TEXT` as the reason for denials")
	p.turnFlags(cmd, &g.turnFlags)
	fs.BoolVar(&g.json, "json", false, "print one JSON object")
	return cmd
}

func (g *graphRun) run(ctx context.Context) error {
	p := g.p
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
	for _, w := range graph.Warnings {
		p.say("%s:%d: %s", g.file, w.Line, w.Message)
	}
	opts, err := mocks.Agents(graph)
	if err != nil {
		return p.refuse(err)
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

// check looks at what the flags say together.
func (g *graphRun) check() error {
	p := g.p
	switch {
	case g.given("input") && g.given("text"):
		return usagef("--input and --text exclude each other")
	case g.resume && (g.given("input") || g.given("text")):
		return usagef("--resume uses the input of the run: leave out --input and --text")
	case g.resume && g.session == "":
		return usagef("--resume goes with --session: %s sessions ls lists the sessions", p.name)
	case !g.resume && len(g.approve)+len(g.answer)+len(g.deny) > 0:
		return usagef("--approve, --answer and --deny go with --resume")
	}
	return g.decided.check()
}

func (g *graphRun) mocks() (graphtest.Mocks, error) {
	f, err := os.Open(g.mockFile) // which may be a pipe, such as /dev/stdin
	if err != nil {
		return nil, usagef("--mock: %w", err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, agentgraph.MaxFile+1))
	if err != nil {
		return nil, usagef("--mock: %w", err)
	}
	mocks, err := graphtest.LoadMocks(data, g.mockFile)
	if err != nil {
		return nil, g.p.refuse(err)
	}
	return mocks, nil
}

// load loads the graph. The references of nodes with mocks count as existing.
func (g *graphRun) load(mocks graphtest.Mocks) (*agentgraph.Graph, error) {
	known, err := g.agents.known(g.p, g.file)
	if err != nil {
		return nil, err
	}
	var refs []string
	if len(mocks) > 0 {
		shape, err := agentgraph.LoadFile(g.file, agentgraph.WithAnyRef())
		if err == nil { // a misspelt id comes before the reference that lacks a mock
			if err := mocks.Check(shape); err != nil {
				return nil, g.p.refuse(err)
			}
			refs = append(refs, mocks.Refs(shape)...)
		} else if legible(err) {
			refs = append(refs, mockedRefs(g.file, mocks)...)
		}
	}
	graph, err := agentgraph.LoadFile(g.file, append(known, agentgraph.WithRefs(refs...))...)
	if err != nil {
		return nil, g.p.badGraph(g.file, err, g.json)
	}
	return graph, nil
}

// legible reports whether a graph with problems is YAML all the same.
func legible(err error) bool {
	problems := agentgraph.Problems(err)
	for _, problem := range problems {
		if problem.Path == "" {
			return false
		}
	}
	return len(problems) > 0
}

// mockedRefs returns the references of nodes with mocks in a graph that has problems,
// as far as they can be read.
func mockedRefs(file string, mocks graphtest.Mocks) (refs []string) {
	data, err := confined.Read(file, agentgraph.MaxFile)
	if err != nil {
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data), yaml.AllowDuplicateMapKey())
	for {
		var doc struct {
			Spec struct {
				Agents []struct {
					ID   string `yaml:"id"`
					Ref  string `yaml:"agentRef"`
					Tool string `yaml:"tool"`
				} `yaml:"agents"`
			} `yaml:"spec"`
		}
		if dec.Decode(&doc) != nil {
			return refs
		}
		for _, n := range doc.Spec.Agents {
			if _, ok := mocks[n.ID]; ok {
				refs = append(refs, n.Ref, agentgraph.ToolRef(n.Tool))
			}
		}
	}
}

// refuse prints the problems of a file of mocks or of cases.
func (p *program) refuse(err error) error {
	var bad *graphtest.Error
	if !errors.As(err, &bad) {
		return usageError{err}
	}
	for _, problem := range bad.Problems {
		fmt.Fprintln(p.Stderr, visible.Line(problem.String()))
	}
	p.say("%s", render.Count(len(bad.Problems), "problem"))
	return statusError(StatusUsage)
}

// build makes the graph's agent. Models are looked for only if an agent may need one.
func (g *graphRun) build(graph *agentgraph.Graph, mocks graphtest.Mocks, opts []agentgraph.AgentOption) (*agentgraph.Agent, *models, error) {
	var (
		models  *models
		missing bool
		err     error
		resolve = agentgraph.Resolvers()
	)
	if len(mocks.Unmocked(graph)) > 0 {
		if models, err = g.p.models(g.model); err != nil {
			return nil, nil, err
		}
		named := func(name string) (llm.Model, error) { return models.named(name, func() { missing = true }) }
		beside, err := agentfile.Resolver(cmp.Or(g.agents.folder, filepath.Dir(g.file)), agentfile.WithModel(named), agentfile.WithTools(g.p.tools...), agentfile.WithGuards(g.p.guards...), agentfile.WithGetenv(g.p.Getenv), g.p.bindings())
		if err != nil {
			return nil, nil, usagef("%s", strings.TrimPrefix(err.Error(), "agentfile: "))
		}
		resolve = agentgraph.Resolvers(graph.DocumentAgents(named, g.p.tools...), beside)
	}
	root, err := agentgraph.New(graph, resolve, opts...)
	switch {
	case err != nil:
		return nil, nil, g.p.noAgents(err)
	case missing:
		return nil, nil, models.missing
	}
	return root, models, nil
}

// noAgents prints why agents of a graph cannot be had, which may be for several reasons.
func (p *program) noAgents(err error) error {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	if len(lines) == 1 {
		return usageError{err}
	}
	for _, line := range lines {
		fmt.Fprintln(p.Stderr, visible.Line(line))
	}
	p.say("%s with the graph's agents", render.Count(len(lines), "problem"))
	return statusError(StatusUsage)
}
