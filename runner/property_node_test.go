package runner_test

import (
	"encoding/json"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
)

// graphShape is what checks must know of a graph.
type graphShape struct {
	nodes       map[string]*nodeShape
	edges       []edgeShape
	strategy    agentgraph.Strategy
	fallback    string // the id of the node, "" for none
	concurrency int    // how many nodes may run at once, 0 for any
}

type nodeShape struct {
	attempts int  // how often it is called in a round, if it fails
	rounds   int  // of its loop, 1 if it has none
	asks     bool // somebody, before it runs
}

type edgeShape struct {
	from, to string
	sure     bool // it has no condition
}

// graphStory is what a log says of one run of a graph, in all the runs that took it up.
type graphStory struct {
	*graphShape
	turn     string
	goesOn   bool // the next run of it in its scope takes it up
	guarded  bool // what its nodes say is held against propertyGuard
	calls    map[string]*nodeCall
	made     map[string]int // calls of each node
	failures map[string]int // since the node gave something
	last     map[string]*nodeCall
	asked    map[string]string // nodes, by call and by question
	approved map[string]bool
	stopped  string // the node whose failure lets nothing new begin
}

// nodeCall is one call of a node.
type nodeCall struct {
	node, said           string
	open, ok, cut, waits bool
	left                 bool // to the parent session of a fork
}

// checkGraphs holds the nodes of all graphs in a log against what their graphs say: in
// which order they run, how often, how many at once, with whose leave, and whether none
// was forgotten.
func (w *world) checkGraphs(log []*event.Event) {
	byRun := make(map[string]*graphStory)
	byScope := make(map[string]*graphStory)
	for _, e := range log {
		around := byRun[event.ParentRun(e.Scope)]
		switch d := e.Data.(type) {
		case *event.HarnessStart:
			if around != nil {
				w.checkNodeStart(around, e)
			}
			shape := w.graphs[d.AgentID]
			if shape == nil || w.namesake(e) {
				break
			}
			g := byScope[e.Scope]
			if g == nil || !g.goesOn || g.graphShape != shape || g.turn != e.TurnID {
				g = &graphStory{graphShape: shape, turn: e.TurnID, guarded: e.Scope == "" && w.guarded[e.Agent] || around != nil && around.guarded,
					calls: make(map[string]*nodeCall), made: make(map[string]int), failures: make(map[string]int), last: make(map[string]*nodeCall),
					asked: make(map[string]string), approved: make(map[string]bool)}
			}
			g.goesOn = true
			byRun[e.RunID], byScope[e.Scope] = g, g
		case *event.Text:
			if around != nil {
				if strings.TrimSpace(d.Content) != "" {
					around.calls[e.Scope].said = d.Content
				}
				if around.guarded && strings.Contains(d.Content, "é") {
					w.t.Fatalf("seq %d: a node says what the guard of its graph refuses: %q", e.Seq, d.Content)
				}
			}
		case *event.ToolCall:
			var in struct{ Agent string }
			if g := byRun[e.RunID]; g != nil && json.Unmarshal(d.Input, &in) == nil {
				g.asked[e.ID] = in.Agent
			}
		case *event.Relay:
			if g := byRun[e.RunID]; g != nil {
				g.asked[e.ID] = g.asked[d.ToolCallID]
			}
		case *event.RelayResolved:
			if g := byRun[e.RunID]; g != nil && d.Approved {
				g.approved[g.asked[d.RelayID]] = true
			}
		case *event.Notice:
			if g := byRun[e.RunID]; g != nil && d.Code == event.NoticeForked {
				w.leaveApproved(g)
			}
		case *event.HarnessEnd:
			if around != nil && d.FinishReason != event.FinishReasonTransfer {
				w.checkNodeEnd(around, e, d)
			}
			if g := byRun[e.RunID]; g != nil {
				g.goesOn = d.FinishReason == event.FinishReasonInputRequired
				if d.FinishReason == event.FinishReasonStop {
					w.checkNoneForgotten(g, e)
				}
			}
		}
	}
}

// namesake reports whether an event inside is of an agent that is called as one of the
// conversation.
func (w *world) namesake(e *event.Event) bool {
	_, talks := w.traits[e.Agent]
	return talks && e.Scope != ""
}

// checkNodeStart holds the start of a run in the scope of a node against what has happened in its graph.
func (w *world) checkNodeStart(g *graphStory, e *event.Event) {
	switch c := g.calls[e.Scope]; {
	case c == nil:
		w.checkNode(g, e)
	case c.left:
		w.t.Fatalf("seq %d: a fork runs the approved node %s of its parent", e.Seq, c.node)
	case c.waits:
		c.waits, c.open = false, true
		w.happened["a node that goes on after it waited"] = true
	}
}

