package router_test

import (
	"context"
	"iter"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/router"
)

func says(text string) agent.RunFunc {
	return func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			yield(&event.Event{Data: &event.Text{Content: text}}, nil)
		}
	}
}

// classifier is one that a test makes.
type classifier struct {
	kind     router.Kind
	classify func(context.Context, router.Input) ([]router.Score, error)
}

func (c classifier) Kind() router.Kind { return c.kind }
func (c classifier) Labels() []string  { return nil }
func (c classifier) Classify(ctx context.Context, in router.Input) ([]router.Score, error) {
	return c.classify(ctx, in)
}

type odd struct{ classifier }

func (odd) Kind() router.Kind { return "odd" }

func slow(kind router.Kind) classifier {
	return classifier{kind, func(ctx context.Context, _ router.Input) ([]router.Score, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
}
