package agentgraph

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/expression"
	"github.com/agentarbor/arbor/internal/visible"
)

// decision is what a node decides about its edges before they are evaluated one by one.
type decision struct {
	to    map[string]bool // whether the node has named a target; nil if it names none
	first int             // the edge with a priority that is taken, or -1
	value json.RawMessage
}

// allows reports whether an edge may be taken.
func (c *decision) allows(e *planEdge) bool { return c.to == nil || c.to[e.To] }

// chooses reports whether a node decides more than the conditions of its edges.
func (n *planNode) chooses() bool { return n.Next != nil || len(n.ranked) > 0 }

// rank sorts the edges with a priority.
func (n *planNode) rank(edges []planEdge) {
	for _, at := range n.out {
		if edges[at].Priority > 0 {
			n.ranked = append(n.ranked, at)
		}
	}
	slices.SortStableFunc(n.ranked, func(a, b int) int { return edges[b].Priority - edges[a].Priority })
}

// choose evaluates the node's targets, then finds the first edge with a priority that leads to one of them and whose
// condition is true. It does not evaluate the conditions after it.
func (f *flow) choose(i int, v *values) decision {
	n := &f.plan.nodes[i]
	c := decision{first: -1}
	if n.Next != nil {
		ids, err := v.choose(n.Next)
		if err == nil {
			c.to, err = f.targets(n, ids)
		}
		if err != nil {
			f.misrouted(i, -1, &valueError{"next", "the agent " + n.ID, n.Next.Source(), err})
			c.to = map[string]bool{} // no target
			return c
		}
	}
	for _, at := range n.ranked {
		if !c.allows(&f.edges[at]) {
			continue
		}
		value, taken, err := f.cross(&f.edges[at], v)
		if err != nil {
			f.misrouted(i, at, err)
			if f.stopped != nil || err.what == "the transform" { // the condition was true
				return c
			}
			continue
		}
		if taken {
			c.first, c.value = at, value
			return c
		}
	}
	return c
}

// targets returns the targets of a node's edges, each with whether it is among the ids, and an error for another id.
func (f *flow) targets(n *planNode, ids []string) (map[string]bool, error) {
	to := make(map[string]bool, len(n.out))
	for _, at := range n.out {
		to[f.edges[at].To] = false
	}
	for _, id := range ids {
		if _, ok := to[id]; !ok {
			return nil, fmt.Errorf("no edge leads to %q", visible.Cut(id, 60))
		}
		to[id] = true
	}
	return to, nil
}

// valueError reports an expression of a node or an edge without a value.
type valueError struct {
	what, of, source string
	err              error
}

func (e *valueError) Error() string {
	message := e.err.Error()
	var bad *expression.EvalError
	if errors.As(e.err, &bad) { // its text would repeat the expression
		message = bad.Message
	}
	return fmt.Sprintf("%s of %s, %q: %s", e.what, e.of, e.source, message)
}

func (e *valueError) Unwrap() error { return e.err }

// currentInput returns the input of the node's current call: the values of its edges, or its previous output in a later
// round of a loop.
func (n *nodeState) currentInput() json.RawMessage {
	if n.round > 0 {
		return n.again
	}
	return n.input
}

// loops decides after an output whether a node with a loop is called again. It returns false if the loop has ended and
// the output is final; otherwise it has scheduled the next call or failed the node. A call after which until has no
// value counts as failed.
func (f *flow) loops(i int, output *data, run string) bool {
	n, loop := &f.nodes[i], f.plan.nodes[i].Loop
	v := values{output, &f.input, f.state}
	done, err := v.test(loop.Until)
	switch {
	case err != nil:
		err = &valueError{"until", "the agent " + f.plan.nodes[i].ID, loop.Until.Source(), err}
		f.failAfter(i, run, outcome{message: err.Error(), err: err})
		return true
	case done:
		return false
	case n.round+1 >= loop.Max && loop.Fail:
		message := fmt.Sprintf("the loop of the agent %s has not ended after %d calls: %q does not hold", f.plan.nodes[i].ID, loop.Max, visible.Cut(loop.Until.Source(), 60))
		f.failAfter(i, run, outcome{code: event.NoticeLoopLimit, message: message})
		return true
	case n.round+1 >= loop.Max:
		f.records = append(f.records, &event.Notice{Code: event.NoticeLoopLimit,
			Message: fmt.Sprintf("the loop of the agent %s ended after %d calls, before %q held", f.plan.nodes[i].ID, loop.Max, visible.Cut(loop.Until.Source(), 60))})
		return false
	}
	n.round++
	n.phase, n.attempt, n.again, n.cause = PhaseDue, 1, output.raw, endOf(run)
	f.starts = append(f.starts, f.call(i, n.again, n.cause))
	return true
}
