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

// Breaker is a circuit breaker for the models of one endpoint, which it wraps. After several consecutive failures it
// opens: all requests fail at once with [llm.CodeUnreachable]. After a pause it lets one request through, whose result
// decides whether it closes. A refusal that is the request's own fault does not count as a failure. A cancelled request
// counts neither as a failure nor as a success.
type Breaker struct {
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	pause   time.Duration
	opened  atomic.Int64 // the time at which the breaker opened last, in Unix nanoseconds
}

// NewBreaker returns a breaker that opens after this number of consecutive failures, and tests the endpoint again after
// the pause.
func NewBreaker(failures int, pause time.Duration) (*Breaker, error) {
	if failures < 1 || pause <= 0 {
		return nil, errors.New("policy: a breaker needs 1 failure or more, and a pause above zero")
	}
	b := &Breaker{pause: pause}
	b.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:      pause,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= uint32(failures) },
		IsSuccessful: func(err error) bool { return !endpointFailed(err) },
		IsExcluded:   func(err error) bool { return errors.Is(err, context.Canceled) },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				b.opened.Store(time.Now().UnixNano())
			}
		},
	})
	return b, nil
}

// Wrap returns the model with the breaker.
func (b *Breaker) Wrap(m llm.Model) llm.Model {
	return wrapped{m, func(ctx context.Context, req *llm.Request, yield func(llm.Chunk, error) bool) {
		done, err := b.breaker.Allow()
		if err != nil {
			yield(llm.Chunk{}, b.open(m))
			return
		}
		outcome := error(context.Canceled) // remains if the consumer breaks out, or the model panics
		defer func() { done(outcome) }()
		err, more := forward(m.Generate(ctx, req), func(c llm.Chunk, _ error) bool { return yield(c, nil) })
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

// open returns the error of a request that the open breaker refuses. Its RetryAfter is the rest of the pause.
func (b *Breaker) open(m llm.Model) error {
	left := max(b.pause-time.Since(time.Unix(0, b.opened.Load())), 0)
	return &llm.Error{Code: llm.CodeUnreachable, Retryable: true, RetryAfter: left,
		Message: fmt.Sprintf("%s is not asked, because its endpoint has failed several times in a row; it is tried again in %s", m.Name(), left.Round(time.Millisecond))}
}
