package main

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/llm"
	adkagent "google.golang.org/adk/v2/agent"
	adkllm "google.golang.org/adk/v2/agent/llmagent"
	adkmodel "google.golang.org/adk/v2/model"
	adkrunner "google.golang.org/adk/v2/runner"
	adksession "google.golang.org/adk/v2/session"
	adktool "google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"
	"google.golang.org/genai"
)

// adk returns a function that plays a turn with ADK-Go, whose agents may transfer to their parent and siblings by
// default.
func (p *play) adk() (func(said string) error, error) {
	var root adkagent.Agent
	var children []adkagent.Agent
	for i, role := range slices.Backward(p.roles) {
		name, description := role.tool()
		tool, err := functiontool.New(functiontool.Config{Name: name, Description: description}, func(adkagent.Context, lookup) (map[string]any, error) {
			return map[string]any{"result": record}, nil
		})
		if err != nil {
			return nil, err
		}
		config := adkllm.Config{Name: role.Name, Description: role.Description, Instruction: role.Instruction, Model: adkModel{p}, Tools: []adktool.Tool{tool}}
		if i == 0 {
			config.SubAgents = children
		}
		if root, err = adkllm.New(config); err != nil {
			return nil, err
		}
		children = append([]adkagent.Agent{root}, children...)
	}
	r, err := adkrunner.New(adkrunner.Config{AppName: "handover", Agent: root, SessionService: adksession.InMemoryService(), AutoCreateSession: true})
	return func(said string) error {
		for _, err := range r.Run(context.Background(), "user", "s", genai.NewContentFromText(said, genai.RoleUser), adkagent.RunConfig{}) {
			if err != nil {
				return err
			}
		}
		return nil
	}, err
}

// adkModel passes requests to the play in the form of ADK-Go, which has no client for chat completions.
type adkModel struct{ *play }

func (m adkModel) GenerateContent(ctx context.Context, req *adkmodel.LLMRequest, _ bool) iter.Seq2[*adkmodel.LLMResponse, error] {
	return func(yield func(*adkmodel.LLMResponse, error) bool) {
		asked, err := fromADK(req)
		if err != nil {
			yield(nil, err)
			return
		}
		answer := &genai.Content{Role: genai.RoleModel}
		for c, err := range m.Generate(ctx, asked) {
			switch {
			case err != nil:
				yield(nil, err)
				return
			case c.Call != nil:
				var args map[string]any
				if err := json.Unmarshal([]byte(c.Call.Arguments), &args); err != nil {
					yield(nil, err)
					return
				}
				answer.Parts = append(answer.Parts, genai.NewPartFromFunctionCall(c.Call.Name, args))
			case c.Text != "":
				answer.Parts = append(answer.Parts, genai.NewPartFromText(c.Text))
			}
		}
		yield(&adkmodel.LLMResponse{Content: answer, FinishReason: genai.FinishReasonStop}, nil)
	}
}

// fromADK returns the request with everything that ADK-Go sends to a model, in its order.
func fromADK(req *adkmodel.LLMRequest) (*llm.Request, error) {
	asked := &llm.Request{}
	if req.Config.SystemInstruction != nil {
		for i, part := range req.Config.SystemInstruction.Parts {
			if i > 0 {
				asked.System += "\n\n"
			}
			asked.System += part.Text
		}
	}
	for _, tool := range req.Config.Tools {
		for _, f := range tool.FunctionDeclarations {
			schema := f.ParametersJsonSchema
			if f.Parameters != nil {
				schema = jsonSchema(f.Parameters)
			}
			parameters, err := json.Marshal(schema)
			if err != nil {
				return nil, err
			}
			asked.Tools = append(asked.Tools, llm.ToolSpec{Name: f.Name, Description: f.Description, Parameters: parameters})
		}
	}
	for _, content := range req.Contents {
		message, err := messageOf(content)
		if err != nil {
			return nil, err
		}
		asked.Messages = append(asked.Messages, message)
	}
	return asked, nil
}

func messageOf(content *genai.Content) (llm.Message, error) {
	message := llm.Message{Role: llm.RoleUser}
	if content.Role == genai.RoleModel {
		message.Role = llm.RoleAssistant
	}
	for _, part := range content.Parts {
		var text []byte
		var err error
		switch {
		case part.FunctionCall != nil:
			text, err = json.Marshal(part.FunctionCall.Args)
			message.Parts = append(message.Parts, llm.ToolCall{ID: part.FunctionCall.ID, Name: part.FunctionCall.Name, Arguments: string(text)})
		case part.FunctionResponse != nil:
			message.Role = llm.RoleTool
			text, err = json.Marshal(part.FunctionResponse.Response)
			message.Parts = append(message.Parts, llm.ToolResult{CallID: part.FunctionResponse.ID, Name: part.FunctionResponse.Name, Output: string(text)})
		case message.Role == llm.RoleAssistant:
			message.Text += part.Text
		default:
			message.Parts = append(message.Parts, llm.TextPart{Text: part.Text})
		}
		if err != nil {
			return message, err
		}
	}
	return message, nil
}

// jsonSchema returns a schema whose types are those of JSON schema, in lower case. It contains what ADK-Go's tool for
// transfers needs.
func jsonSchema(s *genai.Schema) map[string]any {
	if s == nil {
		return nil
	}
	schema := map[string]any{"type": strings.ToLower(string(s.Type))}
	if s.Description != "" {
		schema["description"] = s.Description
	}
	if s.Enum != nil {
		schema["enum"] = s.Enum
	}
	if s.Properties != nil {
		properties := map[string]any{}
		for name, p := range s.Properties {
			properties[name] = jsonSchema(p)
		}
		schema["properties"], schema["required"] = properties, s.Required
	}
	return schema
}
