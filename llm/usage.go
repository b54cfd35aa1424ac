package llm

import "math"

// Usage is the number of tokens of one answer. CachedTokens is the part of InputTokens that the provider read from its
// prompt cache. Endpoints may report impossible numbers: see [Usage.Plausible].
type Usage struct {
	InputTokens, OutputTokens, CachedTokens int
}

// maxPlausible is above the tokens of any request or answer.
const maxPlausible = 1 << 30

// Plausible returns the usage to count, and whether the reported numbers are possible. A negative or impossibly large
// number of input or output tokens would raise or use up a budget: Plausible then returns zero usage and false. It sets
// an impossible number of cached tokens to 0.
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

// Add returns the sum of two usages. It counts negative numbers as 0, and a sum never overflows.
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
