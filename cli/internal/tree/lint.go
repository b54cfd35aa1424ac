package tree

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/eval/routing"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/tools"
)

// LintCommand returns the command lint.
func LintCommand(f *factory.Factory) *cobra.Command {
	var o routingOptions
	var connect bool
	cmd := f.WithPath("lint", func(cmd *cobra.Command, path string, _ []string) error {
		if err := o.check(cmd); err != nil {
			return err
		}
		tree, err := f.LookAt(path)
		if err != nil {
			return badFiles(f, err)
		}
		if connect {
			if err := connected(cmd.Context(), f, path, tree); err != nil {
				return badFiles(f, err)
			}
		}
		if !f.JSON {
			sound(f, tree)
			mention(f, path)
		}
		return lintRouting(cmd.Context(), f, tree, o)
	})
	f.JSONFlag(cmd.Flags(), "print the problems (with --routing, the findings) as a JSON array; with --model, print one object")
	cmd.Flags().BoolVar(&connect, "connect", false, "start the MCP servers in the files and check the rules about their tools")
	o.add(f, cmd.Flags())
	return cmd
}

// connected starts the servers of a tree's agents, and returns their problems and those of rules about their tools.
func connected(ctx context.Context, f *factory.Factory, path string, own *agent.Tree) error {
	if f.Build == nil {
		_, end, err := f.LoadTree(path, factory.Unused)
		if err != nil {
			return err
		}
		defer end()
		if all := f.ConnectServers(ctx); len(all) > 0 {
			return &agentfile.Error{Problems: all}
		}
		return nil
	}
	var problems []agent.Problem
	for n := range own.Walk() {
		a, ok := agent.As[*llmagent.Agent](n.Agent)
		if !ok {
			continue
		}
		wrong, unknown := a.Mistakes(ctx, n)
		if unknown != nil {
			problems = append(problems, agent.Problem{Agent: n.Agent.Name(), Path: n.Path, Message: unknown.Error()})
		}
		for _, m := range slices.DeleteFunc(wrong, func(m tools.Mistake) bool { return m.Open && unknown != nil }) {
			problems = append(problems, agent.Problem{Agent: n.Agent.Name(), Path: n.Path, Message: m.String()})
		}
	}
	if len(problems) > 0 {
		return &agent.TreeError{Problems: problems}
	}
	return nil
}

// badFiles prints the problems of a tree that could not be loaded, and returns the
// command's error.
func badFiles(f *factory.Factory, err error) error {
	problems, _ := factory.ProblemsOf(err)
	if problems == nil {
		return err
	}
	return f.Problems(problems, factory.ProblemLines(err))
}

// mention names the variables that a valid tree needs and that are not set, so that it could not run here.
func mention(f *factory.Factory, path string) {
	_, _, err := f.LoadTree(path, factory.Unused)
	problems, _ := factory.ProblemsOf(err)
	for _, p := range problems {
		f.Say("to run it: %s", p)
	}
}

// sound prints the contents of a tree without problems, and what is unusual about it.
func sound(f *factory.Factory, tree *agent.Tree) {
	graphs, nodes, routers, rules, workflows, inside := 0, 0, 0, 0, 0, 0
	var look func(n *agent.Node)
	look = func(n *agent.Node) {
		if n.Properties.Flow != "" {
			workflows++
		}
		for _, child := range render.Runs(n) {
			inside++
			look(child)
		}
		for _, child := range n.Children() {
			look(child)
		}
	}
	look(tree.Root())
	for n := range tree.Walk() {
		if r := render.RouterOf(n.Agent); r != nil {
			routers, rules = routers+1, rules+len(r.Rules())
			idleRules(f, r)
		}
		g := render.GraphOf(n.Agent)
		if g == nil {
			continue
		}
		graphs, nodes = graphs+1, nodes+countNodes(g)
		for _, w := range g.Warnings {
			f.Say("the graph %s, line %d: %s", n.Agent.Name(), w.Line, w.Message)
		}
	}
	line := render.Count(tree.Len(), "agent")
	if inGraphs := render.Count(graphs, "graph") + " with " + render.Count(nodes, "node"); graphs == tree.Len() {
		line = inGraphs
	} else if graphs > 0 {
		line += ", of which " + inGraphs
	}
	if workflows > 0 {
		line += ", " + render.Count(workflows, "workflow") + " with " + render.Count(inside, "agent")
	}
	if routers > 0 {
		line += ", " + render.Count(routers, "router") + " with " + render.Count(rules, "rule")
	}
	fmt.Fprintf(f.Stdout, "ok: %s\n", line)
}

// countNodes counts the nodes of a graph and of those within it.
func countNodes(g *agentgraph.Graph) int {
	n := len(g.Nodes)
	for _, node := range g.Nodes {
		if node.Graph != nil {
			n += countNodes(node.Graph)
		}
	}
	return n
}

