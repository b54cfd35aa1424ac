package runner_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// TestNilOptions: a nil is either refused when the runner is made or means the
// default; it never shows as a panic in a turn.
func TestNilOptions(t *testing.T) {
	budgets := runner.WithBudgets(runner.Budgets{Session: runner.Budget{Tokens: 1000}})
	for name, c := range map[string]struct {
		opts []runner.Option
		want string
	}{
		"an option":            {[]runner.Option{budgets, nil}, "option 1 is nil"},
		"the clock":            {[]runner.Option{runner.WithClock(nil)}, "nil"},
		"the logger":           {[]runner.Option{runner.WithLogger(nil)}, "nil"},
		"an interceptor":       {[]runner.Option{runner.WithInterceptors(spy{}, nil)}, "nil"},
		"no interceptors":      {[]runner.Option{runner.WithInterceptors()}, ""},
		"the ids":              {[]runner.Option{runner.WithIDs(nil)}, ""},
		"the token counter":    {[]runner.Option{runner.WithTokenCounter(nil), budgets}, ""},
		"the prices":           {[]runner.Option{runner.WithPrices(nil)}, ""},
		"a negative cache":     {[]runner.Option{runner.WithCache(-1)}, ""},
		"a negative wait":      {[]runner.Option{runner.WithWait(-time.Second)}, ""},
		"no limit on time":     {[]runner.Option{runner.WithLimits(runner.Limits{Time: runner.NoLimit})}, ""},
		"a price below naught": {[]runner.Option{runner.WithPrices(llm.Prices{"m": {Output: -1}})}, `"m" is -1`},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := runner.New(says(t, "solo", "Hello."), sessiontest.Memory(t), c.opts...)
			if c.want != "" {
				require.Nil(t, r)
				require.ErrorContains(t, err, c.want)
				return
			}
			require.NoError(t, err)
			events := run(t, r, s1, "Hi")
			require.Equal(t, "solo: Hello.", said(events))
			preview := must.Get(r.Preview(t.Context(), s1, "solo"))
			require.Equal(t, llm.CountRequest(preview.Request, llm.EstimateTokens), preview.Tokens)
		})
	}
	_, err := runner.New(nil, sessiontest.Memory(t))
	require.ErrorContains(t, err, "the root agent is nil")
	_, err = runner.New(says(t, "solo", "Hello."), nil)
	require.ErrorContains(t, err, "the store is nil")
}
