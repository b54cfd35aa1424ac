package graphtest

import (
	"maps"
	"math"
	"slices"

	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/internal/yamldoc"
)

// statuses contains the statuses that a run can end with.
var statuses = []string{string(agentgraph.Completed), string(agentgraph.CompletedWithErrors), string(agentgraph.Recovered), string(agentgraph.Failed),
	string(agentgraph.Waiting), string(agentgraph.Cancelled)}

// expect reads the expected result of a run.
func (r *reader) expect(e *Expect, k *yamldoc.Key, n yamldoc.Node) pairs {
	if n.Len() == 0 && (n.Kind() == yamldoc.Mapping || n.Kind() == yamldoc.Nothing) {
		r.Add(r.Key, "expect is empty: nothing would be checked")
	} else if n.Kind() != yamldoc.Mapping {
		r.WrongType(k, n)
	}
	return r.Mapping([]yamldoc.Key{
		yamldoc.Custom("status", "a text", "", func(k *yamldoc.Key, n yamldoc.Node) {
			var ok bool
			if e.Status, ok = r.String(k, n); ok && !slices.Contains(statuses, e.Status) {
				r.Add(n, "the status %q does not exist%s", visible.Cut(e.Status, 60), nearest.Listed(e.Status, statuses))
			}
		}),
		yamldoc.Strings("order", "", &e.Order),
		yamldoc.Custom("parallel", "a list", "", func(k *yamldoc.Key, n yamldoc.Node) { e.Parallel = r.groups(k, n) }),
		yamldoc.Values("inputs", &e.Inputs),
		yamldoc.Values("outputs", &e.Outputs),
		yamldoc.Values("terminal", &e.Terminal),
		yamldoc.Strings("skipped", "", &e.Skipped),
		yamldoc.Strings("failed", "", &e.Failed),
		yamldoc.Strings("cancelled", "", &e.Cancelled).Or("canceled"),
		yamldoc.Strings("notRun", "", &e.NotRun),
		yamldoc.Custom("calls", "a mapping", "", func(k *yamldoc.Key, n yamldoc.Node) {
			e.Calls = map[string]int{}
			r.Values(k, n, func(id string, p yamldoc.Pair) {
				calls, ok := p.Value.Whole()
				if !ok || calls < 0 || calls > math.MaxInt32 {
					r.Add(p.Key, "%s must be a whole number from 0, not %s", visible.Cut(id, 60), p.Value.Describe())
				}
				e.Calls[id] = int(calls)
			})
		}),
		yamldoc.Values("state", &e.State),
		yamldoc.Custom("error", "a mapping", "", func(k *yamldoc.Key, n yamldoc.Node) { e.Error = r.expectError(k, n) }),
		yamldoc.Strings("fallbackInputHas", "", &e.FallbackInputHas),
		yamldoc.Custom("configSeen", "a mapping", "", func(k *yamldoc.Key, n yamldoc.Node) {
			e.ConfigSeen = map[string]map[string]any{}
			r.Values(k, n, func(id string, p yamldoc.Pair) {
				seen := map[string]any{}
				r.Key, r.Name = p.Key, visible.Cut(id, 60)
				r.Values(k, p.Value, func(key string, p yamldoc.Pair) { seen[key] = r.Any(p.Value) })
				e.ConfigSeen[id] = seen
			})
		}),
	}, "", n)
}

// groups reads the groups of nodes that must run at the same time.
func (r *reader) groups(k *yamldoc.Key, n yamldoc.Node) (groups [][]string) {
	if n.Kind() != yamldoc.List {
		r.WrongType(k, n)
		return nil
	}
	for i := range n.Len() {
		r.Key, r.Name = n.Item(i), "a group of parallel"
		group := r.Texts(&yamldoc.Key{Type: "a list of texts"}, n.Item(i))
		if len(group) < 2 {
			r.Add(n.Item(i), "a group of parallel has at least two ids: parallel: [[b, c]]")
		}
		groups = append(groups, group)
	}
	return groups
}

func (r *reader) expectError(k *yamldoc.Key, n yamldoc.Node) *ExpectError {
	var e ExpectError
	if n.Kind() != yamldoc.Mapping {
		r.WrongType(k, n)
		return &e
	}
	at := r.Key
	r.Mapping([]yamldoc.Key{
		yamldoc.String("agent", "", &e.Agent),
		yamldoc.String("edge", "", &e.Edge),
		yamldoc.Words("contains", &e.Contains)}, "", n)
	switch {
	case n.Len() == 0:
		r.Add(at, "error has agent or edge, and contains: a text in its message, or a list of them")
	case e.Agent != "" && e.Edge != "":
		r.Add(at, "error is about an agent or about an edge, not about both")
	}
	return &e
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
