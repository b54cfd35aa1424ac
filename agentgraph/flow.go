package agentgraph

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/agentarbor/arbor/agent/workflow"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/plainjson"
)

// flow is the state of one run. It starts nothing itself: it receives the outcomes of calls and returns the calls to
// make next. So it behaves the same whether the outcomes come from agents or, after a crash, from the log.
type flow struct{ progress }

// progress is how far a run has come. The run's result and state are computed from it.
type progress struct {
	*plan
	input data
	nodes []nodeState

	starts  []*call // to be made, in the order in which they became due
	delayed []*call // to be made after a pause

	stopped *failure   // why no new call starts
	first   *failure   // the first error
	saved   bool       // the fallback was asked to save the run, if there is one
	rescued bool       // the fallback gave the run's output
	errs    []*failure // all errors
	outputs int        // the number of nodes with an output, their own or a fallback's
	// records contains further events that the graph's own run stores, in order.
	records          []event.Data
	awaitingApproval []int           // nodes that wait for an approval
	pausedCalls      []*call         // calls whose agents wait for an answer
	standIn          int             // the number of running or due calls of the fallback in place of a node
	state            map[string]any  // shared by the nodes; nil if the graph has none
	large            map[string]bool // state keys that are no longer written to the log
	edgeStates       []EdgeState     // of edges that are resolved
}

type nodeState struct {
	phase    Phase
	left     int // unresolved incoming edges
	taken    bool
	last     int               // the source of the edge that was taken last
	followed bool              // one of its outgoing edges was taken
	calls    int               // calls that were scheduled
	made     int               // calls that were started
	cause    string            // the event after which it starts
	parts    []json.RawMessage // by source, if there are several
	input    json.RawMessage
	output   data
	has      bool // it has an output
	ended    string
	attempt  int // calls since its input arrived
	round    int // of a loop, from 0
	approved bool
	again    json.RawMessage // the input of a later round
	refused  bool            // it failed as the fallback
	asked    json.RawMessage // its input as the fallback
	answered data            // its output as the fallback; raw is nil if there is none
}

// call is one call of a node's agent.
type call struct {
	workflow.Child
	node   int
	number int // among the node's calls, from 1
	// standIn is the failed node for which the fallback is called, or -1.
	standIn int
	// rescue marks the fallback's call that may save the run.
	rescue bool
	begun  bool
	pause  int       // the number of the retry, from 1, for the length of its pause
	until  time.Time // when the pause is over, once that is known
}

// failure is an error of a run.
type failure struct {
	node     int
	edge     int    // -1 if no edge failed
	routing  bool   // an edge or the choice of edges failed, not the node's agent
	code     string // of the error event
	message  string
	err      error // nil if it was read from the log
	limit    bool  // a limit of the turn; retries and the fallback would meet it too
	attempts int
	cause    string // the run that failed
	after    string // without such a run, the parent that the node's run would have
	input    json.RawMessage
}

func newFlow(p *plan, input json.RawMessage, cause string) *flow {
	f := &flow{progress{plan: p, input: dataOf(input), nodes: make([]nodeState, len(p.nodes)), edgeStates: make([]EdgeState, len(p.edges))}}
	for i := range p.nodes {
		f.nodes[i].left, f.nodes[i].phase = p.nodes[i].in, PhaseWaiting
	}
	f.share(p.state)
	n := &f.nodes[p.entry]
	n.left++ // for the input of the run
	if p.fallback >= 0 && p.bare(p.fallback) {
		f.leave(p.fallback, false)
	}
	n.input, n.cause = f.input.raw, cause
	f.begin(p.entry)
	return f
}

// begin schedules a node's own call, unless a person must approve it first.
func (f *flow) begin(i int) {
	if f.needsApproval(i) {
		return
	}
	n := &f.nodes[i]
	n.phase = PhaseDue
	n.attempt++
	f.starts = append(f.starts, f.call(i, n.input, n.cause))
}

func (f *flow) call(i int, input json.RawMessage, cause string) *call {
	n := &f.nodes[i]
	n.calls++
	c := &call{node: i, number: n.calls, standIn: -1}
	c.Tree, c.Ref, c.Order = f.plan.nodes[i].tree, f.plan.nodes[i].Ref, i
	if c.Key = f.plan.nodes[i].first; n.calls > 1 {
		c.Key = strconv.Itoa(n.calls) + "/" + f.plan.nodes[i].ID
	}
	c.Cause, c.Input, c.Timeout, c.Data = cause, input, f.plan.nodes[i].Timeout, c
	return c
}

