package graphtest

import (
	"maps"
	"slices"

	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/internal/yamldoc"
)

// statuses are those that a run can end with.
var statuses = []string{string(agentgraph.Completed), string(agentgraph.CompletedWithErrors), string(agentgraph.Recovered), string(agentgraph.Failed),
	string(agentgraph.Waiting), string(agentgraph.Cancelled)}

// expect reads what is expected of a run.
func (r *reader) expect(p *pair) Expect {
	var e Expect
	f := r.fields(p.value, "expect", map[string]string{"canceled": "cancelled"}, "status", "order", "parallel", "inputs", "outputs", "terminal",
		"skipped", "failed", "cancelled", "notRun", "calls", "state", "error", "fallbackInputHas", "configSeen")
	if len(f) == 0 {
		r.add(p.line, "expect is empty: nothing would be checked")
		return e
	}
	if s := f["status"]; s != nil {
		if e.Status = r.text(s); e.Status != "" && !slices.Contains(statuses, e.Status) {
			r.add(s.line, "the status %q does not exist%s", short(e.Status, 60), didYouMean(e.Status, statuses))
		}
	}
	for key, to := range map[string]*[]string{"order": &e.Order, "skipped": &e.Skipped, "failed": &e.Failed, "cancelled": &e.Cancelled,
		"notRun": &e.NotRun, "fallbackInputHas": &e.FallbackInputHas} {
		if f[key] != nil {
			*to = r.texts(f[key])
		}
	}
	for key, to := range map[string]*map[string]any{"inputs": &e.Inputs, "outputs": &e.Outputs, "terminal": &e.Terminal, "state": &e.State} {
		if f[key] != nil {
			*to = r.values(f[key])
		}
	}
	if f["parallel"] != nil {
		list := r.list(f["parallel"])
		for i := range list.Len() {
			n := list.Item(i)
			group := r.texts(&pair{"a group of parallel", n.Line(), n})
			if len(group) < 2 {
				r.add(n.Line(), "a group of parallel has at least two ids: parallel: [[b, c]]")
			}
			e.Parallel = append(e.Parallel, group)
		}
	}
	if f["calls"] != nil {
		e.Calls = map[string]int{}
		for _, p := range r.pairs(f["calls"].value, "calls") {
			e.Calls[p.key] = r.whole(&p, 0)
		}
	}
	if f["error"] != nil {
		e.Error = r.expectError(f["error"])
	}
	if f["configSeen"] != nil {
		e.ConfigSeen = map[string]map[string]any{}
		for _, p := range r.pairs(f["configSeen"].value, "configSeen") {
			e.ConfigSeen[p.key] = r.values(&p)
		}
	}
	return e
}

func (r *reader) expectError(p *pair) *ExpectError {
	f := r.fields(p.value, "error", nil, "agent", "edge", "contains")
	if len(f) == 0 {
		r.add(p.line, "error has agent or edge, and contains: a text in its message, or a list of them")
	}
	var e ExpectError
	for key, to := range map[string]*string{"agent": &e.Agent, "edge": &e.Edge} {
		if f[key] != nil {
			*to = r.text(f[key])
		}
	}
	if c := f["contains"]; c != nil {
		if c.value.Kind() == yamldoc.List {
			e.Contains = r.texts(c)
		} else {
			e.Contains = []string{r.text(c)}
		}
	}
	if f["agent"] != nil && f["edge"] != nil {
		r.add(p.line, "error is about an agent or about an edge, not about both")
	}
	return &e
}

// values reads a mapping of any values. It is not nil, even if it is empty.
func (r *reader) values(p *pair) map[string]any {
	out := map[string]any{}
	for _, p := range r.pairs(p.value, p.key) {
		out[p.key] = r.any(p.value, 0)
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
