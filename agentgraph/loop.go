package agentgraph

import (
	"encoding/json"
	"fmt"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/visible"
)

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
		f.fail(&failure{node: i, edge: -1, message: err.Error(), err: err, attempts: n.attempt, cause: run, input: n.currentInput()})
		return true
	case done:
		return false
	case n.round+1 >= loop.Max && loop.Fail:
		message := fmt.Sprintf("the loop of the agent %s has not ended after %d calls: %q does not hold", f.plan.nodes[i].ID, loop.Max, visible.Cut(loop.Until.Source(), 60))
		f.fail(&failure{node: i, edge: -1, code: event.NoticeLoopLimit, message: message, attempts: n.attempt, cause: run, input: n.currentInput()})
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