// started marks a call as started.
func (f *flow) started(c *call) {
	c.begun = true
	n := &f.nodes[c.node]
	n.made++
	if c.standIn >= 0 || c.rescue {
		n.asked = c.Input
		return
	}
	n.phase = PhaseRunning
}

// resumed marks an interrupted or waiting call as running again.
func (f *flow) resumed(c *call) {
	if at := slices.Index(f.pausedCalls, c); at >= 0 {
		f.pausedCalls = slices.Delete(f.pausedCalls, at, at+1)
		if c.standIn >= 0 {
			f.standIn++
		}
		if f.nodes[c.node].phase == PhasePaused {
			f.nodes[c.node].phase = PhaseRunning
		}
	}
}

// outcome is how a call ended.
type outcome struct {
	run     string // the run whose harness_end is the call's last event
	reason  event.FinishReason
	output  json.RawMessage
	code    string
	message string
	err     error
}

// problem returns the error message of an outcome, or "".
func (o *outcome) problem() string {
	if o.reason == event.FinishReasonStop {
		return ""
	}
	return (&workflow.Result{Reason: o.reason, Message: o.message}).Failure().Error()
}

// end applies the outcome of a call.
func (f *flow) end(c *call, o outcome) {
	problem := o.problem()
	switch {
	case o.reason == event.FinishReasonInputRequired && (f.stopped == nil || c.rescue):
		f.pausedCalls = append(f.pausedCalls, c)
		if c.standIn >= 0 {
			f.standIn--
		}
		if f.nodes[c.node].phase == PhaseRunning {
			f.nodes[c.node].phase = PhasePaused
		}
		return
	case o.reason == event.FinishReasonInputRequired: // the answer is no longer needed
		o.reason = event.FinishReasonCanceled
	}
	switch {
	case o.reason == event.FinishReasonCanceled:
		if c.standIn < 0 && !c.rescue {
			f.nodes[c.node].phase = PhaseCancelled
		}
		return
	case c.rescue:
		f.rescueEnded(c, problem, o)
		return
	case c.standIn >= 0:
		f.standIn--
		f.standInEnded(c, problem, o)
		return
	}
	n := &f.nodes[c.node]
	n.ended = o.run
	if problem != "" {
		o.message = problem
		fail := f.failureOf(c.node, o.run, o)
		if f.stopped == nil && f.mayRetry(fail) {
			n.phase, n.cause = PhaseDue, endOf(o.run)
			n.attempt++
			again := f.call(c.node, n.currentInput(), n.cause)
			again.pause = n.attempt - 1
			f.delayed = append(f.delayed, again)
			return
		}
		f.fail(fail)
		return
	}
	output := dataOf(o.output)
	if len(f.plan.nodes[c.node].Update) > 0 && f.stopped == nil {
		f.update(c.node, &output)
	}
	if f.plan.nodes[c.node].Loop != nil && f.stopped == nil && f.loops(c.node, &output, o.run) {
		return
	}
	if t := f.plan.nodes[c.node].Transform; t != nil {
		value, err := (&values{&output, &f.input, f.state}).value(t)
		if err == nil {
			output.raw, err = encode(value)
		}
		if err != nil {
			err = &valueError{"transform", "the agent " + f.plan.nodes[c.node].ID, t.Source(), err}
			f.failAfter(c.node, o.run, outcome{message: err.Error(), err: err})
			return
		}
		output = data{raw: output.raw}
	}
	f.finish(c.node, output, o.run)
}

// failureOf returns the failure of a node whose last call ended with a run.
func (f *flow) failureOf(i int, run string, o outcome) *failure {
	n := &f.nodes[i]
	return &failure{node: i, edge: -1, code: o.code, message: o.message, err: o.err, limit: o.reason == event.FinishReasonLimit,
		attempts: n.attempt, cause: run, input: n.currentInput()}
}

// failAfter fails a node whose last call had an output.
func (f *flow) failAfter(i int, run string, o outcome) { f.fail(f.failureOf(i, run, o)) }

func endOf(run string) string { return run + ":harness_end" }

// mayRetry reports whether a node is called again after a failure. It does not retry when a limit of the turn was
// reached or a tool was refused, because a retry would fail the same way.
func (f *progress) mayRetry(fail *failure) bool {
	most := 0
	if f.onError.Strategy == Retry {
		most = f.onError.MaxRetries
	}
	if own := f.plan.nodes[fail.node].Retry; own != nil {
		most = own.Max
	}
	return fail.attempts <= most && !fail.limit && fail.code != event.CodeToolRefused
}

