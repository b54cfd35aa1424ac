package benchmarks

import (
	"context"
	"errors"
	"time"

	"trpc.group/trpc-go/trpc-agent-go/agent"
	"trpc.group/trpc-go/trpc-agent-go/agent/chainagent"
	"trpc.group/trpc-go/trpc-agent-go/agent/cycleagent"
	"trpc.group/trpc-go/trpc-agent-go/agent/llmagent"
	"trpc.group/trpc-go/trpc-agent-go/agent/parallelagent"
	"trpc.group/trpc-go/trpc-agent-go/event"
	"trpc.group/trpc-go/trpc-agent-go/model"
	"trpc.group/trpc-go/trpc-agent-go/runner"
	"trpc.group/trpc-go/trpc-agent-go/session"
	"trpc.group/trpc-go/trpc-agent-go/session/inmemory"
	"trpc.group/trpc-go/trpc-agent-go/team"
	"trpc.group/trpc-go/trpc-agent-go/tool"
	agenttool "trpc.group/trpc-go/trpc-agent-go/tool/agent"
)

// trpcSystem runs tRPC-Agent-Go with its session service in memory. Its next turn
// begins at the root, so the adapter remembers who answered and addresses this
// agent with agent.WithAgentByName.
type trpcSystem struct {
	scenario *Scenario
	agents   map[string]agent.Agent
	root     agent.Agent
	sessions *inmemory.SessionService
	runner   runner.Runner
	active   map[string]string // by session
}

func newTRPC(s *Scenario) (System, error) {
	t := &trpcSystem{scenario: s, agents: make(map[string]agent.Agent)}
	agents := make([]agent.Agent, len(s.Agents))
	for i := len(s.Agents) - 1; i >= 0; i-- {
		opts := []llmagent.Option{
			llmagent.WithDescription(description(s.Agents[i])),
			llmagent.WithInstruction(instruction(s.Agents[i])),
			llmagent.WithModel(&trpcModel{s, s.Agents[i]}),
			llmagent.WithGenerationConfig(model.GenerationConfig{Stream: s.Stream}),
		}
		below := agents[i+1:]
		switch {
		case s.Way == AsTree:
			opts = append(opts, llmagent.WithSubAgents(below[:min(1, len(below))]))
		case s.Way == AsTool && len(below) > 0:
			opts = append(opts, llmagent.WithTools([]tool.Tool{agenttool.NewTool(below[0])}))
		}
		a := llmagent.New(s.Agents[i], opts...)
		t.agents[s.Agents[i]], t.root, agents[i] = a, a, a
	}
	switch s.Way {
	case InTurn:
		t.root = chainagent.New(WorkflowName, chainagent.WithSubAgents(agents))
	case AtOnce:
		t.root = parallelagent.New(WorkflowName, parallelagent.WithSubAgents(agents))
	case InRounds:
		t.root = cycleagent.New(WorkflowName, cycleagent.WithSubAgents(agents), cycleagent.WithMaxIterations(s.Rounds))
	}
	if s.Loop { // a child cannot transfer up; members of a swarm transfer to each other
		swarm, err := team.NewSwarm("swarm", s.Agents[0], agents, team.WithSwarmConfig(team.SwarmConfig{}))
		if err != nil {
			return nil, err
		}
		t.root = swarm
	}
	return t, t.Forget()
}

// trpcModel is a model.IterModel, which saves the framework a goroutine and a
// channel for each answer.
type trpcModel struct {
	scenario *Scenario
	agent    string
}

func (m *trpcModel) Info() model.Info { return model.Info{Name: m.agent} }

func (m *trpcModel) GenerateContent(ctx context.Context, req *model.Request) (<-chan *model.Response, error) {
	seq, err := m.GenerateContentIter(ctx, req)
	if err != nil {
		return nil, err
	}
	out := make(chan *model.Response)
	go func() {
		defer close(out)
		seq(func(r *model.Response) bool {
			select {
			case out <- r:
				return true
			case <-ctx.Done():
				return false
			}
		})
	}()
	return out, nil
}

