package agentgraph_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/race"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

// conditions and transforms of random graphs, with their meaning.
var conditions = []struct {
	source string
	test   func(output, input any) (bool, error)
}{
	{"output.kind == 'a'", func(out, _ any) (bool, error) { v, err := fieldOf(out, "kind"); return v == "a", err }},
	{"output.kind != 'a'", func(out, _ any) (bool, error) { v, err := fieldOf(out, "kind"); return v != "a", err }},
	{"output.n > 2", func(out, _ any) (bool, error) { return compareN(out, func(n int) bool { return n > 2 }) }},
	{"output.n <= 2", func(out, _ any) (bool, error) { return compareN(out, func(n int) bool { return n <= 2 }) }},
	{"output.kind == 'b' or output.n < 4", func(out, _ any) (bool, error) {
		if v, err := fieldOf(out, "kind"); err != nil || v == "b" {
			return err == nil, err
		}
		return compareN(out, func(n int) bool { return n < 4 })
	}},
	{"input.flag == true", func(_, in any) (bool, error) { v, err := fieldOf(in, "flag"); return v == true, err }},
	{"false", func(_, _ any) (bool, error) { return false, nil }},
}

var transforms = []struct {
	source string
	change func(output, input any) (any, error)
}{
	{"{'was': output}", func(out, _ any) (any, error) { return map[string]any{"was": out}, nil }},
	{"output.kind", func(out, _ any) (any, error) { return fieldOf(out, "kind") }},
	{"input", func(_, in any) (any, error) { return in, nil }},
	{"[output.n + 1, input.flag]", func(out, in any) (any, error) {
		n, err := numberN(out)
		if err != nil {
			return nil, err
		}
		flag, err := fieldOf(in, "flag")
		return []any{n + 1, flag}, err
	}},
	{"'fixed'", func(_, _ any) (any, error) { return "fixed", nil }},
}

var errNoValue = errors.New("there is no value")

// fieldOf is v.name: nothing for a mapping without it, an error for what is no mapping.
func fieldOf(v any, name string) (any, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return nil, errNoValue
	}
	return m[name], nil
}

func numberN(v any) (int, error) {
	f, err := fieldOf(v, "n")
	if err != nil {
		return 0, err
	}
	n, ok := f.(json.Number)
	if !ok {
		return 0, errNoValue
	}
	i, err := n.Int64()
	return int(i), err
}

func compareN(v any, holds func(int) bool) (bool, error) {
	n, err := numberN(v)
	return err == nil && holds(n), err
}

var randomOutputs = []string{`{"kind":"a","n":1}`, `{"kind":"b","n":3}`, `{"kind":"a","n":5}`, `{"n":2}`, `{"kind":"c"}`, `{}`, `"words"`, `7`, `null`,
	`"{\"kind\": \"a\", \"n\": 4}"`, `"` + "```json\\n{\\\"kind\\\": \\\"b\\\"}\\n```" + `"`, `[1,2]`, `{"kind":"a","n":9007199254740993}`}

// randomGraph is one case of TestReference.
type randomGraph struct {
	graph       *agentgraph.Graph
	text        string
	does        map[string]behaviour
	judges      []judge
	input       string
	concurrency int
	settle      time.Duration
}

