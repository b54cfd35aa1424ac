package agentgraph

import (
	"container/heap"
	"encoding/json"
	"sync"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// plan is a graph in the form in which it runs: nodes have indexes instead of ids, and incoming edges are counted. It
// is made once and shared by all runs.
type plan struct {
	name     string
	nodes    []planNode
	edges    []planEdge
	index    map[string]int
	entry    int
	fallback int // -1 if there is none
	onError  ErrorHandling
	state    []StateKey
	// reductions contains the reducers of the state keys.
	reductions map[string]reduction
	// sorted returns the nodes in the order of the edges. Ties are in the order of the file.
	sorted func() []int
	// single is the only node where a run can end, or -1 if there are several.
	single int
	body   bool // a loop runs it; the output of a run with one end is that node's output
}

type planNode struct {
	*Node
	out    []int           // outgoing edges, in the order of the file
	in     int             // the number of incoming edges
	quoted json.RawMessage // the id in JSON
	first  string          // the key of the first call
	// sources contains the nodes with an edge to this one, in the order of the edges.
	sources []int
	ranked  []int // edges with a priority, the largest first
	tree    *agent.Tree
	toolsAt string // the id of the node that runs the agent's tools
}

type planEdge struct {
	from, to int
	slot     int // the index of from in the sources of to
	*Edge
}

// name returns the name of the edge in errors.
func (e *planEdge) name() string { return e.From + "->" + e.To }

func newPlan(g *Graph) *plan {
	p := &plan{name: g.Name, nodes: make([]planNode, len(g.Nodes)), edges: make([]planEdge, len(g.Edges)),
		index: make(map[string]int, len(g.Nodes)), fallback: -1, onError: g.OnError, single: -1,
		state: g.State, reductions: reductions(g.State)}
	for i := range g.Nodes {
		p.nodes[i].Node, p.nodes[i].quoted, p.nodes[i].first = &g.Nodes[i], event.EncodeJSON(g.Nodes[i].ID), "1/"+g.Nodes[i].ID
		p.index[g.Nodes[i].ID] = i
	}
	for i := range g.Nodes {
		if of := g.Nodes[i].ToolsOf; of != "" {
			p.nodes[p.index[of]].toolsAt = g.Nodes[i].ID
		}
	}
	type pair struct{ from, to int }
	slots := make(map[pair]int, len(g.Edges))
	for i := range g.Edges {
		e := planEdge{from: p.index[g.Edges[i].From], to: p.index[g.Edges[i].To], Edge: &g.Edges[i]}
		from, to := &p.nodes[e.from], &p.nodes[e.to]
		slot, known := slots[pair{e.from, e.to}]
		if !known {
			slot = len(to.sources)
			slots[pair{e.from, e.to}] = slot
			to.sources = append(to.sources, e.from)
		}
		e.slot = slot
		from.out = append(from.out, i)
		to.in++
		p.edges[i] = e
	}
	for i := range p.nodes {
		p.nodes[i].rank(p.edges)
	}
	p.entry = p.index[g.Entrypoint]
	if g.OnError.Fallback != "" {
		p.fallback = p.index[g.OnError.Fallback]
	}
	p.single = p.onlyEnd()
	p.sorted = sync.OnceValue(p.sort)
	return p
}

// sort returns the nodes so that each comes after its sources. Ties are in the order of the file.
func (p *plan) sort() []int {
	left := make([]int, len(p.nodes))
	next := make(least, 0, len(p.nodes))
	for i := range p.nodes {
		if left[i] = p.nodes[i].in; left[i] == 0 {
			next = append(next, i) // ascending order is a valid heap
		}
	}
	order := make([]int, 0, len(p.nodes))
	for len(next) > 0 {
		i := heap.Pop(&next).(int)
		order = append(order, i)
		for _, e := range p.nodes[i].out {
			to := p.edges[e].to
			if left[to]--; left[to] == 0 {
				heap.Push(&next, to)
			}
		}
	}
	return order
}

// least is a min-heap of indexes.
type least []int

func (l least) Len() int           { return len(l) }
func (l least) Less(i, j int) bool { return l[i] < l[j] }
func (l least) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }
func (l *least) Push(x any)        { *l = append(*l, x.(int)) }

func (l *least) Pop() any {
	last := len(*l) - 1
	x := (*l)[last]
	*l = (*l)[:last]
	return x
}

// onlyEnd returns the node where every run without errors ends, or -1. A run can end at a node if possibly none of its
// edges is taken.
func (p *plan) onlyEnd() int {
	end := -1
	for i := range p.nodes {
		n := &p.nodes[i]
		if p.bare(i) {
			continue
		}
		sure := false
		for _, e := range n.out {
			sure = sure || p.edges[e].Condition == nil && n.Next == nil
		}
		switch {
		case sure:
		case end >= 0:
			return -1
		default:
			end = i
		}
	}
	return end
}

// bare reports whether a node is only the fallback, and no edge leads to it. Edges from it are never taken.
func (p *plan) bare(i int) bool { return i == p.fallback && i != p.entry && p.nodes[i].in == 0 }
