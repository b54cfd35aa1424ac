package cold

import (
	"context"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/postgres"
	"github.com/agentarbor/arbor/session/sqlite"
	"github.com/agentarbor/arbor/view"
)

var key = session.ID("s1")

func openArbor(ctx context.Context, where string) (session.Store, error) {
	if strings.Contains(where, "://") {
		return postgres.Open(ctx, where)
	}
	return sqlite.Open(where)
}

func treeArbor(seen *int, policy view.Policy) (agent.Agent, error) {
	hand := scripted.Reply(scripted.Call(target, `{"agent_name":"`+expert+`"}`))
	answer := scripted.Reply(scripted.Text(sentence))
	model := func(name string, a scripted.Answer) llm.Model {
		return scripted.Func(name, func(req *llm.Request) scripted.Answer { *seen = len(req.Messages); return a })
	}
	below, err := llmagent.New(expert, "You are "+expert+".", model(expert, answer), llmagent.WithHistory(policy))
	if err != nil {
		return nil, err
	}
	return llmagent.New(root, "You are "+root+".", model(root, hand), llmagent.WithSubAgents(below))
}

func runArbor(ctx context.Context, where string, policy view.Policy, turns int) (said string, seen int, err error) {
	store, err := openArbor(ctx, where)
	if err != nil {
		return "", 0, err
	}
	defer store.Close()
	tree, err := treeArbor(&seen, policy)
	if err != nil {
		return "", 0, err
	}
	r, err := runner.New(tree, store)
	if err != nil {
		return "", 0, err
	}
	for range turns {
		for e, err := range r.Run(ctx, key, llm.UserText(message)) {
			if err != nil {
				return "", 0, err
			}
			if d, ok := e.Data.(*event.Text); ok {
				said = d.Content
			}
		}
	}
	return said, seen, nil
}

func fillArbor(ctx context.Context, where string, turns int) error {
	_, _, err := runArbor(ctx, where, view.Full(), turns)
	return err
}

func turnArbor(ctx context.Context, where string) (string, int, error) {
	return runArbor(ctx, where, view.Full(), 1)
}

func turnArborLast(ctx context.Context, where string) (string, int, error) {
	return runArbor(ctx, where, view.LastTurns(20), 1)
}
