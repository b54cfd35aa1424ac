package routing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/router"
)

// Kind is the subject of a [Finding].
type Kind string

// The kinds of findings.
const (
	// Alike are two targets of one agent whose descriptions are hard to tell apart.
	Alike Kind = "alike"
	// SaysNothing is a target whose description does not say what it is for.
	SaysNothing Kind = "says-nothing"
	// Unreachable is an agent that can never get the conversation.
	Unreachable Kind = "unreachable"
	// Keeps is an agent that keeps the conversation, because it may not transfer to any other.
	Keeps Kind = "keeps"
	// Confused are two targets between which a model chose the wrong one; only [Survey] finds them.
	Confused Kind = "confused"
	// Transfers is a tree whose messages reach the right agent more often in another [Form]; only [Survey] finds it.
	Transfers Kind = "transfers"
)

// alikeFrom is the likeness of two descriptions, from 0 to 1, from which they are hard to tell apart: the weight of
// their common words divided by the weight of all their words. In testdata/distinct.txt, trees as people write them, no
// two siblings have more than 0.60. The pairs of testdata/alike.txt, which mean the same, have 0.66 or more.
const alikeFrom = 0.65

// Finding is a property of a tree that makes its routing worse than it could be.
type Finding struct {
	Kind Kind `json:"kind"`
	// Agents are the agents that it concerns, in the order of the tree.
	Agents []string `json:"agents"`
	// File and Line are the position of the first agent, empty if it comes from no file.
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Message string `json:"message"`
}

// String returns the finding as file:line: message, or with the agent's name instead of its file.
func (f Finding) String() string {
	switch {
	case f.File == "":
		return strings.Join(f.Agents[:min(1, len(f.Agents))], "") + ": " + f.Message
	case f.Line == 0:
		return f.File + ": " + f.Message
	}
	return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Message)
}

// Lint returns the findings that need no model: targets of one agent that are alike, targets whose descriptions have no
// content, agents that are unreachable, and agents that keep the conversation. place returns the position of an agent,
// or "" for one that comes from no file; it may be nil. Lint also checks the agents that agents run inside of
// themselves, as workflows and graphs do. The findings are sorted by position, and otherwise in the order of the tree,
// which has no other effect.
func Lint(tree *agent.Tree, place func(agent string) (file string, line int)) []Finding {
	l := linter{seen: make(map[agent.Agent]bool)}
	l.tree(tree, false)
	return placed(l.found, place)
}

