package runner_test

import (
	"context"
	"iter"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/policy"
)

// flaky is a model in front of the planned one, whose endpoint is too busy for some
// requests.
type flaky struct{ *plannedModel }

func (m flaky) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	if (len(req.Messages)+len(req.System))%3 != 0 {
		return m.plannedModel.Generate(ctx, req)
	}
	return func(yield func(llm.Chunk, error) bool) {
		w := worldOf(ctx)
		w.countAsked()
		w.happen("a fallback")
		yield(llm.Chunk{}, &llm.Error{Code: llm.CodeRateLimited, Status: 429, Retryable: true, Message: "too busy"})
	}
}

// withFallback returns the model, or a chain that ends with it.
func (w *world) withFallback(m *plannedModel) llm.Model {
	if oneInTen.Draw(w.rt, "fallback") < 8 {
		return m
	}
	return must.Get(policy.NewFallback([]llm.Model{flaky{m}, m}, policy.Cooldown(0)))
}
