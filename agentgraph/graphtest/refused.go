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

// WithKnown says which agents and tools exist, by options such as [agentgraph.WithRefs], for
// cases of graphs that are refused. Without it all of them do.
func WithKnown(known ...agentgraph.Option) LoadOption {
	return func(r *reader) { r.load = known }
}

// Refusal is what is expected of a graph that is refused.
type Refusal struct {
	// Codes are those of all of its problems, each once, in any order.
	Codes []string
	// Where is the path of one of them; empty is any.
	Where string
}

// refused reads a case of a graph that is refused, which has code, and where, in place of
// all that is about a run.
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

// refusal holds the problems of a graph against those that are expected.
func (c *Case) refusal() *Outcome {
	got := make(map[string]bool)
	there := c.Refused.Where == ""
	for _, p := range c.problems {
		got[string(p.Code)] = true
		there = there || p.Path == c.Refused.Where && slices.Contains(c.Refused.Codes, string(p.Code))
	}
	var d differences
	codes, want := slices.Sorted(maps.Keys(got)), slices.Sorted(slices.Values(c.Refused.Codes))
	if !slices.Equal(codes, want) {
		d.add("code: got %s, want %s%s", list(codes), list(want), c.problemText())
	} else if !there {
		d.add("where: no such problem is at %s%s", c.Refused.Where, c.problemText())
	}
	return &Outcome{Differences: d}
}

// problemText returns the list of the problems, or "" without problems.
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
