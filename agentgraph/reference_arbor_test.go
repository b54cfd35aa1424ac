package agentgraph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// This file is the interpreter's part for arbor/v1. It takes the values of nodes'
// expressions from the expressions themselves, and does by its own rules what follows
// from them.

// takes is how long a call of a node's agent takes, at most until its time is over. A tool
// refuses at once what is no mapping.
func (r *reference) takes(c *refCall) time.Duration {
	id := c.node
	if r.refuses(c) {
		return 0
	}
	if most := r.graph.Nodes[r.at[id]].Timeout; most > 0 {
		return min(most, r.does[id].takes)
	}
	return r.does[id].takes
}

func (r *reference) refuses(c *refCall) bool {
	_, fits := c.input.(map[string]any)
	return r.does[c.node].tool && !fits
}

func (r *reference) retries(c *refCall) int {
	id := c.node
	if r.refuses(c) {
		return 0
	}
	if own := r.graph.Nodes[r.at[id]].Retry; own != nil {
		return own.Max
	}
	if r.graph.OnError.Strategy == agentgraph.Retry {
		return r.graph.OnError.MaxRetries
	}
	return 0
}

// ask lets the person decide on all that waits, in the order of the file.
func (r *reference) ask() bool {
	if len(r.waits) == 0 || r.stopped != nil {
		return false
	}
	waits := slices.SortedFunc(slices.Values(r.waits), func(a, b string) int { return r.at[a] - r.at[b] })
	r.waits = nil
	for _, id := range waits {
		if !r.denied[id] {
			r.nodes[id].approved = true
			r.begin(id)
			continue
		}
		r.lost(id, &refError{agent: id, says: []string{"denied"}, input: r.nodes[id].input})
		if r.stopped != nil {
			if f := r.graph.OnError.Fallback; f != "" && f != id {
				r.add(f, "rescue", "", r.stopped.report())
			}
			break
		}
	}
	return true
}

// write makes the updates of a node.
func (r *reference) write(id string, output any) {
	after := map[string]any{}
	for _, u := range r.graph.Nodes[r.at[id]].Update {
		v, err := u.Value.WithState(r.state).Value(output, r.input)
		k := r.graph.State[slices.IndexFunc(r.graph.State, func(k agentgraph.StateKey) bool { return k.Name == u.Key })]
		if err == nil {
			after[u.Key], err = refReduce(k.Reducer, r.state[u.Key], v)
		}
		if err != nil {
			r.misroutes(id, "", "update of "+u.Key)
			return
		}
	}
	maps.Copy(r.state, after)
}

func refReduce(reducer agentgraph.Reducer, old, v any) (any, error) {
	if reducer == agentgraph.ReduceReplace {
		return v, nil
	}
	if v == nil {
		return old, nil
	}
	if reducer == agentgraph.ReduceAppend {
		list, _ := old.([]any)
		if more, ok := v.([]any); ok {
			return slices.Concat(list, more), nil
		}
		return append(slices.Clip(list), v), nil
	}
	number := func(v any) (n int64, err error) {
		_, err = fmt.Sscan(inJSON(v), &n)
		return n, err
	}
	n, err := number(v)
	if err != nil || old == nil {
		return n, err
	}
	before, err := number(old)
	switch reducer {
	case agentgraph.ReduceSum:
		n += before
	case agentgraph.ReduceMin:
		n = min(n, before)
	case agentgraph.ReduceMax:
		n = max(n, before)
	}
	return n, err
}

// loops calls a node again, or gives it up, and reports whether one of the two.
func (r *reference) loops(c *refCall, output any) bool {
	loop := r.graph.Nodes[r.at[c.node]].Loop
	if loop == nil {
		return false
	}
	n := r.nodes[c.node]
	done, err := loop.Until.WithState(r.state).Test(output, r.input)
	switch {
	case err != nil:
		r.lost(c.node, &refError{agent: c.node, says: []string{"until"}, input: c.input, attempts: n.attempts})
		return true
	case !done && n.rounds+1 == loop.Max && loop.Fail:
		r.lost(c.node, &refError{agent: c.node, says: []string{"has not ended"}, input: c.input, attempts: n.attempts})
		return true
	case done || n.rounds+1 == loop.Max:
		return false
	}
	n.rounds++
	n.attempts, n.state = 1, "ready"
	r.add(c.node, "own", "", output)
	return true
}

