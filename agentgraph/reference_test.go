package agentgraph_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agentgraph"
)

// The interpreter in this file computes the outcome of a run of a graph a second
// time, slowly and without agents, events or goroutines, so that the engine can be
// compared with it. It follows the specification and not the engine. It knows the
// time that each call takes, and with it what runs beside what and what a failure
// cancels.

// behaviour is what the agent of one node does.
type behaviour struct {
	output   string // JSON
	failures int    // so many calls fail first; -1: all of them
	message  string // of these failures
	takes    time.Duration
	tool     bool // it is a tool, which takes mappings alone
}

// judge is the meaning of the expressions on an edge, nil for none.
type judge struct {
	test   func(output, input any) (bool, error)
	change func(output, input any) (any, error)
}

// outlook is the outcome of a run.
type outlook struct {
	Status                                    string
	Order, Skipped, Failed, Cancelled, NotRun []string
	Calls                                     map[string]int
	Inputs, Outputs, Terminal                 map[string]any
	ErrorAgent, ErrorEdge                     string
	ErrorSays                                 []string // parts of the message
	State                                     map[string]any
	Output                                    any // of the graph as an agent, if it has one
	Edges                                     []string

	// tied says that two things happen at a time at which the specification does not
	// say which one comes first.
	tied bool
}

// refCall is one call of a node's agent, in the time of the interpreter.
type refCall struct {
	node  string
	kind  string // "own", "stand-in" or "rescue"
	of    string // the node that the fallback is asked for
	input any
	ends  time.Duration
	born  int
	// number counts the calls of the node.
	number int
}

type refNode struct {
	open      int // edges that are not resolved
	arrived   map[string]any
	input     any
	attempts  int
	calls     int
	state     string // "", "ready", "ran", "failed", "skipped" or "cancelled"
	output    any
	has       bool
	leftAlong bool
	ownCall   bool // it was called for itself
	rounds    int  // of its loop that are over
	approved  bool
}

type refError struct {
	agent, edge string
	routing     bool
	says        []string
	input       any
	attempts    int
}

type reference struct {
	graph  *agentgraph.Graph
	does   map[string]behaviour
	judges []judge
	input  any

	at      map[string]int // place in the file
	nodes   map[string]*refNode
	ready   []*refCall
	live    []*refCall
	now     time.Duration
	born    int
	stopped *refError
	errs    []*refError
	success int
	rescued bool
	asked   bool // the fallback
	helped  bool // it gave an output
	refused bool // a call of it failed
	look    *outlook

	state  map[string]any
	waits  []string        // nodes that a person has to allow
	denied map[string]bool // what the person says
}

// interpret plays a graph. The engine's concurrency, 0 for no bound, and settle time
// decide together with the times of calls what is simultaneous.
func interpret(g *agentgraph.Graph, does map[string]behaviour, judges []judge, input any, concurrency int, settle time.Duration) *outlook {
	return interpretWith(g, does, judges, input, concurrency, settle, nil)
}

// interpretWith also knows which nodes a person denies; all others are approved.
func interpretWith(g *agentgraph.Graph, does map[string]behaviour, judges []judge, input any, concurrency int, settle time.Duration, denied map[string]bool) *outlook {
	r := &reference{graph: g, does: does, judges: judges, input: input, at: map[string]int{}, nodes: map[string]*refNode{},
		look:  &outlook{Calls: map[string]int{}, Inputs: map[string]any{}, Outputs: map[string]any{}, Terminal: map[string]any{}},
		state: map[string]any{}, denied: denied}
	for _, k := range g.State {
		if k.Initial != nil {
			r.state[k.Name] = k.Initial
		}
	}
	for i, n := range g.Nodes {
		r.at[n.ID] = i
		r.nodes[n.ID] = &refNode{arrived: map[string]any{}}
		r.look.Calls[n.ID] = 0
	}
	r.look.Edges = slices.Repeat([]string{"waiting"}, len(g.Edges))
	reached := func(id string) bool {
		return id == g.Entrypoint || slices.ContainsFunc(g.Edges, func(e agentgraph.Edge) bool { return e.To == id })
	}
	for i, e := range g.Edges {
		if reached(e.From) {
			r.nodes[e.To].open++
		} else {
			r.look.Edges[i] = "not_taken"
		}
	}
	r.nodes[g.Entrypoint].input = input
	r.begin(g.Entrypoint)
	for {
		r.start(concurrency)
		if len(r.live) == 0 {
			if r.ask() {
				continue
			}
			break
		}
		r.handle(r.next(settle))
	}
	return r.conclude()
}

