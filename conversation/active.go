package conversation

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// ErrNoNode is the error for an id that no node of the graph has, or no node of the kind that the operation needs.
var ErrNoNode = errors.New("conversation: no such node")

// ErrRunExists is the error for a new run with the id of a run of the graph.
var ErrRunExists = errors.New("conversation: the run exists")

// Active chooses the path through a conversation that branches: if several messages follow a message, one of them is on
// the path. The zero value chooses the newest one everywhere. An Active is immutable: its methods return new values,
// and never change a graph. It is safe for concurrent use.
//
// An Active refers to runs and nodes by their ids. So it applies to every later graph of the same conversation, and
// both to the graph of a client and to that of the log. It ignores runs that a graph does not have.
// [Active.MarshalJSON] describes its JSON form.
type Active struct {
	next      map[string]string // run → the run that follows it
	begins    map[string]bool   // runs without a parent that were chosen among their alternatives
	beside    map[string]string // run that Edit made → the run that it is an alternative to; both have no parent
	ends      map[string]ending // run → where the path ends until a newer run follows
	collapsed map[string]bool   // runs
	summaries map[string]string // run → the text that replaces it and all runs before it
}

// ending is the end of a path. Only runs that did not exist when the end was set can follow it.
type ending struct {
	node    string          // the last node; "": the end of the run
	without map[string]bool // the runs that existed then
}

// Switch returns the path that leads through a node. After the node, the path stays the same unless it left the run
// before the node. The error is [ErrNoNode].
func (a Active) Switch(g *Graph, id string) (Active, error) {
	place := g.find(id)
	if place == none {
		return a, fmt.Errorf("%w: %q", ErrNoNode, id)
	}
	a.next, a.ends = clone(a.next), clone(a.ends)
	ri := g.at(place).run
	p := path{g, a}
	p.reach(ri, place)
	for g.runAt(ri).parent != none {
		r := g.runAt(ri)
		above := g.at(r.parent).run
		if p.follows(ri) {
			a.next[g.runAt(above).id] = r.id
			delete(a.ends, g.runAt(above).id)
		} else {
			p.reach(above, r.parent)
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

// Branch returns the path that ends at a node, so that the next message begins a new branch there, with the node's id
// as its parentId; see [Active.Tip]. The error is [ErrNoNode].
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

// Edit adds an alternative to a user message that was sent. It returns a graph with a user node in a new run that has
// the same parent, and the path through that node. The caller stores the event if it needs to. The error is [ErrNoNode]
// if the graph has no such user node, or [ErrRunExists].
func (a Active) Edit(g *Graph, id, runID string, content llm.Content) (*Graph, Active, error) {
	place := g.find(id)
	if place == none || g.at(place).body.kind != event.TypeUser || g.at(place).prev != none {
		return g, a, fmt.Errorf("%w: the user's %q", ErrNoNode, id)
	}
	if runID == "" || g.findRun(runID) != none {
		return g, a, fmt.Errorf("%w: %q", ErrRunExists, runID)
	}
	r := g.runAt(g.at(place).run)
	e := &event.Event{RunID: runID, ParentID: r.waitsFor, Agent: event.TypeUser, Data: &event.User{Content: content}}
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

// Collapse returns the path on which the run of a node shows only its texts, without its calls, results, reasoning and
// sub-agents. [Active.Expand] undoes it. The error is [ErrNoNode].
func (a Active) Collapse(g *Graph, id string) (Active, error) {
	place := g.find(id)
	if place == none {
		return a, fmt.Errorf("%w: %q", ErrNoNode, id)
	}
	a.collapsed = clone(a.collapsed)
	a.collapsed[g.runAt(g.at(place).run).id] = true
	return a, nil
}

// Summarize returns the path on which a text replaces the run of a node and all runs before it on the path. The text is
// shown only while the path leads through that run, and never for a run inside another one. [Active.Expand] undoes it.
// The error is [ErrNoNode].
func (a Active) Summarize(g *Graph, id, summary string) (Active, error) {
	place := g.find(id)
	if place == none {
		return a, fmt.Errorf("%w: %q", ErrNoNode, id)
	}
	a.summaries = clone(a.summaries)
	a.summaries[g.runAt(g.at(place).run).id] = summary
	return a, nil
}

// Expand returns the path on which the run of a node is shown in full. It undoes [Active.Collapse] for that run and for
// the runs around it, and every summary on the path that replaces the run. The error is [ErrNoNode].
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

// clone returns a copy of a map. The copy is never nil.
func clone[V any](m map[string]V) map[string]V {
	if m == nil {
		return make(map[string]V)
	}
	return maps.Clone(m)
}

// Tip returns the id of the node at which the path ends, which is the parentId of the next message. It returns "" for
// an empty graph.
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
	if end := g.find(r.id + ":" + event.TypeHarnessEnd); end != none && g.at(end).run == last.run {
		return g.at(end).id // even if results came after it
	}
	return g.at(r.last).id
}

// activeJSON is the JSON form of an Active.
type activeJSON struct {
	Next      map[string]string     `json:"next,omitempty"`
	Begins    []string              `json:"begins,omitempty"`
	Beside    map[string]string     `json:"beside,omitempty"`
	Ends      map[string]endingJSON `json:"ends,omitempty"`
	Collapsed []string              `json:"collapsed,omitempty"`
	Summaries map[string]string     `json:"summaries,omitempty"`
}

type endingJSON struct {
	Node    string   `json:"node,omitempty"`
	Without []string `json:"without,omitempty"`
}

// MarshalJSON encodes the path as a JSON object, for the address of a page or a store. Equal paths have equal bytes,
// and the zero value is {}. All ids are ids of runs, except those of nodes in ends. Empty members are left out:
//
//   - next: the run that follows a run.
//   - begins: the runs without a parent that were chosen among their alternatives.
//   - beside: by a run that [Active.Edit] made and that has no parent, the run that it is an alternative to.
//   - ends: by the run in which the path ends, its last node, if it is not the whole run. The runs in without are not
//     on the path although they follow.
//   - collapsed: the collapsed runs.
//   - summaries: the texts, by the last run that they replace.
func (a Active) MarshalJSON() ([]byte, error) {
	out := activeJSON{Next: a.next, Begins: slices.Sorted(maps.Keys(a.begins)), Beside: a.beside,
		Collapsed: slices.Sorted(maps.Keys(a.collapsed)), Summaries: a.summaries}
	for run, end := range a.ends {
		if out.Ends == nil {
			out.Ends = make(map[string]endingJSON, len(a.ends))
		}
		out.Ends[run] = endingJSON{end.node, slices.Sorted(maps.Keys(end.without))}
	}
	return event.EncodeJSON(out), nil
}

// UnmarshalJSON decodes the result of MarshalJSON. It ignores unknown members; null is the zero value. After an error
// the path is unchanged.
func (a *Active) UnmarshalJSON(text []byte) error {
	var in activeJSON
	if err := json.Unmarshal(text, &in); err != nil {
		return fmt.Errorf("conversation: active path: %w", err)
	}
	*a = Active{next: in.Next, begins: set(in.Begins), beside: in.Beside, collapsed: set(in.Collapsed), summaries: in.Summaries}
	for run, end := range in.Ends {
		if a.ends == nil {
			a.ends = make(map[string]ending, len(in.Ends))
		}
		a.ends[run] = ending{end.Node, set(end.Without)}
	}
	return nil
}

func set(ids []string) map[string]bool {
	if len(ids) == 0 {
		return nil
	}
	out := make(map[string]bool, len(ids))
	for _, id := range ids {
		out[id] = true
	}
	return out
}
