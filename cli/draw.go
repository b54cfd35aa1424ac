package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph/graphdraw"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools"
)

func (p *program) treeCommand() *cobra.Command {
	cmd := p.withPath(&cobra.Command{
		Short: "Draw the tree of agents",
		Long: `Draws the tree: agents, what they are for, their tools, and to whom else than its
own children an agent may hand over. Of an agent that is a graph the nodes and the
edges are drawn. No model is called or needed.`,
	}, "tree", 0, func(_ *cobra.Command, path string, _ []string) error {
		draw := map[string]func(io.Writer, *agent.Tree, look) error{"text": drawText, "mermaid": drawMermaid, "dot": drawDOT, "json": drawJSON}[p.flags.tree]
		if draw == nil {
			return usagef("--format %s: text, mermaid, dot and json are possible", oneLine(p.flags.tree))
		}
		tree, err := p.lookAt(path)
		if err != nil {
			return err
		}
		return draw(p.Stdout, tree, p.lookOf(p.Stdout))
	})
	cmd.Flags().StringVar(&p.flags.tree, "format", "text", "text, mermaid, dot or json")
	return cmd
}

// beyond returns the targets of an agent that are not its children.
func beyond(n *agent.Node) []string {
	var names []string
	for _, t := range n.Targets() {
		if t.Parent != n {
			names = append(names, t.Agent.Name())
		}
	}
	return names
}

func toolNames(a agent.Agent) []string {
	var names []string
	if a, ok := a.(interface{ Tools() []tools.Tool }); ok {
		for _, t := range a.Tools() {
			names = append(names, oneLine(t.Info().Name))
		}
	}
	return names
}

// remoteURL returns where the card of a remote agent stands, without user, password and
// query; "" if the program did not say. It is false for other agents.
func remoteURL(a agent.Agent) (url string, remote bool) {
	r, remote := a.(interface{ CardURL() string })
	if !remote {
		return "", false
	}
	return oneLine(r.CardURL()), true
}

// labels returns the lines that drawings show of an agent.
func labels(a agent.Agent) []string {
	if url, remote := remoteURL(a); remote && url != "" {
		return []string{a.Name(), url}
	}
	return []string{a.Name()}
}

func drawText(w io.Writer, tree *agent.Tree, l look) error {
	drawMarked(w, tree, l, "")
	return nil
}

// drawMarked draws the tree with a mark at the agent that is active.
func drawMarked(w io.Writer, tree *agent.Tree, l look, active string) {
	var draw func(n *agent.Node, first, rest string)
	draw = func(n *agent.Node, first, rest string) {
		name := n.Agent.Name()
		line := first + l.paint(cyan, name)
		if name == active {
			line += l.paint(green, " ← active")
		}
		if d := oneLine(n.Agent.Description()); d != "" {
			line += "  " + d
		}
		fmt.Fprintln(w, line)
		under := rest
		if len(n.Children()) > 0 {
			under += "│ "
		} else {
			under += "  "
		}
		if url, remote := remoteURL(n.Agent); remote {
			fmt.Fprintln(w, l.paint(faint, under+"  remote: "+url))
		}
		if t := toolNames(n.Agent); len(t) > 0 {
			fmt.Fprintln(w, l.paint(faint, under+"  tools: "+strings.Join(t, ", ")))
		}
		if b := beyond(n); len(b) > 0 {
			fmt.Fprintln(w, l.paint(faint, under+"  may also hand over to: "+strings.Join(b, ", ")))
		}
		if g := graphOf(n.Agent); g != nil {
			drawNodes(w, g, l, under+"  ")
		}
		for i, child := range n.Children() {
			if i == len(n.Children())-1 {
				draw(child, rest+"└─ ", rest+"   ")
			} else {
				draw(child, rest+"├─ ", rest+"│  ")
			}
		}
	}
	draw(tree.Root(), "", "")
}

// numbered gives each node an identifier that every drawing language accepts.
func numbered(tree *agent.Tree) map[*agent.Node]string {
	ids := make(map[*agent.Node]string)
	for n := range tree.Walk() {
		ids[n] = fmt.Sprintf("n%d", len(ids))
	}
	return ids
}

