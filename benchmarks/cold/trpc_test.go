package cold

import (
	"context"
	"errors"

	"trpc.group/trpc-go/trpc-agent-go/agent"
	"trpc.group/trpc-go/trpc-agent-go/agent/llmagent"
	"trpc.group/trpc-go/trpc-agent-go/model"
	"trpc.group/trpc-go/trpc-agent-go/runner"
	"trpc.group/trpc-go/trpc-agent-go/session"
	"trpc.group/trpc-go/trpc-agent-go/session/postgres"
)

type trpcModel struct {
	hands bool
	seen  *int
}

func (m *trpcModel) Info() model.Info { return model.Info{Name: "scripted"} }

func (m *trpcModel) GenerateContent(_ context.Context, req *model.Request) (<-chan *model.Response, error) {
	*m.seen = len(req.Messages)
	answer, reason := model.NewAssistantMessage(sentence), "stop"
	if m.hands {
		answer, reason = model.Message{Role: model.RoleAssistant, ToolCalls: []model.ToolCall{{ID: "call_1", Type: "function",
			Function: model.FunctionDefinitionParam{Name: target, Arguments: []byte(`{"agent_name":"` + expert + `"}`)}}}}, "tool_calls"
	}
	out := make(chan *model.Response, 1)
	out <- &model.Response{ID: "response", Object: model.ObjectTypeChatCompletion, Model: "scripted",
		Choices: []model.Choice{{Message: answer, FinishReason: &reason}}, Done: !m.hands}
	close(out)
	return out, nil
}

// openTRPC opens the session service on PostgreSQL. It keeps the last 1,000 events of a session unless told otherwise.
func openTRPC(where string, seen *int) (runner.Runner, *postgres.Service, error) {
	sessions, err := postgres.NewService(postgres.WithPostgresClientDSN(where), postgres.WithSessionEventLimit(1_000_000))
	if err != nil {
		return nil, nil, err
	}
	below := llmagent.New(expert, llmagent.WithDescription("Answers about "+expert), llmagent.WithInstruction("You are "+expert+"."), llmagent.WithModel(&trpcModel{false, seen}))
	top := llmagent.New(root, llmagent.WithInstruction("You are "+root+"."), llmagent.WithModel(&trpcModel{true, seen}), llmagent.WithSubAgents([]agent.Agent{below}))
	return runner.NewRunner(app, top, runner.WithSessionService(sessions), runner.WithAgent(expert, below)), sessions, nil
}

// answerTRPC runs a turn; a later one is addressed to the specialist, because the framework begins at the root.
func answerTRPC(ctx context.Context, r runner.Runner, first bool) (said string, err error) {
	var opts []agent.RunOption
	if !first {
		opts = append(opts, agent.WithAgentByName(expert))
	}
	events, err := r.Run(ctx, user, "s1", model.NewUserMessage(message), opts...)
	if err != nil {
		return "", err
	}
	for e := range events {
		if e.Error != nil {
			return "", errors.New(e.Error.Message)
		}
		if e.Response == nil || e.Object == model.ObjectTypeTransfer {
			continue
		}
		for _, c := range e.Choices {
			if c.Message.Role == model.RoleAssistant && c.Message.Content != "" {
				said = c.Message.Content
			}
		}
	}
	return said, nil
}

// fillTRPC runs two turns, and appends the events of the second again for the others.
func fillTRPC(ctx context.Context, where string, turns int) error {
	var seen int
	r, sessions, err := openTRPC(where, &seen)
	if err != nil {
		return err
	}
	of := session.Key{AppName: app, UserID: user, SessionID: "s1"}
	before := 0
	for i := range min(turns, 2) {
		if _, err := answerTRPC(ctx, r, i == 0); err != nil {
			return err
		}
		if i == 0 {
			s, err := sessions.GetSession(ctx, of)
			if err != nil {
				return err
			}
			before = len(s.Events)
		}
	}
	s, err := sessions.GetSession(ctx, of)
	if err != nil {
		return err
	}
	again := s.Events[before:]
	for range turns - 2 {
		for i := range again {
			e := again[i]
			if err := sessions.AppendEvent(ctx, s, &e); err != nil {
				return err
			}
		}
	}
	return errors.Join(r.Close(), sessions.Close())
}

func turnTRPC(ctx context.Context, where string) (said string, seen int, err error) {
	r, _, err := openTRPC(where, &seen)
	if err != nil {
		return "", 0, err
	}
	said, err = answerTRPC(ctx, r, false)
	return said, seen, err
}
