package live

import (
	"context"
	"iter"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// Backend runs turns: a [runner.Runner], or an engine that makes turns durable. Its methods do what those
// of a runner do, with the same errors and the same order of events, and are safe for concurrent use. When
// the context of a turn is cancelled, its cause is the reason, such as [ErrStopped] or [ErrClosed].
type Backend interface {
	Run(ctx context.Context, key session.Key, msg llm.Message, opts ...runner.TurnOption) iter.Seq2[*event.Event, error]
	Resume(ctx context.Context, key session.Key, decisions ...runner.Decision) iter.Seq2[*event.Event, error]
	Cancel(ctx context.Context, key session.Key, opts ...runner.TurnOption) ([]*event.Event, error)
}

// taker is a [Backend] whose turns are taken over by whoever finds them. One that is none goes on with them itself.
type taker interface {
	TakeOver(ctx context.Context, key session.Key) iter.Seq2[*event.Event, error]
}

// WithBackend sets what runs the turns of a runner. It is called once for each runner, including those
// given to [Turns.Swap] and those of parts of the tree. Defaults to the runner itself. The runner still
// reads sessions and delivers what people write at a desk.
func WithBackend(of func(*runner.Runner) Backend) Option { return func(t *Turns) { t.backends = of } }

// seat is a runner with what runs its turns.
type seat struct {
	*runner.Runner
	backend Backend
}
