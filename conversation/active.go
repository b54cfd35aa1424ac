package conversation

import (
	"errors"
	"fmt"
	"maps"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
)

// ErrNoNode says that a graph has no node with an id, or none of the kind that
// an operation is for.
var ErrNoNode = errors.New("conversation: no such node")

// ErrRunExists says that a new run has the id of one that is there.
var ErrRunExists = errors.New("conversation: the run exists")

// Active chooses the path through a conversation that branches: where a message
// has several that follow it, one is on the path. The zero value takes the
// newest everywhere. An Active is immutable, and its methods return new values;
// nothing is ever taken out of a graph. It is safe for concurrent use.
//
// It knows runs by their ids, so that it serves every graph that has grown from
// the one for which it was made. What it says about runs that a graph does not
// have is not looked at.
type Active struct {
	next      map[string]string // run → the run that follows it; "" → the root
	ends      map[string]ending // run → where the path ends unless something newer follows
	collapsed map[string]bool   // runs
	summaries map[string]string // run → what stands for it and for all before it
}

// ending says that a path ends at a node, and that only runs which came later
// can follow.
type ending struct {
	node  string
	after int32 // places below are older
}

// Switch returns the path that leads through a node. Its further way is as
// before. The error is [ErrNoNode].
func (a Active) Switch(g *Graph, id string) (Active, error) {
	place := g.find(id)
	if place == none {
		return a, fmt.Errorf("%w: %q", ErrNoNode, id)
	}
	next, ends := clone(a.next), clone(a.ends)
	ri := g.at(place).run
	_, chosen := next[""]
	if place == g.runAt(ri).first && g.at(place).body.kind == KindUser && g.runAt(ri).parent == none {
		chosen = true // one of several beginnings, and the others are not wanted
	}
	for {
		r := g.runAt(ri)
		if r.parent == none {
			if chosen {
				next[""] = r.id
			}
			break
		}
		above := g.at(r.parent).run
		if g.follows(ri) {
			next[g.runAt(above).id] = r.id
			delete(ends, g.runAt(above).id)
		}
		ri = above
	}
	a.next, a.ends = next, ends
	return a, nil
}

// Branch returns the path that ends at a node, so that what comes next begins a
// new branch there: its parentId is the node's id, see [Active.Tip]. The error is
// [ErrNoNode].
func (a Active) Branch(g *Graph, id string) (Active, error) {
	a, err := a.Switch(g, id)
	if err != nil {
		return a, err
	}
	run := g.runAt(g.at(g.find(id)).run).id
	a.next = clone(a.next)
	delete(a.next, run)
	a.ends = clone(a.ends)
	a.ends[run] = ending{id, int32(g.nodes.n)}
	return a, nil
}

// Edit puts another user message beside one that was sent: the graph with a user
// node of a new run that has the same parent, and the path that leads through it.
// The caller stores the event, if it wants to keep it. The error is [ErrNoNode]
// if there is no such user node, or [ErrRunExists].
func (a Active) Edit(g *Graph, id, runID string, content llm.Content) (*Graph, Active, error) {
	place := g.find(id)
	if place == none || g.at(place).body.kind != KindUser || g.at(place).prev != none {
		return g, a, fmt.Errorf("%w: the user's %q", ErrNoNode, id)
	}
	if runID == "" || g.findRun(runID) != none {
		return g, a, fmt.Errorf("%w: %q", ErrRunExists, runID)
	}
	r := g.runAt(g.at(place).run)
	e := &agent.Event{RunID: runID, ParentID: r.waitsFor, Agent: string(KindUser), Data: &agent.User{Content: content}}
	if r.parent != none {
		e.ParentID = g.at(r.parent).id
	}
	edited := g.Reduce(e)
	last, _ := edited.Last(runID)
	next, err := a.Switch(edited, last.ID)
	return edited, next, err
}

// Collapse returns the path on which the run of a node is folded to what it
// said: without its calls, results, reasoning and sub-agents. The error is
// [ErrNoNode].
func (a Active) Collapse(g *Graph, id string) (Active, error) {
	place := g.find(id)
	if place == none {
		return a, fmt.Errorf("%w: %q", ErrNoNode, id)
	}
	a.collapsed = clone(a.collapsed)
	a.collapsed[g.runAt(g.at(place).run).id] = true
	return a, nil
}

// Summarize returns the path on which a text stands for the run of a node and
// for all that precedes it on the path. The error is [ErrNoNode].
func (a Active) Summarize(g *Graph, id, summary string) (Active, error) {
	place := g.find(id)
	if place == none {
		return a, fmt.Errorf("%w: %q", ErrNoNode, id)
	}
	a.summaries = clone(a.summaries)
	a.summaries[g.runAt(g.at(place).run).id] = summary
	return a, nil
}

// clone returns a copy that can be written to.
func clone[V any](m map[string]V) map[string]V {
	if m == nil {
		return make(map[string]V)
	}
	return maps.Clone(m)
}

// Tip returns the id of the node at which the path ends: the parentId of what
// comes next. It is "" for an empty graph.
func (a Active) Tip(g *Graph) string {
	steps := a.path(g)
	if len(steps) == 0 {
		return ""
	}
	last := steps[len(steps)-1]
	if last.cut != none {
		return g.at(last.cut).id
	}
	r := g.runAt(last.run)
	if end := g.find(r.id + ":" + string(KindHarnessEnd)); end != none && g.at(end).run == last.run {
		return g.at(end).id // results can come later
	}
	return g.at(r.last).id
}
