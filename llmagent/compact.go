package llmagent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/view"
)

// Compaction says when and how the view of an agent is made shorter. The log
// keeps everything, and other agents' views stay as they are.
type Compaction struct {
	// Window is the model's context window in tokens, input and output together.
	// It must be given.
	Window int
	// At is the share of the window from which on a request is too near to its
	// end; 0 means 0.8. Settings.MaxTokens, if set, always stays free.
	At float64
	// Keep is the share of the window up to which recent messages stay; 0 means
	// 0.5. It must be less than At.
	Keep float64
	// Summarizer writes a summary of what is left out. It may be a cheaper model
	// with a window of the same size. Without it there is no summary.
	Summarizer llm.Model
	// Count counts tokens where the endpoint has not reported any; nil is
	// llm.EstimateTokens.
	Count llm.TokenCounter
}

// WithCompaction makes the agent's view shorter when its request nears the
// model's window, or when the endpoint says that it is too long. It is a step of
// its own, which stores a compaction event: whole old turns go first, then, if
// the current one alone is too long, its oldest answers with the results of
// their calls. The user's last message and the newest answer always stay.
//
// The summary is asked for within the limits and budgets of the turn, and is a
// model call of the agent. If it fails, a notice says so, and nothing is left out
// while the request still fits into the window with a tenth to spare for the answer, or
// Settings.MaxTokens. The summary is then tried again after the next answer, then
// after two more, after four more, and so on. A request that no longer fits loses
// its old messages without a summary. If nothing can be left out any more, the
// model is asked anyway.
//
// For an endpoint that reports no usage, an instruction function is called once
// more in every step, because its text counts.
func WithCompaction(c Compaction) Option {
	c = c.filled()
	return func(a *Agent) { a.compaction = &compaction{Compaction: c} }
}

// filled returns the settings with their defaults.
func (c Compaction) filled() Compaction {
	c.At, c.Keep = cmp.Or(c.At, 0.8), cmp.Or(c.Keep, 0.5)
	if c.Count == nil {
		c.Count = llm.EstimateTokens
	}
	return c
}

// compaction is what an agent keeps of its settings.
type compaction struct {
	Compaction
	last atomic.Pointer[frame]
}

// frame is the part of a request that is the same in every step as a rule, with
// its tokens.
type frame struct {
	system string
	tools  []llm.ToolSpec
	tokens int
}

// check reports settings that cannot work.
func (c *compaction) check(maxTokens int) error {
	if c == nil {
		return nil
	}
	return c.Compaction.Check(maxTokens)
}

// Check reports settings that cannot work for an agent whose answers may have so many tokens; 0
// is any number.
func (c Compaction) Check(maxTokens int) error {
	switch c = c.filled(); {
	case c.Window <= 0:
		return errors.New("compaction: the model's window is not given")
	case !(0 < c.Keep && c.Keep < c.At && c.At <= 1):
		return fmt.Errorf("compaction: keep %v and at %v are no shares of the window, with keep the smaller one", c.Keep, c.At)
	case maxTokens >= c.Window:
		return fmt.Errorf("compaction: an answer of %d tokens leaves nothing of a window of %d", maxTokens, c.Window)
	}
	return nil
}

// limit is the number of tokens from which on a request is too long.
func (c *compaction) limit(maxTokens int) int {
	return min(int(c.At*float64(c.Window)), c.Window-maxTokens)
}

// fits reports whether a request leaves room for an answer.
func (c *compaction) fits(request, maxTokens int) bool {
	return request <= c.Window-cmp.Or(maxTokens, c.Window/10)
}

// maxSummary bounds a summary, in tokens.
func (c *compaction) maxSummary() int { return min(c.Window/8, 2000) }

// compactions bounds how often a view is compacted between two answers of the
// agent because the endpoint asks for it.
const compactions = 2

// askWithin asks the model unless the view has to be compacted first.
func (a *Agent) askWithin(ctx context.Context, inv *agent.Invocation, v *view.View, yield func(*event.Event, error) bool) {
	c := a.compaction
	request, err := a.tokens(ctx, inv, v)
	if err != nil {
		yield(nil, err)
		return
	}
	fits := c.Summarizer != nil && c.fits(request, a.settings.MaxTokens)
	if request > c.limit(a.settings.MaxTokens) && (!fits || v.SummaryDue()) && a.compact(ctx, inv, v, fits, false, yield) {
		return
	}
	a.ask(ctx, inv, v, func(e *event.Event, err error) bool {
		if err != nil && errorCode(err) == string(llm.CodeContextLength) && v.Compactions() < compactions && a.compact(ctx, inv, v, false, true, yield) {
			return false
		}
		return yield(e, err)
	})
}

