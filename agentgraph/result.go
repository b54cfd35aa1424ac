package agentgraph

import (
	"cmp"
	"encoding/json"
	"iter"
	"strings"
	"time"

	"github.com/agentarbor/arbor/event"
)

// Status is the outcome of a run.
type Status string

// The statuses of a run.
const (
	Completed           Status = "completed"
	CompletedWithErrors Status = "completed_with_errors" // under Continue
	Failed              Status = "failed"
	Recovered           Status = "recovered" // the fallback's output is the run's output
	Waiting             Status = "waiting"   // for approvals, or for answers to agents; Resume continues it
	Cancelled           Status = "cancelled" // it was interrupted and not continued
)

// Phase is the progress of a node in a run.
type Phase string

// The phases of a node. A run that is over has only the last five.
const (
	PhaseWaiting   Phase = "waiting" // for edges
	PhaseAsking    Phase = "asking"  // for an approval
	PhaseDue       Phase = "due"     // it starts next, or is called again
	PhaseRunning   Phase = "running"
	PhasePaused    Phase = "paused" // its agent waits for an answer
	PhaseFinished  Phase = "finished"
	PhaseFailed    Phase = "failed"
	PhaseSkipped   Phase = "skipped"
	PhaseCancelled Phase = "cancelled"
	PhaseNotRun    Phase = "not_run"
)

// EdgeState is the state of an edge in a run.
type EdgeState string

// The states of an edge.
const (
	EdgeWaiting  EdgeState = "waiting" // for its source; in a run that is over, the source never finished
	EdgeTaken    EdgeState = "taken"
	EdgeNotTaken EdgeState = "not_taken"
)

// ResultEdge is an edge of the graph in a run.
type ResultEdge struct {
	From  string    `json:"from"`
	To    string    `json:"to"`
	State EdgeState `json:"state"`
}

// Result is the outcome of a run, read from the session's log. Lists of nodes are in the order of the file, except
// Order. Only Error and State can be nil.
type Result struct {
	Status Status `json:"status"`
	// Open reports that the run has neither ended nor paused: it is still running, or was interrupted and can continue.
	// The log does not show which, so Status is that of an interrupted run.
	Open bool `json:"open,omitempty"`
	// Order lists the nodes that were called, each after its sources. Where the edges leave the order open, the order
	// of the file decides. The fallback is last if it was called. The log shows when each node started.
	Order     []string                   `json:"order"`
	Skipped   []string                   `json:"skipped"`   // no edge to them was taken; not called as fallback
	Failed    []string                   `json:"failed"`    // their last attempt failed; also the fallback
	Cancelled []string                   `json:"cancelled"` // they were running when the run was stopped
	NotRun    []string                   `json:"notRun"`    // the run ended before they started
	Calls     map[string]int             `json:"calls"`     // for every node
	Inputs    map[string]json.RawMessage `json:"inputs"`    // for nodes that started
	Outputs   map[string]json.RawMessage `json:"outputs"`
	Phases    map[string]Phase           `json:"phases"` // for every node
	Edges     []ResultEdge               `json:"edges"`  // in the order of the file
	// Terminal contains the outputs that no edge passed on. They are the run's output unless the run failed. If the run
	// was recovered, it contains only the fallback's output.
	Terminal map[string]json.RawMessage `json:"terminal"`
	// State is the shared state at the end, without keys that have no value. It is nil if the graph has no shared
	// state.
	State map[string]json.RawMessage `json:"state,omitempty"`
	// Error is the error that ended the run, or else the first error.
	Error *ResultError `json:"error,omitempty"`
}

// ResultError is an error of a node's agent or of an edge. Agent and Edge are both empty if neither caused it, such as
// a time limit that was reached between two calls.
type ResultError struct {
	Agent   string `json:"agent,omitempty"` // a node's id
	Edge    string `json:"edge,omitempty"`  // such as a->b
	Message string `json:"message"`
}

// Run is a run of a graph in a session. Its fields identify the event that started it.
type Run struct {
	ID    string    `json:"runId"`
	Turn  string    `json:"turnId"`
	Scope string    `json:"scope,omitempty"`
	Seq   int64     `json:"seq"`
	Time  time.Time `json:"time"`
	Result
}

