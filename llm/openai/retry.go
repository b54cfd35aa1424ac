package openai

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/agentarbor/arbor/internal/sleep"
	"github.com/agentarbor/arbor/llm"
)

// sendWithRetries sends a request until an answer starts, or a retry is useless. Without a wait that the endpoint asks
// for, it waits a random time between zero and a bound that doubles, so that clients that failed together do not retry
// together; see "Exponential Backoff And Jitter" in the AWS Architecture Blog.
func (c *client) sendWithRetries(ctx context.Context, w *writing) (*attempt, error) {
	bound := c.retryBase
	for tries := 1; ; tries++ {
		a, err := c.sendInForms(ctx, w, tries)
		var e *llm.Error
		switch {
		case err == nil:
			w.remember()
			return a, nil
		case ctx.Err() != nil && a.refusal == "": // the request was under way
			return nil, ctx.Err()
		case !errors.As(err, &e):
			return nil, err
		case ctx.Err() != nil:
			return nil, notRetried(ctx, e)
		case w.req.Once, tries > c.retries, a.answered, !again(e), e.RetryAfter > c.maxRetryAfter:
			if tries > 1 {
				e.Message += fmt.Sprintf(" (tried %d times)", tries)
			}
			return nil, e
		}
		if e.Code == llm.CodeUnreachable {
			c.http.CloseIdleConnections() // they may be as dead, and each retry would meet another one
		}
		wait := e.RetryAfter
		if wait > 0 {
			bound = c.retryBase
		} else {
			wait, bound = rand.N(bound+1), min(2*bound, c.retryMax)
		}
		c.log.LogAttrs(ctx, slog.LevelWarn, "model call is tried again",
			slog.String("model", w.model), slog.String("endpoint", c.where), slog.Int("failed", tries),
			slog.Duration("wait", wait), slog.Any("error", err))
		if sleep.For(ctx, wait) != nil {
			return nil, notRetried(ctx, e)
		}
	}
}

// notRetried returns the error of a request that failed, and whose context ended before it was sent again. It is an
// [llm.Error], because budgets charge for a request that ends with the error of its context alone.
func notRetried(ctx context.Context, failed *llm.Error) error {
	e := *failed
	e.Message, e.Retryable, e.Err = e.Message+"; it was cancelled before it was tried again", false, ctx.Err()
	return &e
}

// sendInForms sends a request, and again in each form that a refusal asks for.
func (c *client) sendInForms(ctx context.Context, w *writing, tries int) (*attempt, error) {
	start := time.Now()
	a, err := c.try(ctx, w)
	for err != nil && ctx.Err() == nil && !a.answered && w.mend(err, a.refusal) {
		c.log.LogAttrs(ctx, slog.LevelWarn, "the endpoint refuses the form of a request, which is sent in another one",
			slog.String("model", w.model), slog.String("endpoint", c.where), slog.String("form", quirkTable[w.last].name), slog.Any("error", err))
		a, err = c.try(ctx, w)
	}
	c.log.LogAttrs(ctx, slog.LevelDebug, "model call",
		slog.String("model", w.model), slog.String("endpoint", c.where), slog.Int("attempt", tries),
		slog.Duration("took", time.Since(start)), slog.Any("error", err))
	return a, err
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