func placed(found []Finding, place func(string) (string, int)) []Finding {
	for i := range found {
		if place != nil && len(found[i].Agents) > 0 {
			found[i].File, found[i].Line = place(found[i].Agents[0])
		}
	}
	slices.SortStableFunc(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return found
}

type linter struct {
	found []Finding
	seen  map[agent.Agent]bool // the roots of trees inside of others
}

func (l *linter) add(k Kind, message string, nodes ...*agent.Node) {
	l.found = append(l.found, Finding{Kind: k, Agents: namesOf(nodes), Message: message})
}

// tree checks a tree. inner reports that it is the tree of a scope, in which no turn follows.
func (l *linter) tree(tree *agent.Tree, inner bool) {
	reached, _ := reach(tree, tree.Root(), false, nil)
	l.unreachable(tree, reached)
	shown := shownIn(tree)
	for n := range tree.Walk() {
		if !inner && reached[n] {
			l.keeps(tree, n)
		}
		if shown[n] {
			l.saysNothing(n)
		}
	}
	l.alike(tree)
	for n := range tree.Walk() {
		for _, a := range n.Properties.Inner {
			if l.seen[a] {
				continue
			}
			l.seen[a] = true
			if inside, err := agent.NewTree(a); err == nil { // otherwise the agent that runs it reports the error
				l.tree(inside, true)
			}
		}
	}
}

// shownIn returns the agents that models next to them or above them see. The agents below an agent see it as the origin
// of the conversation, regardless of its description.
func shownIn(tree *agent.Tree) map[*agent.Node]bool {
	shown := make(map[*agent.Node]bool)
	for by := range tree.Walk() {
		for _, n := range by.Targets() {
			if asks(by) && !n.Virtual() && n != by.Parent {
				shown[n] = true
			}
		}
	}
	return shown
}

func (l *linter) unreachable(tree *agent.Tree, reached map[*agent.Node]bool) {
	for n := range tree.Walk() {
		if reached[n] || n.Parent != nil && !reached[n.Parent] {
			continue
		}
		lost := []*agent.Node{n}
		for other := range tree.Walk() {
			if other != n && !reached[other] && below(other, n) {
				lost = append(lost, other)
			}
		}
		message := fmt.Sprintf("nothing leads to %s: no agent is offered it, and no route or rule names it", n.Agent.Name())
		if len(lost) > 1 {
			message += fmt.Sprintf(", nor to those below it (%s)", listed(namesOf(lost[1:])))
		}
		l.add(Unreachable, message, lost...)
	}
}

func (l *linter) keeps(tree *agent.Tree, n *agent.Node) {
	if n.Parent == nil || n.Properties.Workflow || insideWorkflow(n) || !keeps(tree, n) {
		return
	}
	why := "it may transfer to no agent"
	if len(leads(tree, n)) > 0 {
		why = "neither it nor those below it may transfer to another agent"
	}
	l.add(Keeps, fmt.Sprintf("%s keeps the conversation: %s, and what the user writes next goes to it as well, unless the runner "+
		"begins each turn at the root; let it transfer to its parent or its peers, or let its parent answer next", n.Agent.Name(), why), n)
}

func (l *linter) saysNothing(n *agent.Node) {
	name, said := read(n.Agent.Name()), read(n.Agent.Description())
	what := ""
	switch {
	case strings.TrimSpace(n.Agent.Description()) == "":
		what = "has no description"
	case len(said.stems) == 0:
		what = "has a description that would fit any agent"
	case said.within(name):
		what = "has a description that says no more than its name"
	case len(said.stems) == 1:
		what = fmt.Sprintf("has a description that says one thing, %s", quoted(said.words[said.stems[0]]))
	default:
		return
	}
	l.add(SaysNothing, fmt.Sprintf("%s %s, by which models choose: say in it what users ask it for", n.Agent.Name(), what), n)
}

func (l *linter) alike(tree *agent.Tree) {
	type pair struct{ a, b *agent.Node }
	type likest struct {
		share float64
		by    []*agent.Node
	}
	pairs, order := make(map[pair]*likest), []pair(nil)
	for by := range tree.Walk() {
		if !asks(by) {
			continue
		}
		nodes := by.Targets()
		texts := make([]text, len(nodes))
		for i, n := range nodes {
			texts[i] = read(n.Agent.Description())
		}
		counts := countsOf(texts)
		for a := range nodes {
			for b := a + 1; b < len(nodes); b++ {
				share := likeness(texts, counts, a, b)
				if share < alikeFrom-1e-9 { // a sum depends slightly on the order
					continue
				}
				p := pair{nodes[a], nodes[b]}
				if pairs[p] == nil {
					pairs[p] = new(likest)
					order = append(order, p)
				}
				pairs[p].share, pairs[p].by = max(pairs[p].share, share), append(pairs[p].by, by)
			}
		}
	}
	for _, p := range order {
		l.add(Alike, told(p.a, p.b, pairs[p].share, pairs[p].by), p.a, p.b)
	}
}

// told describes the words that two descriptions share, and those that distinguish them.
func told(a, b *agent.Node, share float64, by []*agent.Node) string {
	one, other := read(a.Agent.Description()), read(b.Agent.Description())
	message := fmt.Sprintf("%s and %s, to which %s may transfer, are hard to tell apart: both descriptions have %s (likeness %.2f)",
		a.Agent.Name(), b.Agent.Name(), listed(namesOf(by)), listed(one.shared(other)), share)
	var only []string
	for _, side := range []struct {
		n         *agent.Node
		has, from text
	}{{a, one, other}, {b, other, one}} {
		var words []string
		for _, s := range side.has.stems {
			if side.from.words[s] == "" {
				words = append(words, side.has.words[s])
			}
		}
		if len(words) > 0 {
			only = append(only, fmt.Sprintf("only %s has %s", side.n.Agent.Name(), listed(words)))
		}
	}
	if len(only) == 0 {
		return message + "; say what only one of them is for"
	}
	return message + "; " + strings.Join(only, ", and ")
}

// asks reports whether an agent's model sees its targets.
func asks(n *agent.Node) bool {
	_, ok := agent.As[*llmagent.Agent](n.Agent)
	return ok
}

func namesOf(nodes []*agent.Node) []string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Agent.Name()
	}
	return names
}

