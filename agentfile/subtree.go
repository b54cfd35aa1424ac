package agentfile

import "iter"

// subtree returns a copy of root with copies of the agents of the folder below it. The copies are connected only to
// each other. It reports their problems.
func (f *agentFolder) subtree(r *report, root *definition) *definition {
	copies := map[*definition]*definition{}
	var all, originals []*definition
	add := func(d *definition) {
		if d == nil || copies[d] != nil {
			return
		}
		c := *d
		c.children, c.parents, c.copyOf = nil, nil, d
		copies[d] = &c
		all, originals = append(all, &c), append(originals, d)
	}
	add(root)
	for i := 0; i < len(originals); i++ {
		d := originals[i]
		if d.leaf() {
			continue
		}
		if !d.listed {
			for _, child := range f.inside[d.folder()] {
				add(child)
			}
		}
		known := append(f.listGraphs(r, d), f.defs...)
		for _, name := range d.subagents {
			if !name.unusable {
				add(name.child(known, f.named))
			}
		}
	}
	own := names(r, all)
	for i, d := range originals {
		c := all[i]
		if d.leaf() {
			continue
		}
		if c.subagents = d.subagents; !d.listed {
			for _, child := range f.inside[d.folder()] {
				connect(c, copies[child], pos{1, 0}, "")
			}
		}
		listed(r, c, all, f.defs, own)
	}
	cycles(r, all)
	parents(r, all)
	return copies[root]
}

// members yields the agents of a tree, each once.
func members(root *definition) iter.Seq[*definition] {
	return func(yield func(*definition) bool) {
		seen := map[*definition]bool{root: true}
		for queue := []*definition{root}; len(queue) > 0; queue = queue[1:] {
			if !yield(queue[0]) {
				return
			}
			for _, e := range queue[0].children {
				if !seen[e.child] {
					seen[e.child] = true
					queue = append(queue, e.child)
				}
			}
		}
	}
}
