package conversation

// HyperedgeKind says what a hyperedge joins.
type HyperedgeKind string

// The kinds of hyperedges.
const (
	ChunkToBlock   HyperedgeKind = "chunk_to_block"
	BlockToMessage HyperedgeKind = "block_to_message"
	ParentMessage  HyperedgeKind = "parent_message"
)

// Hypergraph is the graph in three tiers. A chunk is a node. A block is what
// belongs together in one place: a block of text, a call, a result, or all that a
// run has used. A message is what one run says: the user's message, or an agent's
// answer. Everything is in the order of first sight.
type Hypergraph struct {
	Chunks   []string    `json:"chunks"`   // node ids
	Blocks   []string    `json:"blocks"`   // block:NODE, or usage:RUN
	Messages []string    `json:"messages"` // message:RUN
	Edges    []Hyperedge `json:"edges"`
}

// Hyperedge leads from the parts of something to it, or from a message to the
// one that it follows or is a part of.
type Hyperedge struct {
	Kind HyperedgeKind `json:"kind"`
	From []string      `json:"from"`
	To   string        `json:"to"`
}

// Hypergraph derives the three tiers. As long as nothing is discarded it only
// grows with the graph: a chunk stays in its block, and a block in its message.
//
// It is of the whole graph; [HypergraphOf] has one path only.
func (g *Graph) Hypergraph() Hypergraph { return g.hypergraph(func(int32) bool { return true }) }

// HypergraphOf derives the three tiers of what is on the path, with the
// sub-agents inside of it. Of a collapsed run only the words are left, and
// nothing of what a summary replaces.
func HypergraphOf(g *Graph, active Active) Hypergraph {
	shown := make(map[int32]bool)
	_, _, steps := active.summarized(g)
	active.visit(g, steps, func(s step, collapsed bool) {
		for _, place := range g.inStep(s) {
			if kind := g.at(place).body.kind; !collapsed || kind == KindText || kind == KindUser {
				shown[place] = true
			}
		}
	})
	return g.hypergraph(func(place int32) bool { return shown[place] })
}

func (g *Graph) hypergraph(has func(place int32) bool) Hypergraph {
	h := Hypergraph{Chunks: []string{}, Blocks: []string{}, Messages: []string{}, Edges: []Hyperedge{}}
	chunks := make(map[string][]string) // by block
	blocks := make(map[int32][]string)  // by run
	for place := range g.places() {
		if !has(place) {
			continue
		}
		n := g.at(place)
		block := "block:" + n.id
		if n.body.kind == KindUsage {
			block = "usage:" + g.runAt(n.run).id
		}
		h.Chunks = append(h.Chunks, n.id)
		if chunks[block] == nil {
			h.Blocks = append(h.Blocks, block)
			blocks[n.run] = append(blocks[n.run], block)
		}
		chunks[block] = append(chunks[block], n.id)
	}
	for _, block := range h.Blocks {
		h.Edges = append(h.Edges, Hyperedge{ChunkToBlock, chunks[block], block})
	}
	for ri := range int32(g.runs.n) {
		r := g.runAt(ri)
		if blocks[ri] == nil {
			continue
		}
		h.Messages = append(h.Messages, "message:"+r.id)
		h.Edges = append(h.Edges, Hyperedge{BlockToMessage, blocks[ri], "message:" + r.id})
		if r.parent != none && blocks[g.at(r.parent).run] != nil {
			h.Edges = append(h.Edges, Hyperedge{ParentMessage, []string{"message:" + r.id}, "message:" + g.runAt(g.at(r.parent).run).id})
		}
	}
	return h
}
