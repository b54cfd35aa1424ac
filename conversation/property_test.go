package conversation

import (
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/race"
)

// TestMain has rapid play a quarter of its cases where the race detector makes each several times as slow: most of them
// have one goroutine.
func TestMain(m *testing.M) {
	flag.Parse()
	if checks := flag.Lookup("rapid.checks"); race.Enabled && checks.Value.String() == checks.DefValue {
		_ = checks.Value.Set("25")
	}
	m.Run()
}

// anyEvent draws an event with few ids, so that everything meets everything:
// ids are taken, parents come late or never, blocks change their kind.
func anyEvent(t *rapid.T) string {
	id := rapid.SampledFrom([]string{"", "a", "b", "c", "d", "r", "s", "r:a", "s:a:result", "r:user", "r:usage:1", "s:error:2", "q:harness_start"})
	e := map[string]any{
		"type": rapid.SampledFrom([]string{"user", "harness_start", "harness_end", "text", "text", "text", "reasoning", "tool_call", "tool_call", "tool_result",
			"tool_progress", "relay", "relay_resolved", "usage", "error", "discard", "discard", "notice", "transfer", "new"}).Draw(t, "type"),
		"runId":   rapid.SampledFrom([]string{"r", "s", "q", "p", "a"}).Draw(t, "run"),
		"content": rapid.SampledFrom([]string{"", "x", "yz"}).Draw(t, "content"),
	}
	if s := id.Draw(t, "id"); s != "" {
		e["id"] = s
	}
	if s := id.Draw(t, "parent"); s != "" {
		e["parentId"] = s
	}
	switch e["type"] {
	case "discard":
		e["ids"] = rapid.SliceOfN(id, 0, 3).Draw(t, "ids")
	case "notice":
		e["code"] = rapid.SampledFrom([]string{"taken_over", "other"}).Draw(t, "code")
	case "relay_resolved":
		e["relayId"], e["approved"] = id.Draw(t, "relay"), rapid.Bool().Draw(t, "approved")
	case "text", "reasoning":
		if rapid.Bool().Draw(t, "partial") {
			e["partial"] = true
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "stored") == 0 {
		e["seq"] = rapid.IntRange(1, 9).Draw(t, "seq")
	}
	return string(must.Get(json.Marshal(e)))
}

// requireSound checks what holds for every graph: parents and children agree,
// nobody has two parents, there is no circle, and runs are chains.
func requireSound(t require.TestingT, g *Graph) {
	seen := map[string]bool{}
	for n := range g.Topological() {
		require.False(t, seen[n.ID], "%s is visited twice", n.ID)
		for _, p := range g.Parents(n.ID) {
			require.True(t, seen[p.ID], "%s comes before its parent %s", n.ID, p.ID)
		}
		seen[n.ID] = true
	}
	require.Len(t, seen, g.Len(), "what is not reached from a root is in a circle")
	edges, inRuns := 0, 0
	for n := range g.Nodes() {
		require.True(t, seen[n.ID])
		again, ok := g.Node(n.ID)
		require.True(t, ok)
		require.Equal(t, n, again)
		for _, c := range g.Children(n.ID) {
			require.Equal(t, n.ID, g.Parents(c.ID)[0].ID)
			edges++
		}
	}
	for n := range g.Nodes() {
		edges -= len(g.Parents(n.ID))
	}
	require.Zero(t, edges)
	for run := range g.Runs() {
		nodes := g.Run(run)
		inRuns += len(nodes)
		last, ok := g.Last(run)
		require.True(t, ok)
		require.Equal(t, last, nodes[len(nodes)-1])
		for i, n := range nodes {
			require.Equal(t, run, n.RunID)
			if i > 0 {
				require.Equal(t, nodes[i-1], g.Parents(n.ID)[0])
			}
		}
	}
	require.Equal(t, g.Len(), inRuns)
}

// TestAlwaysSound: every sequence of events gives a sound graph, and while it
// grows, in several directions at once, no older graph changes.
func TestAlwaysSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type moment struct {
			g    *Graph
			json string
		}
		g := New()
		past := []moment{{g, asJSONOf(t, g)}}
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			if rapid.IntRange(0, 9).Draw(t, "fork") == 0 {
				g = past[rapid.IntRange(0, len(past)-1).Draw(t, "from")].g
			}
			line := anyEvent(t)
			next := must.Get(g.ReduceJSON([]byte(line)))
			twice := must.Get(g.ReduceJSON([]byte(line)))
			require.Equal(t, asJSONOf(t, next), asJSONOf(t, twice), "the same event on the same graph")
			requireSound(t, next)
			g = next
			past = append(past, moment{g, asJSONOf(t, g)})
		}
		for _, m := range past {
			require.Equal(t, m.json, asJSONOf(t, m.g))
			requireSound(t, m.g)
		}
	})
}

func asJSONOf(t require.TestingT, v any) string {
	return string(must.Get(json.Marshal(v)))
}