// checkNode holds the start of a node against what has happened in its graph.
func (w *world) checkNode(g *graphStory, e *event.Event) {
	_, id, _ := strings.Cut(e.Scope, "/")
	n := g.nodes[id]
	require.NotNil(w.t, n, "seq %d: %s is no node of the graph", e.Seq, id)
	if g.made[id]++; g.made[id] > n.attempts*n.rounds {
		w.t.Fatalf("seq %d: the node %s is called %d times, which may be called %d times", e.Seq, id, g.made[id], n.attempts*n.rounds)
	}
	if id != g.fallback {
		if g.stopped != "" {
			w.t.Fatalf("seq %d: the node %s begins after %s has failed for good", e.Seq, id, g.stopped)
		}
		entry, reached := true, false
		for _, edge := range g.edges {
			switch {
			case edge.from == id && g.made[edge.to] > 0:
				w.t.Fatalf("seq %d: the node %s begins after %s, which waits for it", e.Seq, id, edge.to)
			case edge.to == id:
				source := g.last[edge.from]
				entry, reached = false, reached || source != nil && source.ok || g.fallback != "" // what is denied fails without a run
				if source != nil && (source.open || source.waits) {
					w.t.Fatalf("seq %d: the node %s begins before %s has ended", e.Seq, id, edge.from)
				}
			}
		}
		if !entry && !reached {
			w.t.Fatalf("seq %d: the node %s begins, and nothing leads there", e.Seq, id)
		}
		if n.asks && !g.approved[id] {
			w.t.Fatalf("seq %d: the node %s begins without leave", e.Seq, id)
		}
	}
	c := &nodeCall{node: id, open: true}
	g.calls[e.Scope], g.last[id] = c, c
	open := 0
	for _, c := range g.calls {
		if c.open {
			open++
		}
	}
	if g.concurrency > 0 && open > g.concurrency {
		w.t.Fatalf("seq %d: %d nodes run at once, where %d may", e.Seq, open, g.concurrency)
	}
}

// leaveApproved is called where a fork begins. Approved nodes that run or wait there go on in the parent session alone:
// the fork lets them fail, and their runs stay open in the events that both share.
func (w *world) leaveApproved(g *graphStory) {
	for _, c := range g.calls {
		if (c.open || c.waits) && g.approved[c.node] {
			c.open, c.waits, c.left = false, false, true
			w.happened["an approved node that a fork leaves to its parent"] = true
		}
	}
}

func (w *world) checkNodeEnd(g *graphStory, e *event.Event, d *event.HarnessEnd) {
	c := g.calls[e.Scope]
	c.open, c.ok, c.cut = false, d.FinishReason == event.FinishReasonStop, d.FinishReason == event.FinishReasonCanceled
	switch {
	case d.FinishReason == event.FinishReasonInputRequired:
		c.waits = true
	case c.ok:
		g.failures[c.node] = 0
		function := c.said != "" && (strings.HasSuffix(d.AgentID, "-a") || strings.HasSuffix(d.AgentID, "-f") || d.AgentID == "steps")
		if said := event.OutputText(d.Output); (d.AgentID == "worker" || function) && said != c.said {
			w.t.Fatalf("seq %d: the node %s gave %q, and has said %q", e.Seq, c.node, said, c.said)
		}
	case d.FinishReason == event.FinishReasonCanceled, g.strategy == agentgraph.Continue, c.node == g.fallback:
	default:
		if g.failures[c.node]++; g.failures[c.node] >= g.nodes[c.node].attempts {
			g.stopped = c.node
		}
	}
}

// checkNoneForgotten: when a graph is done, its nodes are, and what an edge without a
// condition leads to has run.
func (w *world) checkNoneForgotten(g *graphStory, e *event.Event) {
	if g.strategy != agentgraph.Continue && g.fallback != "" && g.made[g.fallback] > 0 {
		return // it was stopped
	}
	for id, c := range g.last {
		if c.open || c.cut || c.waits {
			w.t.Fatalf("seq %d: the graph is done, and its node %s is not", e.Seq, id)
		}
	}
	for _, edge := range g.edges {
		if c := g.last[edge.from]; edge.sure && c != nil && c.ok && g.made[edge.to] == 0 && !g.nodes[edge.to].asks {
			w.t.Fatalf("seq %d: the graph has ended without %s, to which %s leads", e.Seq, edge.to, edge.from)
		}
	}
}

// checkGuards: no agent has said what its guard refuses, nor read it in a tool's result.
func (w *world) checkGuards(log []*event.Event) {
	guarded := make(map[string]bool) // runs
	for _, e := range log {
		switch d := e.Data.(type) {
		case *event.HarnessStart:
			guarded[e.RunID] = strings.HasPrefix(d.AgentID, "guarded") || e.Scope == "" && w.guarded[e.Agent]
		case *event.Text:
			if guarded[e.RunID] && strings.Contains(d.Content, "é") {
				w.t.Fatalf("seq %d: %s says what its guard refuses: %q", e.Seq, e.Agent, d.Content)
			}
		case *event.ToolResult:
			if text := event.OutputText(d.Output); guarded[e.RunID] && (text == "asked" || text == "again") {
				w.t.Fatalf("seq %d: %s gets a result that its guard refuses", e.Seq, e.Agent)
			}
		}
	}
}
