package llmagent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// answer collects one attempt of a model at an answer.
type answer struct {
	x       *execution
	attempt int
	quiet   bool // the answer is not streamed
	chosen  bool // the calls come from the question who answers

	text, reasoning block
	sealed          string // data about the reasoning that the endpoint needs back
	calls           []llm.ToolCall
	output          json.RawMessage // the output, if the answer must have a form
	probs           []llm.LogProb
	usage           llm.Usage
	model           string
	finish          llm.FinishReason
	begun           bool  // the endpoint sent something
	failed          error // of the stream, or errStopped
}

// block is a text that arrives in pieces with one id.
type block struct {
	id    string
	first string // the only piece, while there is just one
	rest  strings.Builder
}

func (b *block) add(s string) {
	switch {
	case b.rest.Len() > 0:
		b.rest.WriteString(s)
	case b.first == "":
		b.first = s
	default:
		b.rest.Grow(4 * (len(b.first) + len(s)))
		b.rest.WriteString(b.first)
		b.rest.WriteString(s)
	}
}

func (b *block) String() string {
	if b.rest.Len() > 0 {
		return b.rest.String()
	}
	return b.first
}

// read collects the chunks of a stream. It returns an error if the stream fails or ends
// without its terminal signal; no call of the answer may then run.
func (ans *answer) read(ctx context.Context, chunks iter.Seq2[llm.Chunk, error]) error {
	chunks(ans.take)
	switch {
	case ans.failed != nil:
		return ans.failed
	case ctx.Err() != nil:
		return ctx.Err()
	case ans.finish == "":
		return &llm.Error{Code: llm.CodeTruncated, Retryable: true, Message: "the answer ended before its terminal signal"}
	}
	return nil
}

// take adds one chunk and reports whether to continue.
func (ans *answer) take(chunk llm.Chunk, err error) bool {
	switch {
	case err != nil:
		ans.failed = err
	case chunk.Lost != nil || chunk.Notice != nil:
		ans.failed = ans.record(chunk.Notice, chunk.Lost)
	default:
		ans.failed = ans.add(&chunk)
	}
	return ans.failed == nil
}

// record yields the failed attempts of a model that asks several endpoints.
func (ans *answer) record(n *llm.Notice, lost *llm.Attempt) error {
	var events []*event.Event
	if n != nil {
		events = append(events, &event.Event{Data: &event.Notice{Code: n.Code, Message: n.Message}, More: true})
	}
	if lost != nil {
		void := &event.Discard{Code: string(lost.Code), Message: lost.Message}
		if lost.Usage != nil {
			u, _ := lost.Usage.Plausible()
			void.Usage = &event.Usage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, CachedTokens: u.CachedTokens, Model: lost.Model}
		}
		events = append(events, &event.Event{Data: void}) // stored at once: the next request may take long
	}
	return ans.x.emit(events...)
}

func (ans *answer) add(chunk *llm.Chunk) error {
	ans.begun = true
	if chunk.Reasoning != "" {
		if err := ans.delta(&ans.reasoning, chunk.Reasoning); err != nil {
			return err
		}
	}
	if chunk.Text != "" {
		if err := ans.delta(&ans.text, chunk.Text); err != nil {
			return err
		}
	}
	if chunk.LogProbs != nil {
		ans.probs = append(ans.probs, chunk.LogProbs...)
	}
	ans.sealed += chunk.Sealed
	if chunk.Call != nil {
		ans.calls = append(ans.calls, *chunk.Call)
	}
	if chunk.Usage != nil {
		ans.usage, _ = chunk.Usage.Plausible()
	}
	ans.model = cmp.Or(chunk.Model, ans.model)
	ans.finish = cmp.Or(chunk.Finish, ans.finish)
	return nil
}

// delta adds a piece to a block and shows it.
func (ans *answer) delta(b *block, s string) error {
	b.add(s)
	if ans.quiet || !ans.x.inv.Streaming() {
		return nil
	}
	if b.id == "" {
		b.id = ans.x.inv.NewID()
	}
	var e *event.Event // one allocation with its payload, because an answer has thousands
	if b == &ans.reasoning {
		p := &struct {
			event   event.Event
			payload event.Reasoning
		}{payload: event.Reasoning{Content: s}}
		e, p.event.Data = &p.event, &p.payload
	} else {
		p := &struct {
			event   event.Event
			payload event.Text
		}{payload: event.Text{Content: s}}
		e, p.event.Data = &p.event, &p.payload
	}
	e.ID, e.Partial, e.Attempt = b.id, true, ans.attempt
	return ans.x.emit(e)
}

// shown returns the ids under which deltas were shown.
func (ans *answer) shown() []string {
	var ids []string
	for _, b := range []*block{&ans.reasoning, &ans.text} {
		if b.id != "" {
			ids = append(ids, b.id)
		}
	}
	return ids
}

// empty reports whether a complete answer contains nothing to show, and has no finish reason that explains it.
func (ans *answer) empty() bool {
	return len(ans.calls) == 0 && ans.finish != llm.FinishLength && ans.finish != llm.FinishContentFilter && strings.TrimSpace(ans.text.String()) == ""
}

// usageOf returns what the answer used; modelName is used if the endpoint does
// not name the model.
func (ans *answer) usageOf(modelName string) *event.Usage {
	return &event.Usage{InputTokens: ans.usage.InputTokens, OutputTokens: ans.usage.OutputTokens,
		CachedTokens: ans.usage.CachedTokens, Model: cmp.Or(ans.model, modelName)}
}

// discarded returns the discard of an answer. It has no usage if that is unknown.
func (ans *answer) discarded(code, message, modelName string) *event.Discard {
	void := &event.Discard{Code: code, Message: message, IDs: ans.shown()}
	if ans.usage != (llm.Usage{}) {
		void.Usage = ans.usageOf(modelName)
	}
	return void
}

// side is a question to a model whose answer is not part of the conversation: a request for a summary, or which agent
// answers. The embedded answer is that of the last attempt.
type sideCall struct {
	answer
	source llm.Model
}

// ask asks the model, and asks again once if the answer breaks off. An interrupted attempt is recorded because it
// costs tokens. check returns what is wrong with a complete answer.
func (s *sideCall) ask(req *llm.Request, check func() error) error {
	x := s.x
	for attempt := 1; ; attempt++ {
		s.answer = answer{x: x, quiet: true}
		err := s.read(x.ctx, x.inv.Runtime().Ask(x.ctx, x.inv, s.source, req))
		if err == nil {
			err = check()
		}
		if err == nil || errors.Is(err, errStopped) {
			return err
		}
		if code := modelErrorCode(err); s.begun || code == string(llm.CodeTruncated) {
			s.begun = true
			if err := x.emit(&event.Event{Data: s.discarded(code, err.Error(), s.source.Name()), More: true}); err != nil {
				return err
			}
		}
		if !s.begun || !llm.Retryable(err) || attempt > 1 || x.ctx.Err() != nil {
			return err
		}
	}
}

// fatal returns the error that ends the run, or nil if the agent can continue without the answer.
func (s *sideCall) fatal(failure error) error {
	switch {
	case failure == nil || errors.Is(failure, errStopped):
		return failure
	case s.x.ctx.Err() != nil || overLimit(failure):
		return cmp.Or(s.x.ctx.Err(), failure)
	}
	return nil
}

// overLimit reports whether the limits or budgets of the turn allow no more model calls.
func overLimit(err error) bool {
	return errors.Is(err, agent.ErrLimit) || errors.Is(err, agent.ErrUnknownPrice) || errors.Is(err, agent.ErrUnknownUsage)
}
