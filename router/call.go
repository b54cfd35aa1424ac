package router

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/agentarbor/arbor/llm"
)

// maxLate is the number of late calls of a classifier, which have missed their deadline and have not returned, at which
// the router does not start another one. Calls that a decision still waits for do not count: a busy router needs them.
const maxLate = 64

var errLate = errors.New("too many earlier calls have not returned")

// source is a classifier of a router.
type source struct {
	Classifier
	deadline time.Duration
	late     atomic.Int32 // calls that have not returned and that no decision waits for
}

// call runs f on a separate goroutine and returns when f returns or ctx ends, whichever comes first. A panic of f is an
// error. f can pass do a function to run on the goroutine of the caller, and do waits for it. If do reports false, call
// has returned already, and f must not use anything of the decision any more.
func (s *source) call(ctx context.Context, f func(ctx context.Context, do func(func()) bool) error) error {
	if s.late.Load() >= maxLate {
		return errLate
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var over atomic.Bool // whether f or its caller has ended; the other one then sees that
	defer func() {
		if !over.Swap(true) {
			s.late.Add(1)
		}
	}()
	asked, done := make(chan func()), make(chan error, 1)
	go func() {
		var err error
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("the classifier panicked: %v", p)
			}
			if over.Swap(true) {
				s.late.Add(-1)
			}
			done <- err
		}()
		err = f(ctx, func(g func()) bool {
			finished := make(chan struct{})
			select {
			case asked <- func() { defer close(finished); g() }:
				<-finished
				return true
			case <-ctx.Done():
				return false
			}
		})
	}()
	for {
		select {
		case g := <-asked:
			g()
		case err := <-done:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// deadlineModel calls a model on a separate goroutine, so that the deadline also holds for a model that ignores its
// context. Budgets and interceptors still run on the goroutine of the caller.
type deadlineModel struct {
	llm.Model
	of *source
}

// Models implements llm.Composite.
func (m deadlineModel) Models() []llm.Model { return []llm.Model{m.Model} }

func (m deadlineModel) Generate(outer context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		wanted := true
		err := m.of.call(outer, func(ctx context.Context, do func(func()) bool) error {
			ctx = llm.WithAdmission(ctx, func(another llm.Model, req *llm.Request, beside int) (err error) {
				if !do(func() { err = llm.Admit(outer, another, req, beside) }) {
					err = ctx.Err()
				}
				return err
			})
			for chunk, err := range m.Model.Generate(ctx, req) {
				if !do(func() { wanted = yield(chunk, err) }) || !wanted || err != nil {
					break
				}
			}
			return nil
		})
		if err != nil && wanted {
			yield(llm.Chunk{}, err)
		}
	}
}
