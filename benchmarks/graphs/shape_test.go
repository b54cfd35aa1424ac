package graphs

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// Shape is a graph without a circle. Its first node is the only one without
// sources, its last one the only one that is nobody's source, and the sources of a
// node come before it.
type Shape struct {
	Name  string
	Nodes []Node
	Edges int
}

// Node is a node of a shape.
type Node struct {
	ID string
	// Value is what the node returns: a text of its own, so that a node which gets
	// the wrong values, or none, is noticed.
	Value   string
	Sources []int // indices of nodes
}

// NewShape makes the shape of that name with so many nodes. It needs at least four.
func NewShape(name string, nodes int) (*Shape, error) {
	if nodes < 4 {
		return nil, fmt.Errorf("graphs: a shape of %d nodes, need at least 4", nodes)
	}
	s := &Shape{Name: name, Nodes: make([]Node, nodes)}
	for i := range s.Nodes {
		s.Nodes[i].ID = fmt.Sprint("n", i)
		s.Nodes[i].Value = fmt.Sprint("v", i)
	}
	switch name {
	case ShapeChain:
		for i := 1; i < nodes; i++ {
			s.edge(i-1, i)
		}
	case ShapeWide:
		for i := 1; i < nodes-1; i++ {
			s.edge(0, i)
			s.edge(i, nodes-1)
		}
	case ShapeRandom:
		s.random()
	default:
		return nil, fmt.Errorf("graphs: no shape %q, want one of %q", name, Shapes())
	}
	return s, nil
}

func (s *Shape) edge(from, to int) {
	s.Nodes[to].Sources = append(s.Nodes[to].Sources, from)
	s.Edges++
}

// random gives every node two sources, drawn from all those before it; the second
// node has only one to draw from. As soon as no more nodes are left than it takes,
// they join those that are nobody's source, two at a time, until there is one:
// ADK-Go and Eino return the output of one node only. The seed is fixed.
func (s *Shape) random() {
	draw := rand.New(rand.NewPCG(1, 2))
	s.edge(0, 1)
	open := []int{1} // nobody's source so far, oldest first
	for i := 2; i < len(s.Nodes); i++ {
		a, b := draw.IntN(i), 0
		join := len(open) >= len(s.Nodes)-i
		if join {
			a = open[0]
		}
		if join && len(open) > 1 {
			b = open[1]
		} else {
			for b = draw.IntN(i); b == a; {
				b = draw.IntN(i)
			}
		}
		s.edge(a, i)
		s.edge(b, i)
		open = append(slices.DeleteFunc(open, func(o int) bool { return o == a || o == b }), i)
	}
}

// Last is the node whose value a run returns.
func (s *Shape) Last() *Node { return &s.Nodes[len(s.Nodes)-1] }
