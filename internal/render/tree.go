package render

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph/graphdraw"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools"
)

// otherTargets returns the targets of an agent that are not its children.
func otherTargets(n *agent.Node) []string {
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
			names = append(names, visible.Line(t.Info().Name))
		}
	}
	if a, ok := a.(interface{ Toolsets() []tools.Set }); ok {
		for _, s := range a.Toolsets() {
			if named, ok := s.(fmt.Stringer); ok {
				names = append(names, visible.Line(named.String()))
			}
		}
	}
	return names
}

// remoteURL returns the address of a remote agent's card, without user, password and query, or "" if it is unknown.
// remote is false for other agents.
func remoteURL(a agent.Agent) (url string, remote bool) {
	r, remote := agent.As[interface{ CardURL() string }](a)
	if !remote {
		return "", false
	}
	return visible.Line(r.CardURL()), true
}

// flowText describes how a workflow runs its agents, or returns "" for other agents.
func flowText(n *agent.Node) string {
	return map[string]string{agent.FlowSequential: "in turn", agent.FlowParallel: "side by side", agent.FlowLoop: "in rounds"}[n.Properties.Flow]
}

// Runs returns the agents that a workflow runs, each in its own tree.
func Runs(n *agent.Node) (roots []*agent.Node) {
	for _, inner := range n.Properties.Inner {
		if tree, err := agent.NewTree(inner); err == nil && n.Properties.Flow != "" {
			roots = append(roots, tree.Root())
		}
	}
	return roots
}

// flowLine names the agents that a workflow runs, including those of inner workflows.
func flowLine(n *agent.Node) string {
	var names []string
	for _, child := range Runs(n) {
		name := child.Agent.Name()
		if child.Properties.Flow != "" {
			name += " (" + flowLine(child) + ")"
		}
		names = append(names, name)
	}
	return flowText(n) + ": " + strings.Join(names, ", ")
}

// labels returns the lines that describe an agent in a drawing.
func labels(n *agent.Node) []string {
	a := n.Agent
	if n.Properties.Flow != "" {
		return []string{a.Name(), flowLine(n)}
	}
	if url, remote := remoteURL(a); remote && url != "" {
		return []string{a.Name(), url}
	}
	return []string{a.Name()}
}

// TreeAs draws a tree in a format: text, mermaid, dot or json.
func TreeAs(format string, w io.Writer, tree *agent.Tree, l Terminal) error {
	switch format {
	case "text":
		Tree(w, tree, l, "")
		return nil
	case "json":
		JSON(w, nodeJSON(tree.Root(), func(*agent.Node) *jsonPlace { return nil }))
		return nil
	}
	p, err := diagram(tree)
	switch {
	case err != nil:
		return err
	case format == "mermaid":
		return p.Mermaid(w)
	}
	return p.DOT(w)
}

// Tree draws the tree and marks the active agent.
func Tree(w io.Writer, tree *agent.Tree, l Terminal, active string) {
	var draw func(n *agent.Node, first, rest string)
	show := func(n *agent.Node, first, under string) {
		fmt.Fprintln(w, first+agentLine(n.Agent.Name(), n.Agent.Description(), active, l))
		if url, remote := remoteURL(n.Agent); remote {
			fmt.Fprintln(w, l.Paint(faint, under+"  remote: "+url))
		}
		if t := toolNames(n.Agent); len(t) > 0 {
			fmt.Fprintln(w, l.Paint(faint, under+"  tools: "+strings.Join(t, ", ")))
		}
		if r := RouterOf(n.Agent); r != nil {
			drawRules(w, n, r, l, under+"  ")
		} else if b := otherTargets(n); len(b) > 0 {
			fmt.Fprintln(w, l.Paint(faint, under+"  may also transfer to: "+strings.Join(b, ", ")))
		}
		if g := GraphOf(n.Agent); g != nil {
			drawNodes(w, g, l, under+"  ")
		}
		if words := flowText(n); words != "" {
			fmt.Fprintln(w, l.Paint(faint, under+"  "+words+":"))
			for i, child := range Runs(n) {
				mark := "• "
				if n.Properties.Flow != agent.FlowParallel {
					mark = strconv.Itoa(i+1) + ". "
				}
				draw(child, under+"  "+mark, under+"  "+strings.Repeat(" ", len([]rune(mark))))
			}
		}
	}
	draw = func(n *agent.Node, first, rest string) { outline(n, first, rest, (*agent.Node).Children, show) }
	draw(tree.Root(), "", "")
}

// diagram returns the picture of a tree, including the person.
func diagram(tree *agent.Tree) (*graphdraw.Picture, error) {
	nodes := slices.Collect(tree.Walk())
	if h := tree.Root().Human(); h != nil {
		nodes = append(nodes, h)
	}
	p, at := &graphdraw.Picture{Name: "agents"}, make(map[*agent.Node]int, len(nodes))
	for i, n := range nodes {
		b := boxOf(n, labels(n)...)
		if g := GraphOf(n.Agent); g != nil {
			var err error
			if b.Inner, err = graphdraw.Of(g); err != nil {
				return nil, err
			}
		}
		p.Boxes, at[n] = append(p.Boxes, b), i
	}
	for n := range tree.Walk() {
		for _, a := range arrows(n) {
			p.Lines = append(p.Lines, graphdraw.Line{From: at[n], To: at[a.to], Text: a.lines, Dashed: a.faint})
		}
	}
	return p, nil
}

// jsonNode is an agent in tree --format json.
type jsonNode struct {
	Name        string   `json:"name"`
	Path        string   `json:"path"`
	*jsonPlace           // nil in tree --format json
	Description string   `json:"description,omitempty"`
	Model       string   `json:"model,omitempty"`
	Remote      string   `json:"remote,omitempty"` // the address of its card
	Tools       []string `json:"tools,omitempty"`
	Targets     []string `json:"targets,omitempty"`
	*jsonGraph
	Flow      string      `json:"flow,omitempty"`   // how a workflow runs its agents: sequential, parallel or loop
	Agents    []*jsonNode `json:"agents,omitempty"` // the agents that it runs
	Router    *jsonRouter `json:"router,omitempty"`
	SubAgents []*jsonNode `json:"subAgents,omitempty"`
}

func nodeJSON(n *agent.Node, place func(*agent.Node) *jsonPlace) *jsonNode {
	j := &jsonNode{jsonPlace: place(n), Name: n.Agent.Name(), Path: n.Path, Description: n.Agent.Description(), Tools: toolNames(n.Agent)}
	if a, ok := n.Agent.(interface{ Model() llm.Model }); ok && a.Model() != nil {
		j.Model = a.Model().Name()
	}
	j.Remote, _ = remoteURL(n.Agent)
	if g := GraphOf(n.Agent); g != nil {
		j.jsonGraph = graphJSON(g)
	}
	if r := RouterOf(n.Agent); r != nil {
		j.Router = &jsonRouter{r.Rules(), r.Default(), r.Sticky(), onErrors(n)}
	}
	j.Flow = n.Properties.Flow
	for _, child := range Runs(n) {
		j.Agents = append(j.Agents, nodeJSON(child, place))
	}
	for _, t := range n.Targets() {
		j.Targets = append(j.Targets, t.Agent.Name())
	}
	for _, child := range n.Children() {
		j.SubAgents = append(j.SubAgents, nodeJSON(child, place))
	}
	return j
}
