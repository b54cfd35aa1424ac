package conversation

import (
	"errors"
	"fmt"
	"maps"

	"github.com/agentarbor/arbor/event"
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
// It knows runs and nodes by their ids, so that it serves every graph that has
// grown from the one for which it was made, and every other one of the same
// events: that of a client and that of the log. What it says about runs that a
// graph does not have is not looked at. [Active.MarshalJSON] describes the form
// in which it travels.
type Active struct {
	next      map[string]string // run → the run that follows it
	begins    map[string]bool   // runs without a parent that were chosen among those beside them
	beside    map[string]string // run that Edit made → the one that it is beside; both have no parent
	ends      map[string]ending // run → where the path ends unless something newer follows
	collapsed map[string]bool   // runs
	summaries map[string]string // run → the text in place of it and of all before it
}

// ending says that a path ends at a node, or with its run if there is no node,
// and that only runs that were not there yet can follow.
type ending struct {
	node    string
	without map[string]bool // runs
}

// Switch returns the path that leads through a node. Its further way is as
// before, unless that turned off before the node. The error is [ErrNoNode].
func (a Active) Switch(g *Graph, id string) (Active, error) {
	place := g.find(id)
	if place == none {
		return a, fmt.Errorf("%w: %q", ErrNoNode, id)
	}
	a.next, a.ends = clone(a.next), clone(a.ends)
	ri := g.at(place).run
	p := path{g, a}
	p.keep(ri, place)
	for g.runAt(ri).parent != none {
		r := g.runAt(ri)
		above := g.at(r.parent).run
		if p.follows(ri) {
			a.next[g.runAt(above).id] = r.id
			delete(a.ends, g.runAt(above).id)
		} else {
			p.keep(above, r.parent)
		}
		ri = above
	}
	for b := p.beginnings(); ri != none; ri = b.before[ri] {
		beside := b.after[b.before[ri]]
		if len(beside) < 2 {
			continue
		}
		a.begins = clone(a.begins)
		for _, other := range beside {
			delete(a.begins, g.runAt(other).id)
		}
		a.begins[g.runAt(ri).id] = true
	}
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
	ri := g.at(g.find(id)).run
	run := g.runAt(ri).id
	delete(a.next, run)
	p := path{g, a}
	a.ends[run] = ending{id, p.runIDs(p.followers(ri))}
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
	e := &event.Event{RunID: runID, ParentID: r.waitsFor, Agent: string(KindUser), Data: &event.User{Content: content}}
	if r.parent != none {
		e.ParentID = g.at(r.parent).id
	}
	edited := g.Reduce(e)
	if r.parent == none {
		a.beside = clone(a.beside)
		a.beside[runID] = r.id
	}
	last, _ := edited.Last(runID)
	next, err := a.Switch(edited, last.ID)
	return edited, next, err
}

// Collapse returns the path on which the run of a node is folded to what it
// said: without its calls, results, reasoning and sub-agents. [Active.Expand]
// undoes it. The error is [ErrNoNode].
func (a Active) Collapse(g *Graph, id string) (Active, error) {
	place := g.find(id)
	if place == none {
		return a, fmt.Errorf("%w: %q", ErrNoNode, id)
	}
	a.collapsed = clone(a.collapsed)
	a.collapsed[g.runAt(g.at(place).run).id] = true
	return a, nil
}

// Summarize returns the path on which a text replaces the run of a node and all
// that precedes it on the path. The text is not shown as long as the path does
// not lead through that run, and never for a run inside of another one.
// [Active.Expand] undoes it. The error is [ErrNoNode].
func (a Active) Summarize(g *Graph, id, summary string) (Active, error) {
	place := g.find(id)
	if place == none {
		return a, fmt.Errorf("%w: %q", ErrNoNode, id)
	}
	a.summaries = clone(a.summaries)
	a.summaries[g.runAt(g.at(place).run).id] = summary
	return a, nil
}

// Expand returns the path on which the run of a node is shown in full: it undoes
// Collapse, of that run and of those that it works inside of. It also undoes the
// summaries on the path that replace it, also those of runs beside it. Where
// there is nothing to undo the path is as before. The error is [ErrNoNode].
func (a Active) Expand(g *Graph, id string) (Active, error) {
	place := g.find(id)
	if place == none {
		return a, fmt.Errorf("%w: %q", ErrNoNode, id)
	}
	a.collapsed, a.summaries = clone(a.collapsed), clone(a.summaries)
	outer := g.at(place).run // the run on the path itself
	delete(a.collapsed, g.runAt(outer).id)
	p := path{g, a}
	for ri := outer; g.runAt(ri).parent != none; {
		above := g.at(g.runAt(ri).parent).run
		if !p.follows(ri) {
			outer = above
			delete(a.collapsed, g.runAt(outer).id)
		}
		ri = above
	}
	hidden := false
	for _, s := range p.steps() {
		if hidden = hidden || s.run == outer; hidden {
			delete(a.summaries, g.runAt(s.run).id)
		}
	}
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
	steps := path{g, a}.steps()
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