func drawGraph(t *rapid.T) *randomGraph {
	c := &randomGraph{does: make(map[string]behaviour)}
	n := rapid.IntRange(1, 9).Draw(t, "nodes")
	names := rapid.Permutation([]string{"a", "b", "c", "d", "e", "f", "g", "h", "i"}[:n]).Draw(t, "topological order")
	strategy := rapid.SampledFrom([]string{"", "fail-fast", "continue", "continue", "retry"}).Draw(t, "strategy")
	fallback, bare := "", false
	switch rapid.SampledFrom([]string{"none", "a node", "apart"}).Draw(t, "fallback") {
	case "a node":
		fallback = rapid.SampledFrom(names).Draw(t, "fallback node")
	case "apart":
		fallback, bare = "z", true
	}
	var edges strings.Builder
	edge := func(from, to string) {
		fmt.Fprintf(&edges, "    - {from: %s, to: %s", from, to)
		var j judge
		if rapid.IntRange(0, 2).Draw(t, "conditional") == 0 {
			cond := rapid.SampledFrom(conditions).Draw(t, "condition")
			fmt.Fprintf(&edges, ", condition: %q", cond.source)
			j.test = cond.test
		}
		if rapid.IntRange(0, 4).Draw(t, "transformed") == 0 {
			change := rapid.SampledFrom(transforms).Draw(t, "transform")
			fmt.Fprintf(&edges, ", transform: %q", change.source)
			j.change = change.change
		}
		fmt.Fprintln(&edges, "}")
		c.judges = append(c.judges, j)
	}
	for i := 1; i < n; i++ {
		for range rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(t, "edges") {
			edge(names[rapid.IntRange(0, i-1).Draw(t, "from")], names[i])
		}
	}
	declared := slices.Sorted(slices.Values(names))
	if bare && rapid.IntRange(0, 2).Draw(t, "edges from the fallback") == 0 {
		edge("z", rapid.SampledFrom(names).Draw(t, "to"))
	}
	if bare {
		declared = slices.Insert(declared, rapid.IntRange(0, n).Draw(t, "fallback's place"), "z")
	}
	var b strings.Builder
	b.WriteString("apiVersion: ossa.ai/v0.2.7\nkind: AgentGraph\nmetadata: {name: random, version: 1.0.0}\nspec:\n  agents:\n")
	c.settle = rapid.SampledFrom([]time.Duration{0, time.Millisecond}).Draw(t, "settle")
	for i, id := range declared {
		fmt.Fprintf(&b, "    - {id: %s, agentRef: any}\n", id)
		d := behaviour{output: rapid.SampledFrom(randomOutputs).Draw(t, "output"), message: "broken " + id}
		d.failures = rapid.SampledFrom([]int{0, 0, 0, 0, 0, 1, 2, -1}).Draw(t, "failures")
		switch {
		case c.settle == 0: // no two at the same time
			d.tool = rapid.IntRange(0, 2).Draw(t, "tool") == 0
			d.takes = time.Duration(rapid.IntRange(1, 1_000_000).Draw(t, "takes"))*time.Millisecond + time.Duration(1<<i)*time.Nanosecond
		default:
			d.takes = rapid.SampledFrom([]time.Duration{0, time.Second, 2 * time.Second}).Draw(t, "takes")
		}
		c.does[id] = d
	}
	if edges.Len() > 0 {
		fmt.Fprintf(&b, "  edges:\n%s", edges.String())
	}
	fmt.Fprintf(&b, "  entrypoint: %s\n", names[0])
	if strategy != "" || fallback != "" {
		fmt.Fprint(&b, "  errorHandling:\n")
		if strategy != "" {
			fmt.Fprintf(&b, "    strategy: %s\n", strategy)
		}
		if fallback != "" {
			fmt.Fprintf(&b, "    fallbackAgent: %s\n", fallback)
		}
		if rapid.Bool().Draw(t, "bounded") {
			fmt.Fprintf(&b, "    maxRetries: %d\n", rapid.IntRange(0, 2).Draw(t, "maxRetries"))
		}
	}
	c.text = b.String()
	c.input = rapid.SampledFrom([]string{`{"flag":true}`, `{"flag":false,"n":1}`, `words`, `{}`}).Draw(t, "input")
	c.concurrency = rapid.SampledFrom([]int{0, 0, 1, 2, 3}).Draw(t, "concurrency")
	var err error
	c.graph, err = agentgraph.Load([]byte(c.text), agentgraph.WithAnyRef())
	if err != nil {
		t.Fatalf("%v\n%s", err, c.text)
	}
	return c
}

