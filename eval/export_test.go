package eval

import "github.com/agentarbor/arbor/session"

// WithStores has the sessions of cases in stores of a test.
func WithStores(store func() session.Store) Option { return func(o *options) { o.store = store } }

var (
	Percentile = percentile
	Decisions  = Path.decisions
)
