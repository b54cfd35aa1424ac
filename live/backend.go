package live

import (
	"context"
	"errors"
	"iter"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// Backend runs turns: a [runner.Runner], or an engine that makes them durable. Its methods do what those of a runner
// do, with the same errors and the same order of events, and are safe for concurrent use. The context of a turn ends
// with what cut it off as its cause, such as [ErrStopped] or [ErrClosed].
type Backend interface {
	Run(ctx context.Context, key session.Key, msg llm.Message, opts ...runner.TurnOption) iter.Seq2[*event.Event, error]
	Resume(ctx context.Context, key session.Key, decisions ...runner.Decision) iter.Seq2[*event.Event, error]
	Cancel(ctx context.Context, key session.Key, opts ...runner.TurnOption) ([]*event.Event, error)
}

// taker is a [Backend] whose turns are taken over by whoever finds them. One that is none goes on with them itself.
type taker interface {
	TakeOver(ctx context.Context, key session.Key) iter.Seq2[*event.Event, error]
}

// WithBackend sets what runs the turns of a runner, which is asked for once for each runner, those that come by
// [Turns.Swap] and those of parts of the tree too. By default it is the runner itself, which goes on reading
// what sessions are, and giving them what persons say at a desk.
func WithBackend(of func(*runner.Runner) Backend) Option { return func(t *Turns) { t.backend = of } }

// seat is a runner with what runs its turns.
type seat struct {
	*runner.Runner
	backend Backend
}

// seat makes the seat of a runner.
func (t *Turns) seat(run *runner.Runner) (s seat, err error) {
	s = seat{run, run}
	if t.backend != nil {
		if s.backend = t.backend(run); s.backend == nil {
			return seat{}, errors.New("live: the function of WithBackend returned none")
		}
	}
	return s, nil
}