// changes replaces a node's output by its transform's value, or gives the node up, and
// reports whether it has one.
func (r *reference) changes(c *refCall, output *any) bool {
	t := r.graph.Nodes[r.at[c.node]].Transform
	if t == nil {
		return true
	}
	v, err := t.WithState(r.state).Value(*output, r.input)
	if err != nil {
		r.lost(c.node, &refError{agent: c.node, says: []string{"transform of the agent " + c.node}, input: c.input, attempts: r.nodes[c.node].attempts})
		return false
	}
	*output = jsonOf(inJSON(v))
	return true
}

// choose says which edges of a node are looked at.
func (r *reference) choose(id string) func(edge int) bool {
	node, out := r.graph.Nodes[r.at[id]], r.nodes[id].output
	open := map[int]bool{}
	targets := map[string]bool{}
	for i, e := range r.graph.Edges {
		open[i] = e.From == id
		targets[e.To] = targets[e.To] || e.From == id
	}
	if node.Next != nil {
		to, err := node.Next.WithState(r.state).Choose(out, r.input)
		if err != nil || slices.ContainsFunc(to, func(id string) bool { return !targets[id] }) {
			r.misroutes(id, "", "next of")
			to = nil
		}
		for i, e := range r.graph.Edges {
			open[i] = open[i] && slices.Contains(to, e.To)
		}
	}
	var ranked []int
	for i, e := range r.graph.Edges {
		if open[i] && e.Priority > 0 {
			ranked = append(ranked, i)
			open[i] = false
		}
	}
	slices.SortFunc(ranked, func(a, b int) int { return r.graph.Edges[b].Priority - r.graph.Edges[a].Priority })
	for _, i := range ranked {
		if r.stopped != nil {
			break
		}
		e := r.graph.Edges[i]
		holds, _, err := judge{test: r.judges[i].test}.cross(out, r.input)
		if err == nil && holds {
			_, _, err = judge{change: r.judges[i].change}.cross(out, r.input)
			open[i] = err == nil
		}
		if err != nil {
			r.misroutes(id, e.From+"->"+e.To, e.From+"->"+e.To)
		}
		if holds {
			break
		}
	}
	return func(i int) bool { return open[i] }
}

// extended is one case of TestReferenceArbor.
type extended struct {
	randomGraph
	denied map[string]bool
}

// drawExtended makes a graph of arbor/v1 of one of v0.2.7.
func drawExtended(t *rapid.T) *extended {
	c := &extended{randomGraph: *drawGraph(t), denied: map[string]bool{}}
	text := strings.Replace(c.text, "ossa.ai/v0.2.7", "arbor/v1", 1)
	text = strings.Replace(text, "spec:\n", "spec:\n  state: {all: {reducer: append}, sum: {reducer: sum, initial: 1}, most: {reducer: max}, last: {initial: {n: 3}}}\n", 1)
	some := func(of int, what string) bool { return rapid.IntRange(0, of).Draw(t, what) == 0 }
	for _, n := range c.graph.Nodes {
		add := ""
		if some(3, "loop") {
			add += fmt.Sprintf(", loop: {until: %q, max: %d, atMax: %s}", rapid.SampledFrom([]string{"output.n > 2", "state.sum > 4", "false", "output.kind == 'a'"}).Draw(t, "until"), rapid.IntRange(1, 3).Draw(t, "max"), rapid.SampledFrom([]string{"continue", "fail"}).Draw(t, "atMax"))
		}
		if some(2, "update") {
			add += ", update: {" + rapid.SampledFrom([]string{`all: "output.n"`, `all: "output", sum: "1"`, `sum: "output.n"`, `last: "output", most: "state.sum"`, `most: "output.kind"`, `sum: "state.most"`}).Draw(t, "write") + "}"
		}
		var targets []string
		for _, e := range c.graph.Edges {
			if e.From == n.ID {
				targets = append(targets, e.To)
			}
		}
		if len(targets) > 0 && some(3, "next") {
			to := rapid.SampledFrom(targets).Draw(t, "target")
			add += ", next: " + fmt.Sprintf("%q", rapid.SampledFrom([]string{"'" + to + "'", "['" + to + "', '" + targets[0] + "']", "output.kind", "nil", "state.sum > 2 ? '" + to + "' : []"}).Draw(t, "choice"))
		}
		if some(4, "transform") {
			add += fmt.Sprintf(", transform: %q", rapid.SampledFrom([]string{"{'kind': 'a', 'was': output}", "output.kind", "state.sum", "output.n + 1"}).Draw(t, "change"))
		}
		if some(4, "timeout") {
			add += ", timeout: 1500ms"
		}
		if some(3, "retry") {
			add += fmt.Sprintf(", retry: {max: %d}", rapid.IntRange(0, 2).Draw(t, "retries"))
		}
		if n.ID != c.graph.OnError.Fallback && some(5, "human") {
			add += ", when: human"
			c.denied[n.ID] = some(2, "denied")
		}
		text = strings.Replace(text, "{id: "+n.ID+", agentRef: any", "{id: "+n.ID+", "+map[bool]string{true: "tool: any", false: "agentRef: any"}[c.does[n.ID].tool]+add, 1)
	}
	priority := 0
	for _, e := range c.graph.Edges {
		if some(2, "priority") {
			priority++
			line := strings.Split(text, "\n")[e.Line] // one more than it was, for the state
			text = strings.Replace(text, line, strings.TrimSuffix(line, "}")+fmt.Sprintf(", priority: %d}", rapid.IntRange(0, 4).Draw(t, "rank")*100+priority), 1)
		}
	}
	c.text = text
	var err error
	if c.graph, err = agentgraph.Load([]byte(text), agentgraph.WithAnyRef()); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return c
}

