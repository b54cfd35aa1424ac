package render

import (
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph/graphdraw"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools"
)

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

// remoteURL returns the address of a remote agent's card, without user, password and query; "" if it is unknown. remote
// is false for other agents.
func remoteURL(a agent.Agent) (url string, remote bool) {
	r, remote := agent.As[interface{ CardURL() string }](a)
	if !remote {
		return "", false
	}
	return visible.Line(r.CardURL()), true
}

// flowWords describes how a workflow runs its agents, "" for other agents.
func flowWords(n *agent.Node) string {
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
	return flowWords(n) + ": " + strings.Join(names, ", ")
}

// labels returns the lines of an agent in drawings.
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

// TreeAs returns the function that draws a tree in a format: text, mermaid, dot or json; nil for any other format.
func TreeAs(format string) func(w io.Writer, tree *agent.Tree, l Look) error {
	switch format {
	case "text":
		return func(w io.Writer, tree *agent.Tree, l Look) error {
			Tree(w, tree, l, "")
			return nil
		}
	case "mermaid":
		return drawMermaid
	case "dot":
		return drawDOT
	case "json":
		return drawJSON
	}
	return nil
}

// Tree draws the tree and marks the active agent.
func Tree(w io.Writer, tree *agent.Tree, l Look, active string) {
	var draw func(n *agent.Node, first, rest string)
	show := func(n *agent.Node, first, under string) {
		fmt.Fprintln(w, first+agentLine(n.Agent.Name(), n.Agent.Description(), active, l))
		if url, remote := remoteURL(n.Agent); remote {
			fmt.Fprintln(w, l.Paint(Faint, under+"  remote: "+url))
		}
		if t := toolNames(n.Agent); len(t) > 0 {
			fmt.Fprintln(w, l.Paint(Faint, under+"  tools: "+strings.Join(t, ", ")))
		}
		if r := RouterOf(n.Agent); r != nil {
			drawRules(w, n, r, l, under+"  ")
		} else if b := beyond(n); len(b) > 0 {
			fmt.Fprintln(w, l.Paint(Faint, under+"  may also transfer to: "+strings.Join(b, ", ")))
		}
		if g := GraphOf(n.Agent); g != nil {
			drawNodes(w, g, l, under+"  ")
		}
		if words := flowWords(n); words != "" {
			fmt.Fprintln(w, l.Paint(Faint, under+"  "+words+":"))
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

// numbered gives each node an identifier that is valid in every drawing language.
func numbered(tree *agent.Tree) map[*agent.Node]string {
	ids := make(map[*agent.Node]string)
	for n := range tree.Walk() {
		ids[n] = fmt.Sprintf("n%d", len(ids))
	}
	if h := tree.Root().Human(); h != nil {
		ids[h] = agent.Human
	}
	return ids
}

// shape returns the frame of an agent's name in a drawing.
func shape(n *agent.Node, plain, router, human string) string {
	switch {
	case n.Virtual():
		return human
	case RouterOf(n.Agent) != nil:
		return router
	}
	return plain
}

// drawn yields the agents of a tree, and the person next to it.
func drawn(tree *agent.Tree) iter.Seq[*agent.Node] {
	return func(yield func(*agent.Node) bool) {
		for n := range tree.Walk() {
			if !yield(n) {
				return
			}
		}
		if h := tree.Root().Human(); h != nil {
			yield(h)
		}
	}
}

func drawMermaid(w io.Writer, tree *agent.Tree, _ Look) error {
	ids := numbered(tree)
	fmt.Fprintln(w, "flowchart TD")
	for n := range drawn(tree) {
		g := GraphOf(n.Agent)
		if g == nil {
			fmt.Fprintf(w, shape(n, "    %s[\"%s\"]\n", "    %s{{\"%s\"}}\n", "    %s([\"%s\"])\n"), ids[n], strings.Join(labels(n), "<br>"))
			continue
		}
		fmt.Fprintf(w, "    subgraph %s[\"%s\"]\n        direction TB\n", ids[n], n.Agent.Name())
		if err := graphdraw.MermaidPart(w, g, ids[n]+"_", "        "); err != nil {
			return err
		}
		fmt.Fprintln(w, "    end")
	}
	for n := range tree.Walk() {
		for _, a := range arrows(n) {
			line := "-->"
			if a.faint {
				line = "-.->"
			}
			if len(a.lines) > 0 {
				line += `|"` + graphdraw.MermaidText(a.lines) + `"|`
			}
			fmt.Fprintf(w, "    %s %s %s\n", ids[n], line, ids[a.to])
		}
	}
	return nil
}

func drawDOT(w io.Writer, tree *agent.Tree, _ Look) error {
	ids := numbered(tree)
	fmt.Fprintln(w, "digraph agents {")
	for n := range tree.Walk() {
		if GraphOf(n.Agent) != nil {
			fmt.Fprintln(w, "  compound=true;\n  node [shape=box];")
			break
		}
	}
	for n := range drawn(tree) {
		g := GraphOf(n.Agent)
		if g == nil {
			fmt.Fprintf(w, "  %s [label=%q, shape=%s];\n", ids[n], strings.Join(labels(n), "\n"), shape(n, "box", "hexagon", "ellipse"))
			continue
		}
		fmt.Fprintf(w, "  subgraph cluster_%s {\n    label=%q;\n", ids[n], n.Agent.Name())
		if err := graphdraw.DOTPart(w, g, ids[n]+"_", "    "); err != nil {
			return err
		}
		fmt.Fprintln(w, "  }")
	}
	for n := range tree.Walk() {
		for _, a := range arrows(n) {
			to, list := ids[a.to], []string{}
			if a.faint {
				list = append(list, "style=dashed", "constraint=false")
			}
			if len(a.lines) > 0 {
				list = append(list, `label="`+graphdraw.DOTText(a.lines...)+`"`)
			}
			if GraphOf(a.to.Agent) != nil {
				to += "_input"
				list = append(list, "lhead=cluster_"+ids[a.to])
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

func drawJSON(w io.Writer, tree *agent.Tree, _ Look) error {
	JSON(w, nodeJSON(tree.Root(), func(*agent.Node) *jsonPlace { return nil }))
	return nil
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
