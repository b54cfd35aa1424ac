package benchmarks

import (
	"context"
	"fmt"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// arborSystem runs with the store in memory and the default options, but for the
// limits in a scenario that is a loop.
type arborSystem struct {
	scenario *Scenario
	root     agent.Agent
	store    *session.Memory
	runner   *runner.Runner
}

func newArbor(s *Scenario) (System, error) {
	var below agent.Agent
	for i := len(s.Agents) - 1; i >= 0; i-- {
		opts := []llmagent.Option{llmagent.WithDescription(description(s.Agents[i]))}
		if below != nil {
			opts = append(opts, llmagent.WithSubAgents(below))
		}
		// What ADK-Go and Eino allow by default.
		opts = append(opts, llmagent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToParent: i > 0, AllowTransferBack: true}))
		a, err := llmagent.New(s.Agents[i], instruction(s.Agents[i]), arborModel(s, s.Agents[i]), opts...)
		if err != nil {
			return nil, err
		}
		below = a
	}
	a := &arborSystem{scenario: s, root: below}
	return a, a.Forget()
}

func arborModel(s *Scenario, name string) llm.Model {
	answers := make(map[string]scripted.Answer) // by target; text under the empty one
	return scripted.Func(name, func(req *llm.Request) scripted.Answer {
		answer := s.Ask(name, len(req.Messages))
		made, ok := answers[answer.Transfer]
		if !ok {
			if answer.Transfer != "" {
				made = scripted.Reply(scripted.Call(TransferTool, fmt.Sprintf(`{"agent_name":%q}`, answer.Transfer)))
			} else {
				made = scripted.Reply(scripted.Text(answer.Pieces...))
			}
			answers[answer.Transfer] = made
		}
		return made
	})
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
			reply.Pieces++
		default:
			reply.Agent, reply.Text = e.Agent, data.Content
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
	lease, err := a.store.Acquire(ctx, key, session.Owner{})
	if err != nil {
		return err
	}
	if err := a.store.Append(ctx, key, 0, lease, events...); err != nil {
		return err
	}
	return a.store.Release(ctx, key, lease)
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
	if a.scenario.Stream {
		opts = append(opts, runner.WithStreaming())
	}
	if a.scenario.Loop {
		opts = append(opts, runner.WithLimits(runner.Limits{}))
	}
	var err error
	a.runner, err = runner.New(a.root, a.store, opts...)
	return err
}