// play runs the graph and decides on what it asks, until it is over.
func (c *extended) play(t sessiontest.TB) (p played) {
	a, err := c.agent()
	if err != nil {
		return played{err: err}
	}
	r, err := runner.New(a, sessiontest.Memory(t))
	if err != nil {
		return played{err: err}
	}
	key := session.ID("s")
	turn := r.Run(context.Background(), key, llm.UserText(c.input))
	for range 2 + len(c.graph.Nodes) {
		var decisions []runner.Decision
		for e, err := range turn {
			if err != nil {
				p.failed = err
				continue
			}
			p.events = append(p.events, e)
			if d, ok := e.Data.(*event.Relay); ok {
				var asked struct{ Agent string }
				if err := json.Unmarshal(d.Params, &asked); err != nil {
					return played{err: err}
				}
				if c.denied[asked.Agent] {
					decisions = append(decisions, runner.Deny(d.ToolCallID, ""))
				} else {
					decisions = append(decisions, runner.Approve(d.ToolCallID))
				}
			}
		}
		if len(decisions) == 0 {
			p.results, p.err = a.Runs(r.History(context.Background(), key))
			return p
		}
		turn = r.Resume(context.Background(), key, decisions...)
	}
	return played{err: errors.New("it waits again and again")}
}

// TestReferenceArbor is TestReference for graphs of arbor/v1.
func TestReferenceArbor(t *testing.T) {
	counts := make(map[string]int)
	few(t, 400)
	rapid.Check(t, func(rt *rapid.T) {
		c := drawExtended(rt)
		want := interpretWith(c.graph, c.does, c.judges, refInput(c.input), c.concurrency, c.settle, c.denied)
		if want.tied {
			counts["tied"]++
			return
		}
		counts[want.Status]++
		var got played
		synctest.Test(t, func(*testing.T) { got = c.play(t) })
		c.compare(rt, want, got)
		if got := got.results[0].State; got != nil {
			state := maps.Clone(want.State)
			maps.DeleteFunc(state, func(_ string, v any) bool { return v == nil })
			if inJSON(state) != inJSON(got) {
				rt.Fatalf("state: want %s, got %s\n%s%+v", inJSON(state), inJSON(got), c.text, c.does)
			}
		}
	})
	t.Log(counts)
	for _, status := range []string{"completed", "completed_with_errors", "recovered", "failed"} {
		require.Greater(t, counts[status], counts["tied"], status)
	}
}

