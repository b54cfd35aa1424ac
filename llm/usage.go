package llm

import "math"

// Usage counts tokens of one answer. CachedTokens is the part of InputTokens
// that the provider read from its prompt cache. Endpoints are believed within reason:
// see [Usage.Plausible].
type Usage struct {
	InputTokens, OutputTokens, CachedTokens int
}

// maxPlausible is more than any model takes or gives in one answer.
const maxPlausible = 1 << 30

// Plausible returns the usage of one answer as it may be counted, and whether it may.
// A negative number, or one that no model's answer can have, would lift a budget or
// use it up: the usage is unknown then, and all zero. An impossible number of cached
// tokens is left out.
func (u Usage) Plausible() (Usage, bool) {
	for _, n := range [...]int{u.InputTokens, u.OutputTokens} {
		if n < 0 || n > maxPlausible {
			return Usage{}, false
		}
	}
	if u.CachedTokens < 0 || u.CachedTokens > maxPlausible {
		u.CachedTokens = 0
	}
	return u, true
}

// Add returns the sum of two usages. None of its numbers is negative or
// overflows.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		InputTokens:  saturated(u.InputTokens, v.InputTokens),
		OutputTokens: saturated(u.OutputTokens, v.OutputTokens),
		CachedTokens: saturated(u.CachedTokens, v.CachedTokens),
	}
}

func saturated(a, b int) int {
	a, b = max(a, 0), max(b, 0)
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}
