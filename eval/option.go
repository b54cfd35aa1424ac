package eval

import (
	"context"

	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// Option configures [Run] and [Test].
type Option func(*options)

type options struct {
	repeat, parallel int
	prices           llm.Prices
	runner           []runner.Option
	progress         func(subject string, o *Outcome)
	// judge reports whether a statement about the outcome of a turn is true. It returns an error if it cannot decide.
	judge     func(ctx context.Context, t *TurnOutcome, statement string) (*Verdict, error)
	agreement func(ctx context.Context) (*Agreement, error) // of the judge with people
	store     func() session.Store                          // returns the store for a subject
}

// Repeat plays each case n times. Defaults to 1.
func Repeat(n int) Option { return func(o *options) { o.repeat = n } }

// Parallel sets the number of cases that are played at once; each has a session of its own. Defaults to 4.
func Parallel(n int) Option { return func(o *options) { o.parallel = n } }

// WithPrices sets the prices of models. Without it the cost is unknown.
func WithPrices(p llm.Prices) Option { return func(o *options) { o.prices = p } }

// WithRunner sets options of the runners that play the cases.
func WithRunner(opts ...runner.Option) Option {
	return func(o *options) { o.runner = append(o.runner, opts...) }
}

// Progress calls f with the outcome of each case as soon as it is over: one call at a time, in any order if several
// cases are played at once. f must not change its arguments.
func Progress(f func(subject string, o *Outcome)) Option {
	return func(o *options) { o.progress = f }
}
