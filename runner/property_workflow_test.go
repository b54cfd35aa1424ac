package runner_test

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agent/workflow"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/view"
	"github.com/agentarbor/arbor/workflowagent"
)

// flowShape is what checks must know of a workflow.
type flowShape struct {
	kind        string
	children    []string
	rounds      int // at most
	concurrency int // how many may run at once, 0 for any
	collect     bool
}

// flow makes a random workflow of agents of all kinds.
func (w *world) flow(name string, inside bool) agent.Agent {
	shape := &flowShape{kind: rapid.SampledFrom([]string{"sequential", "parallel", "loop"}).Draw(w.rt, "workflow"), rounds: 1}
	var children []agent.Agent
	for i := range rapid.IntRange(1, 4).Draw(w.rt, "children") {
		id := name + "-" + strconv.Itoa(i)
		child := w.node(id, inside)
		if !strings.HasPrefix(child.Name(), id) { // which several workflows share
			child = workflow.Named(child, id)
		}
		children, shape.children = append(children, child), append(shape.children, child.Name())
	}
	w.flows[name] = shape
	var a agent.Agent
	var err error
	var opts []workflowagent.Option
	if oneInFour.Draw(w.rt, "sees what is around") == 3 {
		opts = append(opts, workflowagent.WithHistory(view.LastTurns(2)))
	}
	switch shape.kind {
	case "sequential":
		a, err = workflowagent.Sequential(name, "In turn", children, opts...)
	case "loop":
		shape.rounds = 2
		opts = append(opts, workflowagent.WithLimit(2),
			workflowagent.Until(func(_ context.Context, _ *agent.Invocation, out json.RawMessage) (bool, error) {
				return len(out) > 12, nil
			}))
		a, err = workflowagent.Loop(name, "Again", children, opts...)
	default:
		shape.concurrency = oneInFour.Draw(w.rt, "concurrency")
		opts = append(opts, workflowagent.WithConcurrency(shape.concurrency))
		if shape.collect = rapid.Bool().Draw(w.rt, "collects"); shape.collect {
			opts = append(opts, workflowagent.Collect())
		}
		a, err = workflowagent.Parallel(name, "Side by side", children, opts...)
	}
	require.NoError(w.t, err)
	w.happened["a workflow, "+shape.kind] = true
	return a
}

// flowStory is what a log says of one run of a workflow, in all the runs that took it up.
type flowStory struct {
	*flowShape
	turn   string
	goesOn bool
	begun  int
	open   map[string]bool // scopes
	ok     map[string]bool
	waits  map[string]bool
	failed string // the child after whose failure nothing begins
}

// checkFlows holds the children of all workflows in a log against what their workflows
// say: which run, in which order, how many at once, and whether none was forgotten.
func (w *world) checkFlows(log []*event.Event) {
	byRun, byScope := make(map[string]*flowStory), make(map[string]*flowStory)
	for _, e := range log {
		around := byRun[event.ParentRun(e.Scope)]
		switch d := e.Data.(type) {
		case *event.HarnessStart:
			if around != nil {
				w.checkChild(around, e)
			}
			shape := w.flows[d.AgentID]
			if shape == nil || w.namesake(e) {
				break
			}
			f := byScope[e.Scope]
			if f == nil || !f.goesOn || f.flowShape != shape || f.turn != e.TurnID {
				f = &flowStory{flowShape: shape, turn: e.TurnID, open: make(map[string]bool), ok: make(map[string]bool), waits: make(map[string]bool)}
			}
			f.goesOn = true
			byRun[e.RunID], byScope[e.Scope] = f, f
		case *event.HarnessEnd:
			if around != nil && d.FinishReason == event.FinishReasonInputRequired {
				around.open[e.Scope], around.waits[e.Scope] = false, true
			} else if around != nil && d.FinishReason != event.FinishReasonTransfer {
				around.open[e.Scope], around.ok[e.Scope] = false, d.FinishReason == event.FinishReasonStop
				if !around.ok[e.Scope] && d.FinishReason != event.FinishReasonCanceled && (!around.collect || d.FinishReason == event.FinishReasonLimit) {
					around.failed = e.Agent
				}
			}
			f := byRun[e.RunID]
			if f == nil {
				break
			}
			if f.goesOn = d.FinishReason == event.FinishReasonInputRequired; d.FinishReason != event.FinishReasonStop {
				break
			}
			for scope, open := range f.open {
				if open || f.waits[scope] || !f.ok[scope] && !f.collect {
					w.t.Fatalf("seq %d: the workflow is done, and %s is not", e.Seq, scope)
				}
			}
			if f.begun == 0 || f.begun%len(f.children) != 0 {
				w.t.Fatalf("seq %d: the workflow of %v is done after %d children", e.Seq, f.children, f.begun)
			}
		}
	}
}

// checkChild holds the start of a child against what has happened in its workflow.
func (w *world) checkChild(f *flowStory, e *event.Event) {
	if _, again := f.open[e.Scope]; again {
		f.open[e.Scope] = true
		delete(f.waits, e.Scope)
		return
	}
	key := e.Scope[strings.LastIndexByte(e.Scope[:strings.LastIndexByte(e.Scope, '/')], '.')+1:]
	number, name, _ := strings.Cut(key, "/")
	n := must.Get(strconv.Atoi(number))
	f.begun++
	switch {
	case f.failed != "":
		w.t.Fatalf("seq %d: %s begins after %s has failed", e.Seq, name, f.failed)
	case n != f.begun || n > f.rounds*len(f.children) || f.children[(n-1)%len(f.children)] != name:
		w.t.Fatalf("seq %d: the child %s begins as number %d of %v", e.Seq, key, f.begun, f.children)
	}
	open := 1
	for scope := range f.open {
		if f.open[scope] {
			open++
		} else if f.kind != "parallel" && !f.ok[scope] {
			w.t.Fatalf("seq %d: %s begins after %s, which gave nothing", e.Seq, key, scope)
		}
	}
	if open > 1 && f.kind != "parallel" || f.concurrency > 0 && open > f.concurrency {
		w.t.Fatalf("seq %d: %d children run at once", e.Seq, open)
	}
	f.open[e.Scope] = true
}
