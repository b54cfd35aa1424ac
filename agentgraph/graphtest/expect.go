package graphtest

import (
	"maps"
	"slices"

	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/internal/yamldoc"
)

// statuses are those that a run can end with.
var statuses = []string{string(agentgraph.Completed), string(agentgraph.CompletedWithErrors), string(agentgraph.Recovered), string(agentgraph.Failed),
	string(agentgraph.Waiting), string(agentgraph.Cancelled)}

// expect reads what is expected of a run.
func (r *reader) expect(p *pair) Expect {
	var e Expect
	f := r.Fields(p.Value, "expect", map[string]string{"canceled": "cancelled"}, "status", "order", "parallel", "inputs", "outputs", "terminal",
		"skipped", "failed", "cancelled", "notRun", "calls", "state", "error", "fallbackInputHas", "configSeen")
	if len(f) == 0 {
		r.Add(p.Line, "expect is empty: nothing would be checked")
		return e
	}
	if s := f["status"]; s != nil {
		if e.Status = r.Text(s); e.Status != "" && !slices.Contains(statuses, e.Status) {
			r.Add(s.Line, "the status %q does not exist%s", short(e.Status, 60), nearest.Listed(e.Status, statuses))
		}
	}
	for key, to := range map[string]*[]string{"order": &e.Order, "skipped": &e.Skipped, "failed": &e.Failed, "cancelled": &e.Cancelled,
		"notRun": &e.NotRun, "fallbackInputHas": &e.FallbackInputHas} {
		if f[key] != nil {
			*to = r.Texts(f[key])
		}
	}
	for key, to := range map[string]*map[string]any{"inputs": &e.Inputs, "outputs": &e.Outputs, "terminal": &e.Terminal, "state": &e.State} {
		if f[key] != nil {
			*to = r.Values(f[key])
		}
	}
	if f["parallel"] != nil {
		list := r.List(f["parallel"])
		for i := range list.Len() {
			n := list.Item(i)
			group := r.Texts(&pair{Key: "a group of parallel", Line: n.Line(), Value: n})
			if len(group) < 2 {
				r.Add(n.Line(), "a group of parallel has at least two ids: parallel: [[b, c]]")
			}
			e.Parallel = append(e.Parallel, group)
		}
	}
	if f["calls"] != nil {
		e.Calls = map[string]int{}
		for _, p := range r.Pairs(f["calls"].Value, "calls") {
			e.Calls[p.Key] = r.Whole(&p, 0)
		}
	}
	if f["error"] != nil {
		e.Error = r.expectError(f["error"])
	}
	if f["configSeen"] != nil {
		e.ConfigSeen = map[string]map[string]any{}
		for _, p := range r.Pairs(f["configSeen"].Value, "configSeen") {
			e.ConfigSeen[p.Key] = r.Values(&p)
		}
	}
	return e
}

func (r *reader) expectError(p *pair) *ExpectError {
	f := r.Fields(p.Value, "error", nil, "agent", "edge", "contains")
	if len(f) == 0 {
		r.Add(p.Line, "error has agent or edge, and contains: a text in its message, or a list of them")
	}
	var e ExpectError
	for key, to := range map[string]*string{"agent": &e.Agent, "edge": &e.Edge} {
		if f[key] != nil {
			*to = r.Text(f[key])
		}
	}
	if c := f["contains"]; c != nil {
		if c.Value.Kind() == yamldoc.List {
			e.Contains = r.Texts(c)
		} else {
			e.Contains = []string{r.Text(c)}
		}
	}
	if f["agent"] != nil && f["edge"] != nil {
		r.Add(p.Line, "error is about an agent or about an edge, not about both")
	}
	return &e
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