// TestCutArbor cuts random graphs off between any two writes, and continues each of them
// in another process, to the same end. Their agents take no time, because what ends
// before what can change by a cut.
func TestCutArbor(t *testing.T) {
	few(t, 40)
	cuts := 0
	rapid.Check(t, func(rt *rapid.T) {
		c := drawExtended(rt)
		c.concurrency, c.settle = 0, time.Millisecond
		for id, d := range c.does {
			d.takes, d.tool = 0, false // a tool's run has steps, and what begins again has fewer of them
			if d.failures > 0 {        // it counts its calls
				d.failures = -1
			}
			c.does[id] = d
		}
		var problem string
		synctest.Test(t, func(*testing.T) { problem = c.cut(t, &cuts) })
		if problem != "" {
			rt.Fatalf("%s\n%s%+v", problem, c.text, c.does)
		}
	})
	t.Log(cuts)
	require.Greater(t, cuts, 100)
}

// cut returns what is wrong, "" if nothing is.
func (c *extended) cut(t sessiontest.TB, cuts *int) string {
	ctx, store := context.Background(), sessiontest.Memory(t)
	// on continues a session, decides on what it asks, and returns its result.
	on := func(key session.Key, begin bool) (string, error) {
		a, err := c.agent()
		if err != nil {
			return "", err
		}
		r, err := runner.New(a, store)
		if err != nil {
			return "", err
		}
		turn := r.Resume(ctx, key)
		if begin {
			turn = r.Run(ctx, key, llm.UserText(c.input))
		}
		failed := ""
		for range 2 + 2*len(c.graph.Nodes) {
			if said := failure(turn); said != "" {
				failed = said
			}
			var f session.Fold
			names := map[string]string{}
			for e, err := range r.History(ctx, key) {
				if err != nil {
					return "", err
				}
				if d, ok := e.Data.(*event.ToolCall); ok {
					var asked struct{ Agent string }
					if err := json.Unmarshal(d.Input, &asked); err != nil {
						return "", err
					}
					names[e.ID] = asked.Agent
				}
				f.Apply(e)
			}
			var decisions []runner.Decision
			for _, p := range f.Scope("").Run.Pending {
				if !f.Paused() || p.Resolved {
					continue
				}
				d := runner.Approve(p.ID)
				if c.denied[names[p.ID]] {
					d = runner.Deny(p.ID, "no")
				}
				decisions = append(decisions, d)
			}
			if len(decisions) == 0 {
				results, err := a.Runs(r.History(ctx, key))
				if err != nil || len(results) != 1 {
					return "", fmt.Errorf("%d results: %w", len(results), err)
				}
				return failed + " " + inJSON(results[0].Result), nil
			}
			turn = r.Resume(ctx, key, decisions...)
		}
		return "", errors.New("it waits again and again")
	}
	want, err := on(session.ID("whole"), true)
	if err != nil {
		return err.Error()
	}
	var events []*event.Event
	for e, err := range store.Load(ctx, session.ID("whole"), 0) {
		if err != nil {
			return err.Error()
		}
		events = append(events, e)
	}
	for i, e := range events[:len(events)-1] {
		if i == 0 || e.Time.Equal(events[i+1].Time) {
			continue
		}
		*cuts++
		crash, fork := session.ID(fmt.Sprintf("crash-%d", i)), session.ID(fmt.Sprintf("fork-%d", i))
		lease, err := sessiontest.Acquire(ctx, store, crash, session.Owner{Host: "test"})
		err = errors.Join(err, sessiontest.Append(ctx, store, crash, 0, lease, events[:i+1]...), sessiontest.Release(ctx, store, crash, lease), store.Fork(ctx, session.ID("whole"), e.Seq, fork))
		if err != nil {
			return err.Error()
		}
		var before session.Fold
		for _, e := range events[:i+1] {
			before.Apply(e)
		}
		for _, key := range []session.Key{crash, fork} {
			if key == fork && (len(before.Questions()) > 0 || approvedAndOpen(events[:i+1], events[i+1:])) { // which stays with the other session
				continue
			}
			got, err := on(key, false)
			if key == fork && strings.Contains(fmt.Sprint(got, err), agent.NotInFork) { // an approval that is for the retry, too
				continue
			}
			if err != nil || got != want {
				return fmt.Sprintf("%s of %d: %v\nwant %s\ngot  %s\nthe log:\n%s", key.ID, len(events), err, want, got, lines(events))
			}
		}
	}
	return ""
}
