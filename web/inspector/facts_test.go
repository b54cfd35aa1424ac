// Package inspector_test holds what the page makes of a log against Go. It has no code besides its
// tests, and nothing imports it.
package inspector_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/twin"
	"github.com/agentarbor/arbor/session"
)

var (
	streams = flag.Int("streams", 1000, "random logs to take in, in Go and in the page")
	seed    = flag.Uint64("seed", 1, "what the random logs depend on")
)

// facts are what both say of a session at one position.
type facts struct {
	Active, Turn, Run string
	Questions, Spent  []string
}

// TestSameFacts takes in logs by session.Fold and by the page's state/session.ts, and compares
// both after every event.
func TestSameFacts(t *testing.T) {
	page := startPage(t)
	files, err := filepath.Glob("../../conversation/testdata/cases/*.jsonl")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		var log []map[string]any
		for line := range strings.SplitSeq(strings.TrimSpace(string(data)), "\n") {
			var e map[string]any
			if json.Unmarshal([]byte(line), &e) == nil && e["partial"] != true {
				log = append(log, e)
			}
		}
		require.Empty(t, page.difference(t, log), file)
	}
	met := make(map[string]int)
	for i := range *streams {
		log := generator{rand.New(rand.NewPCG(*seed, uint64(i)))}.log()
		if wrong := page.difference(t, log, met); wrong != "" {
			for k := 0; k < len(log); { // leave out whatever the difference does not need
				fewer := append(append([]map[string]any{}, log[:k]...), log[k+1:]...)
				if d := page.difference(t, fewer); d != "" {
					log, wrong, k = fewer, d, 0
				} else {
					k++
				}
			}
			t.Fatalf("log %d of seed %d, without what the difference does not need:\n%s", i, *seed, wrong)
		}
	}
	for _, what := range []string{"open", "waiting", "over", "human", "a question", "two questions", "a question inside"} {
		require.Positive(t, met[what], "no log has had %q, so nothing was compared", what)
	}
}

// generator makes logs of few agents, runs, calls and scopes, so that everything meets everything.
type generator struct{ *rand.Rand }

func pick[T any](g generator, from ...T) T { return from[g.IntN(len(from))] }

func (g generator) log() []map[string]any {
	log := make([]map[string]any, 0, 80)
	turn := "t1"
	open := map[string]string{} // run by scope
	for range 5 + g.IntN(75) {
		scope := pick(g, "", "", "", "in1", "in2", "r1.step/0", "r2.step/1", "c1/x", ".a/b", "r3.a.b/c.d")
		run := pick(g, "r1", "r2", "r3", "r4")
		if r := open[scope]; r != "" && g.IntN(10) > 0 {
			run = r
		}
		e := map[string]any{"turnId": turn, "runId": run, "agent": pick(g, "a", "b", "c"), "time": fmt.Sprintf("2026-01-02T03:04:%02dZ", g.IntN(60))}
		if scope != "" {
			e["scope"] = scope
		}
		set := func(typ string, more ...any) {
			e["type"] = typ
			for i := 0; i < len(more); i += 2 {
				e[more[i].(string)] = more[i+1]
			}
		}
		call := func() string { return pick(g, "c1", "c2", "c3", "r1") }
		relay := func() string { return pick(g, "q1", "q2", "q3", "") }
		switch g.IntN(22) {
		case 0, 1:
			if g.IntN(3) > 0 { // else the next event is of the same turn, in mid-run
				turn = pick(g, "t1", "t2", "t3", "")
			}
			e["turnId"] = turn
			set("user", "content", "hello")
		case 2, 3, 4, 5:
			open[scope] = run
			set("harness_start", "agentId", e["agent"])
			if g.IntN(4) > 0 {
				e["parentId"] = call()
			}
		case 6, 7, 8:
			set("harness_end", "agentId", e["agent"], "finishReason", pick(g, "stop", "input_required", "input_required", "transfer", "canceled", "error"))
		case 9, 10, 11:
			set("tool_call", "id", call(), "name", "look", "input", map[string]any{})
		case 12, 13:
			set("relay", "id", relay(), "kind", pick(g, "permission", "input"), "toolCallId", call(), "tool", "look", "params", map[string]any{})
		case 14:
			set("relay_resolved", "relayId", relay(), "approved", g.IntN(2) == 0)
		case 15:
			set("tool_result", "id", call(), "name", "look", "output", "x")
		case 16:
			set("transfer", "from", "a", "to", pick(g, "a", "b", "c"), "outcome", pick(g, "committed", "refused"))
		case 17:
			set("handoff_status", "handoffId", "h", "status", pick(g, "queued", "connected", "completed", "ended", "failed"))
			if g.IntN(2) == 0 {
				e["targetAgent"] = pick(g, "a", "b", "")
			}
		case 18:
			tokens := func() int { return pick(g, 0, 1, 7, 40, -1, 1<<30, 1<<30+1) }
			set("usage", "inputTokens", tokens(), "outputTokens", tokens(), "cachedTokens", tokens(), "model", pick(g, "m", "n", ""))
		case 19:
			set("discard", "code", "cut", "message", "it broke", "ids", []string{})
			if g.IntN(2) == 0 {
				e["usage"] = map[string]any{"inputTokens": 3, "outputTokens": 4, "model": "m"}
			}
		case 20:
			set("notice", "code", pick(g, "forked", "resumed", "else"), "message", "x")
		case 21:
			set(pick(g, "unreadable", "unreadable", "odd"), "id", call(), "was", pick(g, "user", "tool_result", "", "text"))
		}
		log = append(log, e)
	}
	return log
}