// mostListed and mostQuoted limit how much of a description a message shows.
const mostListed, mostQuoted = 8, 40

// listed joins words, only the first few if there are many.
func listed(words []string) string {
	var b strings.Builder
	for i, w := range words {
		if i == mostListed {
			fmt.Fprintf(&b, " and %d more", len(words)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(visible.Cut(w, mostQuoted))
	}
	return b.String()
}

func quoted(s string) string { return "“" + visible.Cut(s, mostQuoted) + "”" }

// leads returns the agents that can get the conversation from an agent in the same turn: through the targets of its
// model, its routes, the rules of a router, and after an error.
func leads(tree *agent.Tree, n *agent.Node) (to []*agent.Node) {
	rules, isRouter := agent.As[*router.Router](n.Agent)
	switch {
	case isRouter:
		to = append(byRules(tree, rules), tree.Node(rules.Default()))
	default:
		to = append(to, n.Targets()...)
	}
	for _, r := range n.Routes() {
		to = append(to, r.To)
	}
	if instead := n.OnError(); instead != nil {
		to = append(to, instead)
	}
	return to
}

func byRules(tree *agent.Tree, r *router.Router) (to []*agent.Node) {
	for _, rule := range r.Rules() {
		to = append(to, tree.Node(rule.To))
	}
	return to
}

// next returns the agents that can get the user's next message after an agent has answered, by the rules of the runner:
// the agent remains active unless it returns to its parent, or is below a router, which then decides again. A sticky
// router keeps the agent if no rule matches.
func next(tree *agent.Tree, n *agent.Node) (to []*agent.Node) {
	for n.Parent != nil && n.Properties.Return == agent.ReturnToParent {
		n = n.Parent
	}
	to = append(to, n)
	var way []*agent.Node // up to the outermost router
	for at, first := n, n.FirstRouter(); first != nil; at = at.Parent {
		if way = append(way, at); at == first {
			break
		}
	}
	for i := len(way) - 1; i >= 0; i-- {
		r, ok := agent.As[*router.Router](way[i].Agent)
		switch {
		case ok && r.Sticky() && way[i] != n:
			to = append(to, byRules(tree, r)...)
			continue
		case way[i].Properties.Router:
			to = append(to, way[i])
		}
		break
	}
	return to
}

// reach returns all agents that can get the conversation from an agent, including itself: in one turn or, if turns is
// set, in any number of turns. It stops at the first agent for which until, which may be nil, returns true.
func reach(tree *agent.Tree, from *agent.Node, turns bool, until func(*agent.Node) bool) (reached map[*agent.Node]bool, found bool) {
	reached = map[*agent.Node]bool{from: true}
	for todo := []*agent.Node{from}; len(todo) > 0; {
		n := todo[0]
		todo = todo[1:]
		to := leads(tree, n)
		if turns && !n.Virtual() {
			to = append(to, next(tree, n)...)
		}
		for _, t := range to {
			if t == nil || reached[t] {
				continue
			}
			if until != nil && until(t) {
				return reached, true
			}
			reached[t] = true
			todo = append(todo, t)
		}
	}
	return reached, false
}

// below reports whether an agent is another one, or is below it.
func below(n, other *agent.Node) bool {
	for n != nil && n != other {
		n = n.Parent
	}
	return n != nil
}

// keeps reports whether an agent with the conversation keeps it, or the agents below it do, while the user may need
// agents elsewhere. A person can transfer it to any agent.
func keeps(tree *agent.Tree, n *agent.Node) bool {
	if _, leaves := reach(tree, n, true, func(other *agent.Node) bool { return !below(other, n) }); leaves {
		return false
	}
	for other := range tree.Walk() {
		if !below(other, n) && !below(n, other) {
			return true
		}
	}
	return false
}

// insideWorkflow reports whether a workflow or a graph above an agent runs it, in a scope that ends with its answer.
func insideWorkflow(n *agent.Node) bool {
	for up := n.Parent; up != nil; up = up.Parent {
		if up.Properties.Workflow {
			return true
		}
	}
	return false
}
