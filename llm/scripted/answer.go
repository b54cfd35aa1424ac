package scripted

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/llm"
)

// Answer is one scripted answer of a model. The zero value is an empty answer that finishes with stop. A script may
// contain the same Answer several times.
type Answer struct {
	ops    []op
	checks []func(*llm.Request) error
	usage  *llm.Usage
	finish llm.FinishReason
	ended  bool // a fault ended the stream, so later items have no effect
}

// op is one step of the stream: a chunk, a wait, an error or the cut.
type op struct {
	chunk llm.Chunk
	wait  func(context.Context) error
	err   error
	cut   bool
}

// Item is one part of an [Answer]; see [Reply]. The zero value has no effect.
type Item struct{ apply func(*Answer) }

// Reply returns an answer with these items, in the order of the stream. Items after [Fail], [Status] or [Cut] have no
// effect. [Usage], [Finish] and the expectations may be at any position.
func Reply(items ...Item) Answer {
	var a Answer
	for _, it := range items {
		if it.apply != nil {
			it.apply(&a)
		}
	}
	return a
}

func (a *Answer) push(o op) {
	if !a.ended {
		a.ops = append(a.ops, o)
		a.ended = o.err != nil || o.cut
	}
}

// Text streams each delta in its own chunk.
func Text(deltas ...string) Item {
	return Item{func(a *Answer) {
		for _, d := range deltas {
			a.push(op{chunk: llm.Chunk{Text: d}})
		}
	}}
}

// Likely streams a delta of text that is one token. p is its probability; others are other possible tokens at its
// position with their probabilities. If the request does not ask for log probabilities, it streams only the text.
func Likely(text string, p float64, others map[string]float64) Item {
	probs := llm.LogProb{Token: text, LogProb: math.Log(p), Top: []llm.LogProb{{Token: text, LogProb: math.Log(p)}}}
	for _, other := range slices.Sorted(maps.Keys(others)) {
		probs.Top = append(probs.Top, llm.LogProb{Token: other, LogProb: math.Log(others[other])})
	}
	return Item{func(a *Answer) { a.push(op{chunk: llm.Chunk{Text: text, LogProbs: []llm.LogProb{probs}}}) }}
}

// Think streams each delta of reasoning in its own chunk.
func Think(deltas ...string) Item {
	return Item{func(a *Answer) {
		for _, d := range deltas {
			a.push(op{chunk: llm.Chunk{Reasoning: d}})
		}
	}}
}

// Call is a tool call. Its id consists of the agent's name and a counter. The arguments are not changed and need not be
// JSON.
func Call(name, arguments string) Item { return CallID("", name, arguments) }

// CallID is a tool call with an explicit id.
func CallID(id, name, arguments string) Item {
	return Item{func(a *Answer) {
		a.push(op{chunk: llm.Chunk{Call: &llm.ToolCall{ID: id, Name: name, Arguments: arguments}}})
	}}
}

// Usage sends token counts with the terminal chunk.
func Usage(input, output, cached int) Item {
	return Item{func(a *Answer) {
		a.usage = &llm.Usage{InputTokens: input, OutputTokens: output, CachedTokens: cached}
	}}
}

// Finish sets the finish reason, which may be any string. Defaults to tool_calls if there are calls, otherwise to stop.
func Finish(reason llm.FinishReason) Item {
	return Item{func(a *Answer) { a.finish = reason }}
}

// ModelName sets the name of the model that answered.
func ModelName(name string) Item {
	return Item{func(a *Answer) { a.push(op{chunk: llm.Chunk{Model: name}}) }}
}

// Wait calls f at this point of the stream. If f returns an error, the error ends the stream. f must return when the
// context ends.
func Wait(f func(context.Context) error) Item {
	return Item{func(a *Answer) { a.push(op{wait: f}) }}
}