// finish sets the output of a node and takes its edges.
func (f *flow) finish(i int, output data, run string) {
	n := &f.nodes[i]
	n.phase, n.output, n.has, n.ended = PhaseFinished, output, true, run
	f.outputs++
	if f.stopped != nil {
		return
	}
	f.leave(i, true)
}

// leave resolves the outgoing edges of a node. If ok is false, none is taken.
func (f *flow) leave(i int, ok bool) {
	v := values{&f.nodes[i].output, &f.input, f.state}
	chosen := decision{first: -1}
	if ok && f.plan.nodes[i].chooses() {
		if chosen = f.choose(i, &v); f.stopped != nil {
			return
		}
	}
	for _, at := range f.plan.nodes[i].out {
		e := &f.edges[at]
		value, taken := chosen.value, ok && at == chosen.first
		if ok && e.Priority == 0 && chosen.allows(e) {
			if value, taken = f.try(i, at, &v); f.stopped != nil {
				return
			}
		}
		if taken {
			f.nodes[i].followed = true
			f.arrive(e, value)
		}
		f.mark(at, taken)
		f.resolve(e.to, i, taken)
	}
}

// try evaluates an edge of a node and handles its error.
func (f *flow) try(i, at int, v *values) (value json.RawMessage, taken bool) {
	value, taken, err := f.cross(&f.edges[at], v)
	if err != nil {
		f.misrouted(i, at, err)
	}
	return value, taken && err == nil
}

// mark stores the state of an edge.
func (f *flow) mark(at int, taken bool) {
	if f.edgeStates[at] = EdgeNotTaken; taken {
		f.edgeStates[at] = EdgeTaken
	}
}

// cross evaluates an edge and returns whether it is taken, and the value that it passes on.
func (f *flow) cross(e *planEdge, v *values) (value json.RawMessage, taken bool, failed *valueError) {
	if e.Condition != nil {
		holds, err := v.test(e.Condition)
		if err != nil {
			return nil, false, &valueError{"the condition", "the edge " + e.name(), e.Condition.Source(), err}
		}
		if !holds {
			return nil, false, nil
		}
	}
	if e.Transform == nil {
		return v.output.raw, true, nil
	}
	out, err := v.value(e.Transform)
	if err == nil {
		value, err = encode(out)
	}
	if err != nil {
		return nil, false, &valueError{"the transform", "the edge " + e.name(), e.Transform.Source(), err}
	}
	return value, true, nil
}

func encode(v any) (json.RawMessage, error) {
	raw, err := plainjson.Marshal(v)
	if err == nil && event.TooDeep(raw) {
		return nil, fmt.Errorf("the value is nested deeper than %d levels", event.MaxDepth)
	}
	return raw, err
}

// arrive passes a value to the target of an edge. If several edges of one source are taken, the first one counts.
func (f *flow) arrive(e *planEdge, value json.RawMessage) {
	n := &f.nodes[e.to]
	sources := f.plan.nodes[e.to].sources
	if len(sources) == 1 {
		if !n.taken {
			n.input = value
		}
		return
	}
	if n.parts == nil {
		n.parts = make([]json.RawMessage, len(sources))
	}
	if n.parts[e.slot] == nil {
		n.parts[e.slot] = value
	}
}

// resolve counts a resolved edge to a node. After the last one, the node becomes due or is skipped. A skipped node
// resolves its own edges.
func (f *flow) resolve(to, from int, taken bool) {
	if taken {
		f.nodes[to].taken, f.nodes[to].last = true, from
	}
	for reached := []int{to}; len(reached) > 0; {
		last := len(reached) - 1
		i := reached[last]
		reached = reached[:last]
		n := &f.nodes[i]
		switch n.left--; {
		case n.left > 0:
		case n.taken:
			f.fill(i)
			f.begin(i)
		default:
			n.phase = PhaseSkipped
			for _, at := range f.plan.nodes[i].out {
				f.mark(at, false)
				reached = append(reached, f.edges[at].to)
			}
		}
	}
}

// fill builds a node's input from the values of its edges.
func (f *flow) fill(i int) {
	n, sources := &f.nodes[i], f.plan.nodes[i].sources
	n.cause = endOf(f.nodes[n.last].ended)
	if len(sources) > 1 {
		n.input = object(func(k int) json.RawMessage { return f.plan.nodes[sources[k]].quoted }, n.parts)
		n.parts = nil
	}
}

// misrouted handles a routing error after a node's output. edge is -1 if the error is not about a single edge.
func (f *flow) misrouted(i, edge int, err error) {
	n := &f.nodes[i]
	fail := &failure{node: i, edge: edge, routing: true, message: err.Error(), err: err, attempts: n.attempt, cause: n.ended, input: n.input}
	f.note(fail)
	if f.onError.Strategy != Continue {
		f.stop(fail)
		return
	}
	f.records = append(f.records, &event.Notice{Code: event.NoticeRoutingError, Message: fail.message})
}

