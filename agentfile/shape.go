package agentfile

import (
	"cmp"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/nearest"
)

// edge connects an agent to a sub-agent. at is the place in the parent's file.
type edge struct {
	parent, child *definition
	at            pos
	as            string // the name in the parent's list, or "" for an agent of its folder
	back          bool   // it closes a cycle
}

// shape connects agents to their sub-agents and returns the root, or nil if there is not exactly one. It reports
// problems. graphs returns the graphs in the folder, for a hint if there is no single root.
func shape(r *report, defs []*definition, graphs func() []string) *definition {
	roots := wire(r, defs, defs)
	outside := slices.DeleteFunc(slices.Clone(roots), func(d *definition) bool { return d.inGraph })
	if len(outside) > 0 {
		roots = outside
	}
	return root(r, defs, roots, graphs)
}

// wire connects agents to their sub-agents, and returns the agents without a parent. Hints consider the agents in known.
func wire(r *report, defs, known []*definition) (roots []*definition) {
	byName, byFolder := names(r, defs), map[string][]*definition{}
	for _, d := range defs {
		if d.base != "" { // the file of an agent, and no entry of a list
			byFolder[path.Dir(d.file)] = append(byFolder[path.Dir(d.file)], d)
		}
	}
	for _, d := range defs {
		if d.leaf() {
			continue
		}
		if !d.listed {
			for _, child := range byFolder[d.folder()] {
				connect(d, child, pos{1, 0}, "")
			}
		}
		listed(r, d, defs, known, byName)
	}
	roots = cycles(r, defs)
	parents(r, defs)
	return roots
}

// names checks the agents' names. If two are equal, the first file keeps the name.
func names(r *report, defs []*definition) map[string]*definition {
	byName := make(map[string]*definition, len(defs))
	for _, d := range defs {
		_, named := d.at["name"]
		if err := agent.CheckName(d.name); err != nil {
			hint := ""
			if !named {
				hint = "; the name is taken from the file's: set the key name"
			}
			r.add(d.file, d.pos(), "%s%s", err, hint)
		}
		if other := byName[d.name]; other != nil {
			d.duplicate = true
			r.add(d.file, d.pos(), "the name %q is taken by %s: names are unique in a tree", d.name, r.place(other.file, other.pos()))
			continue
		}
		byName[d.name] = d
	}
	return byName
}

// listed connects an agent to the sub-agents in its list, by name or else by file name. Hints consider the agents in
// all.
func listed(r *report, d *definition, defs, all []*definition, byName map[string]*definition) {
	for _, i := range d.subagents {
		if i.unusable {
			continue
		}
		if child := i.child(defs, byName); child != nil {
			switch e := d.edge(child); {
			case e == nil:
				connect(d, child, i.at, i.value)
			case e.as == "": // it is in the folder
				e.as = i.value
			default:
				r.add(d.file, i.at, "%s names %q twice", d.list(), child.name)
			}
			continue
		}
		known := make([]string, 0, len(all))
		for _, other := range all {
			if other.file != d.file {
				known = append(known, other.name)
			}
		}
		// A list may contain the path of the agent's file.
		name := strings.TrimSuffix(path.Base(strings.TrimSpace(i.value)), ".md")
		if meant := byName[nearest.Of(name, known)]; meant != nil {
			meant.suggested = true
		}
		r.add(d.file, i.at, "there is no agent %q%s", i.value, nearest.Hint(name, known))
	}
}

// child returns the agent that a list names, or nil.
func (i item) child(defs []*definition, byName map[string]*definition) *definition {
	if i.def != nil {
		at := slices.IndexFunc(defs, func(d *definition) bool { return d == i.def || d.copyOf == i.def })
		return defs[at]
	}
	if d := byName[i.value]; d != nil {
		return d
	}
	return byBase(defs, i.value)
}

// byBase returns the only agent whose file has this base name, or nil.
func byBase(defs []*definition, base string) (found *definition) {
	for _, d := range defs {
		if d.base == base {
			if found != nil {
				return nil
			}
			found = d
		}
	}
	return found
}

// edge returns the edge to a sub-agent, or nil.
func (d *definition) edge(child *definition) *edge {
	if at := slices.IndexFunc(d.children, func(e *edge) bool { return e.child == child }); at >= 0 {
		return d.children[at]
	}
	return nil
}

// list returns the name of the key that lists the sub-agents.
func (d *definition) list() string {
	if d.router != nil {
		return "specialists"
	}
	if d.isWorkflow() {
		return "agents"
	}
	return "subagents"
}

