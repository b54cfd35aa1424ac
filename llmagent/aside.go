package llmagent

import (
	"cmp"
	"context"
	"errors"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// aside is a question to a model whose answer is not said in the conversation: for a
// summary, or about who answers. The embedded answer is the last attempt's.
type aside struct {
	source llm.Model
	answer
}

func newAside(inv *agent.Invocation, model llm.Model, yield func(*event.Event, error) bool) *aside {
	return &aside{model, answer{inv: inv, yield: yield}}
}

// put asks, and once more if the answer breaks off. An attempt that was under way
// and failed is recorded, as it has its cost. Check says what a whole answer lacks.
func (s *aside) put(ctx context.Context, req *llm.Request, check func() error) error {
	for attempt := 1; ; attempt++ {
		s.answer = answer{inv: s.inv, yield: s.yield, quiet: true}
		err := s.read(ctx, s.inv.Runtime().Ask(ctx, s.inv, s.source, req))
		if err == nil {
			err = check()
		}
		if err == nil {
			return nil
		}
		if s.begun || errorCode(err) == string(llm.CodeTruncated) {
			s.begun = true
			void := &event.Discard{Code: errorCode(err), Message: err.Error(), Usage: s.used(s.source.Name())}
			if !s.yield(&event.Event{Data: void, More: true}, nil) {
				s.stopped = true
				return err
			}
		}
		if !s.begun || !llm.Retryable(err) || attempt > 1 || ctx.Err() != nil {
			return err
		}
	}
}

// fatal returns the error that ends the run, nil if the agent can go on without the
// answer.
func (s *aside) fatal(ctx context.Context, failure error) error {
	if failure != nil && (ctx.Err() != nil || spent(failure)) {
		return cmp.Or(ctx.Err(), failure)
	}
	return nil
}

// spent reports whether a model was not asked, because the turn's limits or budgets allow
// nothing more.
func spent(err error) bool {
	return errors.Is(err, agent.ErrLimit) || errors.Is(err, agent.ErrUnknownPrice) || errors.Is(err, agent.ErrUnknownUsage)
}
