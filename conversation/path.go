package conversation

import "github.com/agentarbor/arbor/event"

// step is a run on the path.
type step struct {
	run int32
	cut int32 // the last node on the path, or none for all nodes
	// by are the runs that continue this run after it was interrupted, and so may have results of its calls; see
	// path.continues.
	by []int32
}

// path is the path through a graph that an Active chooses.
type path struct {
	g      *Graph
	active Active
}

// steps returns the runs on the path, from the root.
func (p path) steps() []step {
	var steps []step
	b := p.beginnings()
	for ri := b.choose(p, none); ri != none; ri = b.choose(p, ri) {
		steps = append(steps, p.following(ri)...)
	}
	return steps
}

// beginnings are the runs without a parent. They belong to one conversation: each follows the one before it, unless it
// is an alternative to another one. A run that Edit made is an alternative to the message that it was made from. Two
// messages of the user with the same seq are alternatives, too: a log has every seq once, so they are the first
// messages of a session and of a fork that shares no events with it.
type beginnings struct {
	before map[int32]int32   // by run: the run before it, or none
	after  map[int32][]int32 // by run, or none: the runs after it
}

func (p path) beginnings() beginnings {
	type first struct {
		seq    int64
		parent string // the id of a parent that is not in the graph yet
	}
	b := beginnings{make(map[int32]int32), make(map[int32][]int32)}
	bySeq := make(map[first]int32)
	last := none
	for ri := range int32(p.g.runs.n) {
		r := p.g.runAt(ri)
		if r.first == none || r.parent != none {
			continue
		}
		before := last
		if n := p.g.at(r.first); n.body.kind == event.TypeUser {
			key := first{n.body.seq, r.waitsFor}
			if other, ok := bySeq[key]; ok && key.seq > 0 {
				before = b.before[other]
			} else if other, ok := p.active.beside[r.id]; ok {
				if before, ok = b.before[p.g.findRun(other)]; !ok {
					before = last // the graph does not have the other one
				}
			} else {
				bySeq[key] = ri
			}
		}
		b.before[ri] = before
		b.after[before] = append(b.after[before], ri)
		last = ri
	}
	return b
}

// choose returns the beginning that follows another one, or none, on the path. It returns none at the end.
func (b beginnings) choose(p path, ri int32) int32 {
	chosen := none
	for _, next := range b.after[ri] {
		if chosen = next; p.active.begins[p.g.runAt(next).id] {
			break
		}
	}
	return chosen
}

// following returns a run and the runs that follow it on the path.
func (p path) following(ri int32) []step {
	var steps []step
	for ri != none {
		next := p.follower(ri)
		steps = append(steps, step{run: ri, cut: p.cut(ri, next)})
		ri = next
	}
	for i := len(steps) - 2; i >= 0; i-- {
		if next := steps[i+1]; p.continues(next.run) {
			steps[i].by = append([]int32{next.run}, next.by...)
		}
	}
	return steps
}

// cut returns the last node of a run that is on the path if next, which may be none, follows the run. It returns none
// if all nodes are on the path.
func (p path) cut(ri, next int32) int32 {
	cut := none
	if next != none {
		cut = p.g.runAt(next).parent
	} else if end, ok := p.active.ends[p.g.runAt(ri).id]; ok {
		cut = p.g.find(end.node)
	}
	if cut != none && (p.g.at(cut).run != ri || p.isEnd(cut)) {
		return none
	}
	return cut
}

// follower returns the run that follows a run on the path, or none.
func (p path) follower(ri int32) int32 {
	id := p.g.runAt(ri).id
	if next, ok := p.active.next[id]; ok {
		ni := p.g.findRun(next)
		if ni != none && p.g.runAt(ni).first != none && p.g.runAt(ni).parent != none && p.g.at(p.g.runAt(ni).parent).run == ri {
			return ni
		}
	}
	newest, first := none, none
	without := p.active.ends[id].without
	for _, ni := range p.followers(ri) {
		if p.g.runAt(ni).first > first && !without[p.g.runAt(ni).id] {
			newest, first = ni, p.g.runAt(ni).first
		}
	}
	return newest
}

// reach makes sure that the path reaches a node of a run on it. If the path leaves the run before the node, reach
// replaces the next run by the newest one that follows after the node, or by none. It changes the maps of p.active.
func (p path) reach(ri, place int32) {
	if cut := p.cut(ri, p.follower(ri)); cut == none || cut >= place { // places grow within a run
		return
	}
	run := p.g.runAt(ri).id
	delete(p.active.next, run)
	delete(p.active.ends, run)
	all := p.followers(ri)
	for i := len(all) - 1; i >= 0; i-- {
		if cut := p.cut(ri, all[i]); cut == none || cut >= place {
			p.active.next[run] = p.g.runAt(all[i]).id
			return
		}
	}
	p.active.ends[run] = ending{without: p.runIDs(all)}
}

