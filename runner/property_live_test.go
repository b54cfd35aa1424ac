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
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/tail"
	"github.com/agentarbor/arbor/view"
	"github.com/agentarbor/arbor/workflowagent"
)

// acts1 notes who acts in s1, nil being nobody.
func (w *world) acts1(r *runner.Runner) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acting = r
}

// checkReadFold reads the fold from inside of a turn: the runner that has it knows all that is
// stored, and the list says that somebody has it.
func (w *world) checkReadFold(info session.Info) {
	if !info.Leased {
		w.problem("the session %s is not leased while a model is asked", info.Key)
	}
	w.mu.Lock()
	acting, ours := w.acting, w.key == s1
	w.mu.Unlock()
	if acting == nil || !ours {
		return
	}
	err := acting.ReadFold(context.Background(), s1, func(f *session.Fold) error {
		if f.Seq < info.Seq {
			w.problem("ReadFold at %d in a turn whose log ends at %d", f.Seq, info.Seq)
		}
		return nil
	})
	if err != nil {
		w.problem("ReadFold: %v", err)
	}
}

// checkLive holds what others are told of a turn against the log: its report, and what they see who
// watch it from anywhere. The turn is the last one, or one before.
func (w *world) checkLive(r *runner.Runner) {
	ctx := context.Background()
	info, ok, err := session.Find(ctx, w.store, s1)
	require.NoError(w.t, err)
	require.False(w.t, info.Leased, "somebody has the session when the turn is over")
	if !ok {
		return
	}
	require.NoError(w.t, r.ReadFold(ctx, s1, func(f *session.Fold) error {
		var cold session.Fold
		for _, e := range w.log {
			cold.Apply(e)
		}
		require.Equal(w.t, cold.Seq, f.Seq)
		require.Equal(w.t, cold.Turn.ID, f.Turn.ID)
		require.Equal(w.t, cold.Turn.First, f.Turn.First)
		require.Equal(w.t, cold.Unfinished(), f.Unfinished())
		require.Equal(w.t, cold.Questions(), f.Questions())
		require.Equal(w.t, cold.Open(), f.Open())
		return nil
	}))
	store := must.Get(tail.New(w.storage))
	// However long the check takes, nobody who watches a turn that is cut off resumes it.
	turns := must.Get(live.New(r, store, live.WithAutoResume(func(*event.User) bool { return false })))
	defer func() { require.NoError(w.t, turns.Close(ctx)) }()

	var firsts []*event.Event
	for _, e := range w.log {
		if e.Type() == event.TypeUser {
			firsts = append(firsts, e)
		}
	}
	if len(firsts) == 0 {
		return
	}
	i := len(firsts) - 1
	if len(w.log)%3 == 0 {
		i = len(w.log) / 3 % len(firsts)
	}
	first, last := firsts[i], i == len(firsts)-1
	got := must.Get(turns.Report(ctx, s1, first.TurnID))
	var end *event.HarnessEnd // of the conversation's last run
	open, seq := true, int64(0)
	for _, e := range w.log[first.Seq-1:] {
		if e.TurnID != first.TurnID {
			break
		}
		seq = e.Seq
		if e.Scope == "" {
			switch d := e.Data.(type) {
			case *event.HarnessStart:
				open = true
			case *event.HarnessEnd:
				end, open = d, d.FinishReason == event.FinishReasonTransfer
			}
		}
	}
	want := live.Done
	switch {
	case !last && (open || end.FinishReason == event.FinishReasonInputRequired):
		want = live.Canceled
	case open:
		want = live.CutOff
	case end.FinishReason == event.FinishReasonInputRequired:
		want = live.Waiting
	case end.FinishReason == event.FinishReasonCanceled:
		want = live.Canceled
	case end.FinishReason == event.FinishReasonError, end.FinishReason == event.FinishReasonLimit:
		want = live.Failed
	}
	require.Equal(w.t, want, got.State)
	require.Equal(w.t, []int64{first.Seq, seq}, []int64{got.First, got.Seq})
	w.happened["a turn that is "+string(want)] = true

	after := first.Seq - 1 + int64(len(w.log))%(seq-first.Seq+2)
	if want == live.CutOff && after == seq {
		return // nothing comes
	}
	for entry, err := range turns.Watch(ctx, s1, first.Seq, session.Position{Seq: after}.String()) {
		require.NoError(w.t, err)
		after++
		require.Equal(w.t, after, entry.Event.Seq)
		w.requireSame(int(after)-1, entry.Event)
		if want == live.CutOff && after == seq {
			break
		}
	}
	require.Equal(w.t, seq, after, "a watch has left something out")
}

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