// Runs reads the outcome of each run of this agent from a session's log, oldest first, and where it started. It includes
// the runs in the conversation and in inner scopes where the agent runs under its own name. The graph must be the one that
// was run. The error is an error of events.
func (a *Agent) Runs(events iter.Seq2[*event.Event, error]) ([]Run, error) {
	type own struct {
		*replay
		began  *event.Event
		reason event.FinishReason // of its last run
		open   bool
		failed *event.Failure // set if the run itself failed
	}
	var all []*own
	last := make(map[string]*own) // by scope
	// The runs of this graph and the runs inside them, where a node may have the same name.
	within := make(map[string]bool)
	user := json.RawMessage("null")
	for e, err := range events {
		if err != nil {
			return nil, err
		}
		switch d := e.Data.(type) {
		case *event.User:
			user = event.EncodeJSON(d.Content.PlainText())
		case *event.HarnessStart:
			if within[event.ParentRun(e.Scope)] {
				within[e.RunID] = true
				break
			}
			if e.Agent != a.name {
				break
			}
			within[e.RunID] = true
			if r := last[e.Scope]; r != nil && r.began.TurnID == e.TurnID && (r.open || r.reason == event.FinishReasonInputRequired) {
				r.resumedBy(e.RunID)
				r.open = true
				continue
			}
			input := user
			if e.Scope != "" {
				input = d.Input
			}
			r := &own{replay: newReplay(a.plan, e.RunID, e.Scope, input), began: e, open: true}
			last[e.Scope] = r
			all = append(all, r)
			continue
		case *event.HarnessEnd:
			if r := last[e.Scope]; r != nil && e.Agent == a.name {
				if r.open, r.reason = false, d.FinishReason; d.FinishReason != event.FinishReasonInputRequired {
					delete(last, e.Scope) // the run is over
				}
				continue
			}
		case *event.Failure:
			if r := last[e.Scope]; r != nil && e.Agent == a.name {
				r.failed = d
			}
		}
		for _, r := range last {
			r.apply(e)
		}
	}
	runs := make([]Run, len(all))
	for i, r := range all {
		r.rest()
		b := r.began
		runs[i] = Run{b.RunID, b.TurnID, b.Scope, b.Seq, b.Time, r.flow.result(r.open || r.reason == event.FinishReasonInputRequired)}
		runs[i].Open = r.open
		if !r.open && r.reason == event.FinishReasonInputRequired && runs[i].Status == Cancelled { // other calls are due
			runs[i].Status = Waiting
		}
		if r.failed != nil && runs[i].Status == Cancelled { // by a limit or a store error
			runs[i].Status = Failed
			if runs[i].Error == nil {
				runs[i].Error = &ResultError{Message: r.failed.Message}
			}
		}
	}
	return runs, nil
}

// status returns the status of the run.
func (f *progress) status() Status {
	switch {
	case f.rescued:
		return Recovered
	case f.stopped != nil && len(f.pausedCalls) > 0: // the fallback waits
		return Waiting
	case f.stopped != nil:
		return Failed
	}
	for i := range f.nodes {
		if p := f.nodes[i].phase; p == PhaseDue || p == PhaseRunning || p == PhaseCancelled {
			return Cancelled
		}
	}
	switch {
	case f.standIn > 0:
		return Cancelled
	case len(f.awaitingApproval) > 0, len(f.pausedCalls) > 0:
		return Waiting
	case f.first == nil:
		return Completed
	case f.outputs == 0:
		return Failed
	}
	return CompletedWithErrors
}

// phaseOf returns the phase of a node. continues is true if the run continues or can be resumed.
func (f *progress) phaseOf(i int, continues bool) Phase {
	n := &f.nodes[i]
	switch {
	case n.phase != PhaseWaiting && n.phase != PhaseSkipped || n.asked == nil:
	case n.answered.raw != nil: // as the fallback
		return PhaseFinished
	case n.refused:
		return PhaseFailed
	case continues:
		return PhaseRunning
	default:
		return PhaseCancelled
	}
	switch {
	case continues:
	case n.phase == PhaseWaiting, n.phase == PhaseAsking, n.phase == PhaseDue:
		return PhaseNotRun
	case n.phase == PhaseRunning, n.phase == PhasePaused:
		return PhaseCancelled
	}
	return n.phase
}

