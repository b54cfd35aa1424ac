package runner_test

import (
	"slices"

	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/runner"
)

// seed returns the state that a turn begins with, mostly none. No two turns begin with the
// same.
func (w *world) seed() (o runner.TurnOption, some bool) {
	if oneInFour.Draw(w.rt, "seed") < 3 {
		return runner.WithState(nil), false
	}
	w.happened["a turn that begins with state"] = true
	return runner.WithState(map[string]any{"turn:seed": w.turn, "seed": "é", "user:seed": nil}), true
}

// checkSeed: the state that a turn begins with is in the log once, right after what the user said. That of a decision
// stands right after the decision.
func (w *world) checkSeed(i int) {
	d, ok := w.log[i].Data.(*event.State)
	if ok && d.Delta["decided"] != nil && w.log[i-1].Type() != event.TypeRelayResolved {
		w.t.Fatalf("seq %d: what a decision changes does not follow it", w.log[i].Seq)
	}
	if !ok || w.log[i].Agent != "user" {
		return
	}
	if i == 0 || w.log[i-1].Type() != event.TypeUser {
		w.t.Fatalf("seq %d: the state that a turn begins with does not stand behind the user's words", w.log[i].Seq)
	}
	if slices.ContainsFunc(w.log[:i], func(e *event.Event) bool {
		before, ok := e.Data.(*event.State)
		return ok && e.Agent == "user" && before.Delta["turn:seed"] == d.Delta["turn:seed"]
	}) {
		w.t.Fatalf("seq %d: the state of a turn stands there twice: %v", w.log[i].Seq, d.Delta)
	}
}

// budgets of tokens, with what is done about answers whose usage nobody reports.
func (w *world) budgets(b runner.Budgets) runner.Option {
	b.MissingUsage = rapid.SampledFrom([]runner.MissingUsage{runner.RefuseMissingUsage, runner.EstimateMissingUsage}).Draw(w.rt, "missing usage")
	w.estimates = b.MissingUsage == runner.EstimateMissingUsage
	return runner.WithBudgets(b)
}

// checkEstimate: where estimates are charged no answer of a model is without usage, and
// the notice that a usage is an estimate comes after it, in its run.
func (w *world) checkEstimate(i int) {
	if used, ok := w.log[i].Data.(*event.Usage); ok && w.estimates && used.Model != "" && used.InputTokens == 0 {
		w.t.Fatalf("seq %d: an answer without usage is charged nothing", w.log[i].Seq)
	}
	d, ok := w.log[i].Data.(*event.Notice)
	if !ok || d.Code != "usage_estimated" {
		return
	}
	w.happened["a usage estimated"] = true
	for _, e := range slices.Backward(w.log[:i]) {
		if e.RunID != w.log[i].RunID {
			continue
		}
		used, ok := e.Data.(*event.Usage)
		if void, is := e.Data.(*event.Discard); is {
			used, ok = void.Usage, void.Usage != nil
		}
		if !ok || used.InputTokens == 0 {
			w.t.Fatalf("seq %d: no estimate stands before the notice about it, but %s", w.log[i].Seq, w.encode(e))
		}
		return
	}
}
