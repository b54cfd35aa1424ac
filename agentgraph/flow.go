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

// flow is the state of one run. It starts nothing itself: it receives how calls
// ended, and returns which are to be made next. So it is the same function whether
// the ends come from agents or, after a crash, from the log.
type flow struct{ progress }

// progress is how far a run has come, from which its result and state are read.
type progress struct {
	*plan
	input data
	nodes []nodeState

	starts  []*call // to be made, in the order in which they became due
	delayed []*call // to be made after a pause

	stopped *failure   // why nothing new begins
	first   *failure   // the first error
	saved   bool       // the fallback was asked to save the run, if there is one
	rescued bool       // and it has given the run's output
	errs    []*failure // all that went wrong
	outputs int        // how many nodes have an output, their own or a fallback's
	// records are further events that the graph's own run stores, in this order.
	records []event.Data
	held    []int           // nodes that wait for an approval
	waits   []*call         // whose agents wait for somebody
	standIn int             // how many calls of the fallback in place of a node neither ended nor wait
	state   map[string]any  // shared by the nodes; nil if the graph has none
	large   map[string]bool // keys of it that are not written to the log any more
	crossed []EdgeState     // what became of the edges, if somebody wants to know
}

type nodeState struct {
	phase    Phase
	left     int // edges that are not resolved
	taken    bool
	last     int               // the source whose edge was taken last
	followed bool              // one of its edges was taken
	calls    int               // that were wanted
	made     int               // and begun
	cause    string            // the run after which it starts
	parts    []json.RawMessage // by source, if there are several
	input    json.RawMessage
	output   data
	has      bool // it has an output
	ended    string
	attempt  int // calls since its input came
	round    int // of a loop, from 0
	approved bool
	again    json.RawMessage // the input of a later round
	refused  bool            // a call of it as the fallback failed
	asked    json.RawMessage // what it was given as the fallback
	answered data            // and gave; nothing if it has no raw
}

// call is one run of a node's agent.
type call struct {
	workflow.Child
	node   int
	number int // of the node's calls, from 1
	// standIn is the node that the fallback is asked for, -1 for a node's own call.
	standIn int
	// rescue is the fallback's call that is to save the run.
	rescue bool
	begun  bool
	pause  int       // which retry it is, from 1: its pause grows
	until  time.Time // when the pause is over, once it is known
}

// failure is one error of a run.
type failure struct {
	node     int
	edge     int    // -1 if it was none
	routing  bool   // an edge, or the choice among edges, has failed, and not the node's agent
	code     string // of the error event
	message  string
	err      error // nil if it comes from the log
	limit    bool  // of the turn, which nobody can get around
	attempts int
	cause    string // the run that failed
	after    string // or without one, the parent of the node's
	input    json.RawMessage
}

func newFlow(p *plan, input json.RawMessage, cause string) *flow {
	f := &flow{progress{plan: p, input: dataOf(input), nodes: make([]nodeState, len(p.nodes))}}
	for i := range p.nodes {
		f.nodes[i].left, f.nodes[i].phase = p.nodes[i].in, PhaseWaiting
	}
	f.share(p.state)
	n := &f.nodes[p.entry]
	n.input, n.cause = f.input.raw, cause
	f.begin(p.entry)
	return f
}

