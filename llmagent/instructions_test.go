package llmagent_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

func TestStateInInstructions(t *testing.T) {
	state := map[string]any{"name": "Ann", "n": 7, "list": []any{"a", "b"}, "user:plan": "gold", "trick": "{name} {{n}} {none}", "turn:a.b-c": true}
	for written, want := range map[string]string{
		"Hello {name}, {n} {list} {user:plan} {turn:a.b-c}.": `Hello Ann, 7 ["a","b"] gold true.`,
		"{trick}":             "{name} {{n}} {none}",
		"{none?}|{name?}":     "|Ann",
		"{{name}} {{{name}}}": "{name} {{{name}}}",
		`{"a": {"b": 1}} { name } {} {name {{name} {7}`: `{"a": {"b": 1}} { name } {} {name {{name} {7}`,
	} {
		got := must.Get(systemOf(t, written, state))
		require.Equal(t, want, got, written)
	}
	got := must.Get(systemOf(t, "{name} {n} {{n}} {{name}}", state, "name"))
	require.Equal(t, "Ann {n} {{n}} {name}", got, "only what is asked for")
	var missing *llmagent.StateError
	_, err := systemOf(t, "{name} {none}", state)
	require.ErrorAs(t, err, &missing)
	require.Equal(t, "none", missing.Key)
	require.ErrorContains(t, err, "runner.WithState")
}

// systemOf returns the system text of a turn in which the user says a placeholder too.
func systemOf(t *testing.T, written string, state map[string]any, keys ...string) (system string, err error) {
	m := scripted.Func("m", func(req *llm.Request) scripted.Answer {
		system = req.System
		require.Equal(t, "I am {name}.", req.Messages[0].Text)
		return scripted.Reply(scripted.Text("ok"))
	})
	a := must.Get(llmagent.New("a", written, m, llmagent.WithStateInInstructions(keys...)))
	r := must.Get(runner.New(a, sessiontest.Memory(t)))
	_, err = runner.Collect(r.Run(t.Context(), session.ID("s"), llm.UserText("I am {name}."), runner.WithState(state)))
	return system, err
}

func TestStateInInstructionsIsChecked(t *testing.T) {
	m := scripted.New().Model("m")
	_, err := llmagent.New("a", "Hello {nam}.", m, llmagent.WithStateInInstructions("name"))
	require.ErrorContains(t, err, "do not hold {name}")
	_, err = llmagent.New("a", "", m, llmagent.WithStateInInstructions(), llmagent.WithInstructionFunc(func(_ context.Context, _ *agent.Invocation) (string, error) { return "", nil }))
	require.ErrorContains(t, err, "an option replaces them by a function")
	_, err = llmagent.New("a", "", m, llmagent.WithInstructionFunc(nil))
	require.ErrorContains(t, err, "the instruction function is nil")
	_, err = llmagent.Func("a", "", func(*llmagent.Step) error { return nil }, llmagent.WithStateInInstructions())
	require.ErrorContains(t, err, "instructions")
	a := must.Get(llmagent.New("a", "{name}", m)) // nobody asked for it
	r := must.Get(runner.New(a, sessiontest.Memory(t)))
	preview := must.Get(r.Preview(t.Context(), session.ID("s"), "a"))
	require.Equal(t, "{name}", preview.System)
}
