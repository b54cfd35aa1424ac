package conversation

// step is a run on the path.
type step struct {
	run int32
	cut int32 // the last node that counts; none if all do
	// by are the runs that take up the calls which the run has left open where it
	// was cut off, see Graph.continues.
	by []int32
}

// path returns the runs on the path, from the root.
func (a Active) path(g *Graph) []step {
	var steps []step
	b := a.beginnings(g)
	for ri := b.choose(g, a, none); ri != none; ri = b.choose(g, a, ri) {
		steps = append(steps, a.following(g, ri)...)
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

func (a Active) beginnings(g *Graph) beginnings {
	type first struct {
		seq    int64
		parent string // that is not there yet
	}
	b := beginnings{make(map[int32]int32), make(map[int32][]int32)}
	bySeq := make(map[first]int32)
	last := none
	for ri := range int32(g.runs.n) {
		r := g.runAt(ri)
		if r.first == none || r.parent != none {
			continue
		}
		before := last
		if n := g.at(r.first); n.body.kind == KindUser {
			key := first{n.body.seq, r.waitsFor}
			if other, ok := bySeq[key]; ok && key.seq > 0 {
				before = b.before[other]
			} else if other, ok := a.beside[r.id]; ok {
				if before, ok = b.before[g.findRun(other)]; !ok {
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
func (b beginnings) choose(g *Graph, a Active, ri int32) int32 {
	chosen := none
	for _, next := range b.after[ri] {
		if chosen = next; a.begins[g.runAt(next).id] {
			break
		}
	}
	return chosen
}

// following returns a run and those that follow it, one after the other.
func (a Active) following(g *Graph, ri int32) []step {
	var steps []step
	for ri != none {
		next := a.follower(g, ri)
		steps = append(steps, step{run: ri, cut: a.cut(g, ri, next)})
		ri = next
	}
	for i := len(steps) - 2; i >= 0; i-- {
		if next := steps[i+1]; g.continues(next.run) {
			steps[i].by = append([]int32{next.run}, next.by...)
		}
	}
	return steps
}

// cut returns the last node of a run that counts if another run, or none, follows
// it; none if all do.
func (a Active) cut(g *Graph, ri, next int32) int32 {
	cut := none
	if next != none {
		cut = g.runAt(next).parent
	} else if end, ok := a.ends[g.runAt(ri).id]; ok {
		cut = g.find(end.node)
	}
	if cut != none && (g.at(cut).run != ri || g.isEnd(cut)) {
		return none
	}
	return cut
}

// follower returns the run that follows a run on the path, or none.
func (a Active) follower(g *Graph, ri int32) int32 {
	id := g.runAt(ri).id
	if next, ok := a.next[id]; ok {
		ni := g.findRun(next)
		if ni != none && g.runAt(ni).first != none && g.runAt(ni).parent != none && g.at(g.runAt(ni).parent).run == ri {
			return ni
		}
	}
	newest, first := none, none
	without := a.ends[id].without
	for _, ni := range g.followers(ri) {
		if g.runAt(ni).first > first && !without[g.runAt(ni).id] {
			newest, first = ni, g.runAt(ni).first
		}
	}
	return newest
}

// followers returns the runs that follow a run: the alternatives.
func (g *Graph) followers(ri int32) []int32 {
	var found []int32
	for place := g.runAt(ri).first; place != none; place = g.nextOf(place) {
		for _, ni := range g.spawnedBy(place) {
			if g.follows(ni) {
				found = append(found, ni)
			}
		}
	}
	return found
}

// spawnedBy returns the runs that hang on a node, in the order of first sight.
func (g *Graph) spawnedBy(place int32) []int32 {
	if g.at(place).spawned == nil {
		return nil
	}
	var found []int32
	for _, child := range g.children(place) {
		if ni := g.at(child).run; ni != g.at(place).run {
			found = append(found, ni)
		}
	}
	return found
}

// follows reports whether a run follows the one that it hangs on, rather than
// being a part of what that one does. It does if it is the user's, or answers
// the user, or hangs on the end of a run, or takes up one that was cut off. A
// run without a parent follows nothing.
func (g *Graph) follows(ri int32) bool {
	r := g.runAt(ri)
	return r.parent != none && r.first != none && (g.at(r.first).body.kind == KindUser || g.isEnd(r.parent) || g.continues(ri))
}

// continues reports whether a run takes up another one where that one was cut off,
// as in a fork in the middle of a run. Such a run is the same agent's, and hangs on
// what that agent said, used or was given, or on its start. What works inside of a
// run is another agent's, or hangs on a call.
func (g *Graph) continues(ri int32) bool {
	r := g.runAt(ri)
	if r.parent == none || r.first == none {
		return false
	}
	switch g.at(r.parent).body.kind {
	case KindHarnessStart, KindText, KindReasoning, KindToolResult, KindToolProgress, KindRelay, KindUsage, KindError:
	default:
		return false
	}
	first, cut := g.at(r.first).body, g.at(g.runAt(g.at(r.parent).run).first).body
	return first.kind == KindHarnessStart && first.agent != "" && first.agent == cut.agent && first.path == cut.path
}

// isEnd reports whether a node closes what somebody had to say: what hangs on it
// follows the whole run.
func (g *Graph) isEnd(place int32) bool {
	switch g.at(place).body.kind {
	case KindUser, KindHarnessEnd:
		return true
	case KindError:
		return g.nextOf(place) == none
	}
	return false
}

// summarized returns the latest summary on the path, the runs that it replaces,
// and those that follow.
func (a Active) summarized(g *Graph) (summary string, before, steps []step) {
	steps = a.path(g)
	for i := len(steps) - 1; i >= 0; i-- {
		if summary, ok := a.summaries[g.runAt(steps[i].run).id]; ok {
			return summary, steps[:i+1], steps[i+1:]
		}
	}
	return "", nil, steps
}

// inStep returns the places of a step's nodes.
func (g *Graph) inStep(s step) []int32 {
	var found []int32
	for place := g.runAt(s.run).first; place != none; place = g.nextOf(place) {
		found = append(found, place)
		if place == s.cut {
			break
		}
	}
	return found
}

// visit calls f for the steps and for what began inside of them, but for what is
// inside of collapsed runs. A list of what is still to be done takes the place of
// recursion, because agents can nest deeply.
func (a Active) visit(g *Graph, steps []step, f func(s step, collapsed bool)) {
	todo := [][]step{steps}
	for len(todo) > 0 {
		steps := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, s := range steps {
			collapsed := a.collapsed[g.runAt(s.run).id]
			f(s, collapsed)
			if collapsed {
				continue
			}
			for _, place := range g.inStep(s) {
				for _, ri := range g.spawnedBy(place) {
					if !g.follows(ri) {
						todo = append(todo, a.following(g, ri))
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
func (g *Graph) resultOf(s step, call *node) int32 {
	for i := len(s.by); i >= 0; i-- {
		ri := call.run
		if i > 0 {
			ri = s.by[i-1]
		}
		for _, id := range []string{call.id + ":result", g.runAt(ri).id + ":" + call.id + ":result"} {
			if place := g.find(id); place != none && g.at(place).run == ri {
				return place
			}
		}
	}
	place := g.find(call.id + ":result")
	if place != none && g.continues(g.at(place).run) {
		return none // the answer that the call got in a fork, off the path
	}
	return place
}

// runIDs returns the ids of runs.
func (g *Graph) runIDs(runs []int32) map[string]bool {
	ids := make(map[string]bool, len(runs))
	for _, ri := range runs {
		ids[g.runAt(ri).id] = true
	}
	return ids
}