func (r *reference) add(node, kind, of string, input any) {
	r.ready = append(r.ready, &refCall{node: node, kind: kind, of: of, input: input})
}

func (r *reference) begin(id string) {
	n := r.nodes[id]
	if r.graph.Nodes[r.at[id]].Human != nil && !n.approved {
		r.waits = append(r.waits, id)
		return
	}
	n.state = "ready"
	n.attempts = 1
	r.add(id, "own", "", n.input)
}

// start starts what is ready, in the order of the file.
func (r *reference) start(concurrency int) {
	slices.SortStableFunc(r.ready, func(a, b *refCall) int { return r.at[a.node] - r.at[b.node] })
	for len(r.ready) > 0 && (concurrency == 0 || len(r.live) < concurrency) {
		c := r.ready[0]
		r.ready = r.ready[1:]
		n := r.nodes[c.node]
		n.calls++
		r.born++
		c.born, c.number, c.ends = r.born, n.calls, r.now+r.takes(c)
		r.live = append(r.live, c)
		r.look.Calls[c.node]++
		r.asked = r.asked || c.kind != "own"
		if (c.kind != "stand-in" || !n.ownCall) && (c.kind != "own" || n.rounds == 0) { // an output that replaces others' does not hide its own part
			r.look.Inputs[c.node] = c.input
		}
		n.ownCall = n.ownCall || c.kind == "own"
	}
}

// next lets time pass until calls have ended that are handled together: those that end
// within the settle time of the first one, or all that run if they end before.
func (r *reference) next(settle time.Duration) (ended []*refCall) {
	first := slices.MinFunc(r.live, func(a, b *refCall) int { return int(a.ends - b.ends) }).ends
	last := first
	for _, c := range r.live {
		switch {
		case c.ends < first+settle || c.ends == first:
			ended = append(ended, c)
			last = max(last, c.ends)
		case c.ends == first+settle:
			r.look.tied = true
		}
	}
	switch {
	case len(ended) == len(r.live):
		r.now = last
	default:
		r.now = first + settle
	}
	if settle == 0 && len(ended) > 1 {
		r.look.tied = true
	}
	r.live = slices.DeleteFunc(r.live, func(c *refCall) bool { return slices.Contains(ended, c) })
	slices.SortStableFunc(ended, func(a, b *refCall) int {
		if a.node != b.node {
			return r.at[a.node] - r.at[b.node]
		}
		return a.born - b.born
	})
	return ended
}

func (r *reference) handle(ended []*refCall) {
	wasStopped := r.stopped != nil
	for _, c := range ended {
		does := r.does[c.node]
		if r.refuses(c) {
			r.erred(c, "the input does not fit")
		} else if r.takes(c) < does.takes {
			r.erred(c, "had no answer after")
		} else if does.failures < 0 || c.number <= does.failures {
			r.erred(c, does.message)
		} else {
			r.succeeded(c, refValue(does.output))
		}
	}
	if r.stopped != nil && !wasStopped {
		for _, c := range r.live {
			r.nodes[c.node].state = "cancelled"
		}
		r.live = nil
		if f := r.graph.OnError.Fallback; f != "" && f != r.stopped.agent {
			r.add(f, "rescue", "", r.stopped.report())
		}
	}
}

func (e *refError) report() any {
	return map[string]any{"agent": e.agent, "error": e.says, "attempts": json.Number(fmt.Sprint(e.attempts)), "input": e.input}
}

func (r *reference) succeeded(c *refCall, output any) {
	r.helped = r.helped || c.kind != "own"
	switch c.kind {
	case "rescue":
		r.rescued = true
		r.look.Outputs[c.node] = output
		return
	case "stand-in":
		if !r.nodes[c.node].has {
			r.look.Outputs[c.node] = output
		}
	}
	id := c.node
	if c.kind == "stand-in" {
		id = c.of
	} else {
		r.nodes[id].state = "ran"
	}
	n := r.nodes[id]
	if c.kind == "own" && r.stopped == nil {
		r.write(id, output)
		if r.stopped == nil && r.loops(c, output) {
			return
		}
	}
	if c.kind == "own" && !r.changes(c, &output) {
		return
	}
	n.output, n.has = output, true
	r.look.Outputs[id] = output
	r.success++
	r.leave(id, true)
}