func drawMermaid(w io.Writer, tree *agent.Tree, _ look) error {
	ids := numbered(tree)
	fmt.Fprintln(w, "flowchart TD")
	for n := range tree.Walk() {
		g := graphOf(n.Agent)
		if g == nil {
			fmt.Fprintf(w, "    %s[\"%s\"]\n", ids[n], strings.Join(labels(n.Agent), "<br>"))
			continue
		}
		fmt.Fprintf(w, "    subgraph %s[\"%s\"]\n        direction TB\n", ids[n], n.Agent.Name())
		if err := graphdraw.MermaidPart(w, g, ids[n]+"_", "        "); err != nil {
			return err
		}
		fmt.Fprintln(w, "    end")
	}
	for n := range tree.Walk() {
		for _, t := range n.Targets() {
			arrow := "-.->"
			if t.Parent == n {
				arrow = "-->"
			}
			fmt.Fprintf(w, "    %s %s %s\n", ids[n], arrow, ids[t])
		}
	}
	return nil
}

func drawDOT(w io.Writer, tree *agent.Tree, _ look) error {
	ids := numbered(tree)
	fmt.Fprintln(w, "digraph agents {")
	for n := range tree.Walk() {
		if graphOf(n.Agent) != nil {
			fmt.Fprintln(w, "  compound=true;\n  node [shape=box];")
			break
		}
	}
	for n := range tree.Walk() {
		g := graphOf(n.Agent)
		if g == nil {
			fmt.Fprintf(w, "  %s [label=%q, shape=box];\n", ids[n], strings.Join(labels(n.Agent), "\n"))
			continue
		}
		fmt.Fprintf(w, "  subgraph cluster_%s {\n    label=%q;\n", ids[n], n.Agent.Name())
		if err := graphdraw.DOTPart(w, g, ids[n]+"_", "    "); err != nil {
			return err
		}
		fmt.Fprintln(w, "  }")
	}
	for n := range tree.Walk() {
		for _, t := range n.Targets() {
			to, list := ids[t], []string{}
			if t.Parent != n {
				list = append(list, "style=dashed", "constraint=false")
			}
			if graphOf(t.Agent) != nil {
				to += "_input"
				list = append(list, "lhead=cluster_"+ids[t])
			}
			attributes := ""
			if len(list) > 0 {
				attributes = " [" + strings.Join(list, ", ") + "]"
			}
			fmt.Fprintf(w, "  %s -> %s%s;\n", ids[n], to, attributes)
		}
	}
	fmt.Fprintln(w, "}")
	return nil
}

// jsonNode is the form of tree --format json.
type jsonNode struct {
	Name        string   `json:"name"`
	Path        string   `json:"path"`
	Description string   `json:"description,omitempty"`
	Model       string   `json:"model,omitempty"`
	Remote      string   `json:"remote,omitempty"` // the address of its card
	Tools       []string `json:"tools,omitempty"`
	Targets     []string `json:"targets,omitempty"`
	*jsonGraph
	SubAgents []*jsonNode `json:"subAgents,omitempty"`
}

func drawJSON(w io.Writer, tree *agent.Tree, _ look) error {
	writeJSON(w, nodeJSON(tree.Root()))
	return nil
}

func nodeJSON(n *agent.Node) *jsonNode {
	j := &jsonNode{Name: n.Agent.Name(), Path: n.Path, Description: n.Agent.Description(), Tools: toolNames(n.Agent)}
	if a, ok := n.Agent.(interface{ Model() llm.Model }); ok && a.Model() != nil {
		j.Model = a.Model().Name()
	}
	j.Remote, _ = remoteURL(n.Agent)
	if g := graphOf(n.Agent); g != nil {
		j.jsonGraph = graphJSON(g)
	}
	for _, t := range n.Targets() {
		j.Targets = append(j.Targets, t.Agent.Name())
	}
	for _, child := range n.Children() {
		j.SubAgents = append(j.SubAgents, nodeJSON(child))
	}
	return j
}
