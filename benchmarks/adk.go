package benchmarks

import (
	"context"
	"fmt"
	"iter"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
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
	root     agent.Agent
	config   agent.RunConfig
	sessions session.Service
	runner   *runner.Runner
}

func newADK(s *Scenario) (System, error) {
	var below []agent.Agent
	for i := len(s.Agents) - 1; i >= 0; i-- {
		a, err := llmagent.New(llmagent.Config{
			Name:        s.Agents[i],
			Description: description(s.Agents[i]),
			Instruction: instruction(s.Agents[i]),
			Model:       adkModel{s, s.Agents[i]},
			SubAgents:   below,
		})
		if err != nil {
			return nil, err
		}
		below = []agent.Agent{a}
	}
	a := &adkSystem{root: below[0], config: agent.RunConfig{StreamingMode: agent.StreamingModeNone}}
	if s.Stream {
		a.config.StreamingMode = agent.StreamingModeSSE
	}
	return a, a.Forget()
}

type adkModel struct {
	scenario *Scenario
	agent    string
}

func (m adkModel) Name() string { return m.agent }

func (m adkModel) GenerateContent(_ context.Context, req *model.LLMRequest, stream bool) iter.Seq2[*model.LLMResponse, error] {
	return func(yield func(*model.LLMResponse, error) bool) {
		answer := m.scenario.Ask(m.agent, len(req.Contents))
		if answer.Transfer != "" {
			call := genai.NewPartFromFunctionCall(TransferTool, map[string]any{"agent_name": answer.Transfer})
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
				reply.Pieces++
			default:
				reply.Agent, reply.Text = e.Author, part.Text
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
