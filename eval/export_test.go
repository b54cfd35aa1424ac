package eval

import (
	"context"

	"github.com/agentarbor/arbor/session"
)

// WithStores has the sessions of cases in stores of a test.
func WithStores(store func() session.Store) Option { return func(o *options) { o.store = store } }

// WithJudgeFunc has a function judge.
func WithJudgeFunc(judge func(context.Context, *TurnOutcome, string) (*Verdict, error)) Option {
	return func(o *options) { o.judge = judge }
}

var (
	Percentile = percentile
	Decisions  = Path.decisions
)
