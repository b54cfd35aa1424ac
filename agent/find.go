package agent

import (
	"fmt"
	"reflect"
)

// FindError reports that FindAgent returned another agent than the one reachable through SubAgents. [NewTree] refuses
// such a tree. At run time the error means that FindAgent has changed its answer: a transfer to that agent fails as if
// the agent were not ready, and a run of the agent ends with this error.
type FindError struct {
	Agent    string // the agent whose FindAgent was called, with its type
	Name     string // the argument of FindAgent
	Returned string // the answer of FindAgent
	Tree     string // the agent that SubAgents lead to
	Panic    any    // the value of a panic of FindAgent, nil if it returned
}

func (e *FindError) Error() string {
	return fmt.Sprintf("FindAgent(%q) of %s %s; SubAgents lead to %s", e.Name, e.Agent, e.Returned, e.Tree)
}

// Find returns the node of the agent that the root's FindAgent returns for a name, or nil if FindAgent returns nil.
// The runner calls it to decide which agent gets the conversation. The name need not be the agent's own.
//
// If the answer contradicts the tree, or FindAgent panics, the error is a [*FindError], and the node is that of
// [Tree.Node]. Find does not call FindAgent for [Human] if the tree was made with [WithHuman].
func (t *Tree) Find(name string) (*Node, error) {
	n := t.byName[name]
	if n != nil && n.virtual { // FindAgent does not know the person
		return n, nil
	}
	found, err := t.ask(t.nodes[0], name)
	if err != nil {
		return n, err
	}
	return found, nil
}

// ask calls FindAgent of a node's agent and returns the node of its answer. For the name of an agent in the tree, the
// answer must be that agent's node.
func (t *Tree) ask(of *Node, name string) (at *Node, err error) {
	want := t.byName[name]
	defer func() {
		if p := recover(); p != nil {
			at, err = nil, &FindError{of.nameAndType(), name, "panicked", want.describe(), p}
		}
	}()
	found := of.Agent.FindAgent(name)
	if at = want; !at.is(found) {
		at = t.byName[nameOf(found)]
	}
	switch {
	case found == nil && want == nil:
		return nil, nil
	case found == nil:
		return nil, &FindError{of.nameAndType(), name, "returned nil", want.describe(), nil}
	case !at.is(found):
		return nil, &FindError{of.nameAndType(), name, fmt.Sprintf("returned the agent %q (%T), which is not in the tree", nameOf(found), found), want.describe(), nil}
	case want != nil && at != want:
		return nil, &FindError{of.nameAndType(), name, "returned " + at.describe(), want.describe(), nil}
	}
	return at, nil
}

// checkFind reports each agent whose FindAgent contradicts SubAgents, with the first wrong name.
func (b *treeBuilder) checkFind() {
	for _, n := range b.tree.nodes {
		n.findEmbedded()
	}
	wrong := make(map[*Node]bool)
	for _, n := range b.tree.nodes {
		for of := n; of != nil; of = of.Parent {
			_, err := b.tree.ask(of, n.Agent.Name())
			if err == nil || wrong[of] {
				continue
			}
			wrong[of] = true
			hint := "both must be the same agent"
			switch p := err.(*FindError).Panic; {
			case p != nil:
				hint = fmt.Sprint("the panic is: ", p)
			case of == n:
				hint = fmt.Sprintf("if %T wraps that agent, add a method Unwrap() agent.Agent that returns it", of.Agent)
			}
			b.problem(of.Agent.Name(), of.Path, "%s; %s", err, hint)
		}
	}
}

// findEmbedded finds the agent that the node's agent embeds. The embedded FindAgent returns the embedded agent,
// because it does not know the type around it.
func (n *Node) findEmbedded() {
	defer func() { _ = recover() }() // checkFind reports the panic
	if a := n.Agent.FindAgent(n.Agent.Name()); a != nil && reflect.ValueOf(a).Comparable() && embeds(reflect.ValueOf(n.Agent), a) {
		n.embedded = a
	}
}

func embeds(v reflect.Value, a Agent) bool {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return false
	}
	for i := range v.NumField() {
		f := v.Field(i)
		if v.Type().Field(i).Anonymous && (f.CanInterface() && f.Interface() == any(a) || embeds(f, a)) {
			return true
		}
	}
	return false
}

// is reports whether an agent is the node's, or one that the node's agent wraps or embeds.
func (n *Node) is(a Agent) bool {
	if n == nil || a == nil {
		return false
	}
	if n.Agent == a || n.embedded == a {
		return true
	}
	for wrapped := unwrap(n.Agent); wrapped != nil; wrapped = unwrap(wrapped) {
		if reflect.ValueOf(wrapped).Comparable() && wrapped == a {
			return true
		}
	}
	return false
}

func (n *Node) nameAndType() string { return fmt.Sprintf("%s (%T)", n.Agent.Name(), n.Agent) }

func (n *Node) describe() string {
	if n == nil {
		return "no agent of that name"
	}
	return fmt.Sprintf("%s at %s", n.nameAndType(), n.Path)
}

// nameOf returns the name of an agent that may be a nil pointer, or "" if Name panics.
func nameOf(a Agent) (name string) {
	defer func() { _ = recover() }()
	return a.Name()
}