// conversationEvents draws what a runner would send about some runs, one list of
// events a run. Runs hang on nodes of earlier ones.
func conversationEvents(t *rapid.T, stored bool) [][]string {
	seq := 0
	parents := []string{""}
	var runs [][]string
	for i := range rapid.IntRange(1, 5).Draw(t, "runs") {
		run := fmt.Sprintf("run%d", i)
		isUser := rapid.IntRange(0, 3).Draw(t, "user") == 0
		if isUser {
			run = fmt.Sprintf("user%d", i)
		}
		var events []string
		add := func(e map[string]any) {
			e["runId"] = run
			seq++
			if stored && e["partial"] == nil {
				e["seq"] = seq
			}
			if len(events) == 0 {
				if p := rapid.SampledFrom(parents).Draw(t, "parent"); p != "" {
					e["parentId"] = p
				}
			}
			raw := must.Get(json.Marshal(e))
			events = append(events, string(raw))
		}
		if isUser {
			add(map[string]any{"type": "user", "content": "Hello"})
			runs, parents = append(runs, events), append(parents, run+":user", run)
			continue
		}
		add(map[string]any{"type": "harness_start", "agentId": "a"})
		parents = append(parents, run+":harness_start", run)
		for j := range rapid.IntRange(0, 4).Draw(t, "steps") {
			id := fmt.Sprintf("%s-%d", run, j)
			parents = append(parents, id)
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				for range rapid.IntRange(0, 2).Draw(t, "deltas") {
					add(map[string]any{"type": "text", "id": id, "content": "x", "partial": true})
				}
				add(map[string]any{"type": "text", "id": id, "content": rapid.StringN(0, 3, -1).Draw(t, "words")})
			case 1:
				add(map[string]any{"type": "tool_call", "id": id, "name": "x", "input": map[string]any{}})
				add(map[string]any{"type": "tool_result", "id": id, "name": "x", "output": j})
			case 2:
				add(map[string]any{"type": "usage", "id": "u" + id, "inputTokens": j, "outputTokens": 0})
			case 3:
				add(map[string]any{"type": "error", "id": "e" + id, "message": "m"})
			}
		}
		add(map[string]any{"type": "harness_end", "agentId": "a"})
		runs = append(runs, events)
	}
	return runs
}

// TestRedeliveryIsIdempotent: what was stored can come again, all of it or a
// part, at any time.
func TestRedeliveryIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := slices.Concat(conversationEvents(t, true)...)
		once, again := New(), New()
		for i, line := range events {
			once = must.Get(once.ReduceJSON([]byte(line)))
			again = must.Get(again.ReduceJSON([]byte(line)))
			for range rapid.IntRange(0, 2).Draw(t, "times") {
				again = must.Get(again.ReduceJSON([]byte(events[rapid.IntRange(0, i).Draw(t, "which")])))
			}
		}
		require.Equal(t, asJSONOf(t, once), asJSONOf(t, again))
	})
}

// TestRedeliveryWithoutSeq: whole events that are no text are known by their ids.
func TestRedeliveryWithoutSeq(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := New()
		var events []string
		for _, line := range slices.Concat(conversationEvents(t, false)...) {
			g = must.Get(g.ReduceJSON([]byte(line)))
			if !strings.Contains(line, `"type":"text"`) {
				events = append(events, line)
			}
		}
		before := asJSONOf(t, g)
		for _, line := range rapid.Permutation(events).Draw(t, "again") {
			g = must.Get(g.ReduceJSON([]byte(line)))
		}
		require.Equal(t, before, asJSONOf(t, g))
	})
}

// TestOrderOfIndependentRunsIsIrrelevant: however the events of several runs are
// interleaved, the nodes and the edges are the same, also where a parent comes
// after its children. Only the order in which things are listed differs; and a
// parent that is named by its run is the run's last node at that time, so that
// the runs here name nodes.
func TestOrderOfIndependentRunsIsIrrelevant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		runs := conversationEvents(t, rapid.Bool().Draw(t, "stored"))
		for i, run := range runs {
			var e map[string]any
			require.NoError(t, json.Unmarshal([]byte(run[0]), &e))
			if p, _ := e["parentId"].(string); p != "" && !strings.ContainsAny(p, ":-") {
				e["parentId"] = p + ":harness_end"
				if strings.HasPrefix(p, "user") {
					e["parentId"] = p + ":user"
				}
				runs[i][0] = asJSONOf(t, e)
			}
		}
		want := reduceAll(t, slices.Concat(runs...))
		rest := slices.Clone(runs)
		var mixed []string
		for len(rest) > 0 {
			i := rapid.IntRange(0, len(rest)-1).Draw(t, "next")
			mixed = append(mixed, rest[i][0])
			if rest[i] = rest[i][1:]; len(rest[i]) == 0 {
				rest = slices.Delete(rest, i, i+1)
			}
		}
		got := reduceAll(t, mixed)
		require.Equal(t, content(t, want), content(t, got))
		require.Equal(t, joins(t, want.Hypergraph()), joins(t, got.Hypergraph()))
		requireSound(t, got)
	})
}

