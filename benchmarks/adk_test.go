package benchmarks

import (
	"context"
	"fmt"
	"iter"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/agent/workflowagents/loopagent"
	"google.golang.org/adk/v2/agent/workflowagents/parallelagent"
	"google.golang.org/adk/v2/agent/workflowagents/sequentialagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/agenttool"
	"google.golang.org/genai"
)

// The app and the user that all sessions belong to.
const (
	appName = "benchmarks"
	userID  = "user"
)

// adkSystem runs ADK-Go with its session service in memory. It finds by itself the
// agent that answered last.
type adkSystem struct {
	scenario *Scenario
	root     agent.Agent
	config   agent.RunConfig
	sessions session.Service
	runner   *runner.Runner
}

func newADK(s *Scenario) (System, error) {
	root, err := adkRoot(s)
	if err != nil {
		return nil, err
	}
	a := &adkSystem{scenario: s, root: root, config: agent.RunConfig{StreamingMode: agent.StreamingModeNone}}
	if s.Stream {
		a.config.StreamingMode = agent.StreamingModeSSE
	}
	return a, a.Forget()
}

func adkRoot(s *Scenario) (agent.Agent, error) {
	agents := make([]agent.Agent, len(s.Agents))
	for i := len(s.Agents) - 1; i >= 0; i-- {
		config := llmagent.Config{
			Name:        s.Agents[i],
			Description: description(s.Agents[i]),
			Instruction: instruction(s.Agents[i]),
			Model:       adkModel{s, s.Agents[i]},
		}
		below := agents[i+1:]
		switch {
		case s.Way == AsTree:
			config.SubAgents = below[:min(1, len(below))]
		case s.Way == AsTool && len(below) > 0:
			config.Tools = []tool.Tool{agenttool.New(below[0], nil)}
		}
		var err error
		if agents[i], err = llmagent.New(config); err != nil {
			return nil, err
		}
	}
	around := agent.Config{Name: WorkflowName, Description: description(WorkflowName), SubAgents: agents}
	switch s.Way {
	case InTurn:
		return sequentialagent.New(sequentialagent.Config{AgentConfig: around})
	case AtOnce:
		return parallelagent.New(parallelagent.Config{AgentConfig: around})
	case InRounds:
		return loopagent.New(loopagent.Config{AgentConfig: around, MaxIterations: uint(s.Rounds)})
	}
	return agents[0], nil
}

type adkModel struct {
	scenario *Scenario
	agent    string
}

func (m adkModel) Name() string { return m.agent }

func (m adkModel) GenerateContent(_ context.Context, req *model.LLMRequest, stream bool) iter.Seq2[*model.LLMResponse, error] {
	return func(yield func(*model.LLMResponse, error) bool) {
		answer := m.scenario.Ask(m.agent, len(req.Contents), func(i int) string { return adkText(req.Contents[i]) })
		var call *genai.Part
		switch {
		case answer.Transfer != "":
			call = genai.NewPartFromFunctionCall(TransferTool, map[string]any{"agent_name": answer.Transfer})
		case answer.Tool != "":
			call = genai.NewPartFromFunctionCall(answer.Tool, map[string]any{"request": Message})
		}
		if call != nil {
			yield(&model.LLMResponse{Content: genai.NewContentFromParts([]*genai.Part{call}, genai.RoleModel), FinishReason: genai.FinishReasonStop, TurnComplete: stream}, nil)
			return
		}
		if stream {
			for _, piece := range answer.Pieces {
				if !yield(&model.LLMResponse{Content: genai.NewContentFromText(piece, genai.RoleModel), Partial: true}, nil) {
					return
				}
			}
		}
		yield(&model.LLMResponse{Content: genai.NewContentFromText(answer.Text, genai.RoleModel), FinishReason: genai.FinishReasonStop, TurnComplete: stream}, nil)
	}
}

// adkText is the last text of a message, or of a tool's result in it.
func adkText(c *genai.Content) string {
	var text string
	for _, part := range c.Parts {
		if part.FunctionResponse != nil {
			text, _ = part.FunctionResponse.Response["result"].(string)
		} else if part.Text != "" {
			text = part.Text
		}
	}
	return text
}

func (a *adkSystem) Turn(ctx context.Context, id, message string) (Reply, error) {
	var reply Reply
	for e, err := range a.runner.Run(ctx, userID, id, genai.NewContentFromText(message, genai.RoleUser), a.config) {
		if err != nil {
			return reply, err
		}
		if e.Content == nil {
			continue
		}
		for _, part := range e.Content.Parts {
			switch {
			case part.Text == "":
			case e.Partial:
				a.scenario.hear(&reply.Pieces)
			default:
				reply.Agent, reply.Text = e.Author, part.Text
				if a.scenario.Way != AsTree {
					a.scenario.Heard(e.Author, part.Text)
				}
			}
		}
	}
	return reply, nil
}

func (a *adkSystem) Past(ctx context.Context, id string) (Past, error) {
	found, err := a.sessions.Get(ctx, &session.GetRequest{AppName: appName, UserID: userID, SessionID: id})
	if err != nil {
		return nil, err
	}
	var events []*session.Event
	for e := range found.Session.Events().All() {
		events = append(events, e)
	}
	return events, nil
}

func (a *adkSystem) PutBack(ctx context.Context, id string, past Past) error {
	made, err := a.sessions.Create(ctx, &session.CreateRequest{AppName: appName, UserID: userID, SessionID: id})
	if err != nil {
		return err
	}
	for i, e := range past.([]*session.Event) {
		if err := a.sessions.AppendEvent(ctx, made.Session, e); err != nil {
			return fmt.Errorf("event %d: %w", i, err)
		}
	}
	return nil
}

func (a *adkSystem) Warm(context.Context, string) error { return nil }

func (a *adkSystem) Forget() error {
	a.sessions = session.InMemoryService()
	var err error
	a.runner, err = runner.New(runner.Config{
		AppName:           appName,
		Agent:             a.root,
		SessionService:    a.sessions,
		AutoCreateSession: true,
	})
	return err
}
