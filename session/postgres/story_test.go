package postgres_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

// story is a tree whose models are functions of what they see, so that another
// process goes on as the first would have done. In the first turn the root looks
// something up and asks an expert, which is an agent of its own, then hands over;
// later the specialist looks something up and answers.
func story() (agent.Agent, error) {
	lookup, err := tools.Func("lookup", "Looks something up.", func(c tools.Context, _ struct{}) (string, error) {
		c.Set("user:looked", c.CallID())
		c.Set("app:looked", c.CallID())
		return "two charges", nil
	}, tools.Idempotent())
	if err != nil {
		return nil, err
	}
	asked := func(req *llm.Request) bool { return req.Messages[len(req.Messages)-1].Role == llm.RoleTool }
	expert, err := llmagent.New("expert", "", scripted.Func("expert", func(*llm.Request) scripted.Answer {
		return scripted.Reply(scripted.Think("Let me ", "see."), scripted.Text("It is ", "right."))
	}))
	if err != nil {
		return nil, err
	}
	ask, err := agenttool.New(expert, agenttool.WithName("ask_expert"))
	if err != nil {
		return nil, err
	}
	billing, err := llmagent.New("billing", "", scripted.Func("billing", func(req *llm.Request) scripted.Answer {
		if asked(req) {
			return scripted.Reply(scripted.Text("Your money ", "comes back."))
		}
		return scripted.Reply(scripted.Text("I look. "), scripted.Call("lookup", "{}"))
	}), llmagent.WithTools(lookup))
	if err != nil {
		return nil, err
	}
	return llmagent.New("support", "", scripted.Func("support", func(req *llm.Request) scripted.Answer {
		if asked(req) {
			return scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"billing"}`))
		}
		return scripted.Reply(scripted.Text("One ", "moment."), scripted.Call("lookup", "{}"), scripted.Call("ask_expert", `{"input":"Is it right?"}`))
	}), llmagent.WithTools(lookup, ask), llmagent.WithSubAgents(billing))
}

func newRunner(t testing.TB, s session.Store, opts ...runner.Option) *runner.Runner {
	t.Helper()
	root, err := story()
	require.NoError(t, err)
	return must.Get(runner.New(root, s, opts...))
}

// turn runs a turn to its end and returns what was delivered.
func turn(ctx context.Context, r *runner.Runner, key session.Key, words string) (out []*event.Event, err error) {
	for e, err := range r.Run(ctx, key, llm.UserText(words)) {
		if err != nil {
			return out, err
		}
		out = append(out, e)
	}
	return out, nil
}

// requireSound requires what holds for every log, finished or not: no id names
// two things, every call has at most one result, every run at most one end. It
// returns how many turns the user began and how many ended well.
func requireSound(t testing.TB, log []*event.Event) (said, answered int) {
	t.Helper()
	seen := make(map[string]bool)
	for _, e := range log {
		name := e.Type() + " " + e.ID
		switch e.Data.(type) {
		case *event.User:
			said++
			name += e.RunID
		case *event.HarnessStart:
			name += e.RunID
		case *event.HarnessEnd:
			name += e.RunID
			if e.Scope == "" && e.Data.(*event.HarnessEnd).FinishReason == event.FinishReasonStop {
				answered++
			}
		}
		require.False(t, seen[name], "event %d, %s, is there twice", e.Seq, name)
		seen[name] = true
	}
	return said, answered
}
