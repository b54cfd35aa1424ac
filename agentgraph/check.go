package agentgraph

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/internal/visible"
)

// checker checks the rules that concern a graph as a whole.
type checker struct {
	*reader
	*draft
	entrypoint, fallback int // their lines
	// unsure is true if an agent's id, the edges or an end of one could not be read, so that reachability cannot be
	// checked.
	unsure bool

	ids   map[string]int // the first node with each id
	names []string
	out   [][]int // edges by source
	// unknownTargets contains the edges whose target is unknown.
	unknownTargets []int
}

func (c *checker) check() {
	g := c.graph
	if len(g.Nodes) == 0 { // already reported; every id would be wrong
		return
	}
	c.ids = make(map[string]int, len(g.Nodes))
	c.names = make([]string, 0, len(g.Nodes))
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if n.ID == "" {
			continue
		}
		if first, twice := c.ids[n.ID]; twice {
			c.add(CodeDuplicateID, index(c.path("agents"), i)+".id", c.nodeLines[i].id, "the id %q %s", visible.Cut(n.ID, 60), usedBy("node", c.nodeLines[first].id))
			continue
		}
		c.ids[n.ID] = i
		c.names = append(c.names, n.ID)
	}
	maybe := c.edgeEnds()
	fallback := -1
	if g.OnError.Fallback != "" {
		i, ok := c.ids[g.OnError.Fallback]
		if ok {
			fallback = i
			if g.Nodes[i].Human != nil {
				c.add(CodeYAML, c.path("errorHandling.fallbackAgent"), c.fallback, "%q waits for a person (when: human), and a fallbackAgent is called at once after an error", visible.Cut(g.OnError.Fallback, 60))
			}
		} else {
			c.add(CodeUnknownFallback, c.path("errorHandling.fallbackAgent"), c.fallback, "no agent has the id %q%s", visible.Cut(g.OnError.Fallback, 60), c.idHint(g.OnError.Fallback))
		}
	}
	c.choices()
	c.toolsOf()
	c.cycles()
	if g.Entrypoint == "" {
		return
	}
	entry, ok := c.ids[g.Entrypoint]
	if !ok {
		c.add(CodeUnknownEntrypoint, c.path("entrypoint"), c.entrypoint, "no agent has the id %q%s", visible.Cut(g.Entrypoint, 60), c.idHint(g.Entrypoint))
		return
	}
	if !c.unsure && !c.Unclear["edges"] {
		c.unreachable(entry, fallback, maybe)
	}
}

// usedBy returns the end of a message about a value that only one node or edge may have. line is the line of the first
// one, or 0 if it is from a Builder.
func usedBy(what string, line int) string {
	if line == 0 {
		return "is that of another " + what
	}
	return fmt.Sprintf("is already on line %d", line)
}

// edgeEnds checks that edges connect existing agents. It returns the nodes that a wrong end may stand for, so that they
// are not reported again as unreachable.
func (c *checker) edgeEnds() (maybe []int) {
	g := c.graph
	c.out = make([][]int, len(g.Nodes))
	for i, e := range g.Edges {
		from, fromOK := c.ids[e.From]
		to, toOK := c.ids[e.To]
		if e.From != "" && !fromOK {
			c.add(CodeUnknownEdgeAgent, index(c.path("edges"), i)+".from", c.edgeLines[i][0], "no agent has the id %q%s", visible.Cut(e.From, 60), c.idHint(e.From))
			if toOK {
				maybe = append(maybe, to)
			}
		}
		if e.To != "" && !toOK {
			c.unknownTargets = append(c.unknownTargets, i)
			hint := c.nearest(e.To, c.names)
			c.add(CodeUnknownEdgeAgent, index(c.path("edges"), i)+".to", c.edgeLines[i][1], "no agent has the id %q%s", visible.Cut(e.To, 60), c.idHint(e.To))
			if meant, ok := c.ids[hint]; ok {
				maybe = append(maybe, meant)
			}
			if meant := c.nodeByRef(e.To); meant >= 0 {
				maybe = append(maybe, meant)
			}
		}
		if fromOK && toOK {
			c.out[from] = append(c.out[from], i)
		}
	}
	return maybe
}