// routingOptions are the flags of lint about routing.
type routingOptions struct {
	routing  bool
	messages int
}

// mostMessages is the maximal number of messages that a model writes for one agent.
const mostMessages = 20

func (o *routingOptions) add(f *factory.Factory, fs *pflag.FlagSet) {
	fs.BoolVar(&o.routing, "routing", false, "also report what makes routing worse than necessary")
	fs.StringVarP(&f.Model, "model", "m", "", "with --routing, test which agents the model `NAME` confuses and which form of transfer suits it")
	fs.IntVar(&o.messages, "messages", 3, "with --model, let the model write and route `N` messages per target")
	fs.StringVar(&f.Prices, "prices", "", "with --model, read prices from `FILE` (YAML or JSON) to report the cost")
}

func (o *routingOptions) check(cmd *cobra.Command) error {
	fs := cmd.Flags()
	return cmp.Or(
		factory.Needs(fs, "model", "routing"),
		factory.Needs(fs, "messages", "model"),
		factory.Needs(fs, "prices", "model"),
		factory.InRange("--messages", o.messages, 1, mostMessages),
	)
}

// lintRouting prints the findings about the routing of a valid tree.
func lintRouting(ctx context.Context, f *factory.Factory, tree *agent.Tree, o routingOptions) error {
	found := []routing.Finding{}
	if o.routing {
		found = append(found, routing.Lint(tree, placeOf(f))...)
	}
	asked, failed := &routing.SurveyResult{}, error(nil)
	if f.Model != "" {
		asked, failed = survey(ctx, f, tree, o)
	}
	found = append(found, asked.Findings...)
	if asked.Findings = found; f.JSON && f.Model != "" && failed == nil {
		render.JSON(f.Stdout, asked)
	} else if f.JSON {
		render.JSON(f.Stdout, found)
	} else {
		for _, finding := range found {
			fmt.Fprintln(f.Stdout, visible.Line(finding.String()))
		}
		printForms(f, asked)
	}
	switch {
	case failed != nil:
		return failed
	case len(found) == 0:
		return nil
	}
	f.Say("%s", render.Count(len(found), "finding"))
	return factory.Exit(factory.StatusFindings)
}

// printForms prints the results of the forms in which models can see their targets.
func printForms(f *factory.Factory, asked *routing.SurveyResult) {
	if len(asked.Forms) == 0 {
		return
	}
	table := factory.Table(f.Stdout, "\nFORM\tRIGHT AT THE END\tBETWEEN\tTRANSFERS\tCALLS SHOWN")
	for _, m := range asked.Forms {
		now := ""
		if m.Now {
			now = " (now)"
		}
		fmt.Fprintf(table, "%s%s\t%d of %d\t%.0f %% and %.0f %%\t%.1f\t%d\n", m.Form, now, m.Right.Right, m.Right.Of, 100*m.Right.Low, 100*m.Right.High, m.Transfers, m.Leaked)
	}
	_ = table.Flush()
	if !slices.ContainsFunc(asked.Findings, func(finding routing.Finding) bool { return finding.Kind == routing.Transfers }) {
		fmt.Fprintln(f.Stdout, asked.Why) // otherwise it is one of the findings
	}
}

// survey asks a model about the targets of a tree, and first prints how many requests that takes. The result is never
// nil.
func survey(ctx context.Context, f *factory.Factory, tree *agent.Tree, o routingOptions) (*routing.SurveyResult, error) {
	none := &routing.SurveyResult{}
	var prices llm.Prices
	m, err := f.Models(f.Model)
	if err == nil {
		prices, err = f.ReadPrices()
	}
	if err != nil {
		return none, err
	}
	model, err := m.Named(f.Model, func() {})
	if err != nil {
		return none, err
	}
	s := routing.NewSurvey(tree, model, o.messages, placeOf(f))
	f.Say("the model %s is asked about %s, of about %s%s", f.Model, render.Count(s.Questions, "question"), render.Count(s.Tokens, "token"), factory.Costs(prices, f.Model, s.Tokens))
	ctx, done := f.Interrupts.Turn(ctx)
	defer done()
	asked, err := s.Ask(ctx)
	f.Say("it has used %s and answered with %d%s", render.Count(asked.Used.InputTokens, "token"), asked.Used.OutputTokens, factory.Paid(prices, f.Model, asked.Used))
	return asked, err
}

// placeOf returns a function that returns the file and line of an agent of the last loaded tree; "" if it comes from no
// file.
func placeOf(f *factory.Factory) func(name string) (file string, line int) {
	return func(name string) (file string, line int) {
		if f.Sources == nil {
			return "", 0
		}
		s, _ := f.Sources(name)
		return s.File, s.Line
	}
}
