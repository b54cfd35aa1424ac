package live

import (
	"context"
	"iter"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// Backend runs turns: a [runner.Runner], or an engine that makes turns durable. Its methods behave like those of a
// runner, with the same errors and the same order of events, and are safe for concurrent use. If the context of a
// turn is canceled, its cause is the reason, such as [session.ErrStopped] or [ErrClosed].
type Backend interface {
	Run(ctx context.Context, key session.Key, msg llm.Message, opts ...runner.TurnOption) iter.Seq2[*event.Event, error]
	Resume(ctx context.Context, key session.Key, decisions ...runner.Decision) iter.Seq2[*event.Event, error]
	Cancel(ctx context.Context, key session.Key, opts ...runner.TurnOption) ([]*event.Event, error)
}

// adopter is a [Backend] that adopts turns whose process died. Other backends, such as durable engines, resume such
// turns themselves.
type adopter interface {
	Adopt(ctx context.Context, key session.Key) iter.Seq2[*event.Event, error]
}

// WithBackend sets the function that returns the backend of a runner. It is called once for each runner, including
// those given to [Turns.Swap] and those of parts of the tree, and must not return nil. The runner still reads
// sessions and delivers messages from a desk. Defaults to the runner itself.
func WithBackend(of func(*runner.Runner) Backend) Option { return func(t *Turns) { t.backends = of } }

// runnerBackend is a runner and the backend that runs its turns.
type runnerBackend struct {
	*runner.Runner
	backend Backend
}
