package benchmarks

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"
)

// einoSystem runs Eino's ADK. It has no store of sessions: an application keeps the
// messages itself and hands them to each run, and it must know which agent is to
// go on, because a run begins with the agent that it was made for. The adapter
// is such an application, with maps.
type einoSystem struct {
	scenario *Scenario
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
	e := &einoSystem{scenario: s, runners: make(map[string]*adk.Runner), root: s.Agents[0], stream: s.Stream}
	agents := make([]adk.Agent, len(s.Agents))
	for i := len(s.Agents) - 1; i >= 0; i-- {
		config := &adk.ChatModelAgentConfig{
			Name:        s.Agents[i],
			Description: description(s.Agents[i]),
			Instruction: instruction(s.Agents[i]),
			Model:       &einoModel{s, s.Agents[i]},
		}
		below := agents[i+1:]
		if s.Way == AsTool && len(below) > 0 {
			config.ToolsConfig = adk.ToolsConfig{ToolsNodeConfig: compose.ToolsNodeConfig{
				Tools: []tool.BaseTool{adk.NewAgentTool(ctx, below[0])},
			}}
		}
		var a adk.Agent
		a, err := adk.NewChatModelAgent(ctx, config)
		if err != nil {
			return nil, err
		}
		if s.Way == AsTree && len(below) > 0 {
			if a, err = adk.SetSubAgents(ctx, a, below[:1]); err != nil {
				return nil, err
			}
		}
		e.runners[s.Agents[i]] = adk.NewRunner(ctx, adk.RunnerConfig{Agent: a, EnableStreaming: s.Stream})
		agents[i] = a
	}
	switch workflow, err := einoWorkflow(ctx, s, agents); {
	case err != nil:
		return nil, err
	case workflow != nil:
		e.root = WorkflowName
		e.runners[e.root] = adk.NewRunner(ctx, adk.RunnerConfig{Agent: workflow, EnableStreaming: s.Stream})
	}
	return e, e.Forget()
}

// einoWorkflow is the workflow around the agents; it is nil if there is none.
func einoWorkflow(ctx context.Context, s *Scenario, agents []adk.Agent) (adk.Agent, error) {
	about := description(WorkflowName)
	switch s.Way {
	case InTurn:
		return adk.NewSequentialAgent(ctx, &adk.SequentialAgentConfig{Name: WorkflowName, Description: about, SubAgents: agents})
	case AtOnce:
		return adk.NewParallelAgent(ctx, &adk.ParallelAgentConfig{Name: WorkflowName, Description: about, SubAgents: agents})
	case InRounds:
		return adk.NewLoopAgent(ctx, &adk.LoopAgentConfig{Name: WorkflowName, Description: about, SubAgents: agents, MaxIterations: s.Rounds})
	}
	return nil, nil
}

// einoModel is a model.ToolCallingChatModel.
type einoModel struct {
	scenario *Scenario
	agent    string
}

func (m *einoModel) WithTools([]*schema.ToolInfo) (model.ToolCallingChatModel, error) { return m, nil }

func (m *einoModel) Generate(_ context.Context, input []*schema.Message, _ ...model.Option) (*schema.Message, error) {
	return m.message(m.ask(input)), nil
}

func (m *einoModel) Stream(_ context.Context, input []*schema.Message, _ ...model.Option) (*schema.StreamReader[*schema.Message], error) {
	answer := m.ask(input)
	if answer.Text == "" {
		return schema.StreamReaderFromArray([]*schema.Message{m.message(answer)}), nil
	}
	chunks := make([]*schema.Message, len(answer.Pieces))
	for i, piece := range answer.Pieces {
		chunks[i] = schema.AssistantMessage(piece, nil)
	}
	return schema.StreamReaderFromArray(chunks), nil
}

func (m *einoModel) ask(input []*schema.Message) Answer {
	return m.scenario.Ask(m.agent, len(input), func(i int) string { return input[i].Content })
}

func (m *einoModel) message(answer Answer) *schema.Message {
	var call schema.FunctionCall
	switch {
	case answer.Transfer != "":
		call = schema.FunctionCall{Name: TransferTool, Arguments: `{"agent_name":"` + answer.Transfer + `"}`}
	case answer.Tool != "":
		call = schema.FunctionCall{Name: answer.Tool, Arguments: `{"request":"` + Message + `"}`}
	default:
		return schema.AssistantMessage(answer.Text, nil)
	}
	return schema.AssistantMessage("", []schema.ToolCall{{ID: "call_" + m.agent, Type: "function", Function: call}})
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
		said, pieces, err := e.message(event.Output.MessageOutput)
		if err != nil {
			return reply, err
		}
		session.messages = append(session.messages, said)
		if said.Role == schema.Assistant && said.Content != "" {
			reply = Reply{Agent: event.AgentName, Text: said.Content, Pieces: pieces}
			session.active = event.AgentName
			if e.scenario.Way != AsTree {
				e.scenario.Heard(event.AgentName, said.Content)
			}
		}
	}
	e.sessions[id] = session
	return reply, nil
}

// message reads a message to its end, and puts together what an application
// must keep of it.
func (e *einoSystem) message(output *adk.MessageVariant) (said *schema.Message, pieces int, err error) {
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
			e.scenario.hear(&pieces)
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