// WaitFor pauses the stream until ch is closed or delivers a value, or the context ends.
func WaitFor[T any](ch <-chan T) Item {
	return Wait(func(ctx context.Context) error {
		select {
		case <-ch:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// Cut ends the stream here without a terminal chunk, like a broken connection.
func Cut() Item {
	return Item{func(a *Answer) { a.push(op{cut: true}) }}
}

// Fail ends the stream here with err.
func Fail(err error) Item {
	return Item{func(a *Answer) { a.push(op{err: err}) }}
}

// Status ends the stream here with the *llm.Error of an HTTP status. retryAfter is how long the endpoint asks the
// client to wait; 0 if it does not.
func Status(status int, retryAfter time.Duration) Item {
	e := &llm.Error{
		Code:       statusCode(status),
		Status:     status,
		Message:    fmt.Sprintf("scripted fault: %d %s", status, http.StatusText(status)),
		RetryAfter: retryAfter,
	}
	e.Retryable = retryable(e.Code) || status == http.StatusConflict
	return Fail(e)
}

func statusCode(status int) llm.ErrorCode {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return llm.CodeUnauthorized
	case status == http.StatusNotFound:
		return llm.CodeNotFound
	case status == http.StatusRequestTimeout:
		return llm.CodeTimeout
	case status == http.StatusTooManyRequests:
		return llm.CodeRateLimited
	case status >= 500:
		return llm.CodeServer
	default:
		return llm.CodeBadRequest
	}
}

func retryable(code llm.ErrorCode) bool {
	switch code {
	case llm.CodeUnreachable, llm.CodeTimeout, llm.CodeTruncated, llm.CodeRateLimited, llm.CodeServer:
		return true
	}
	return false
}

// Expect checks the request before the answer starts. If check returns an error, the call fails and [Script.Done]
// reports it.
func Expect(check func(*llm.Request) error) Item {
	return Item{func(a *Answer) { a.checks = append(a.checks, check) }}
}

// ExpectUser requires that the last user message contains text.
func ExpectUser(text string) Item {
	return Expect(func(r *llm.Request) error {
		for _, m := range slices.Backward(r.Messages) {
			if m.Role == llm.RoleUser {
				return contains("the last user message", m.PlainText(), text)
			}
		}
		return errors.New("the request has no user message")
	})
}

// ExpectSystem requires that the system message contains text.
func ExpectSystem(text string) Item {
	return Expect(func(r *llm.Request) error { return contains("the system message", r.System, text) })
}

// ExpectResult requires that the last tool result contains text.
func ExpectResult(text string) Item {
	return Expect(func(r *llm.Request) error {
		for _, m := range slices.Backward(r.Messages) {
			for _, p := range slices.Backward(m.Parts) {
				if res, ok := p.(llm.ToolResult); ok {
					return contains("the last tool result", res.Output, text)
				}
			}
		}
		return errors.New("the request has no tool result")
	})
}

// ExpectTools requires that exactly these tools are offered, in any order.
func ExpectTools(names ...string) Item {
	want := slices.Sorted(slices.Values(names))
	return Expect(func(r *llm.Request) error {
		got := make([]string, len(r.Tools))
		for i, t := range r.Tools {
			got[i] = t.Name
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("the tools offered are [%s], not [%s]", strings.Join(got, " "), strings.Join(want, " "))
		}
		return nil
	})
}

func contains(what, got, want string) error {
	if strings.Contains(got, want) {
		return nil
	}
	return fmt.Errorf("%s is %q and does not contain %q", what, got, want)
}

// compile returns the steps of a's stream, including the terminal chunk. It adds ids to calls without one; firstCall is
// the number of the first.
func (a Answer) compile(agent string, firstCall int) answer {
	c := answer{checks: a.checks, ops: slices.Clone(a.ops)}
	finish := llm.FinishStop
	for i, o := range c.ops {
		if o.chunk.Call == nil {
			continue
		}
		finish = llm.FinishToolCalls
		call := *o.chunk.Call
		if call.ID == "" {
			call.ID = fmt.Sprintf("call_%s_%d", shortName(agent), firstCall+c.calls)
		}
		c.calls++
		c.ops[i].chunk.Call = &call
	}
	if a.finish != "" {
		finish = a.finish
	}
	if !a.ended {
		c.ops = append(c.ops, op{chunk: llm.Chunk{Usage: a.usage, Finish: finish}})
	}
	return c
}

// shortName keeps ids within the 40 characters that OpenAI allows, and distinct for agents whose long names start with
// the same characters.
func shortName(agent string) string {
	if len(agent) <= 24 {
		return agent
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(agent)) // writing to a hash never fails
	return fmt.Sprintf("%s_%08x", agent[:15], h.Sum32())
}

// answer is a compiled Answer. The calls that use it share it and never change it.
type answer struct {
	ops    []op
	checks []func(*llm.Request) error
	calls  int
}

// check returns the first expectation that a request does not meet, with what was called.
func (c *answer) check(req *llm.Request, what, name string) error {
	for _, f := range c.checks {
		if err := f(req); err != nil {
			return fmt.Errorf("%s %q: %w", what, name, err)
		}
	}
	return nil
}

// stream plays the answer. A text chunk causes no allocation. Calls and usage are copied, because a consumer may keep
// and change them.
func (c *answer) stream(ctx context.Context, req *llm.Request, yield func(llm.Chunk, error) bool) {
	for i := range c.ops {
		o := &c.ops[i]
		if err := ctx.Err(); err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		switch {
		case o.cut:
			return
		case o.err != nil:
			yield(llm.Chunk{}, o.err)
			return
		case o.wait != nil:
			if err := o.wait(ctx); err != nil {
				yield(llm.Chunk{}, err)
				return
			}
			continue
		}
		chunk := o.chunk
		if req.TopLogProbs == 0 {
			chunk.LogProbs = nil
		}
		if !yield(chunk.Clone(), nil) {
			return
		}
	}
}
