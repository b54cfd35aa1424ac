package endpoint

import (
	"encoding/json"
	"fmt"

	"github.com/agentarbor/arbor/internal/chatform"
	"github.com/agentarbor/arbor/llm"
)

type inputItem struct {
	Type      string          `json:"type"`
	Role      llm.Role        `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Output    string          `json:"output"`
	Encrypted string          `json:"encrypted_content"`
}

// responses returns what a model sees of a request of the Responses API.
func (w *wireRequest) responses(s seal) (*llm.Request, error) {
	req, err := w.base(w.Text.Format)
	if err != nil {
		return nil, err
	}
	req.System, req.MaxTokens, req.TopLogProbs, req.ReasoningEffort = w.Instructions, w.MaxOutputTokens, w.TopLogProbs, w.Reasoning.Effort
	return req, w.messages(req, s)
}

// messages joins the items of an answer to one message.
func (w *wireRequest) messages(req *llm.Request, s seal) error {
	names := map[string]string{} // the names of the called tools by call id
	var said *llm.Message        // the answer whose items are being read
	assistant := func(more bool) *llm.Message {
		if said == nil || !more {
			req.Messages = append(req.Messages, llm.Message{Role: llm.RoleAssistant})
			said = &req.Messages[len(req.Messages)-1]
		}
		return said
	}
	for i, item := range w.Input {
		switch item.Type {
		case "reasoning":
			text, err := s.open(item.Encrypted)
			if err != nil {
				return fmt.Errorf("input[%d].encrypted_content: %w", i, err)
			}
			m := assistant(said != nil && said.Text == "" || said != nil && hasCalls(said))
			m.Parts = append(m.Parts, llm.Reasoning{Text: text})
		case "function_call":
			names[item.CallID] = item.Name
			m := assistant(true)
			m.Parts = append(m.Parts, llm.ToolCall{ID: item.CallID, Name: item.Name, Arguments: item.Arguments})
		case "function_call_output":
			said = nil
			res := llm.ToolResult{CallID: item.CallID, Name: names[item.CallID], Output: item.Output}
			req.Messages = append(req.Messages, llm.Message{Role: llm.RoleTool, Content: llm.Content{Parts: []llm.Part{res}}})
		default:
			content, err := chatform.ReadContent(item.Content)
			switch {
			case err != nil:
				return fmt.Errorf("input[%d].content: %w", i, err)
			case item.Role == llm.RoleAssistant:
				assistant(said != nil && said.Text == "" && !hasCalls(said)).Text = content.Text
			default:
				said = nil
				req.Messages = append(req.Messages, llm.Message{Role: item.Role, Content: content})
			}
		}
	}
	return nil
}

func hasCalls(m *llm.Message) bool {
	for _, p := range m.Parts {
		if _, ok := p.(llm.ToolCall); ok {
			return true
		}
	}
	return false
}