// page is a process that takes in logs as the page does.
type page struct{ *twin.Process }

func startPage(t *testing.T) *page {
	t.Helper()
	p := &page{twin.Start(t, "test/facts.mjs", "node_modules/esbuild", "npm --prefix web/inspector ci")}
	// Looked at here, so that the results of this test are not kept when they change.
	sources, err := filepath.Glob("src/state/*.ts")
	require.NoError(t, err)
	for _, file := range append(sources, "test/facts.mjs") {
		_, err := os.Stat(file)
		require.NoError(t, err)
	}
	return p
}

// difference takes in a log on both sides and returns "" or the first difference.
func (p *page) difference(t *testing.T, log []map[string]any, met ...map[string]int) string {
	t.Helper()
	for i, e := range log {
		e["seq"] = i + 1
	}
	var theirs []facts
	p.Ask(t, log, &theirs)
	require.Len(t, theirs, len(log))
	var f session.Fold
	first := "" // the active agent before the first transfer
	for i, raw := range log {
		data, err := json.Marshal(raw)
		require.NoError(t, err)
		e := event.Decode(int64(i+1), data)
		f.Apply(e)
		if first == "" && e.Type() == event.TypeHarnessStart && e.Scope == "" {
			first = e.Agent
		}
		ours := factsOf(&f, first)
		for _, m := range met {
			count(m, &f, ours)
		}
		if a, b := marshal(t, ours), marshal(t, theirs[i]); !bytes.Equal(a, b) {
			var lines strings.Builder
			for _, line := range log[:i+1] {
				fmt.Fprintf(&lines, "%s\n", marshal(t, line))
			}
			return fmt.Sprintf("%sGo:   %s\nPage: %s", lines.String(), a, b)
		}
	}
	return ""
}

func factsOf(f *session.Fold, first string) facts {
	s := f.Scope("")
	out := facts{Active: cmp.Or(s.Active, first), Turn: "over", Questions: []string{}, Spent: []string{}}
	out.Run = fmt.Sprint(s.Run.ID, " ", s.Run.Open, " ", s.Run.Finish)
	switch {
	case f.Turn.ID == "":
		out.Turn = "none"
	case f.Unfinished():
		out.Turn = "open"
	case f.Held():
		out.Turn = "waiting"
	}
	for _, q := range f.Questions() {
		out.Questions = append(out.Questions, q.ToolCallID+" "+q.Kind)
	}
	for _, s := range f.Spent {
		out.Spent = append(out.Spent, fmt.Sprint(s.Agent, " ", s.Model, " ", s.Session.Answers, " ", s.Session.InputTokens, " ", s.Session.OutputTokens, " ", s.Session.CachedTokens))
	}
	return out
}

// count notes what was met, since a comparison of what never happens proves nothing.
func count(met map[string]int, f *session.Fold, now facts) {
	met[now.Turn]++
	met[now.Active]++
	if len(now.Questions) > 0 {
		met["a question"]++
	}
	if len(now.Questions) > 1 {
		met["two questions"]++
	}
	for _, q := range f.Questions() {
		if _, scope := f.Call(q.ToolCallID); scope != "" {
			met["a question inside"]++
		}
	}
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return raw
}
