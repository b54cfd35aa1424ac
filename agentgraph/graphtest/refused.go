package graphtest

import (
	"maps"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/internal/yamldoc"
)

// LoadOption configures [LoadCases].
type LoadOption func(*reader)

// WithKnown sets which agents and tools exist, with options such as [agentgraph.WithRefs], for cases of graphs that are
// refused.
//
// Defaults to all.
func WithKnown(known ...agentgraph.Option) LoadOption {
	return func(r *reader) { r.load = known }
}

// Refusal describes how a graph must be refused.
type Refusal struct {
	// Codes contains the codes of all problems, each once, in any order.
	Codes []string
	// Where is the path of one of the problems. Empty means any.
	Where string
}

// refused reads a case of a graph that must be refused. It has code and where instead of the keys about a run.
func (r *reader) refused(c *Case, f pairs, body yamldoc.Node, codes, graph string) {
	for _, key := range []string{"graphFile", "input", "mock", "approve", "deny", "expect"} {
		if p, ok := f[key]; ok {
			r.Add(p.Key, "%s is about a graph that runs, and one with code is refused", key)
		}
	}
	for _, code := range strings.Split(codes, ",") {
		c.Refused.Codes = append(c.Refused.Codes, strings.TrimSpace(code))
	}
	if _, ok := f["graph"]; !ok {
		r.Add(body, "the case has no graph: give its text as graph")
		return
	}
	_, err := agentgraph.Load([]byte(graph), r.load...)
	c.problems = agentgraph.Problems(err)
}

// refusal compares the problems of a graph with the expected ones.
func (c *Case) refusal() *Outcome {
	got := make(map[string]bool)
	found := c.Refused.Where == ""
	for _, p := range c.problems {
		got[string(p.Code)] = true
		found = found || p.Path == c.Refused.Where && slices.Contains(c.Refused.Codes, string(p.Code))
	}
	var d differences
	codes, want := slices.Sorted(maps.Keys(got)), slices.Sorted(slices.Values(c.Refused.Codes))
	if !slices.Equal(codes, want) {
		d.add("code: got %s, want %s%s", list(codes), list(want), c.problemText())
	} else if !found {
		d.add("where: no such problem is at %s%s", c.Refused.Where, c.problemText())
	}
	return &Outcome{Differences: d}
}

// problemText returns the problems as text, or "" if there are none.
func (c *Case) problemText() string {
	if len(c.problems) == 0 {
		return ""
	}
	words := make([]string, len(c.problems))
	for i, p := range c.problems {
		words[i] = p.String()
	}
	return ": " + strings.Join(words, "; ")
}