func (m *trpcModel) GenerateContentIter(_ context.Context, req *model.Request) (model.Seq[*model.Response], error) {
	answer := m.scenario.Ask(m.agent, len(req.Messages), func(i int) string { return req.Messages[i].Content })
	return func(yield func(*model.Response) bool) {
		if answer.Text == "" {
			call := model.ToolCall{ID: "call_" + m.agent, Type: "function", Function: model.FunctionDefinitionParam{
				Name: TransferTool, Arguments: []byte(`{"agent_name":"` + answer.Transfer + `"}`),
			}}
			if answer.Tool != "" {
				call.Function.Name, call.Function.Arguments = answer.Tool, []byte(`{"request":"`+Message+`"}`)
			}
			yield(m.final(model.Message{Role: model.RoleAssistant, ToolCalls: []model.ToolCall{call}}, "tool_calls"))
			return
		}
		if req.Stream {
			for _, piece := range answer.Pieces {
				chunk := &model.Response{
					ID:        "response",
					Object:    model.ObjectTypeChatCompletionChunk,
					Model:     m.agent,
					Choices:   []model.Choice{{Delta: model.Message{Role: model.RoleAssistant, Content: piece}}},
					Timestamp: time.Now(),
					IsPartial: true,
				}
				if !yield(chunk) {
					return
				}
			}
		}
		yield(m.final(model.NewAssistantMessage(answer.Text), "stop"))
	}, nil
}

func (m *trpcModel) final(message model.Message, reason string) *model.Response {
	return &model.Response{
		ID:        "response",
		Object:    model.ObjectTypeChatCompletion,
		Model:     m.agent,
		Choices:   []model.Choice{{Message: message, FinishReason: &reason}},
		Timestamp: time.Now(),
		Done:      len(message.ToolCalls) == 0, // as its OpenAI model sets it
	}
}

func (t *trpcSystem) Turn(ctx context.Context, id, message string) (Reply, error) {
	var reply Reply
	var opts []agent.RunOption
	if name, ok := t.active[id]; ok {
		opts = append(opts, agent.WithAgentByName(name))
	}
	events, err := t.runner.Run(ctx, userID, id, model.NewUserMessage(message), opts...)
	if err != nil {
		return reply, err
	}
	for e := range events {
		if e.Error != nil {
			return reply, errors.New(e.Error.Message)
		}
		// Its transfers are announced in words too, and the runner repeats the
		// answer in its last event.
		if e.Response == nil || e.Object == model.ObjectTypeTransfer || e.IsRunnerCompletion() {
			continue
		}
		for _, c := range e.Choices {
			switch {
			case e.IsPartial && c.Delta.Content != "":
				t.scenario.hear(&reply.Pieces)
			case !e.IsPartial && c.Message.Role == model.RoleAssistant && c.Message.Content != "":
				reply.Agent, reply.Text = e.Author, c.Message.Content
				if t.scenario.Way != AsTree {
					t.scenario.Heard(e.Author, c.Message.Content)
				}
			}
		}
	}
	t.active[id] = reply.Agent
	return reply, nil
}

// trpcPast is what the service keeps, and who was active.
type trpcPast struct {
	events []event.Event
	active string
}

func (t *trpcSystem) Past(ctx context.Context, id string) (Past, error) {
	s, err := t.sessions.GetSession(ctx, session.Key{AppName: appName, UserID: userID, SessionID: id})
	if err != nil {
		return nil, err
	}
	return trpcPast{s.Events, t.active[id]}, nil
}

func (t *trpcSystem) PutBack(ctx context.Context, id string, past Past) error {
	p := past.(trpcPast)
	s, err := t.sessions.CreateSession(ctx, session.Key{AppName: appName, UserID: userID, SessionID: id}, nil)
	if err != nil {
		return err
	}
	for i := range p.events {
		if err := t.sessions.AppendEvent(ctx, s, &p.events[i]); err != nil {
			return err
		}
	}
	t.active[id] = p.active
	return nil
}

func (t *trpcSystem) Warm(context.Context, string) error { return nil }

func (t *trpcSystem) Forget() error {
	if t.runner != nil {
		if err := errors.Join(t.runner.Close(), t.sessions.Close()); err != nil {
			return err
		}
	}
	// By default a session is cut to its last 1,000 events.
	t.sessions = inmemory.NewSessionService(inmemory.WithSessionEventLimit(1_000_000))
	opts := []runner.Option{runner.WithSessionService(t.sessions)}
	for name, a := range t.agents {
		opts = append(opts, runner.WithAgent(name, a))
	}
	t.runner = runner.NewRunner(appName, t.root, opts...)
	t.active = make(map[string]string)
	return nil
}
