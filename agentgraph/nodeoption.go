package agentgraph

import (
	"fmt"
	"slices"
	"time"

	"github.com/agentarbor/arbor/internal/expression"
	"github.com/agentarbor/arbor/internal/plainjson"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

// NodeOption configures a node of a [Builder], like the keys of an agent in an arbor/v1 file.
type NodeOption func(*Node)

// Timeout limits the duration of one call of the node.
func Timeout(d time.Duration) NodeOption {
	return func(n *Node) { n.Timeout = d }
}

// Retries calls the node again after an error, at most this often, whatever the graph's strategy. backoff is the first
// pause; 0 uses the pause of the graph.
func Retries(most int, backoff time.Duration) NodeOption {
	return func(n *Node) { n.Retry = &RetryPolicy{most, backoff} }
}

// History shows the node's agents the conversation around the graph, including its images and files, as the policy
// selects.
func History(p view.Policy) NodeOption {
	return func(n *Node) { n.History = &p }
}

// LoopUntil calls the node again with its own output until done returns true, at most this often. If done returns an
// error, the node fails.
func LoopUntil(most int, done func(Values) (bool, error)) NodeOption {
	return func(n *Node) { n.Loop = &Loop{Until: function(done), Max: most} }
}

// LoopOrFail is like [LoopUntil], but the node fails if it is not done after its last call.
func LoopOrFail(most int, done func(Values) (bool, error)) NodeOption {
	return func(n *Node) { n.Loop = &Loop{function(done), most, true} }
}

// ToolsOf makes the node run the tools of another node's agent. Both nodes get the same agent; see [Node].
func ToolsOf(id string) NodeOption {
	return func(n *Node) { n.Ref, n.ToolsOf = "", id }
}

// Output computes the node's output from its agent's output. If the function returns an error, the node fails.
func Output(value func(Values) (any, error)) NodeOption {
	return func(n *Node) { n.Transform = function(value) }
}

// Choose selects the targets that may be reached from the node. An error of the function, and an id to which no edge
// leads, are routing errors.
func Choose(targets func(Values) ([]string, error)) NodeOption {
	return func(n *Node) { n.Next = function(targets) }
}

// Write writes to a state key that Builder.State declares, after each call that gives an output. An error of the
// function is a routing error.
func Write(key string, value func(Values) (any, error)) NodeOption {
	return func(n *Node) { n.Update = append(n.Update, Update{key, function(value)}) }
}

// AskFirst asks a person for approval before the node runs. The question may be empty. by restricts who may answer, as
// in [tools.NeedsApproval].
func AskFirst(question string, by ...tools.By) NodeOption {
	return func(n *Node) { n.Human = &Approval{question, tools.Strictest(by...)} }
}

// Priority makes the edge exclusive with the other edges of its source that have a priority; see [Edge].
func Priority(n int) EdgeOption { return func(e *Edge) { e.Priority = n } }

// State declares a key of the state that the nodes share. initial must have a JSON form; nil means no initial value.
func (b *Builder) State(key string, reducer Reducer, initial any) *Builder {
	value, err := canonical(initial)
	if err != nil {
		b.errs = append(b.errs, fmt.Errorf("the initial value of %q: %w", key, err))
	}
	b.graph.State = append(b.graph.State, StateKey{Name: key, Reducer: reducer, Initial: value})
	return b
}

// function returns an expression that calls a function. If f is nil, Build refuses the expression.
func function[T any](f func(Values) (T, error)) *Expression {
	if f == nil {
		return &Expression{}
	}
	return &Expression{call: func(v Values) (any, error) { return f(v) }}
}

// canonical returns a value in the form that expressions return.
func canonical(v any) (any, error) {
	text, err := plainjson.Marshal(v)
	if err != nil {
		return nil, err
	}
	return expression.Decode(text), nil
}

// checkOptions returns the errors in the options of a Builder. checkBuilt checks the shape of the graph.
func (b *Builder) checkOptions() (errs []error) {
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	keys := make(map[string]bool)
	for _, k := range b.graph.State {
		k.check(keys, add)
		keys[k.Name] = true
	}
	for _, n := range b.graph.Nodes {
		n.check(keys, func(format string, args ...any) { add("node %q: "+format, append([]any{n.ID}, args...)...) })
	}
	for _, e := range b.graph.Edges {
		if e.Condition.missing() || e.Transform.missing() {
			add("edge %s->%s: a function is nil", e.From, e.To)
		}
		if e.Priority < 0 || e.Priority > maxPriority {
			add("edge %s->%s: a priority is from 1 to %d", e.From, e.To, maxPriority)
		}
	}
	return errs
}

// check reports what is wrong with a state key of a Builder. before are the keys before it.
func (k *StateKey) check(before map[string]bool, add func(format string, args ...any)) {
	known := slices.IndexFunc(reducers, func(r reducerOf) bool { return r.name == k.Reducer })
	switch {
	case known < 0:
		add("there is no reducer %q", k.Reducer)
	case k.Initial != nil && !reducers[known].fits(k.Initial):
		add("the initial value of %q for %s must be %s", k.Name, k.Reducer, reducers[known].what)
	}
	switch {
	case before[k.Name]:
		add("the state has the key %q twice", k.Name)
	case !identifier.MatchString(k.Name):
		add("the key %q of the state is not a name of letters, digits and _", k.Name)
	}
}

// check reports what is wrong with the options of a node of a Builder. keys are the declared state keys.
func (n *Node) check(keys map[string]bool, add func(format string, args ...any)) {
	if n.Timeout < 0 || n.Retry != nil && (n.Retry.Max < 0 || n.Retry.Backoff < 0) {
		add("a time or a number of retries is negative")
	}
	if n.Loop != nil && (n.Loop.Max < 1 || n.Loop.Max > maxCalls) {
		add("a loop has from 1 to %d calls", maxCalls)
	}
	written := make(map[string]bool)
	noFunction := n.Loop != nil && n.Loop.Until.missing() || n.Transform.missing() || n.Next.missing()
	for _, u := range n.Update {
		switch {
		case !keys[u.Key]:
			add("the state has no key %q", u.Key)
		case written[u.Key]:
			add("it writes to %q twice", u.Key)
		}
		written[u.Key] = true
		noFunction = noFunction || u.Value.missing()
	}
	if noFunction {
		add("a function is nil")
	}
}

// missing reports whether an option of a Builder was given no function.
func (e *Expression) missing() bool { return e != nil && e.call == nil }
