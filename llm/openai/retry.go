package openai

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/agentarbor/arbor/llm"
)

// sendWithRetries sends a request until an answer starts, or a retry is useless.
func (c *client) sendWithRetries(ctx context.Context, w *writing) (*attempt, error) {
	model, tries, most := w.model, 0, uint(c.retries)+1
	if w.req.Once {
		most = 1
	}
	a, err := backoff.Retry(ctx, func() (*attempt, error) {
		tries++
		start := time.Now()
		a, err := c.try(ctx, w)
		for err != nil && ctx.Err() == nil && !a.answered && w.mend(err, a.refusal) {
			c.log.LogAttrs(ctx, slog.LevelWarn, "the endpoint refuses the form of a request, which is sent in another one",
				slog.String("model", model), slog.String("endpoint", c.where), slog.String("form", quirkTable[w.last].name), slog.Any("error", err))
			a, err = c.try(ctx, w)
		}
		c.log.LogAttrs(ctx, slog.LevelDebug, "model call",
			slog.String("model", model), slog.String("endpoint", c.where), slog.Int("attempt", tries),
			slog.Duration("took", time.Since(start)), slog.Any("error", err))
		if err == nil {
			w.remember()
			return a, nil
		}
		var e *llm.Error
		switch {
		case ctx.Err() != nil, a.answered, !errors.As(err, &e), !again(e), e.RetryAfter > c.maxRetryAfter:
			return nil, backoff.Permanent(err)
		case e.RetryAfter > 0:
			return nil, &waitError{err, &backoff.RetryAfterError{Duration: e.RetryAfter}}
		}
		return nil, err
	},
		backoff.WithBackOff(&fullJitter{base: c.retryBase, limit: c.retryMax}),
		backoff.WithMaxTries(most),
		backoff.WithMaxElapsedTime(0), // the number of retries and the context limit it
		backoff.WithNotify(func(err error, wait time.Duration) {
			c.log.LogAttrs(ctx, slog.LevelWarn, "model call is tried again",
				slog.String("model", model), slog.String("endpoint", c.where), slog.Int("failed", tries),
				slog.Duration("wait", wait), slog.Any("error", err))
		}),
	)
	if err == nil {
		return a, nil
	}
	if cerr := ctx.Err(); cerr != nil {
		return nil, cerr
	}
	var e *llm.Error
	if !errors.As(err, &e) {
		return nil, err
	}
	if tries > 1 {
		e.Message += fmt.Sprintf(" (tried %d times)", tries)
	}
	return nil, e // without the wrapper of the retry loop
}

// again reports whether a failure before an answer is worth a retry. A time limit is not: the endpoint has accepted the
// request, may still be processing it, and has used up a long time already.
func again(e *llm.Error) bool {
	var limit *limitError
	if errors.As(e, &limit) {
		return limit.phase == phaseConnect
	}
	return e.Retryable
}

// waitError is a failure whose endpoint asked for a wait.
type waitError struct {
	error
	wait *backoff.RetryAfterError
}

func (e *waitError) Unwrap() []error { return []error{e.error, e.wait} }

// fullJitter waits a random time between zero and a limit that doubles, so that clients that failed together do not
// retry together; see "Exponential Backoff And Jitter" in the AWS Architecture Blog.
type fullJitter struct {
	base, limit time.Duration
	bound       time.Duration
}

func (j *fullJitter) Reset() { j.bound = j.base }

func (j *fullJitter) NextBackOff() time.Duration {
	if j.bound <= 0 {
		return 0
	}
	wait := rand.N(j.bound + 1)
	j.bound = min(2*j.bound, j.limit)
	return wait
}
