package benchmarks

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/schema"
)

// einoSystem runs Eino's ADK. It has no store of sessions: an application keeps the
// messages itself and hands them to each run, and it must know which agent is to
// go on, because a run begins with the agent that it was made for. The adapter
// is such an application, with maps.
type einoSystem struct {
	runners  map[string]*adk.Runner // by the agent that begins
	root     string
	stream   bool
	sessions map[string]einoSession
}

type einoSession struct {
	active   string
	messages []*schema.Message
}

func newEino(s *Scenario) (System, error) {
	ctx := context.Background()
	e := &einoSystem{runners: make(map[string]*adk.Runner), root: s.Agents[0], stream: s.Stream}
	var below []adk.Agent
	for i := len(s.Agents) - 1; i >= 0; i-- {
		var a adk.Agent
		a, err := adk.NewChatModelAgent(ctx, &adk.ChatModelAgentConfig{
			Name:        s.Agents[i],
			Description: description(s.Agents[i]),
			Instruction: instruction(s.Agents[i]),
			Model:       &einoModel{s, s.Agents[i]},
		})
		if err != nil {
			return nil, err
		}
		if below != nil {
			if a, err = adk.SetSubAgents(ctx, a, below); err != nil {
				return nil, err
			}
		}
		e.runners[s.Agents[i]] = adk.NewRunner(ctx, adk.RunnerConfig{Agent: a, EnableStreaming: s.Stream})
		below = []adk.Agent{a}
	}
	return e, e.Forget()
}

// einoModel is a model.ToolCallingChatModel.
type einoModel struct {
	scenario *Scenario
	agent    string
}

func (m *einoModel) WithTools([]*schema.ToolInfo) (model.ToolCallingChatModel, error) { return m, nil }

func (m *einoModel) Generate(_ context.Context, input []*schema.Message, _ ...model.Option) (*schema.Message, error) {
	return m.message(m.scenario.Ask(m.agent, len(input))), nil
}

func (m *einoModel) Stream(_ context.Context, input []*schema.Message, _ ...model.Option) (*schema.StreamReader[*schema.Message], error) {
	answer := m.scenario.Ask(m.agent, len(input))
	if answer.Transfer != "" {
		return schema.StreamReaderFromArray([]*schema.Message{m.message(answer)}), nil
	}
	chunks := make([]*schema.Message, len(answer.Pieces))
	for i, piece := range answer.Pieces {
		chunks[i] = schema.AssistantMessage(piece, nil)
	}
	return schema.StreamReaderFromArray(chunks), nil
}

func (m *einoModel) message(answer Answer) *schema.Message {
	if answer.Transfer == "" {
		return schema.AssistantMessage(answer.Text, nil)
	}
	return schema.AssistantMessage("", []schema.ToolCall{{
		ID:       "call_" + m.agent,
		Type:     "function",
		Function: schema.FunctionCall{Name: TransferTool, Arguments: `{"agent_name":"` + answer.Transfer + `"}`},
	}})
}

func (e *einoSystem) Turn(ctx context.Context, id, message string) (Reply, error) {
	var reply Reply
	session, ok := e.sessions[id]
	if !ok {
		session.active = e.root
	}
	session.messages = append(session.messages, schema.UserMessage(message))
	events := e.runners[session.active].Run(ctx, session.messages)
	for {
		event, ok := events.Next()
		if !ok {
			break
		}
		if event.Err != nil {
			return reply, event.Err
		}
		if event.Output == nil || event.Output.MessageOutput == nil {
			continue
		}
		said, pieces, err := einoMessage(event.Output.MessageOutput)
		if err != nil {
			return reply, err
		}
		session.messages = append(session.messages, said)
		if said.Role == schema.Assistant && said.Content != "" {
			reply = Reply{Agent: event.AgentName, Text: said.Content, Pieces: pieces}
			session.active = event.AgentName
		}
	}
	e.sessions[id] = session
	return reply, nil
}

// einoMessage reads a message to its end, and puts together what an application
// must keep of it.
func einoMessage(output *adk.MessageVariant) (said *schema.Message, pieces int, err error) {
	if !output.IsStreaming {
		return output.Message, 0, nil
	}
	stream := output.MessageStream
	defer stream.Close()
	var text strings.Builder
	said = &schema.Message{Role: output.Role}
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			said.Content = text.String()
			return said, pieces, nil
		}
		if err != nil {
			return nil, 0, err
		}
		if chunk.Content != "" {
			text.WriteString(chunk.Content)
			pieces++
		}
		said.ToolCalls = append(said.ToolCalls, chunk.ToolCalls...)
		said.ToolCallID, said.ToolName = chunk.ToolCallID, chunk.ToolName
	}
}

func (e *einoSystem) Past(_ context.Context, id string) (Past, error) { return e.sessions[id], nil }

func (e *einoSystem) PutBack(_ context.Context, id string, past Past) error {
	session := past.(einoSession)
	session.messages = slices.Clone(session.messages)
	e.sessions[id] = session
	return nil
}

func (e *einoSystem) Warm(context.Context, string) error { return nil }

func (e *einoSystem) Forget() error {
	e.sessions = make(map[string]einoSession)
	return nil
}
