package a2a

import (
	"math"
	"slices"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/visible"
)

// Limits of the usage that a peer reports.
const (
	maxUsageModels = 32
	maxModelName   = 200
	maxTokens      = 1 << 40
)

// readUsage stores the usage that a peer with our extension reports for its models, in the metadata of a task or of its
// last status: under the extension's key {"usage": [{"model": …, "inputTokens": …, "outputTokens": …, "cachedTokens":
// …}]}. No other metadata is read, and the usage counts towards no limit. Invalid entries are skipped. A later report
// replaces an earlier one.
func (a *answer) readUsage(metadata map[string]any) {
	ours, _ := metadata[Extension].(map[string]any)
	entries, _ := ours["usage"].([]any)
	if len(entries) == 0 {
		return
	}
	a.usage = nil
	for _, entry := range entries[:min(len(entries), maxUsageModels)] {
		m, _ := entry.(map[string]any)
		model, isName := m["model"].(string)
		u := event.Usage{Model: visible.Cut(a.secrets.redactAnswer(model), maxModelName)}
		ok := m != nil && (isName || m["model"] == nil)
		for name, n := range map[string]*int{"inputTokens": &u.InputTokens, "outputTokens": &u.OutputTokens, "cachedTokens": &u.CachedTokens} {
			if v, there := m[name]; there {
				var valid bool
				*n, valid = tokenCount(v)
				ok = ok && valid
			}
		}
		if ok && !slices.ContainsFunc(a.usage, func(o event.Usage) bool { return o.Model == u.Model }) {
			a.usage = append(a.usage, u)
		}
	}
}

// tokenCount returns a number of tokens, and whether it is valid.
func tokenCount(v any) (int, bool) {
	f, ok := v.(float64)
	if !ok || f < 0 || f > maxTokens || f != math.Trunc(f) {
		return 0, false
	}
	return int(f), true
}