func connect(parent, child *definition, at pos, as string) {
	e := &edge{parent: parent, child: child, at: at, as: as}
	parent.children = append(parent.children, e)
	child.parents = append(child.parents, e)
}

// cycles marks and reports the edges that lead back to an ancestor, and returns the agents without a parent. It starts
// at those agents, so that a cycle is reported at the edge that closes it.
func cycles(r *report, defs []*definition) (roots []*definition) {
	for _, d := range defs {
		if len(d.parents) == 0 {
			roots = append(roots, d)
		}
	}
	seen, on := make(map[*definition]bool, len(defs)), make(map[*definition]bool)
	var stack []*definition
	var visit func(d *definition)
	visit = func(d *definition) {
		seen[d], on[d] = true, true
		stack = append(stack, d)
		for _, e := range d.children {
			switch {
			case !seen[e.child]:
				visit(e.child)
			case on[e.child]:
				e.back = true
				from := slices.Index(stack, e.child)
				why := "a tree has no cycles"
				if len(roots) == 0 {
					why = "there is no root: every agent is a sub-agent of another one"
				}
				r.add(d.file, e.at, "the sub-agents run in a circle, %s: %s", cycleText(stack[from:]), why)
			}
		}
		on[d] = false
		stack = stack[:len(stack)-1]
	}
	for _, d := range slices.Concat(roots, defs) {
		if !seen[d] {
			visit(d)
		}
	}
	return roots
}

func cycleText(stack []*definition) string {
	names := namesOf(stack)
	if len(names) > 12 {
		names = append(append(names[:6:6], "…"), names[len(names)-5:]...)
	}
	return strings.Join(append(names, stack[0].name), " → ")
}

// parents reports agents with more than one parent.
func parents(r *report, defs []*definition) {
	for _, d := range defs {
		var real []*edge
		for _, e := range d.parents {
			if !e.back {
				real = append(real, e)
			}
		}
		// Report the parent that lists the agent: a parent by folder has no line to report.
		slices.SortStableFunc(real, func(a, b *edge) int {
			return cmp.Or(cmp.Compare(byList(a), byList(b)), cmp.Compare(a.parent.file, b.parent.file))
		})
		for i := 1; i < len(real); i++ {
			first := real[0]
			where := "by the folder " + r.given(first.parent.folder())
			if first.parent.listed {
				where = r.place(first.parent.file, first.at)
			}
			r.add(real[i].parent.file, real[i].at, "the agent %q has two parents: it is a sub-agent of %q already (%s)",
				d.name, first.parent.name, where)
		}
	}
}

func byList(e *edge) int {
	if e.parent.listed {
		return 1
	}
	return 0
}

// root returns the only root. If there are several, it takes the one with the largest tree as the intended root and
// reports the others. It reports nothing if another problem hides the parents of some agents.
func root(r *report, defs, roots []*definition, graphs func() []string) *definition {
	if len(roots) == 1 {
		return roots[0]
	}
	if slices.ContainsFunc(defs, func(d *definition) bool { return d.incomplete }) {
		return nil
	}
	roots = slices.DeleteFunc(slices.Clone(roots), func(d *definition) bool { return d.duplicate || d.suggested })
	if len(roots) < 2 {
		return nil
	}
	if found := graphs(); len(found) > 0 {
		r.add(".", pos{}, "%d agents have no parent, and a tree has one root; to run a graph of these agents, give the path of its file, such as %s",
			len(roots), r.given(found[0]))
		return nil
	}
	main, most := roots[0], 0
	for _, d := range roots {
		n := 0
		for range members(d) {
			n++
		}
		if n > most {
			main, most = d, n
		}
	}
	closed := map[string]string{} // the reason, by folder whose agents are not sub-agents
	for _, d := range defs {
		switch {
		case d.base == "":
		case d.isRemote:
			closed[d.folder()] = r.given(d.file) + " is a remote agent, so its folder does not count"
		case d.isGraph:
			closed[d.folder()] = r.given(d.file) + " is a graph, so its folder does not count"
		case d.listed:
			closed[d.folder()] = r.given(d.file) + " has a list " + d.list() + ", so its folder does not count"
		}
	}
	for _, d := range roots {
		if d == main {
			continue
		}
		hint := ""
		if why := closed[path.Dir(d.file)]; why != "" {
			hint = "; " + why
		}
		r.add(d.file, d.pos(), "the agent %q has no parent, and neither has %q (%s): a tree has one root%s",
			d.name, main.name, r.place(main.file, main.pos()), hint)
	}
	return nil
}

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
	wire(r, all, f.defs)
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
