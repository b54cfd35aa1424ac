package agentfile

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// TestDecide runs trees whose coordinator decides by a question.
func TestDecide(t *testing.T) {
	for name, c := range map[string]struct {
		decide string
		model  string // that is asked
		says   string // the agent that answers, or what the user is asked
		schema bool
	}{
		"on":             {"true", "own", "billing", false},
		"off":            {"false", "", "support", false},
		"a mapping":      {"{}", "own", "billing", false},
		"another model":  {"{model: small}", "small", "billing", false},
		"never asks":     {"{threshold: 0}", "own", "billing", false},
		"asks":           {"{threshold: 0.9, question: Money?}", "own", "Money?", false},
		"no probability": {"{threshold: 0.9, logprobs: false}", "own", "billing", false},
		"a schema":       {"{schema: true, brief: false, logprobs: true}", "own", "billing", true},
		"both":           {"{threshold: 1, schema: true, logprobs: false}", "own", "billing", true},
		"brief":          {"{brief: true}", "own", "billing", false},
	} {
		t.Run(name, func(t *testing.T) {
			asked := ""
			model := func(name string) (llm.Model, error) {
				if name == "" {
					name = "own"
				}
				return scripted.Func(name, func(req *llm.Request) scripted.Answer {
					if !strings.Contains(req.System, "You do not answer yet. You say who answers:") && !strings.HasPrefix(req.System, "agents = {") {
						return scripted.Reply(scripted.Text("ok"))
					}
					asked = name
					require.Equal(t, c.schema, req.ResponseFormat != nil)
					require.Equal(t, c.decide == "{brief: true}", !strings.Contains(req.System, "You route."))
					return scripted.Reply(scripted.Likely("billing", 0.8, map[string]float64{"support": 0.2}))
				}), nil
			}
			dir := write(t, map[string]string{"support.md": "---\nsubagents: [billing]\ntransfer:\n  decide: " + c.decide + "\n---\nYou route.", "billing.md": "---\nname: billing\n---\n"})
			tree, err := Load(dir, WithModel(model))
			require.NoError(t, err)
			r := must.Get(runner.New(tree.Root(), sessiontest.Memory(t)))
			says := ""
			for e, err := range r.Run(context.Background(), session.ID("s1"), llm.UserText("Hi")) {
				require.NoError(t, err)
				if d, ok := e.Data.(*event.Text); ok {
					if says = e.Agent; d.Content != "ok" {
						says = d.Content
					}
				}
			}
			require.Equal(t, c.says, says)
			require.Equal(t, c.model, asked)
		})
	}
}

func TestDecideProblems(t *testing.T) {
	dir := write(t, map[string]string{
		"a.md": "---\ntransfer:\n  decide: maybe\nsubagents: [b, c]\n---\n",
		"b.md": "---\ntransfer:\n  decide: {threshold: 2, logprobs: 1, modle: x}\n---\n",
		"c.md": "---\ntransfer:\n  decide:\n    model: gone\n---\n",
	})
	_, err := Load(dir, WithModel(func(name string) (llm.Model, error) {
		if name == "gone" {
			return nil, errors.New("no such model")
		}
		return scripted.Always(name, scripted.Reply()), nil
	}))
	for _, want := range []string{
		"a.md:3: transfer.decide must be true or false, or a mapping such as true, not \"maybe\"",
		"b.md:3: transfer.decide.threshold must be a number from 0 to 1, not 2",
		"b.md:3: transfer.decide.logprobs must be true or false, not the number 1",
		"b.md:3: unknown key \"transfer.decide.modle\"; did you mean \"model\"?",
		"c.md:4: the model \"gone\" cannot be used: no such model",
	} {
		require.ErrorContains(t, err, want)
	}
}