// acts makes an agent of a behaviour.
func acts(b behaviour) (agent.Agent, error) {
	if b.tool {
		t, err := tools.New(tools.Info{ToolSpec: llm.ToolSpec{Name: "acts", Parameters: json.RawMessage(`{"type":"object"}`)}, Timeout: -1, Idempotent: true},
			func(ctx tools.Context, _ json.RawMessage) (any, error) {
				return b.act(ctx, ctx.Value(scopeKey{}).(string))
			})
		if err != nil {
			return nil, err
		}
		a, err := agentgraph.Tool(t)
		return inScope{a}, err
	}
	return agent.New("acts", "", func(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			output, err := b.act(ctx, inv.Scope())
			if err != nil {
				yield(nil, err)
				return
			}
			yield(&event.Event{Data: &event.Finish{Output: output}}, nil)
		}
	})
}

type scopeKey struct{}

// inScope lets an agent's tools know its scope.
type inScope struct{ agent.Agent }

func (a inScope) Unwrap() agent.Agent { return a.Agent }

func (a inScope) Run(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
	return a.Agent.Run(context.WithValue(ctx, scopeKey{}, inv.Scope()), inv)
}

// act is a call. Which of the node's it is, the scope says, in every process.
func (b behaviour) act(ctx context.Context, scope string) (json.RawMessage, error) {
	_, place, _ := strings.Cut(scope, ".")
	n, err := strconv.Atoi(strings.Split(place, "/")[0])
	if err != nil {
		return nil, err
	}
	if b.takes > 0 {
		select {
		case <-time.After(b.takes):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if b.failures < 0 || n <= b.failures {
		return nil, errors.New(b.message)
	}
	return json.RawMessage(b.output), nil
}

func (c *randomGraph) agent(opts ...agentgraph.AgentOption) (*agentgraph.Agent, error) {
	for id, b := range c.does {
		a, err := acts(b)
		if err != nil {
			return nil, err
		}
		opts = append(opts, agentgraph.WithAgent(id, a))
	}
	return agentgraph.New(c.graph, nil, append(opts, agentgraph.WithSettle(c.settle), agentgraph.WithConcurrency(c.concurrency), agentgraph.WithBackoff(0, 0))...)
}

// TestReference plays random graphs, with agents that fail and take their time, and
// compares their outcomes with the interpreter's. -rapid.checks=N plays N of them.
func TestReference(t *testing.T) {
	counts := make(map[string]int)
	few(t, 600)
	rapid.Check(t, func(rt *rapid.T) {
		c := drawGraph(rt)
		want := interpret(c.graph, c.does, c.judges, refInput(c.input), c.concurrency, c.settle)
		if want.tied {
			counts["tied"]++
			return
		}
		counts[want.Status]++
		var got played
		synctest.Test(t, func(*testing.T) { got = c.play(t) }) // a failure in there would end rapid, too
		c.compare(rt, want, got)
	})
	t.Log(counts)
	for _, status := range []string{"completed", "completed_with_errors", "recovered", "failed"} {
		require.Greater(t, counts[status], 2*counts["tied"], status)
	}
}

// few makes rapid play so many cases, unless -rapid.checks says how many, and a quarter of them where the race detector
// makes each several times as slow. They are the same in every run, unless -rapid.seed says which. A failure prints its seed.
func few(t *testing.T, checks int) {
	if race.Enabled {
		checks = max(checks/4, 40)
	}
	for name, value := range map[string]string{"rapid.checks": strconv.Itoa(checks), "rapid.seed": "1", "rapid.nofailfile": "true"} {
		f := flag.Lookup(name)
		if before := f.Value.String(); before == f.DefValue {
			require.NoError(t, flag.Set(name, value))
			t.Cleanup(func() { require.NoError(t, flag.Set(name, before)) })
		}
	}
}

func refInput(words string) any {
	text, _ := json.Marshal(words)
	return refValue(string(text))
}

// played is what came of a random graph.
type played struct {
	err     error // it could not be played
	events  []*event.Event
	failed  error // of the turn
	results []agentgraph.Run
}

// play runs the graph, or continues a log.
func (c *randomGraph) play(t sessiontest.TB, log ...*event.Event) (p played) {
	a, err := c.agent()
	if err != nil {
		return played{err: err}
	}
	store, key, ctx := sessiontest.Memory(t), session.ID("s"), context.Background()
	r, err := runner.New(a, store)
	if err != nil {
		return played{err: err}
	}
	turn := r.Run(ctx, key, llm.UserText(c.input))
	if len(log) > 0 {
		lease, err := sessiontest.Acquire(ctx, store, key, session.Owner{Host: "test"})
		if err == nil {
			err = cmp.Or(sessiontest.Append(ctx, store, key, 0, lease, log...), sessiontest.Release(ctx, store, key, lease))
		}
		if err != nil {
			return played{err: err}
		}
		turn = r.Resume(ctx, key)
	}
	for e, err := range turn {
		if err != nil {
			p.failed = err
			continue
		}
		p.events = append(p.events, e)
	}
	p.results, p.err = a.Runs(r.History(ctx, key))
	return p
}

func (c *randomGraph) compare(t *rapid.T, want *outlook, p played) {
	require.NoError(t, p.err)
	require.Len(t, p.results, 1)
	if a, err := c.agent(); err == nil {
		alongTheLog(t, a, p.events)
	}
	got, events, failed := p.results[0].Result, p.events, p.failed
	same := func(what string, want, got any) {
		if w, g := inJSON(want), inJSON(got); w != g {
			log := ""
			for _, e := range events {
				line, _ := json.Marshal(e)
				log += string(line) + "\n"
			}
			t.Fatalf("%s: want %s, got %s\nthe reference: %s\nthe result:    %s\n%s%+v\ninput %s, at most %d at once, settle %s\n%s", what, w, g, inJSON(want), inJSON(got), c.text, c.does, c.input, c.concurrency, c.settle, log)
		}
	}
	same("status", want.Status, got.Status)
	same("order", list(want.Order), got.Order)
	same("skipped", list(want.Skipped), got.Skipped)
	same("failed", list(want.Failed), got.Failed)
	same("cancelled", list(want.Cancelled), got.Cancelled)
	same("notRun", list(want.NotRun), got.NotRun)
	same("calls", want.Calls, got.Calls)
	edges := []string{}
	for _, e := range got.Edges {
		edges = append(edges, string(e.State))
	}
	same("edges", list(want.Edges), edges)
	inputs := maps.Clone(want.Inputs)
	for id, v := range inputs { // what a fallback is given: the words of the error are the engine's
		if report, ok := v.(map[string]any); ok && report["attempts"] != nil {
			var reported struct{ Error string }
			require.NoError(t, json.Unmarshal(got.Inputs[id], &reported))
			for _, part := range report["error"].([]string) {
				require.Contains(t, reported.Error, part)
			}
			report = maps.Clone(report)
			report["error"] = reported.Error
			inputs[id] = report
		}
	}
	same("inputs", inputs, got.Inputs)
	same("outputs", want.Outputs, got.Outputs)
	same("terminal", want.Terminal, got.Terminal)
	same("error", len(want.ErrorSays) > 0, got.Error != nil)
	if got.Error != nil {
		same("the error's agent", want.ErrorAgent, got.Error.Agent)
		same("the error's edge", want.ErrorEdge, got.Error.Edge)
		for _, part := range want.ErrorSays {
			require.Contains(t, got.Error.Message, part)
		}
	}
	same("an error of the turn", want.Status == "failed", failed != nil)
	end := events[len(events)-1].Data.(*event.HarnessEnd)
	if failed != nil {
		var run *agent.RunError
		require.ErrorAs(t, failed, &run)
		require.Equal(t, cmp.Or(want.ErrorAgent, strings.Split(want.ErrorEdge, "->")[0]), run.Agent)
		require.Equal(t, event.FinishReasonError, end.FinishReason)
		return
	}
	same("the output of the graph as an agent", want.Output, end.Output)
}

func list(ids []string) []string { return append([]string{}, ids...) }

// inJSON writes a value with the keys of mappings in order.
func inJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	text, _ = json.Marshal(jsonOf(string(text)))
	return string(text)
}
