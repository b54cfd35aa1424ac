// Package policy wraps models so that they withstand endpoints that are slow, busy or
// gone: a chain of fallbacks, a limit of the rate, a limit of requests at once, a circuit
// breaker, a hedge, and a cache of identical requests. Each is a model again, or makes
// one of a model, so that they are combined by wrapping:
//
//	limit, err := policy.NewRateLimit(5, 10)
//	model, err := policy.NewFallback([]llm.Model{limit.Wrap(large), small})
//
// What a policy does is told in chunks that have an [llm.Attempt] or an [llm.Notice];
// agents write these to the log. The policies keep what they know in memory, for all
// sessions of a process. They are safe for concurrent use.
//
// It imports llm, and libraries for the limits and the breaker.
package policy

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/agentarbor/arbor/llm"
)

// The codes of the notices that policies give.
const (
	NoticeFallback = "fallback" // another model of a chain is asked
	NoticeHedged   = "hedged"   // a second request was sent, because the first was slow
	NoticeWaited   = "waited"   // a limit held the request back for a second or more
	NoticeCached   = "cached"   // the answer is that to an identical request
)

// wrapped is a model with a policy around it.
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

// aside reports whether a chunk has nothing of an answer.
func aside(c *llm.Chunk) bool { return c.Lost != nil || c.Notice != nil }

// noticed gives a notice in a chunk.
func noticed(code, message string) llm.Chunk {
	return llm.Chunk{Notice: &llm.Notice{Code: code, Message: message}}
}

// faulty reports whether an error says something about the endpoint, not about the
// request alone.
func faulty(err error) bool {
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

// cutOff is the error of an answer that has ended without its terminal chunk.
func cutOff() error {
	return &llm.Error{Code: llm.CodeTruncated, Retryable: true, Message: "the answer ended before its terminal signal"}
}

// waited gives a notice of a wait that somebody may have felt.
func waited(since time.Time, why string, yield func(llm.Chunk, error) bool) bool {
	d := time.Since(since).Round(time.Millisecond)
	return d < time.Second || yield(noticed(NoticeWaited, "the request waited "+d.String()+" for "+why), nil)
}

// pass hands on the answer of a model, and returns its error in place of handing it on.
// It reports whether the consumer wants more.
func pass(chunks iter.Seq2[llm.Chunk, error], yield func(llm.Chunk, error) bool) (err error, more bool) {
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
