package conversation

// step is a run on the path.
type step struct {
	run int32
	cut int32 // the last node that counts; none if all do
}

// path returns the runs on the path, from the root. Several beginnings are
// several parts of one conversation, unless one was chosen.
func (a Active) path(g *Graph) []step {
	var steps []step
	chosen := none
	if id, ok := a.next[""]; ok {
		chosen = g.findRun(id)
	}
	for ri := range int32(g.runs.n) {
		r := g.runAt(ri)
		if r.first == none || r.parent != none || chosen != none && ri != chosen && g.at(r.first).body.kind == KindUser {
			continue
		}
		steps = append(steps, a.onward(g, ri)...)
	}
	return steps
}

// onward returns a run and those that follow it, one after the other.
func (a Active) onward(g *Graph, ri int32) []step {
	var steps []step
	for ri != none {
		next := a.follower(g, ri)
		cut := none
		if next != none {
			if parent := g.runAt(next).parent; !g.isEnd(parent) {
				cut = parent
			}
		} else if end, ok := a.ends[g.runAt(ri).id]; ok {
			if place := g.find(end.node); place != none && !g.isEnd(place) {
				cut = place
			}
		}
		steps = append(steps, step{ri, cut})
		ri = next
	}
	return steps
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
	newest, after := none, none
	if end, ok := a.ends[id]; ok {
		after = end.after - 1
	}
	for _, ni := range g.followers(ri) {
		if first := g.runAt(ni).first; first > after {
			newest, after = ni, first
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
// being a part of what that one does: whether it is the user's, or answers the
// user, or hangs on the end of a run. A run without a parent follows nothing.
func (g *Graph) follows(ri int32) bool {
	r := g.runAt(ri)
	return r.parent != none && r.first != none && (g.at(r.first).body.kind == KindUser || g.isEnd(r.parent))
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

// summarized returns the latest summary on the path, the runs that it stands for,
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

// resultOf returns the place of a call's result, wherever it stands, or none.
func (g *Graph) resultOf(call *node) int32 { return g.find(call.id + ":result") }
