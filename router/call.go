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

// maxLeft is how many calls of one classifier may be left behind before it is asked no more.
const maxLeft = 64

var errLeft = errors.New("too many earlier calls have not returned")

// source is a classifier of a router.
type source struct {
	Classifier
	deadline time.Duration
	running  atomic.Int32 // calls that have not returned
	awaited  atomic.Int32 // those of them that a decision waits for
}

// call runs f on a goroutine of its own until f returns or ctx ends, whichever comes first. A panic of f is an
// error. What f passes to do runs on the caller's goroutine while f waits; do reports false if the
// caller has left, after which f must use nothing of the decision.
func (s *source) call(ctx context.Context, f func(ctx context.Context, do func(func()) bool) error) error {
	if s.running.Load()-s.awaited.Load() >= maxLeft {
		return errLeft
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.awaited.Add(1)
	defer s.awaited.Add(-1)
	s.running.Add(1)
	asked, done := make(chan func()), make(chan error, 1)
	go func() {
		var err error
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("the classifier panicked: %v", p)
			}
			s.running.Add(-1)
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

// cutOff asks a model on a goroutine of its own, so that the deadline holds for one that ignores its context.
// All else of the question, such as budgets and interceptors, stays on the caller's goroutine.
type cutOff struct {
	llm.Model
	of *source
}

// Models implements llm.Composite.
func (m cutOff) Models() []llm.Model { return []llm.Model{m.Model} }

func (m cutOff) Generate(outer context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
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
