package policy

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/agentarbor/arbor/llm"
)

// Breaker is a circuit breaker for the models that it wraps: those of one endpoint. After
// some failures in a row it lets no request through for a while, and then one, which
// decides whether the endpoint is back. Requests that it holds up fail at once with
// llm.CodeUnreachable. A refusal that is the request's own fault is no failure, and what
// the caller cancels neither a failure nor a success.
type Breaker struct {
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	pause   time.Duration
	opened  atomic.Int64 // when, in nanoseconds
}

// NewBreaker opens after so many failures in a row, for a while.
func NewBreaker(failures int, pause time.Duration) (*Breaker, error) {
	if failures < 1 || pause <= 0 {
		return nil, errors.New("policy: a breaker needs 1 failure or more, and a pause above zero")
	}
	b := &Breaker{pause: pause}
	b.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:      pause,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= uint32(failures) },
		IsSuccessful: func(err error) bool { return !faulty(err) },
		IsExcluded:   func(err error) bool { return errors.Is(err, context.Canceled) },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				b.opened.Store(time.Now().UnixNano())
			}
		},
	})
	return b, nil
}

// Wrap returns the model behind the breaker.
func (b *Breaker) Wrap(m llm.Model) llm.Model {
	return wrapped{m, func(ctx context.Context, req *llm.Request, yield func(llm.Chunk, error) bool) {
		done, err := b.breaker.Allow()
		if err != nil {
			yield(llm.Chunk{}, b.open(m))
			return
		}
		outcome := error(context.Canceled) // also if the consumer, or the model, panics
		defer func() { done(outcome) }()
		err, more := pass(m.Generate(ctx, req), func(c llm.Chunk, _ error) bool { return yield(c, nil) })
		switch {
		case !more:
			return
		case ctx.Err() == nil:
			outcome = err
		}
		if err != nil {
			yield(llm.Chunk{}, err)
		}
	}}
}

// open is the error of a request that is held up. It says when it is worth trying again.
func (b *Breaker) open(m llm.Model) error {
	left := max(b.pause-time.Since(time.Unix(0, b.opened.Load())), 0)
	return &llm.Error{Code: llm.CodeUnreachable, Retryable: true, RetryAfter: left,
		Message: fmt.Sprintf("%s is not asked, because its endpoint has failed several times in a row; it is tried again in %s", m.Name(), left.Round(time.Millisecond))}
}
