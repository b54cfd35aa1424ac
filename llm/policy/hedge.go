package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/agentarbor/arbor/llm"
)

// Hedge asks a second model, which may be the same as the first, if no part of the first one's answer arrives within a
// delay; then a third, and so on. It returns the answer that starts first, and cancels the other requests. It reports
// these as [llm.Attempt] values, because they have their cost. It does not wait until the cancelled requests end: each
// ends when its model notices the cancellation, at the latest with the next chunk. It does not send a request that the
// limits or budgets of the turn do not allow.
type Hedge struct {
	after  time.Duration
	models []llm.Model
}

// NewHedge returns a hedge of two or more models. after is the delay between two requests.
func NewHedge(after time.Duration, models ...llm.Model) (*Hedge, error) {
	if after <= 0 {
		return nil, errors.New("policy: a hedge needs a delay above zero")
	}
	return &Hedge{after, slices.Clone(models)}, checkModels("a hedge needs two models or more", models, 2)
}

// Name returns the name of the first model.
func (h *Hedge) Name() string { return h.models[0].Name() }

// Models returns the models in order.
func (h *Hedge) Models() []llm.Model { return slices.Clone(h.models) }

// Generate requests one answer; see llm.Model. If all requests fail before an answer starts, the error is that of the
// first model.
func (h *Hedge) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		arrivals := make(chan piece)
		racers := []*racer{start(ctx, h.models[0], req, arrivals)}
		timer := time.NewTimer(h.after)
		defer timer.Stop()
		var first error // the error of the first model
		running := 1
		for {
			select {
			case <-ctx.Done():
				yield(llm.Chunk{}, ctx.Err())
				return
			case <-timer.C:
				next := h.models[len(racers)]
				if llm.Admit(ctx, next, req, running) != nil {
					continue
				}
				if !yield(noticeChunk(NoticeHedged, fmt.Sprintf("%s is asked, because %s has not begun to answer in %s", next.Name(), h.Name(), h.after)), nil) {
					return
				}
				racers, running = append(racers, start(ctx, next, req, arrivals)), running+1
				if len(racers) < len(h.models) {
					timer.Reset(h.after)
				}
			case p := <-arrivals:
				switch {
				case p.panic != nil:
					panic(p.panic) // on the caller's goroutine, as if the model had run there
				case p.asks != nil:
					p.asks.reply(ctx, running-1)
				case ctx.Err() != nil:
					yield(llm.Chunk{}, ctx.Err())
					return
				case p.err == nil && !p.end && withoutAnswer(&p.chunk):
					if !yield(p.chunk, nil) {
						return
					}
				case p.err != nil || p.end:
					err := p.err
					if err == nil {
						err = cutOff()
					}
					p.of.over, running = true, running-1
					if p.of == racers[0] {
						first = err
					}
					if running == 0 {
						yield(llm.Chunk{}, cmp.Or(first, err))
						return
					}
					if !yield(lostChunk(p.of, codeOf(err), err.Error(), false), nil) {
						return
					}
				default:
					h.finish(ctx, p, racers, arrivals, yield)
					return
				}
			}
		}
	}
}

// finish cancels the other requests and yields the rest of the answer that started first.
func (h *Hedge) finish(ctx context.Context, won piece, racers []*racer, arrivals chan piece, yield func(llm.Chunk, error) bool) {
	for _, r := range racers {
		if r != won.of && !r.over {
			r.cancel()
			if !yield(lostChunk(r, llm.CodeHedged, "given up, because "+won.of.model.Name()+" was faster", true), nil) {
				return
			}
		}
	}
	won.chunk.Model = cmp.Or(won.chunk.Model, won.of.model.Name())
	for p := won; !p.end; {
		switch {
		case p.of != won.of: // it arrived while its request was cancelled
		case p.panic != nil:
			panic(p.panic)
		case p.asks != nil:
			p.asks.reply(ctx, 0)
		case !yield(p.chunk, p.err) || p.err != nil:
			return
		}
		select {
		case p = <-arrivals:
		case <-ctx.Done():
			yield(llm.Chunk{}, ctx.Err())
			return
		}
	}
}
