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
	// judge says whether a statement about what came of a turn is true. An error says that
	// it could not be found out.
	judge     func(ctx context.Context, t *TurnOutcome, statement string) (*Verdict, error)
	agreement func(ctx context.Context) (*Agreement, error) // of the judge with people
	store     func() session.Store                          // of a subject
}

// Repeat plays each case so often. The default is once.
func Repeat(n int) Option { return func(o *options) { o.repeat = n } }

// Parallel is how many cases are played at once; each has a session of its own. The default is 4.
func Parallel(n int) Option { return func(o *options) { o.parallel = n } }

// WithPrices sets what models cost. Without it no cost is known.
func WithPrices(p llm.Prices) Option { return func(o *options) { o.prices = p } }

// WithRunner sets options of the runners that play the cases.
func WithRunner(opts ...runner.Option) Option {
	return func(o *options) { o.runner = append(o.runner, opts...) }
}

// Progress is told what came of each case, as soon as it is over: one call at a time, and
// in no order if several are played at once. What it is given must not be changed.
func Progress(f func(subject string, o *Outcome)) Option {
	return func(o *options) { o.progress = f }
}
