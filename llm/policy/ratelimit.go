package policy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/llm"
)

// RateLimit bounds how many requests, and if wanted how many tokens, are sent in a time,
// over all the models that it wraps. Requests beyond that wait.
type RateLimit struct {
	requests, tokens *rate.Limiter // tokens is nil without a bound
	count            llm.TokenCounter
	most             time.Duration
}

// RateOption configures NewRateLimit.
type RateOption func(*RateLimit)

// TokensPerMinute also bounds the tokens of requests and of the answers that their
// MaxTokens allow. Count says how many there are in a text, and is an estimate if nil. A
// request that is longer than a whole minute's tokens waits for all of them.
func TokensPerMinute(n int, count llm.TokenCounter) RateOption {
	return func(l *RateLimit) { l.tokens, l.count = rate.NewLimiter(rate.Limit(float64(n)/60), n), count }
}

// MaxWait sets how long a request may wait. If it had to wait longer it fails at once
// with llm.CodeRateLimited, so that a [Fallback] around the limit goes on. The default
// is no bound.
func MaxWait(d time.Duration) RateOption { return func(l *RateLimit) { l.most = d } }

// NewRateLimit bounds requests to so many a second; burst is how many may be sent at
// once after a quiet time.
func NewRateLimit(perSecond float64, burst int, opts ...RateOption) (*RateLimit, error) {
	l := &RateLimit{requests: rate.NewLimiter(rate.Limit(perSecond), burst), most: math.MaxInt64}
	if err := option.Apply(l, opts); err != nil {
		return nil, fmt.Errorf("policy: rate limit: %w", err)
	}
	switch {
	case !(perSecond > 0) || burst < 1:
		return nil, errors.New("policy: a rate limit needs a rate above zero and a burst of 1 or more")
	case l.tokens != nil && l.tokens.Burst() < 1:
		return nil, errors.New("policy: a rate limit of tokens must allow one or more")
	case l.most < 0:
		return nil, errors.New("policy: the longest wait of a rate limit is negative")
	}
	return l, nil
}

// Wrap returns the model under the limit.
func (l *RateLimit) Wrap(m llm.Model) llm.Model {
	return wrapped{m, func(ctx context.Context, req *llm.Request, yield func(llm.Chunk, error) bool) {
		began := time.Now()
		if err := l.wait(ctx, m, req); err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		if waited(began, "the rate limit of "+m.Name(), yield) {
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
	if wait > l.most {
		giveBack()
		return &llm.Error{Code: llm.CodeRateLimited, Retryable: true, RetryAfter: wait,
			Message: fmt.Sprintf("%s: the rate limit of this program would hold the request back for %s", m.Name(), wait.Round(time.Millisecond))}
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		giveBack()
		return ctx.Err()
	}
}
