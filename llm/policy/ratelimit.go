package policy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/internal/sleep"
	"github.com/agentarbor/arbor/llm"
)

// RateLimit limits the rate of requests, and optionally of tokens, of all models that it wraps. Further requests wait.
type RateLimit struct {
	requests, tokens *rate.Limiter // tokens is nil without a limit
	count            llm.TokenCounter
	maxWait          time.Duration
}

// RateOption configures NewRateLimit.
type RateOption func(*RateLimit)

// TokensPerMinute also limits the tokens of requests, including the answers' MaxTokens. If count is nil, the limit uses
// [llm.EstimateTokens]. A request with more than n tokens waits for the tokens of a whole minute.
func TokensPerMinute(n int, count llm.TokenCounter) RateOption {
	return func(l *RateLimit) { l.tokens, l.count = rate.NewLimiter(rate.Limit(float64(n)/60), n), count }
}

// MaxWait sets the longest wait of a request. A request that would wait longer fails at once with
// [llm.CodeRateLimited], so that a [Fallback] around the limit asks its next model. Defaults to no limit.
func MaxWait(d time.Duration) RateOption { return func(l *RateLimit) { l.maxWait = d } }

// NewRateLimit returns a limit of requests per second. burst is the number of requests that may be sent at once after a
// quiet period.
func NewRateLimit(perSecond float64, burst int, opts ...RateOption) (*RateLimit, error) {
	l := &RateLimit{requests: rate.NewLimiter(rate.Limit(perSecond), burst), maxWait: math.MaxInt64}
	if err := option.Apply(l, opts); err != nil {
		return nil, fmt.Errorf("policy: rate limit: %w", err)
	}
	switch {
	case !(perSecond > 0) || burst < 1:
		return nil, errors.New("policy: a rate limit needs a rate above zero and a burst of 1 or more")
	case l.tokens != nil && l.tokens.Burst() < 1:
		return nil, errors.New("policy: a rate limit of tokens must allow one or more")
	case l.maxWait < 0:
		return nil, errors.New("policy: the longest wait of a rate limit is negative")
	}
	return l, nil
}

// Wrap returns the model with the limit.
func (l *RateLimit) Wrap(m llm.Model) llm.Model {
	return wrapped{m, func(ctx context.Context, req *llm.Request, yield func(llm.Chunk, error) bool) {
		began := time.Now()
		if err := l.wait(ctx, m, req); err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		if noticeWait(began, "the rate limit of "+m.Name(), yield) {
			m.Generate(ctx, req)(yield)
		}
	}}
}

func (l *RateLimit) wait(ctx context.Context, m llm.Model, req *llm.Request) error {
	now := time.Now()
	taken := []*rate.Reservation{l.requests.ReserveN(now, 1)}
	if l.tokens != nil {
		n := llm.CountRequest(req, l.count) + max(req.MaxTokens, 0)
		taken = append(taken, l.tokens.ReserveN(now, min(n, l.tokens.Burst())))
	}
	wait := time.Duration(0)
	for _, r := range taken {
		wait = max(wait, r.DelayFrom(now))
	}
	giveBack := func() {
		for _, r := range taken {
			r.Cancel()
		}
	}
	if wait > l.maxWait {
		giveBack()
		return &llm.Error{Code: llm.CodeRateLimited, Retryable: true, RetryAfter: wait,
			Message: fmt.Sprintf("%s: the rate limit of this program would hold the request back for %s", m.Name(), wait.Round(time.Millisecond))}
	}
	if sleep.For(ctx, wait) != nil {
		giveBack()
		return notAsked(ctx, m)
	}
	return nil
}