// result returns the result of the run. continues is true if the run continues or can be resumed.
func (f *progress) result(continues bool) Result {
	r := Result{Status: f.status(), Order: []string{}, Skipped: []string{}, Failed: []string{}, Cancelled: []string{}, NotRun: []string{},
		Calls: make(map[string]int, len(f.nodes)), Inputs: make(map[string]json.RawMessage), Outputs: make(map[string]json.RawMessage),
		Phases: make(map[string]Phase, len(f.nodes)), Edges: make([]ResultEdge, len(f.edges)), Terminal: make(map[string]json.RawMessage)}
	for _, i := range f.plan.sorted() {
		if n := &f.nodes[i]; n.attempt > 0 && n.made > 0 && (i != f.fallback || n.asked == nil) {
			r.Order = append(r.Order, f.plan.nodes[i].ID)
		}
	}
	if f.fallback >= 0 && f.nodes[f.fallback].asked != nil {
		r.Order = append(r.Order, f.plan.nodes[f.fallback].ID)
	}
	for i := range f.nodes {
		n, id := &f.nodes[i], f.plan.nodes[i].ID
		r.Calls[id], r.Phases[id] = n.made, f.phaseOf(i, continues)
		if n.made > 0 {
			r.Inputs[id] = f.inputOf(i)
		}
		if out := f.outputOf(i); out != nil {
			r.Outputs[id] = out
		}
		switch n.phase {
		case PhaseSkipped, PhaseWaiting:
			if n.refused && n.answered.raw == nil {
				r.Failed = append(r.Failed, id)
				continue
			}
		}
		switch n.phase {
		case PhaseSkipped:
			if n.made == 0 {
				r.Skipped = append(r.Skipped, id)
			}
		case PhaseFailed:
			r.Failed = append(r.Failed, id)
		case PhaseCancelled, PhaseRunning:
			r.Cancelled = append(r.Cancelled, id)
		case PhaseWaiting, PhaseAsking, PhaseDue:
			if !f.bare(i) && n.made == 0 {
				r.NotRun = append(r.NotRun, id)
			}
		}
	}
	for i := range f.edges {
		r.Edges[i] = ResultEdge{f.edges[i].From, f.edges[i].To, cmp.Or(f.edgeStates[i], EdgeWaiting)}
	}
	for _, i := range f.ends() {
		r.Terminal[f.plan.nodes[i].ID] = f.outputOf(i)
	}
	if f.state != nil {
		r.State = make(map[string]json.RawMessage, len(f.state))
		for k, v := range f.state {
			if v != nil {
				r.State[k] = event.EncodeJSON(v)
			}
		}
	}
	if fail := f.cause(); fail != nil {
		r.Error = &ResultError{Message: fail.message}
		if fail.edge >= 0 {
			r.Error.Edge = f.edges[fail.edge].name()
		} else {
			r.Error.Agent = f.plan.nodes[fail.node].ID
		}
	}
	return r
}

// cause returns the error that ended the run, or else the first error, or nil.
func (f *progress) cause() *failure {
	if f.stopped != nil {
		return f.stopped
	}
	return f.first
}

// ends returns the nodes whose outputs no edge passed on.
func (f *progress) ends() (ends []int) {
	if f.rescued {
		return []int{f.fallback}
	}
	for i := range f.nodes {
		n := &f.nodes[i]
		if n.has && !n.followed && (n.phase == PhaseFinished || n.phase == PhaseFailed) {
			ends = append(ends, i)
		}
	}
	return ends
}

// inputOf returns a node's input: the values of its edges, or the failure report if the node was called only as the
// fallback or to save the run.
func (f *progress) inputOf(i int) json.RawMessage {
	n := &f.nodes[i]
	if n.asked != nil && (f.stopped != nil || n.attempt == 0) {
		return n.asked
	}
	return n.input
}

// outputOf returns a node's output by the same rule, or nil.
func (f *progress) outputOf(i int) json.RawMessage {
	n := &f.nodes[i]
	if n.has && (!f.rescued || i != f.fallback) {
		return n.output.raw
	}
	return n.answered.raw
}

// output returns the run's output, and the text that represents it in a conversation.
func (f *progress) output() (json.RawMessage, string) {
	ends := f.ends()
	if len(ends) == 1 {
		out := f.outputOf(ends[0])
		words := event.OutputText(out)
		if f.body || f.single == ends[0] || f.single >= 0 && f.rescued {
			return out, words
		}
		return object(func(int) json.RawMessage { return f.plan.nodes[ends[0]].quoted }, []json.RawMessage{out}), words
	}
	values := make([]json.RawMessage, len(ends))
	var words strings.Builder
	for k, i := range ends {
		values[k] = f.outputOf(i)
		if k > 0 {
			words.WriteString("\n\n")
		}
		words.WriteString(f.plan.nodes[i].ID + ": " + event.OutputText(values[k]))
	}
	return object(func(k int) json.RawMessage { return f.plan.nodes[ends[k]].quoted }, values), words.String()
}