// begin makes a node's own call due, unless a person has to approve it first.
func (f *flow) begin(i int) {
	if f.asks(i) {
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

// started notes that a call is made.
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

// goesOn notes that a call resumes that was cut off, or waited.
func (f *flow) goesOn(c *call) {
	if at := slices.Index(f.waits, c); at >= 0 {
		f.waits = slices.Delete(f.waits, at, at+1)
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

// problem returns what is wrong with an outcome, "" if nothing is.
func (o *outcome) problem() string {
	if o.reason == event.FinishReasonStop {
		return ""
	}
	return (&workflow.Result{Reason: o.reason, Message: o.message}).Failure().Error()
}

// end takes in how a call ended.
func (f *flow) end(c *call, o outcome) {
	problem := o.problem()
	switch {
	case o.reason == event.FinishReasonInputRequired && (f.stopped == nil || c.rescue):
		f.waits = append(f.waits, c)
		if c.standIn >= 0 {
			f.standIn--
		}
		if f.nodes[c.node].phase == PhaseRunning {
			f.nodes[c.node].phase = PhasePaused
		}
		return
	case o.reason == event.FinishReasonInputRequired: // for what nobody needs any more
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
		fail := &failure{node: c.node, edge: -1, code: o.code, message: problem, err: o.err, limit: o.reason == event.FinishReasonLimit, attempts: n.attempt, cause: o.run, input: n.given()}
		if f.stopped == nil && f.mayRetry(fail) {
			n.phase, n.cause = PhaseDue, endOf(o.run)
			n.attempt++
			again := f.call(c.node, n.given(), n.cause)
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
			err = &nodeError{f.plan.nodes[c.node].ID, "transform", t.Source(), err}
			f.fail(&failure{node: c.node, edge: -1, message: err.Error(), err: err, attempts: n.attempt, cause: o.run, input: n.given()})
			return
		}
		output = data{raw: output.raw}
	}
	f.finish(c.node, output, o.run)
}

func endOf(run string) string { return run + ":harness_end" }

// mayRetry reports whether a node whose call failed is called again. The limits of
// the turn would only be met again, and a tool that was refused would be refused again.
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

// finish gives a node its output and takes its edges.
func (f *flow) finish(i int, output data, run string) {
	n := &f.nodes[i]
	n.phase, n.output, n.has, n.ended = PhaseFinished, output, true, run
	f.outputs++
	if f.stopped != nil {
		return
	}
	f.leave(i, true)
}

// leave resolves the edges of a node; without an output none is taken.
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

// try evaluates an edge of a node. An error is handled.
func (f *flow) try(i, at int, v *values) (value json.RawMessage, taken bool) {
	value, taken, err := f.cross(&f.edges[at], v)
	if err != nil {
		f.misrouted(i, at, err)
	}
	return value, taken && err == nil
}

// mark notes what became of an edge.
func (f *flow) mark(at int, taken bool) {
	switch {
	case f.crossed == nil:
	case taken:
		f.crossed[at] = EdgeTaken
	default:
		f.crossed[at] = EdgeNotTaken
	}
}

// cross evaluates an edge: whether it is taken, and with what.
func (f *flow) cross(e *planEdge, v *values) (value json.RawMessage, taken bool, failed error) {
	if e.Condition != nil {
		holds, err := v.test(e.Condition)
		if err != nil {
			return nil, false, &routeError{e.name(), "condition", e.Condition.Source(), err}
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
		return nil, false, &routeError{e.name(), "transform", e.Transform.Source(), err}
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

// arrive gives the target of an edge that is taken its value. Of several edges from
// one source the first one counts.
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

// resolve counts an edge to a node, and makes the node due, or skips it, when it was
// the last one. What is skipped resolves its own edges.
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

// fill makes what a node begins with of what its edges gave.
func (f *flow) fill(i int) {
	n, sources := &f.nodes[i], f.plan.nodes[i].sources
	n.cause = endOf(f.nodes[n.last].ended)
	if len(sources) > 1 {
		n.input = object(func(k int) json.RawMessage { return f.plan.nodes[sources[k]].quoted }, n.parts)
		n.parts = nil
	}
}

// misrouted handles an error in finding the way from a node that has an output. edge is
// -1 if it is not that of one edge.
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

// fail handles a node whose agent failed and is not tried again.
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

// report is what a fallback is given.
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

// forModel are the words that the fallback's model may read: neither what a guard has
// refused nor what a panic happened to say.
func (fail *failure) forModel() string {
	switch fail.code {
	case event.CodeTripwire:
		return "withheld by a guard"
	case event.CodeInternal:
		return "internal error"
	}
	return fail.message
}

// stop lets nothing new begin. What runs is cancelled by the caller, who then calls
// save.
func (f *flow) stop(fail *failure) {
	f.stopped = fail
	for _, c := range slices.Concat(f.starts, f.delayed) {
		if c.begun {
			continue
		}
		n := &f.nodes[c.node]
		n.calls-- // it is not made
		if c.standIn < 0 {
			switch n.phase = PhaseWaiting; {
			case n.attempt > 1: // it failed before and was to be called again
				n.phase = PhaseFailed
			case n.round > 0:
				n.phase = PhaseCancelled
			}
		}
	}
	f.starts, f.delayed = nil, nil
	f.held = nil
	for _, c := range f.waits {
		f.end(c, outcome{reason: event.FinishReasonCanceled})
	}
	f.waits = nil
}

// save asks the fallback to save a run that was stopped, once.
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

// bothFailed adds the fallback's error to the one it was asked for.
func (f *flow) bothFailed(fail *failure, problem string) {
	fail.message = fmt.Sprintf("%s; and the fallback %s failed: %s", fail.message, f.plan.nodes[f.fallback].ID, problem)
}

// standInEnded gives a failed node the fallback's output for its own.
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

// due returns at most as many calls as are given, to be made now, in the order of the file. The
// slice is valid until the next call ends.
func (f *flow) due(most int) []*call {
	batch := f.starts
	if len(batch) > 1 {
		slices.SortStableFunc(batch, func(a, b *call) int { return a.node - b.node })
	}
	if len(batch) <= most { // the slice is used again
		f.starts = batch[:0]
		return batch
	}
	f.starts = batch[most:]
	return batch[:most:most]
}