// idHint returns a hint about which id is probably meant.
func (c *checker) idHint(name string) string {
	if i := c.nodeByRef(name); i >= 0 {
		return "; that is an agentRef, and the agent's id is \"" + visible.Cut(c.graph.Nodes[i].ID, 60) + "\""
	}
	return c.didYouMean(name, c.names)
}

// nodeByRef returns the first node with this agentRef, or -1.
func (c *checker) nodeByRef(name string) int {
	if c.hints >= maxHints {
		return -1
	}
	c.hints++
	for i := range c.graph.Nodes {
		if n := &c.graph.Nodes[i]; n.Ref == name && n.ID != "" {
			return i
		}
	}
	return -1
}

// cycles reports each edge that closes a cycle. The search begins at the entrypoint.
func (c *checker) cycles() {
	g := c.graph
	seen, place := make([]bool, len(g.Nodes)), make(map[int]int)
	var path []int // the path from the first node to the current one
	var visit func(i int)
	visit = func(i int) {
		if seen[i] {
			return
		}
		seen[i], place[i] = true, len(path)
		path = append(path, i)
		for _, edge := range c.out[i] {
			to := c.ids[g.Edges[edge].To]
			if from, open := place[to]; open {
				c.add(CodeCycle, index(c.path("edges"), edge), g.Edges[edge].Line, "the edges form a cycle, and a graph must have none: %s", c.cycleText(path[from:]))
			}
			visit(to)
		}
		path = path[:len(path)-1]
		delete(place, i)
	}
	if entry, ok := c.ids[g.Entrypoint]; ok {
		visit(entry)
	}
	for i := range g.Nodes {
		visit(i)
	}
}

// maxCycle is the largest number of agents of a cycle that a message names.
const maxCycle = 20

func (c *checker) cycleText(nodes []int) string {
	first := visible.Cut(c.graph.Nodes[nodes[0]].ID, 60)
	var names []string
	if long := len(nodes) - maxCycle; long > 0 {
		names, nodes = []string{first, "…"}, nodes[long:]
	}
	for _, i := range nodes {
		names = append(names, visible.Cut(c.graph.Nodes[i].ID, 60))
	}
	return strings.Join(append(names, first), " → ")
}

// unreachable reports the agents that cannot be reached from the entrypoint. The fallback may be unreachable.
func (c *checker) unreachable(entry, fallback int, maybe []int) {
	g := c.graph
	seen := make([]bool, len(g.Nodes))
	var queue []int
	mark := func(i int) {
		if !seen[i] {
			seen[i] = true
			queue = append(queue, i)
		}
	}
	walk := func() {
		for len(queue) > 0 {
			n := queue[len(queue)-1]
			queue = queue[:len(queue)-1]
			for _, e := range c.out[n] {
				mark(c.ids[g.Edges[e].To])
			}
		}
	}
	mark(entry)
	for _, m := range maybe {
		mark(m)
	}
	walk()
	onlyFallback := make([]bool, 0)
	if fallback >= 0 && !seen[fallback] {
		// Nodes that only the fallback leads to never run: its output ends a run, or replaces the output of another
		// agent.
		before := append([]bool(nil), seen...)
		mark(fallback)
		walk()
		onlyFallback, seen = seen, before
		seen[fallback] = true
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if n.ID == "" || seen[i] || c.ids[n.ID] != i {
			continue
		}
		why := ": it lacks an edge"
		if len(onlyFallback) > 0 && onlyFallback[i] {
			why = ": an edge from the fallbackAgent is never taken"
		}
		c.add(CodeUnreachable, index(c.path("agents"), i), n.Line, "no way leads from the entrypoint %q to %q%s", visible.Cut(g.Entrypoint, 60), visible.Cut(n.ID, 60), why)
	}
}

