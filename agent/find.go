package agent

import (
	"fmt"
	"reflect"
)

// FindError reports that FindAgent returned another agent than SubAgents lead to. [NewTree] refuses such a tree.
// At run time it means that FindAgent has changed its answer: a transfer to that agent fails as if the agent
// were not ready, and a run of the agent ends with this error.
type FindError struct {
	Agent    string // the agent that was asked, with its type
	Name     string // the name that it was asked for
	Returned string // what FindAgent returned
	Tree     string // what SubAgents lead to
	Panic    any    // the value of a panic of FindAgent, nil if it returned
}

func (e *FindError) Error() string {
	return fmt.Sprintf("FindAgent(%q) of %s %s; SubAgents lead to %s", e.Name, e.Agent, e.Returned, e.Tree)
}

// Find returns the node of the agent that the root's FindAgent returns for a name, nil if that returns nil. The
// runner calls it to decide which agent gets the conversation. No agent needs to have the name itself.
//
// If the answer contradicts the tree, or FindAgent panics, the error is a [*FindError], and the node is that of
// [Tree.Node]. FindAgent is not called for [Human], if the tree was made with [WithHuman].
func (t *Tree) Find(name string) (*Node, error) {
	n := t.byName[name]
	if n != nil && n.virtual { // which is not in the tree
		return n, nil
	}
	found, err := t.ask(t.nodes[0], name)
	if err != nil {
		return n, err
	}
	return found, nil
}

// ask calls the FindAgent of a node's agent and returns the node of its answer. For the name of an agent in
// the tree this must be the agent's own node.
func (t *Tree) ask(of *Node, name string) (at *Node, err error) {
	want := t.byName[name]
	defer func() {
		if p := recover(); p != nil {
			at, err = nil, &FindError{of.kind(), name, "panicked", want.place(), p}
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
		return nil, &FindError{of.kind(), name, "returned nil", want.place(), nil}
	case !at.is(found):
		return nil, &FindError{of.kind(), name, fmt.Sprintf("returned the agent %q (%T), which is not in the tree", nameOf(found), found), want.place(), nil}
	case want != nil && at != want:
		return nil, &FindError{of.kind(), name, "returned " + at.place(), want.place(), nil}
	}
	return at, nil
}

// checkFind reports the agents whose FindAgent does not return what SubAgents lead to, each with the first name
// that is wrong.
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
			mend := "both must be the same agent"
			switch p := err.(*FindError).Panic; {
			case p != nil:
				mend = fmt.Sprint("the panic is: ", p)
			case of == n:
				mend = fmt.Sprintf("if %T wraps that agent, add a method Unwrap() agent.Agent that returns it", of.Agent)
			}
			b.problem(of.Agent.Name(), of.Path, "%s; %s", err, mend)
		}
	}
}

// findEmbedded looks for the agent that the node's agent embeds. The embedded FindAgent returns it, and cannot
// know what it is embedded in.
func (n *Node) findEmbedded() {
	defer func() { _ = recover() }() // which checkFind then reports
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

func (n *Node) kind() string { return fmt.Sprintf("%s (%T)", n.Agent.Name(), n.Agent) }

func (n *Node) place() string {
	if n == nil {
		return "no agent of that name"
	}
	return fmt.Sprintf("%s at %s", n.kind(), n.Path)
}

// nameOf returns the name of an agent that may be a nil pointer, "" if it has none.
func nameOf(a Agent) (name string) {
	defer func() { _ = recover() }()
	return a.Name()
}
