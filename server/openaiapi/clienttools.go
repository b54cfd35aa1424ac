package openaiapi

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/chatform"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/tools"
)

// WithClientTools sets which agents can call the functions that clients send as "tools". Without names, no agent can,
// and a request with tools is refused. Defaults to every agent that answers the user.
func WithClientTools(agents ...string) Option {
	return func(s *settings) { s.clientTools = front.ClientTools{Only: agents, Limited: true} }
}

// wireTool is a function in the form of chat completions, or of the Responses API, which does not nest it in an object.
type wireTool struct {
	Type     string            `json:"type"`
	Function *tools.ClientTool `json:"function"`
	tools.ClientTool
}

// readTools reads tools and tool_choice into the metadata of the message. It ignores other members of a tool, such as
// strict.
func (h *Handler) readTools(list []json.RawMessage, choice json.RawMessage, metadata map[string]any, wrong *faults) {
	functions := make([]tools.ClientTool, len(list))
	for i, raw := range list {
		var t wireTool
		if json.Unmarshal(raw, &t) != nil {
			wrong.addf(fmt.Sprintf("tools[%d]", i), "must be an object with type, name, description and parameters")
		} else if t.Type != "function" {
			wrong.addf(fmt.Sprintf("tools[%d].type", i), "is %.40q; only functions of the client are supported", t.Type)
		}
		functions[i] = t.ClientTool
		if t.Function != nil {
			functions[i] = *t.Function
		}
	}
	all := len(functions)
	functions = slices.DeleteFunc(functions, func(f tools.ClientTool) bool { return f.Name == front.ApprovalTool })
	if len(functions) < all {
		metadata[front.ApprovalsKey] = true
	}
	how, err := choiceOf(choice)
	switch {
	case err != nil:
		wrong.addf("tool_choice", "%s", err)
	case !how.Mode() && !slices.ContainsFunc(functions, func(f tools.ClientTool) bool { return f.Name == string(how) }):
		wrong.addf("tool_choice", "names %.64q, which is not one of the tools", how)
	case how == llm.ToolChoiceRequired && len(functions) == 0:
		wrong.addf("tool_choice", "is required, but the request has no tools")
	}
	if len(*wrong) > 0 {
		return
	}
	if err := h.clientTools.Keep(h.turns.Runner().Tree(), functions, how, metadata); err != nil {
		wrong.addf("tools", "%s", err)
	}
}

// choiceOf returns a tool_choice: a mode, or the name of a function in an object.
func choiceOf(raw json.RawMessage) (llm.ToolChoice, error) {
	var mode string
	var named struct {
		Type     string `json:"type"`
		Name     string `json:"name"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	switch {
	case len(raw) == 0:
		return "", nil
	case json.Unmarshal(raw, &mode) == nil && slices.Contains([]string{"none", "auto", "required"}, mode):
		return llm.ToolChoice(mode), nil
	case json.Unmarshal(raw, &named) == nil && named.Type == "function" && named.Name+named.Function.Name != "":
		return llm.ToolChoice(named.Name + named.Function.Name), nil
	}
	return "", fmt.Errorf("is %.80q; it must be none, auto, required or the name of a function", raw)
}

// resultOf returns the decision with the result of a call that the client ran.
func resultOf(callID, output string) runner.Decision {
	return runner.Decision{CallID: callID, Approved: true, Content: event.EncodeJSON(output)}
}

// wireCall is a call in a message of a chat completion.
type wireCall struct {
	Index *int `json:"index,omitempty"` // in a stream
	chatform.Call
}

// callsOf returns the calls that wait for the client.
func callsOf(asked []*event.Relay, streamed bool) (calls []wireCall) {
	for i, q := range front.ClientCalls(asked) {
		call := wireCall{Call: chatform.CallOf(llm.ToolCall{ID: q.ToolCallID, Name: q.Tool, Arguments: string(q.Params)})}
		if streamed {
			call.Index = &i
		}
		calls = append(calls, call)
	}
	return calls
}