// choices checks what selects among the edges of a node: priorities must differ, and constant ids in next must be
// targets.
func (c *checker) choices() {
	if !c.arbor {
		return
	}
	type place struct{ from, priority int }
	first := map[place]int{}
	for i, e := range c.graph.Edges {
		from, ok := c.ids[e.From]
		if e.Priority == 0 || !ok {
			continue
		}
		p := place{from, e.Priority}
		if other, twice := first[p]; twice {
			c.add(CodeDuplicateID, index(c.path("edges"), i)+".priority", e.Line, "the priority %d of an edge from %q %s: one of the two comes first", e.Priority, visible.Cut(e.From, 60), usedBy("edge", other))
			continue
		}
		first[p] = e.Line
	}
	for i, n := range c.graph.Nodes {
		if n.Next == nil || n.Next.program == nil || n.ID == "" || c.ids[n.ID] != i || c.unsure {
			continue
		}
		targets, names, sure := map[string]bool{}, []string{}, true
		for _, e := range c.out[i] {
			to := c.graph.Edges[e].To
			targets[to] = true
			names = append(names, to)
		}
		for _, e := range c.unknownTargets {
			sure = sure && c.graph.Edges[e].From != n.ID
		}
		at := index(c.path("agents"), i) + ".next"
		switch {
		case !sure: // the edge is already reported
		case len(targets) == 0:
			c.add(CodeUnknownEdgeAgent, at, c.nodeLines[i].next, "next chooses among the edges from %q, and there are none", visible.Cut(n.ID, 60))
		default:
			for _, id := range n.Next.program.Constants() {
				if !targets[id] {
					hint := ": next chooses among edges, and makes none"
					if _, known := c.ids[id]; !known {
						hint = c.didYouMean(id, names)
					}
					c.add(CodeUnknownEdgeAgent, at, c.nodeLines[i].next, "no edge leads from %q to %q%s", visible.Cut(n.ID, 60), visible.Cut(id, 60), hint)
				}
			}
		}
	}
}

// refs checks that the agents of a file exist.
func (r *reader) refs(o *options, known *refs) {
	if o.anyRef {
		return
	}
	for _, d := range r.drafts {
		for i, n := range d.graph.Nodes {
			if n.Ref == "" || known.has(n.Ref) && (n.Tool != "" || !isTool(n.Ref)) {
				continue
			}
			if tool := strings.TrimPrefix(n.Ref, toolPrefix); tool == n.Tool {
				r.add(CodeUnknownTool, index(d.path("agents"), i)+".tool", d.nodeLines[i].tool, "there is no tool %q%s", visible.Cut(tool, 60),
					cmp.Or(r.didYouMean(tool, known.tools), ": tools are functions in Go, and the program registers those that files can name"))
				continue
			}
			at := index(d.path("agents"), i) + ".agentRef"
			if o.folder != nil {
				if wrong, ok := o.folder.check(n.Ref); ok {
					if wrong != "" {
						r.add(CodeUnknownAgentRef, at, d.nodeLines[i].ref, "%s", wrong)
					}
					continue
				}
			}
			hint := r.didYouMean(n.Ref, known.names)
			if len(known.names) == 0 {
				hint = "; no agents were given, and the file holds none"
			}
			r.add(CodeUnknownAgentRef, at, d.nodeLines[i].ref, "there is no agent %q%s", visible.Cut(n.Ref, 60), hint)
		}
	}
}

// refs is a set of agent names, with or without versions.
type refs struct {
	exact map[string]bool
	bare  map[string]bool // names that exist in some version
	names []string
	tools []string
}

func newRefs(names []string) *refs {
	s := &refs{exact: map[string]bool{}, bare: map[string]bool{}}
	for _, n := range names {
		s.add(n)
	}
	return s
}

func (s *refs) add(name string) {
	s.exact[name] = true
	if isTool(name) {
		s.tools = append(s.tools, strings.TrimPrefix(name, toolPrefix))
		return
	}
	s.names = append(s.names, name)
	if i := strings.LastIndexByte(name, '@'); i > 0 {
		s.bare[name[:i]] = true
	}
}

// addNodes adds the agents of the nodes with these ids.
func (s *refs) addNodes(g *Graph, prefix string, ids []string) {
	for _, n := range g.Nodes {
		if slices.Contains(ids, prefix+n.ID) && n.Ref != "" {
			s.add(n.Ref)
		}
		if n.Graph != nil {
			s.addNodes(n.Graph, prefix+n.ID+"/", ids)
		}
	}
}

// has reports whether a reference exists. A reference without a version matches any version, and an agent without a
// version matches every version.
func (s *refs) has(ref string) bool {
	if s.exact[ref] || s.bare[ref] {
		return true
	}
	i := strings.LastIndexByte(ref, '@')
	return i > 0 && s.exact[ref[:i]]
}
