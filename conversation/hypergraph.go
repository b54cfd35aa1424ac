package conversation

import "github.com/agentarbor/arbor/event"

// HyperedgeKind is the kind of a hyperedge.
type HyperedgeKind string

// The kinds of hyperedges.
const (
	ChunkToBlock   HyperedgeKind = "chunk_to_block"
	BlockToMessage HyperedgeKind = "block_to_message"
	ParentMessage  HyperedgeKind = "parent_message"
)

// Hypergraph is the graph in three tiers. A chunk is a node: a text, a call, a result and so on. A block contains the
// chunks of one run. A message is the user's message or the answer to it, and contains the blocks of all agents that
// take part. Each tier is in the order of its first chunks.
type Hypergraph struct {
	Chunks   []string    `json:"chunks"`   // node ids
	Blocks   []string    `json:"blocks"`   // block:RUN
	Messages []string    `json:"messages"` // message:RUN, with the run that begins the message
	Edges    []Hyperedge `json:"edges"`
}

// Hyperedge leads from the parts of a block or message to it, or from a message to the message that it answers.
type Hyperedge struct {
	Kind HyperedgeKind `json:"kind"`
	From []string      `json:"from"`
	To   string        `json:"to"`
}

// Hypergraph returns the three tiers of the whole graph; [HypergraphOf] returns those of one path. If no event is
// discarded and parents arrive before their children, it only grows with the graph: a chunk stays in its block, and a
// block in its message.
func (g *Graph) Hypergraph() Hypergraph {
	return path{g: g}.hypergraph(func(int32) bool { return true })
}

// HypergraphOf returns the three tiers of a path, with the sub-agents inside its runs. A collapsed run has only its
// texts, and runs that a summary replaces are left out. Blocks and messages have the same ids as in the whole graph.
func HypergraphOf(g *Graph, active Active) Hypergraph {
	shown := make(map[int32]bool)
	p := path{g, active}
	_, _, steps := p.summarized()
	p.visit(steps, func(s step, collapsed bool) {
		for _, place := range g.run(s.run, s.cut) {
			if kind := g.at(place).body.kind; !collapsed || kind == event.TypeText || kind == event.TypeUser {
				shown[place] = true
			}
		}
	})
	return p.hypergraph(func(place int32) bool { return shown[place] })
}

func (p path) hypergraph(has func(place int32) bool) Hypergraph {
	h := Hypergraph{Chunks: []string{}, Blocks: []string{}, Messages: []string{}, Edges: []Hyperedge{}}
	chunks := make(map[int32][]string) // by run
	blocks := make(map[int32][]string) // by the run that begins the message
	var runs, begins []int32
	g, all := p.g, p.messages()
	for place := range g.places() {
		if !has(place) {
			continue
		}
		n := g.at(place)
		h.Chunks = append(h.Chunks, n.id)
		if chunks[n.run] == nil {
			block, begin := "block:"+g.runAt(n.run).id, all.begin(n.run)
			h.Blocks, runs = append(h.Blocks, block), append(runs, n.run)
			if blocks[begin] == nil {
				h.Messages, begins = append(h.Messages, all.id(begin)), append(begins, begin)
			}
			blocks[begin] = append(blocks[begin], block)
		}
		chunks[n.run] = append(chunks[n.run], n.id)
	}
	for i, ri := range runs {
		h.Edges = append(h.Edges, Hyperedge{ChunkToBlock, chunks[ri], h.Blocks[i]})
	}
	for i, begin := range begins {
		h.Edges = append(h.Edges, Hyperedge{BlockToMessage, blocks[begin], h.Messages[i]})
	}
	for i, begin := range begins {
		parent := g.runAt(begin).parent
		if parent == none {
			continue
		}
		if above := all.begin(g.at(parent).run); blocks[above] != nil {
			h.Edges = append(h.Edges, Hyperedge{ParentMessage, []string{h.Messages[i]}, all.id(above)})
		}
	}
	return h
}

// messages finds the message of a run, and caches the results.
type messages struct {
	path   path
	begins map[int32]int32 // the run with which the message of a run begins
}

func (p path) messages() messages { return messages{p, make(map[int32]int32)} }

// id returns the id of the message that begins with a run.
func (m messages) id(begin int32) string { return "message:" + m.path.g.runAt(begin).id }

// begin returns the run with which the message of a run begins.
func (m messages) begin(ri int32) int32 {
	var way []int32
	for {
		begin, known := m.begins[ri]
		if !known && m.isFirst(ri) {
			begin, known = ri, true
		}
		way = append(way, ri)
		if known {
			for _, ri := range way {
				m.begins[ri] = begin
			}
			return begin
		}
		ri = m.path.g.at(m.path.g.runAt(ri).parent).run
	}
}

// isFirst reports whether a run begins a message: the user's run, the run that follows it, and a run without a parent.
// Any other run is a block of its parent's message: a transfer's target, a run that resumes another one, a sub-agent,
// or a child of a workflow.
func (m messages) isFirst(ri int32) bool {
	parent := m.path.g.runAt(ri).parent
	return parent == none || m.isUser(ri) || m.isUser(m.path.g.at(parent).run) && m.path.follows(ri)
}

// isUser reports whether a run begins with a message of the user.
func (m messages) isUser(ri int32) bool {
	return m.path.g.at(m.path.g.runAt(ri).first).body.kind == event.TypeUser
}