// TestDiscardsAndLateParents: what hung on a node that was discarded is judged by
// where it hangs now, when a parent comes late.
func TestDiscardsAndLateParents(t *testing.T) {
	circle := reduceAll(t, []string{
		`{"type":"text","id":"a","runId":"r","partial":true}`,
		`{"type":"text","id":"b","runId":"s","partial":true,"parentId":"a"}`,
		`{"type":"discard","runId":"r","ids":["a"]}`,
		`{"type":"discard","runId":"s","ids":["b"]}`,
		`{"type":"text","id":"c","runId":"s","parentId":"z"}`,
		`{"type":"text","id":"d","runId":"q","parentId":"c"}`,
		`{"type":"text","id":"z","runId":"q"}`})
	requireSound(t, circle)
	require.Empty(t, circle.Parents("c"))
	good := reduceAll(t, []string{
		`{"type":"text","id":"a","runId":"r","partial":true,"parentId":"x"}`,
		`{"type":"text","id":"b","runId":"s","parentId":"a"}`,
		`{"type":"discard","runId":"r","ids":["a"]}`,
		`{"type":"text","id":"c","runId":"r"}`,
		`{"type":"text","id":"x","runId":"s"}`})
	requireSound(t, good)
	require.Len(t, good.Parents("c"), 1)
}

func reduceAll(t require.TestingT, events []string) *Graph {
	g := New()
	for _, line := range events {
		g = must.Get(g.ReduceJSON([]byte(line)))
	}
	return g
}

// content lists nodes with their parents and runs with their last nodes, sorted.
func content(t require.TestingT, g *Graph) []string {
	var all []string
	for n := range g.Nodes() {
		line := asJSONOf(t, n)
		for _, p := range g.Parents(n.ID) {
			line = p.ID + " > " + line
		}
		all = append(all, line)
	}
	for run := range g.Runs() {
		last, _ := g.Last(run)
		all = append(all, run+" ends in "+last.ID)
	}
	slices.Sort(all)
	return all
}

// TestTextOfARun: however words are cut into deltas, and whatever is in between,
// the run's text is all of them.
func TestTextOfARun(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := New()
		want := map[string]string{}
		for i := range rapid.IntRange(0, 30).Draw(t, "blocks") {
			run := rapid.SampledFrom([]string{"r", "s"}).Draw(t, "run")
			id := fmt.Sprintf("%s%d", run, i)
			isPartial := rapid.Bool().Draw(t, "partial")
			whole := ""
			for range rapid.IntRange(1, 5).Draw(t, "deltas") {
				delta := rapid.String().Draw(t, "delta")
				whole += delta
				line := map[string]any{"type": "text", "runId": run, "id": id, "content": delta, "partial": isPartial}
				g = reduceOne(t, g, line)
				if rapid.Bool().Draw(t, "other") {
					g = reduceOne(t, g, map[string]any{"type": "reasoning", "runId": run, "id": "think" + id, "content": delta})
				}
			}
			if isPartial && rapid.Bool().Draw(t, "completed") {
				g = reduceOne(t, g, map[string]any{"type": "text", "runId": run, "id": id, "content": whole})
			}
			want[run] += whole
		}
		require.Equal(t, want["r"], g.Text("r"))
		require.Equal(t, want["s"], g.Text("s"))
	})
}

func reduceOne(t require.TestingT, g *Graph, e map[string]any) *Graph {
	return must.Get(g.ReduceJSON([]byte(asJSONOf(t, e))))
}

// FuzzReduce feeds arbitrary lines: no panic, always a sound graph whose JSON
// can be read, and the old graph as it was.
func FuzzReduce(f *testing.F) {
	for _, name := range caseNames(f) {
		var all string
		for _, line := range lines(f, name) {
			all += string(line) + "\n"
		}
		f.Add(all)
	}
	f.Add(`{"type":"text","id":"\ud800","runId":"\u0000","content":"\ud800"}` + "\n" + `{"type":"text","id":"\ud800","runId":"\u0000","content":"\udc00 ` + "\xff" + `"}`)
	f.Add(`{"type":"discard","runId":"r","ids":[1,"a",null]}` + "\n" + `{"type":"usage","runId":"r","seq":1e9,"time":"x"}` + "\n" + `[{}]`)
	f.Fuzz(func(t *testing.T, stream string) {
		g := New()
		var old *Graph
		var before string
		for line := range strings.Lines(stream) {
			next, err := g.ReduceJSON([]byte(line))
			if err != nil {
				require.Same(t, g, next)
			}
			if g = next; g.Len() == 2 && old == nil {
				old, before = g, asJSON(t, g)
			}
		}
		if old != nil {
			require.Equal(t, before, asJSON(t, old))
		}
		requireSound(t, g)
	})
}
