package benchmarks

import (
	"context"
	"iter"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/workflowagent"
)

// arborSystem runs with the store in memory and the default options, but for the
// limits in a scenario that is a loop.
type arborSystem struct {
	scenario *Scenario
	root     agent.Agent
	store    *session.Memory
	runner   *runner.Runner
	predicts runner.Predictor // anticipates, nil without it
}

func newArbor(s *Scenario) (System, error) {
	root, err := arborRoot(s)
	if err != nil {
		return nil, err
	}
	a := &arborSystem{scenario: s, root: root}
	return a, a.Forget()
}

func arborRoot(s *Scenario) (agent.Agent, error) {
	var below agent.Agent
	agents := make([]agent.Agent, len(s.Agents))
	for i := len(s.Agents) - 1; i >= 0; i-- {
		opts := []llmagent.Option{llmagent.WithDescription(description(s.Agents[i]))}
		switch {
		case s.Way == AsTree:
			if below != nil {
				opts = append(opts, llmagent.WithSubAgents(below))
			}
			// What ADK-Go and Eino allow by default.
			opts = append(opts, llmagent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToParent: i > 0}))
		case s.Way == AsTool && below != nil:
			tool, err := agenttool.New(below)
			if err != nil {
				return nil, err
			}
			opts = append(opts, llmagent.WithTools(tool))
		}
		a, err := llmagent.New(s.Agents[i], instruction(s.Agents[i]), arborModel{s, s.Agents[i]}, opts...)
		if err != nil {
			return nil, err
		}
		below, agents[i] = a, a
	}
	about := description(WorkflowName)
	switch s.Way {
	case InTurn:
		return workflowagent.Sequential(WorkflowName, about, agents)
	case AtOnce:
		return workflowagent.Parallel(WorkflowName, about, agents)
	case InRounds:
		return workflowagent.Loop(WorkflowName, about, agents, workflowagent.WithLimit(s.Rounds))
	}
	return below, nil
}

type arborModel struct {
	scenario *Scenario
	agent    string
}

func (m arborModel) Name() string { return m.agent }

func (m arborModel) Generate(_ context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		answer := m.scenario.Ask(m.agent, len(req.Messages), func(i int) string { return arborText(req.Messages[i].Content) })
		call := llm.ToolCall{ID: "call_" + m.agent}
		switch {
		case answer.Transfer != "":
			if m.scenario.Loop && !yield(llm.Chunk{Text: "Yours."}, nil) { // only one transfer a turn can go to a parent without a word
				return
			}
			call.Name, call.Arguments = TransferTool, `{"agent_name":"`+answer.Transfer+`"}`
		case answer.Tool != "":
			call.Name, call.Arguments = answer.Tool, `{"input":"`+Message+`"}`
		default:
			for _, piece := range answer.Pieces {
				if !yield(llm.Chunk{Text: piece}, nil) {
					return
				}
			}
			yield(llm.Chunk{Finish: llm.FinishStop}, nil)
			return
		}
		yield(llm.Chunk{Call: &call, Finish: llm.FinishToolCalls}, nil)
	}
}

func arborText(c llm.Content) string {
	for _, part := range c.Parts {
		if result, ok := part.(llm.ToolResult); ok {
			return result.Output
		}
	}
	return c.Text
}

func (a *arborSystem) Turn(ctx context.Context, id, message string) (Reply, error) {
	var reply Reply
	for e, err := range a.runner.Run(ctx, session.ID(id), llm.UserText(message)) {
		if err != nil {
			return reply, err
		}
		data, ok := e.Data.(*event.Text)
		switch {
		case !ok:
		case e.Partial:
			a.scenario.hear(&reply.Pieces)
		default:
			reply.Agent, reply.Text = e.Agent, data.Content
			if a.scenario.Way != AsTree {
				a.scenario.Heard(e.Agent, data.Content)
			}
		}
	}
	return reply, nil
}

func (a *arborSystem) Past(ctx context.Context, id string) (Past, error) {
	var events []*event.Event
	for e, err := range a.store.Load(ctx, session.ID(id), 0) {
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, nil
}

func (a *arborSystem) PutBack(ctx context.Context, id string, past Past) error {
	events := past.([]*event.Event)
	key := session.ID(id)
	_, err := a.store.Write(ctx, key, session.Write{Acquire: session.Self(), Events: events, Release: true})
	return err
}

// Warm reads the session's log, which the runner does in the first turn of a
// session in a process.
func (a *arborSystem) Warm(ctx context.Context, id string) error {
	key := session.ID(id)
	name, err := a.runner.Active(ctx, key)
	if err != nil {
		return err
	}
	_, err = a.runner.Preview(ctx, key, name)
	return err
}

func (a *arborSystem) Forget() error {
	a.store = session.NewMemory()
	var opts []runner.Option
	if a.predicts != nil {
		opts = append(opts, runner.WithAnticipation(a.predicts, 1))
	}
	if a.scenario.Stream {
		opts = append(opts, runner.WithStreaming())
	}
	if a.scenario.Loop || a.scenario.Way == AtOnce { // more than 50 models are asked
		opts = append(opts, runner.WithLimits(runner.Limits{Transfers: runner.NoLimit, ModelCalls: runner.NoLimit, ToolCalls: runner.NoLimit, Steps: runner.NoLimit}))
	}
	var err error
	a.runner, err = runner.New(a.root, a.store, opts...)
	return err
}
