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

// Fallback is a chain of models: if one fails before anything of its answer has come, the
// next is asked at once, without the repetitions that an adapter makes otherwise; those
// are left to the last. A model that has failed is passed over for a while, unless the
// fault was the request's. An answer that fails later ends with its error, since somebody
// may have seen a part of it; whoever asks again then, as agents do, gets another model.
type Fallback struct {
	models   []llm.Model
	cooldown time.Duration

	mu    sync.Mutex
	until []time.Time // of each model
}

// FallbackOption configures NewFallback.
type FallbackOption func(*Fallback)

// Cooldown sets how long a model that failed is skipped. If the endpoint asked for a longer wait, the model is skipped
// for that long. 0 skips it only for as long as the endpoint asked. Defaults to 30 seconds.
func Cooldown(d time.Duration) FallbackOption { return func(f *Fallback) { f.cooldown = d } }

// NewFallback makes a chain of two models or more, in the order in which they are
// asked. Its name is that of the first.
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

// Name is the name of the first model.
func (f *Fallback) Name() string { return f.models[0].Name() }

// Models returns the chain.
func (f *Fallback) Models() []llm.Model { return slices.Clone(f.models) }

// Generate asks the models in their order; see llm.Model. If all fail, the error is the
// last one's; the others' have come as an [llm.Attempt] each.
func (f *Fallback) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		once := *req
		once.Once = true
		order, passed := f.order()
		for i, at := range order {
			m, left, r := f.models[at], order[i+1:], req
			if len(left) > 0 {
				r = &once
			}
			if i > 0 {
				if err := llm.Admit(ctx, m, r, 0); err != nil {
					yield(llm.Chunk{}, err)
					return
				}
			} else if at > 0 &&
				!yield(noticed(NoticeFallback, m.Name()+" is asked, because "+strings.Join(passed, " and ")+" failed a short time ago"), nil) {
				return
			}
			begun, more, err := f.try(ctx, m, r, yield)
			switch {
			case !more || err == nil:
				return
			case ctx.Err() != nil:
				yield(llm.Chunk{}, ctx.Err())
				return
			}
			f.cool(at, err)
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

// try asks one model. It names the model in its answer, because the chain's name is
// another's.
func (f *Fallback) try(ctx context.Context, m llm.Model, req *llm.Request, yield func(llm.Chunk, error) bool) (begun, more bool, err error) {
	err, more = pass(m.Generate(ctx, req), func(c llm.Chunk, _ error) bool {
		if !begun && !aside(&c) {
			begun, c.Model = true, cmp.Or(c.Model, m.Name())
		}
		return yield(c, nil)
	})
	return begun, more, err
}

// order returns the models to ask, and the names of those that are passed over. If all
// have failed lately, none is.
func (f *Fallback) order() (order []int, passed []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for i, m := range f.models {
		if now.Before(f.until[i]) {
			passed = append(passed, m.Name())
		} else {
			order = append(order, i)
		}
	}
	if len(order) > 0 {
		return order, passed
	}
	for i := range f.models {
		order = append(order, i)
	}
	return order, nil
}

func (f *Fallback) cool(at int, err error) {
	var e *llm.Error
	if !errors.As(err, &e) || !faulty(err) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.until[at] = time.Now().Add(max(f.cooldown, e.RetryAfter))
}
