package llmagent_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// Global instructions come first, those from further up before the others. The agents of a
// graph and those behind an agent tool are trees of their own. The request to the
// endpoint's adapter names the agent.
func TestGlobalInstruction(t *testing.T) {
	type asked struct{ agent, system string }
	var requests []asked
	says := func(name string, answers ...scripted.Answer) llm.Model {
		return scripted.Func(name, func(req *llm.Request) scripted.Answer {
			requests = append(requests, asked{req.Agent, req.System})
			if len(answers) == 0 {
				return scripted.Reply(scripted.Text("Done."))
			}
			next := answers[0]
			answers = answers[1:]
			return next
		})
	}
	quiet := llmagent.WithTransferInstruction("")
	make := func(name string, model llm.Model, opts ...llmagent.Option) agent.Agent {
		return must.Get(llmagent.New(name, "You are "+name+".", model, append(opts, quiet)...))
	}
	tool := must.Get(agenttool.New(make("inner", says("inner")), agenttool.WithName("inner")))
	graph := must.Get(agentgraph.NewBuilder("plan").
		Node("step", make("worker", says("worker", scripted.Reply(scripted.Call("inner", `{"input":"help"}`))), llmagent.WithTools(tool))).
		Node("last", make("other", says("other"), llmagent.WithInstructionFunc(func(context.Context, *agent.Invocation) (string, error) { return "", nil }))).
		Edge("step", "last").Build())
	middle := make("middle", says("middle", scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"plan"}`))),
		llmagent.WithSubAgents(graph), llmagent.WithGlobalInstruction("Be brief."))
	root := make("root", says("root", scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"middle"}`))),
		llmagent.WithSubAgents(middle), llmagent.WithGlobalInstruction("You work for Example Ltd."))

	r := must.Get(runner.New(root, sessiontest.Memory(t)))
	must.All(r.Run(context.Background(), session.ID("s"), llm.UserText("Go on")))
	require.Equal(t, []asked{
		{"root", "You work for Example Ltd.\n\nYou are root."},
		{"root/middle", "You work for Example Ltd.\n\nBe brief.\n\nYou are middle."},
		{"step", "You are worker."},
		{"inner", "You are inner."},
		{"step", "You are worker."},
		{"last", ""},
	}, requests)
}
