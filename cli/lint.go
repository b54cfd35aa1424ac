package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/cli/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
)

func (p *program) lintCommand() *cobra.Command {
	return p.withPath(&cobra.Command{
		Short: "Report every problem of a tree, with file and line",
		Long: `Checks a tree and prints every problem on a line of its own, as file:line: message.
The status is then 2. No model is called or needed, and nothing is fetched.`,
	}, "lint", 0, func(_ *cobra.Command, path string, _ []string) error {
		tree, err := p.lookAt(path)
		if err == nil {
			p.sound(tree)
			p.mention(path)
			return nil
		}
		var files *agentfile.Error
		var bad *agent.TreeError
		var lines []string
		switch {
		case errors.As(err, &files):
			lines = fileProblems(files)
		case errors.As(err, &bad):
			for _, problem := range bad.Problems {
				lines = append(lines, problem.String())
			}
		default:
			return err
		}
		for _, line := range lines {
			fmt.Fprintln(p.Stdout, visible.Line(line))
		}
		p.say("%s", render.Count(len(lines), "problem"))
		return statusError(StatusUsage)
	})
}

// mention names the variables that a sound tree needs and does not find, so that it could
// not be run here.
func (p *program) mention(path string) {
	_, err := p.loadTree(path, unused)
	var files *agentfile.Error
	if errors.As(err, &files) {
		for _, line := range fileProblems(files) {
			p.say("to run it: %s", line)
		}
	}
}

// sound says what a tree without a problem has in it, and what is odd about it.
func (p *program) sound(tree *agent.Tree) {
	graphs, nodes := 0, 0
	for n := range tree.Walk() {
		g := render.GraphOf(n.Agent)
		if g == nil {
			continue
		}
		graphs, nodes = graphs+1, nodes+countNodes(g)
		for _, w := range g.Warnings {
			p.say("the graph %s, line %d: %s", n.Agent.Name(), w.Line, w.Message)
		}
	}
	line := render.Count(tree.Len(), "agent")
	if inGraphs := render.Count(graphs, "graph") + " with " + render.Count(nodes, "node"); graphs == tree.Len() {
		line = inGraphs
	} else if graphs > 0 {
		line += ", of which " + inGraphs
	}
	fmt.Fprintf(p.Stdout, "ok: %s\n", line)
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
