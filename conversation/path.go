package conversation

import "github.com/agentarbor/arbor/event"

// step is a run on the path.
type step struct {
	run int32
	cut int32 // the last node that counts; none if all do
	// by are the runs that take up the calls which the run has left open where it
	// was cut off, see path.continues.
	by []int32
}

// path is the way through a graph that an Active chooses.
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

// beginnings are the runs without a parent. They are parts of one conversation:
// each follows the one that was seen before it. But some are beside each other, at
// the place of the one that was seen first. What Edit made is beside the message
// that it was made from. Two messages of the user with the same seq are beside
// each other too: a log has every seq once, so they are the first ones of a
// session and of a fork that shares nothing with it.
type beginnings struct {
	before map[int32]int32   // the one that each follows, or none
	after  map[int32][]int32 // those that follow one, or none
}

func (p path) beginnings() beginnings {
	type first struct {
		seq    int64
		parent string // that is not there yet
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
		if n := p.g.at(r.first); n.body.kind == KindUser {
			key := first{n.body.seq, r.waitsFor}
			if other, ok := bySeq[key]; ok && key.seq > 0 {
				before = b.before[other]
			} else if other, ok := p.active.beside[r.id]; ok {
				if before, ok = b.before[p.g.findRun(other)]; !ok {
					before = last // the other one is not here
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

// choose returns the one that follows a beginning on the path, or none.
func (b beginnings) choose(p path, ri int32) int32 {
	chosen := none
	for _, next := range b.after[ri] {
		if chosen = next; p.active.begins[p.g.runAt(next).id] {
			break
		}
	}
	return chosen
}

// following returns a run and those that follow it, one after the other.
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

// cut returns the last node of a run that counts if another run, or none, follows
// it; none if all do.
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

// keep changes what follows a run if it turns off before a node of the run: to
// the newest run that follows behind the node, or else to none. It writes into
// the maps.
func (p path) keep(ri, place int32) {
	if cut := p.cut(ri, p.follower(ri)); cut == none || cut >= place { // places of a run are in its order
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

// followers returns the runs that follow a run: the alternatives.
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

// spawnedBy returns the runs that hang on a node, in the order of first sight.
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

// follows reports whether a run follows the one that it hangs on, rather than
// being a part of what that one does. It does if it is the user's, or answers
// the user, or hangs on the end of a run, or takes up one that was cut off. A
// run without a parent follows nothing.
func (p path) follows(ri int32) bool {
	r := p.g.runAt(ri)
	return r.parent != none && r.first != none && (p.g.at(r.first).body.kind == KindUser || p.isEnd(r.parent) || p.continues(ri))
}

// continues reports whether a run takes up another one where that one was cut off,
// as in a fork in the middle of a run. Such a run is the same agent's, and hangs on
// what that agent said, used or was given, or on its start. What works inside of a
// run is another agent's, or hangs on a call.
func (p path) continues(ri int32) bool {
	r := p.g.runAt(ri)
	if r.parent == none || r.first == none {
		return false
	}
	switch p.g.at(r.parent).body.kind {
	case KindHarnessStart, KindText, KindReasoning, KindToolResult, KindToolProgress, KindRelay, KindUsage, KindError:
	default:
		return false
	}
	first, cut := p.g.at(r.first).body, p.g.at(p.g.runAt(p.g.at(r.parent).run).first).body
	return first.kind == KindHarnessStart && first.agent != "" && first.agent == cut.agent && first.path == cut.path
}

// agentOf returns the name of the agent that speaks in a run.
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

// isEnd reports whether a node closes what somebody had to say: what hangs on it
// follows the whole run.
func (p path) isEnd(place int32) bool {
	switch p.g.at(place).body.kind {
	case KindUser, KindHarnessEnd:
		return true
	case KindError:
		return p.g.nextOf(place) == none
	}
	return false
}

// summarized returns the latest summary on the path, the runs that it replaces,
// and those that follow.
func (p path) summarized() (summary string, before, steps []step) {
	steps = p.steps()
	for i := len(steps) - 1; i >= 0; i-- {
		if summary, ok := p.active.summaries[p.g.runAt(steps[i].run).id]; ok {
			return summary, steps[:i+1], steps[i+1:]
		}
	}
	return "", nil, steps
}

// visit calls f for the steps and for what began inside of them, but for what is
// inside of collapsed runs. A list of what is still to be done takes the place of
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

// resultOf returns the place of the result of a call that is made in a step, or
// none. It can be anywhere. If other runs take up this one, the results of the last
// of them come first, and those of the run itself last: in a graph of several sessions
// a call can have several, and one that was given behind the place where a later run
// takes up is off the path.
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
		return none // the answer that the call got in a fork, off the path
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