// tokens returns the size of the next request.
func (a *Agent) tokens(ctx context.Context, inv *agent.Invocation, v *view.View) (int, error) {
	messages, request := v.Tokens()
	if request > 0 {
		return request, nil
	}
	frame, err := a.frame(ctx, inv, v.Run())
	return frame + messages, err
}

// frame counts what a request has beside its messages.
func (a *Agent) frame(ctx context.Context, inv *agent.Invocation, run view.Run) (int, error) {
	req, err := a.request(ctx, inv, run, nil)
	if err != nil {
		return 0, err
	}
	c := a.compaction
	if f := c.last.Load(); f != nil && f.system == req.System && sameTools(f.tools, req.Tools) {
		return f.tokens, nil
	}
	f := &frame{req.System, req.Tools, llm.CountRequest(req, c.Count)}
	c.last.Store(f)
	return f.tokens, nil
}

// sameTools reports whether two lists are one: they are made once for each place
// in a tree, and for what is left of it at a moment.
func sameTools(a, b []llm.ToolSpec) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// compact leaves out the oldest messages of the view, and yields what is to be
// stored of it. Harder leaves out more, whatever the count says. It reports false if
// the model is to be asked now: nothing can be left out, or the summary failed and the request fits.
func (a *Agent) compact(ctx context.Context, inv *agent.Invocation, v *view.View, fits, harder bool, yield func(*event.Event, error) bool) bool {
	fixed, err := a.frame(ctx, inv, v.Run())
	if err != nil {
		yield(nil, err)
		return true
	}
	upTo, old := a.oldest(v, fixed, harder)
	if upTo == 0 {
		return false
	}
	done := &event.Compaction{UpTo: upTo}
	var usage *event.Usage
	var failure error
	if a.compaction.Summarizer != nil {
		s := newAside(inv, a.compaction.Summarizer, yield)
		done.Summary, failure = a.compaction.summarize(ctx, s, a.settings.ForEndpoint(), old)
		if s.stopped {
			return true
		}
		if err := s.fatal(ctx, failure); err != nil {
			yield(nil, err)
			return true
		}
		switch {
		case failure == nil:
			usage = s.usageOf(s.source.Name())
		case fits:
			return !yield(failed("the conversation still fits and stays whole, without a summary: ", failure), nil)
		}
	}
	if done.Summary == "" && v.Summary() != "" { // the earlier one is better than none
		done.Summary = strings.TrimSuffix(v.Summary(), gap) + gap
	}
	events := []*event.Event{{Data: done}}
	if usage != nil {
		events = append(events, &event.Event{Data: usage})
	}
	if failure != nil {
		events = append(events, failed("the earlier part of the conversation is left out without a summary: ", failure))
	}
	for i, e := range events {
		e.More = i < len(events)-1
		if !yield(e, nil) {
			return true
		}
	}
	yield(&event.Event{Data: &event.Continue{}}, nil)
	return true
}

func failed(what string, why error) *event.Event {
	return &event.Event{Data: &event.Notice{Code: event.NoticeCompactionFailed, Message: what + why.Error()}}
}

// gap ends a summary that is older than what was left out last.
const gap = "\n[What was said after that was left out.]"

// oldest decides what to leave out. Fixed is what a request has beside its
// messages, in tokens.
func (a *Agent) oldest(v *view.View, fixed int, harder bool) (upTo int64, old []llm.Message) {
	c := a.compaction
	messages, request := v.Tokens()
	counted := fixed + messages
	limit := c.limit(a.settings.MaxTokens)
	keep := int(float64(limit) * c.Keep / c.At)
	if request > counted { // the counter rates texts lower than the model does
		share := float64(counted) / float64(request)
		limit, keep = int(share*float64(limit)), int(share*float64(keep))
	}
	// The message at the front needs room as well.
	if c.Summarizer != nil || v.Summary() != "" {
		limit -= llm.MessageTokens + c.Count(view.SummaryHead) + c.maxSummary()
	} else {
		limit -= llm.MessageTokens + c.Count(view.LeftOut)
	}
	if harder { // the count, or the window, is wrong
		keep = min(keep, counted) / 2
		limit = keep
	}
	// A long system message must not take all the room.
	return v.Oldest(max(keep-fixed, keep/4), max(limit-fixed, keep/4))
}