// followers returns the runs that can follow a run.
func (p path) followers(ri int32) []int32 {
	var found []int32
	for _, place := range p.g.run(ri, none) {
		for _, ni := range p.spawnedBy(place) {
			if p.follows(ni) {
				found = append(found, ni)
			}
		}
	}
	return found
}

// spawnedBy returns the runs whose parent is a node, in the order of their first events.
func (p path) spawnedBy(place int32) []int32 {
	if p.g.at(place).spawned == nil {
		return nil
	}
	var found []int32
	for _, child := range p.g.children(place) {
		if ni := p.g.at(child).run; ni != p.g.at(place).run {
			found = append(found, ni)
		}
	}
	return found
}

// follows reports whether a run follows the run of its parent, and is not inside it. That is so for a run of the user,
// an answer to the user, a run after the end of another one, and a run that continues an interrupted one. A run without
// a parent follows no run.
func (p path) follows(ri int32) bool {
	r := p.g.runAt(ri)
	return r.parent != none && r.first != none && (p.g.at(r.first).body.kind == event.TypeUser || p.isEnd(r.parent) || p.continues(ri))
}

// continues reports whether a run continues another run that was interrupted, such as in a fork in the middle of a run.
// Both runs belong to the same agent, and the parent is a text, a result or another node of the agent, or its start. A
// run inside another run belongs to another agent, or its parent is a call.
func (p path) continues(ri int32) bool {
	r := p.g.runAt(ri)
	if r.parent == none || r.first == none {
		return false
	}
	switch p.g.at(r.parent).body.kind {
	case event.TypeHarnessStart, event.TypeText, event.TypeReasoning, event.TypeToolResult, event.TypeToolProgress, event.TypeRelay, event.TypeUsage, event.TypeError:
	default:
		return false
	}
	first, cut := p.g.at(r.first).body, p.g.at(p.g.runAt(p.g.at(r.parent).run).first).body
	return first.kind == event.TypeHarnessStart && first.agent != "" && first.agent == cut.agent && first.path == cut.path
}

// agentOf returns the name of the agent of a run.
func (p path) agentOf(r *run) string {
	first := p.g.at(r.first)
	if first.body.agent != "" {
		return first.body.agent
	}
	if d, ok := first.data().(*event.HarnessStart); ok {
		return d.AgentID
	}
	return ""
}

// isEnd reports whether a node ends its run, so that its child runs follow the whole run.
func (p path) isEnd(place int32) bool {
	switch p.g.at(place).body.kind {
	case event.TypeUser, event.TypeHarnessEnd:
		return true
	case event.TypeError:
		return p.g.nextOf(place) == none
	}
	return false
}

// summarized returns the latest summary on the path, the runs that it replaces, and the runs after them.
func (p path) summarized() (summary string, before, steps []step) {
	steps = p.steps()
	for i := len(steps) - 1; i >= 0; i-- {
		if summary, ok := p.active.summaries[p.g.runAt(steps[i].run).id]; ok {
			return summary, steps[:i+1], steps[i+1:]
		}
	}
	return "", nil, steps
}

// visit calls f for steps and for the runs inside them, except inside collapsed runs. It uses a list instead of
// recursion, because agents can nest deeply.
func (p path) visit(steps []step, f func(s step, collapsed bool)) {
	todo := [][]step{steps}
	for len(todo) > 0 {
		steps := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, s := range steps {
			collapsed := p.active.collapsed[p.g.runAt(s.run).id]
			f(s, collapsed)
			if collapsed {
				continue
			}
			for _, place := range p.g.run(s.run, s.cut) {
				for _, ri := range p.spawnedBy(place) {
					if !p.follows(ri) {
						todo = append(todo, p.following(ri))
					}
				}
			}
		}
	}
}

// resultOf returns the place of the result of a call in a step, or none. The result can be in any run. In a graph of
// several sessions a call can have several results, of which some are not on the path. So the results of the last run
// that continues this one come first, and those of the run itself last.
func (p path) resultOf(s step, call *node) int32 {
	for i := len(s.by); i >= 0; i-- {
		ri := call.run
		if i > 0 {
			ri = s.by[i-1]
		}
		for _, id := range []string{call.id + ":result", p.g.runAt(ri).id + ":" + call.id + ":result"} {
			if place := p.g.find(id); place != none && p.g.at(place).run == ri {
				return place
			}
		}
	}
	place := p.g.find(call.id + ":result")
	if place != none && p.continues(p.g.at(place).run) {
		return none // the result in a fork that is not on the path
	}
	return place
}

// runIDs returns the ids of runs.
func (p path) runIDs(runs []int32) map[string]bool {
	ids := make(map[string]bool, len(runs))
	for _, ri := range runs {
		ids[p.g.runAt(ri).id] = true
	}
	return ids
}