func (f *flow) note(fail *failure) {
	f.errs = append(f.errs, fail)
	if f.first == nil {
		f.first = fail
	}
}

// fail handles a failed node that is not retried.
func (f *flow) fail(fail *failure) {
	f.nodes[fail.node].phase = PhaseFailed
	f.note(fail)
	switch {
	case f.stopped != nil:
	case f.onError.Strategy != Continue:
		f.stop(fail)
	case f.fallback >= 0 && f.fallback != fail.node:
		c := f.call(f.fallback, f.report(fail), fail.parent())
		c.standIn = fail.node
		f.standIn++
		f.starts = append(f.starts, c)
	default:
		f.leave(fail.node, false)
	}
}

// report returns the fallback's input.
func (f *flow) report(fail *failure) json.RawMessage {
	input := fail.input
	if len(input) == 0 {
		input = json.RawMessage("null")
	}
	return event.EncodeJSON(struct {
		Agent    string          `json:"agent"`
		Error    string          `json:"error"`
		Attempts int             `json:"attempts"`
		Input    json.RawMessage `json:"input"`
	}{f.plan.nodes[fail.node].ID, fail.forModel(), fail.attempts, input})
}

// forModel returns the error message that the fallback's model may read. It omits what a guard refused and the text of
// a panic.
func (fail *failure) forModel() string {
	switch fail.code {
	case event.CodeTripwire:
		return "withheld by a guard"
	case event.CodeInternal:
		return "internal error"
	}
	return fail.message
}

// stop prevents new calls. The caller cancels the running ones, then calls save.
func (f *flow) stop(fail *failure) {
	f.stopped = fail
	for _, c := range slices.Concat(f.starts, f.delayed) {
		if c.begun {
			continue
		}
		n := &f.nodes[c.node]
		n.calls-- // it will not be made
		if c.standIn < 0 {
			switch n.phase = PhaseWaiting; {
			case n.attempt > 1: // it failed before and waited for a retry
				n.phase = PhaseFailed
			case n.round > 0:
				n.phase = PhaseCancelled
			}
		}
	}
	f.starts, f.delayed = nil, nil
	f.awaitingApproval = nil
	for _, c := range f.pausedCalls {
		f.end(c, outcome{reason: event.FinishReasonCanceled})
	}
	f.pausedCalls = nil
}

// save schedules the fallback to save a stopped run. It is called once.
func (f *flow) save() {
	fail := f.stopped
	f.saved = true
	if f.fallback < 0 || f.fallback == fail.node || fail.limit {
		return
	}
	c := f.call(f.fallback, f.report(fail), fail.parent())
	c.rescue = true
	f.starts = append(f.starts, c)
}

func (f *flow) rescueEnded(c *call, problem string, o outcome) {
	if problem != "" {
		f.nodes[c.node].refused = true
		f.bothFailed(f.stopped, problem)
		return
	}
	f.rescued = true
	f.nodes[c.node].answered = dataOf(o.output)
}

// bothFailed adds the fallback's error to the error that it was called for.
func (f *flow) bothFailed(fail *failure, problem string) {
	fail.message = fmt.Sprintf("%s; and the fallback %s failed: %s", fail.message, f.plan.nodes[f.fallback].ID, problem)
}

// standInEnded uses the fallback's output as the output of a failed node.
func (f *flow) standInEnded(c *call, problem string, o outcome) {
	if problem != "" {
		f.nodes[c.node].refused = true
		for _, fail := range f.errs {
			if fail.node == c.standIn && !fail.routing {
				f.bothFailed(fail, problem)
			}
		}
		f.leave(c.standIn, false)
		return
	}
	f.nodes[c.node].answered = dataOf(o.output)
	n := &f.nodes[c.standIn]
	n.output, n.has, n.ended = dataOf(o.output), true, o.run
	f.outputs++
	f.leave(c.standIn, true)
}

// due returns the calls to start now, at most this many, in the order of the file. The slice is valid until the next
// call ends.
func (f *flow) due(most int) []*call {
	batch := f.starts
	if len(batch) > 1 {
		slices.SortStableFunc(batch, func(a, b *call) int { return a.node - b.node })
	}
	if len(batch) <= most { // f.starts reuses the array
		f.starts = batch[:0]
		return batch
	}
	f.starts = batch[most:]
	return batch[:most:most]
}