func (r *reference) erred(c *refCall, message string) {
	n := r.nodes[c.node]
	r.refused = r.refused || c.kind != "own"
	switch c.kind {
	case "rescue":
		r.stopped.says = append(r.stopped.says, message)
		return
	case "stand-in":
		for _, e := range r.errs {
			if e.agent == c.of && !e.routing {
				e.says = append(e.says, message)
			}
		}
		r.leave(c.of, false)
		return
	}
	if r.stopped == nil && n.attempts <= r.retries(c) {
		n.attempts++
		r.add(c.node, "own", "", c.input)
		return
	}
	r.lost(c.node, &refError{agent: c.node, says: []string{message}, input: c.input, attempts: n.attempts})
}

// lost gives a node up.
func (r *reference) lost(id string, e *refError) {
	h := r.graph.OnError
	r.nodes[id].state = "failed"
	r.errs = append(r.errs, e)
	switch {
	case r.stopped != nil:
	case h.Strategy != agentgraph.Continue:
		r.stop(e)
	case h.Fallback != "" && h.Fallback != id:
		r.add(h.Fallback, "stand-in", id, e.report())
	default:
		r.leave(id, false)
	}
}

func (r *reference) stop(e *refError) {
	r.stopped = e
	for _, c := range r.ready {
		n := r.nodes[c.node]
		n.state = ""
		if n.attempts > 1 { // it has failed, and is not called again
			n.state = "failed"
		} else if n.rounds > 0 {
			n.state = "cancelled"
		}
	}
	r.ready, r.waits = nil, nil
}

// leave resolves the edges of a node.
func (r *reference) leave(id string, ok bool) {
	n := r.nodes[id]
	var open func(edge int) bool
	if ok && r.stopped == nil {
		if open = r.choose(id); r.stopped != nil {
			return
		}
	}
	for i, e := range r.graph.Edges {
		if e.From != id || r.stopped != nil {
			continue
		}
		taken, value, err := false, any(nil), error(nil)
		if ok && open(i) {
			taken, value, err = r.judges[i].cross(n.output, r.input)
		}
		to := r.nodes[e.To]
		if err != nil {
			if r.misroutes(id, e.From+"->"+e.To, e.From+"->"+e.To); r.stopped != nil {
				return
			}
		}
		r.look.Edges[i] = "not_taken"
		if taken {
			r.look.Edges[i] = "taken"
			n.leftAlong = true
			if _, there := to.arrived[id]; !there {
				to.arrived[id] = value
			}
		}
		r.resolved(e.To)
	}
}

// misroutes notes an error of routing, of an edge or, with "", of the node.
func (r *reference) misroutes(id, edge, says string) {
	n := r.nodes[id]
	fail := &refError{agent: id, edge: edge, routing: true, says: []string{says}, input: n.input, attempts: n.attempts}
	r.errs = append(r.errs, fail)
	if r.graph.OnError.Strategy != agentgraph.Continue {
		r.stop(fail)
	}
}

func (j judge) cross(output, input any) (bool, any, error) {
	if j.test != nil {
		if yes, err := j.test(output, input); err != nil || !yes {
			return false, nil, err
		}
	}
	if j.change == nil {
		return true, output, nil
	}
	value, err := j.change(output, input)
	return err == nil, value, err
}

func (r *reference) resolved(id string) {
	n := r.nodes[id]
	if n.open--; n.open > 0 {
		return
	}
	if len(n.arrived) == 0 {
		n.state = "skipped"
		for i, e := range r.graph.Edges {
			if e.From == id {
				r.look.Edges[i] = "not_taken"
				r.resolved(e.To)
			}
		}
		return
	}
	sources := map[string]bool{}
	for _, e := range r.graph.Edges {
		if e.To == id {
			sources[e.From] = true
		}
	}
	n.input = n.arrived
	if len(sources) == 1 {
		for _, v := range n.arrived {
			n.input = v
		}
	}
	r.begin(id)
}

