// Package policy wraps models so that they tolerate endpoints that are slow, overloaded or down. It contains a chain of
// fallbacks, a rate limit, a limit of concurrent requests, a circuit breaker, a hedge, and a cache of identical
// requests. Each of them is a model or wraps one, so they combine:
//
//	limit, err := policy.NewRateLimit(5, 10)
//	model, err := policy.NewFallback([]llm.Model{limit.Wrap(large), small})
//
// A policy reports what it does in chunks with an [llm.Attempt] or an [llm.Notice]; agents write these to the log. The
// policies keep their state in memory, for all sessions of a process. They are safe for concurrent use.
package policy

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/agentarbor/arbor/llm"
)

// The codes of the notices of policies.
const (
	NoticeFallback = "fallback" // another model of a chain is asked
	NoticeHedged   = "hedged"   // a second request was sent because the first was slow
	NoticeWaited   = "waited"   // a limit delayed the request by a second or more
	NoticeCached   = "cached"   // the answer is from the cache
)

// wrapped is a model with a policy.
type wrapped struct {
	llm.Model
	ask func(ctx context.Context, req *llm.Request, yield func(llm.Chunk, error) bool)
}

func (w wrapped) Models() []llm.Model { return []llm.Model{w.Model} }

func (w wrapped) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		w.ask(ctx, req, yield)
	}
}

// withoutAnswer reports whether a chunk contains no part of an answer.
func withoutAnswer(c *llm.Chunk) bool { return c.Lost != nil || c.Notice != nil }

// noticeChunk returns a chunk with a notice.
func noticeChunk(code, message string) llm.Chunk {
	return llm.Chunk{Notice: &llm.Notice{Code: code, Message: message}}
}

// endpointFailed reports whether the endpoint caused an error, rather than the request alone.
func endpointFailed(err error) bool {
	var e *llm.Error
	if !errors.As(err, &e) {
		return false
	}
	return e.Code != llm.CodeBadRequest && e.Code != llm.CodeContextLength
}

func codeOf(err error) llm.ErrorCode {
	var e *llm.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return llm.CodeServer
}

// notAsked returns the error of a request whose context ended while a limit held it back. It is an [llm.Error], because
// budgets charge for a request that ends with the error of its context alone: that request was under way.
func notAsked(ctx context.Context, m llm.Model) error {
	return &llm.Error{Code: llm.CodeRateLimited, Message: m.Name() + " was not asked: the request was cancelled while a limit of this program held it back", Err: ctx.Err()}
}

// cutOff returns the error of an answer that ended without its terminal chunk.
func cutOff() error {
	return &llm.Error{Code: llm.CodeTruncated, Retryable: true, Message: "the answer ended before its terminal signal"}
}

// noticeWait yields a notice if the wait took a second or more. It reports whether the consumer wants more.
func noticeWait(since time.Time, why string, yield func(llm.Chunk, error) bool) bool {
	d := time.Since(since).Round(time.Millisecond)
	return d < time.Second || yield(noticeChunk(NoticeWaited, "the request waited "+d.String()+" for "+why), nil)
}

// forward yields the answer of a model up to its error. It returns the error instead of yielding it, and reports
// whether the consumer wants more.
func forward(chunks iter.Seq2[llm.Chunk, error], yield func(llm.Chunk, error) bool) (err error, more bool) {
	finished := false
	for c, err := range chunks {
		if err != nil {
			return err, true
		}
		finished = finished || c.Finish != ""
		if !yield(c, nil) {
			return nil, false
		}
	}
	if !finished {
		return cutOff(), true
	}
	return nil, true
}

func checkModels(what string, models []llm.Model, least int) error {
	if len(models) < least || slices.Contains(models, nil) {
		return errors.New("policy: " + what + ", and none may be nil")
	}
	return nil
}
