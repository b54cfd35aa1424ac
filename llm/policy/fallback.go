package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/llm"
)

// Fallback is a chain of models. If a model fails before any part of its answer has arrived, the chain asks the next
// model at once. Only the last model uses its adapter's retries. After a failure that is not the request's own fault,
// the chain skips the model for a while. If an answer fails later, its error ends it, because the consumer may have
// shown a part of it; a caller that repeats the request, as agents do, then gets another model.
type Fallback struct {
	models   []llm.Model
	cooldown time.Duration

	mu    sync.Mutex
	until []time.Time // the time until which each model is skipped
}

// FallbackOption configures NewFallback.
type FallbackOption func(*Fallback)

// Cooldown sets how long a model that failed is skipped. If the endpoint asked for a longer wait, the model is skipped
// for that long. 0 skips it only for as long as the endpoint asked. Defaults to 30 seconds.
func Cooldown(d time.Duration) FallbackOption { return func(f *Fallback) { f.cooldown = d } }

// NewFallback returns a chain of two or more models, in the order in which they are asked.
func NewFallback(models []llm.Model, opts ...FallbackOption) (*Fallback, error) {
	f := &Fallback{models: slices.Clone(models), cooldown: 30 * time.Second, until: make([]time.Time, len(models))}
	if err := option.Apply(f, opts); err != nil {
		return nil, fmt.Errorf("policy: fallback: %w", err)
	}
	if f.cooldown < 0 {
		return nil, errors.New("policy: the cooldown of a fallback is negative")
	}
	return f, checkModels("a fallback needs two models or more", models, 2)
}

// Name returns the name of the first model.
func (f *Fallback) Name() string { return f.models[0].Name() }

// Models returns the models of the chain in order.
func (f *Fallback) Models() []llm.Model { return slices.Clone(f.models) }

// Generate asks the models in order; see llm.Model. If all fail, it yields the error of the last one; the failures of
// the others come as [llm.Attempt] values.
func (f *Fallback) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		once := *req
		once.Once = true
		order, skipped := f.order()
		for i, at := range order {
			m, left, r := f.models[at], order[i+1:], req
			if len(left) > 0 {
				r = &once
			}
			if at > 0 { // the caller has admitted the first model, which has the name of the chain
				if err := llm.Admit(ctx, m, r, 0); err != nil {
					yield(llm.Chunk{}, err)
					return
				}
			}
			if i == 0 && at > 0 &&
				!yield(noticeChunk(NoticeFallback, m.Name()+" is asked, because "+strings.Join(skipped, " and ")+" failed a short time ago"), nil) {
				return
			}
			begun, more, err := f.try(ctx, m, r, yield)
			switch {
			case !more || err == nil:
				return
			case ctx.Err() != nil:
				yield(llm.Chunk{}, err)
				return
			}
			f.coolDown(at, err)
			if begun || len(left) == 0 {
				yield(llm.Chunk{}, err)
				return
			}
			code := codeOf(err)
			if !yield(llm.Chunk{Lost: &llm.Attempt{Model: m.Name(), Code: code, Message: err.Error(), Begun: code == llm.CodeTruncated},
				Notice: &llm.Notice{Code: NoticeFallback, Message: fmt.Sprintf("%s is asked, because %s failed: %s", f.models[left[0]].Name(), m.Name(), code)}}, nil) {
				return
			}
		}
	}
}

// try asks one model. It sets the model's name in the answer, because the chain has the name of the first model.
func (f *Fallback) try(ctx context.Context, m llm.Model, req *llm.Request, yield func(llm.Chunk, error) bool) (begun, more bool, err error) {
	err, more = forward(m.Generate(ctx, req), func(c llm.Chunk, _ error) bool {
		if !begun && !withoutAnswer(&c) {
			begun, c.Model = true, cmp.Or(c.Model, m.Name())
		}
		return yield(c, nil)
	})
	return begun, more, err
}

// order returns the indices of the models to ask, and the names of those to skip. If all models have failed recently,
// it skips none.
func (f *Fallback) order() (order []int, skipped []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for i, m := range f.models {
		if now.Before(f.until[i]) {
			skipped = append(skipped, m.Name())
		} else {
			order = append(order, i)
		}
	}
	if len(order) > 0 {
		return order, skipped
	}
	for i := range f.models {
		order = append(order, i)
	}
	return order, nil
}

func (f *Fallback) coolDown(at int, err error) {
	var e *llm.Error
	if !errors.As(err, &e) || !endpointFailed(err) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.until[at] = time.Now().Add(max(f.cooldown, e.RetryAfter))
}