func (r *reference) conclude() *outlook {
	o := r.look
	o.State = r.state
	for placed := map[string]bool{}; len(placed) < len(r.graph.Nodes); {
		next := r.graph.Nodes[slices.IndexFunc(r.graph.Nodes, func(n agentgraph.Node) bool {
			return !placed[n.ID] && !slices.ContainsFunc(r.graph.Edges, func(e agentgraph.Edge) bool { return e.To == n.ID && !placed[e.From] })
		})].ID
		placed[next] = true
		if r.nodes[next].ownCall && (next != r.graph.OnError.Fallback || !r.asked) {
			o.Order = append(o.Order, next)
		}
	}
	if r.asked {
		o.Order = append(o.Order, r.graph.OnError.Fallback)
	}
	for _, n := range r.graph.Nodes {
		s := r.nodes[n.ID]
		if n.ID == r.graph.OnError.Fallback && r.refused && !r.helped && (s.state == "" || s.state == "skipped") {
			o.Failed = append(o.Failed, n.ID)
			continue
		}
		switch s.state {
		case "skipped":
			if s.calls == 0 {
				o.Skipped = append(o.Skipped, n.ID)
			}
		case "failed":
			o.Failed = append(o.Failed, n.ID)
		case "cancelled":
			o.Cancelled = append(o.Cancelled, n.ID)
		case "":
			if s.calls == 0 && !r.onlyFallback(n.ID) {
				o.NotRun = append(o.NotRun, n.ID)
			}
		}
	}
	switch {
	case r.rescued:
		o.Status = "recovered"
		o.Terminal[r.graph.OnError.Fallback] = o.Outputs[r.graph.OnError.Fallback]
	case r.stopped != nil, len(r.errs) > 0 && r.success == 0:
		o.Status = "failed"
	case len(r.errs) > 0:
		o.Status = "completed_with_errors"
	default:
		o.Status = "completed"
	}
	if o.Status != "recovered" {
		for id, n := range r.nodes {
			if n.has && !n.leftAlong {
				o.Terminal[id] = n.output
			}
		}
	}
	if e := r.stopped; e != nil || len(r.errs) > 0 {
		if e == nil {
			e = r.errs[0]
		}
		o.ErrorEdge, o.ErrorSays = e.edge, e.says
		if e.edge == "" {
			o.ErrorAgent = e.agent
		}
	}
	o.Output = o.Terminal
	if end := r.onlyEnd(); end != "" {
		if v, ok := o.Terminal[end]; ok && len(o.Terminal) == 1 {
			o.Output = v
		} else if r.rescued {
			o.Output = o.Terminal[r.graph.OnError.Fallback]
		}
	}
	return o
}

// onlyFallback reports whether a node can only be reached by a failure.
func (r *reference) onlyFallback(id string) bool {
	return id == r.graph.OnError.Fallback && id != r.graph.Entrypoint && !slices.ContainsFunc(r.graph.Edges, func(e agentgraph.Edge) bool { return e.To == id })
}

// onlyEnd is the node at which every run without errors ends, if there is one.
func (r *reference) onlyEnd() string {
	ends := []string{}
	for _, n := range r.graph.Nodes {
		on := slices.ContainsFunc(r.graph.Edges, func(e agentgraph.Edge) bool { return e.From == n.ID && e.Condition == nil && n.Next == nil })
		if !on && !r.onlyFallback(n.ID) {
			ends = append(ends, n.ID)
		}
	}
	if len(ends) == 1 {
		return ends[0]
	}
	return ""
}

// refValue is what an output counts as: a text that is JSON, also in a code block, is
// the value that it writes.
func refValue(raw string) any {
	v := jsonOf(raw)
	text, isText := v.(string)
	if !isText {
		return v
	}
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "```") && strings.HasSuffix(text, "```") && strings.Contains(text, "\n") {
		text = strings.TrimSpace(strings.TrimSuffix(text[strings.Index(text, "\n"):], "```"))
	}
	if !json.Valid([]byte(text)) {
		return v
	}
	return jsonOf(text)
}

func jsonOf(raw string) (v any) {
	dec := json.NewDecoder(strings.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return errors.New("not JSON: " + raw)
	}
	return v
}
