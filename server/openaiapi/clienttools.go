package openaiapi

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/chatform"
	"github.com/agentarbor/arbor/llm"
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

func (t wireTool) function() tools.ClientTool {
	if t.Function != nil {
		return *t.Function
	}
	return t.ClientTool
}

func (t wireTool) names(f tools.ClientTool) bool { return t.function().Name == f.Name }

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
		functions[i] = t.function()
	}
	all := len(functions)
	functions = slices.DeleteFunc(functions, func(f tools.ClientTool) bool { return f.Name == front.ApprovalTool })
	if len(functions) < all {
		metadata[front.ApprovalsKey] = true
	}
	how, allowed, err := choiceOf(choice)
	unknown := slices.IndexFunc(allowed, func(t wireTool) bool { return !slices.ContainsFunc(functions, t.names) })
	switch {
	case err != nil:
		wrong.addf("tool_choice", "%s", err)
	case unknown >= 0:
		wrong.addf("tool_choice", "allows %.64q, which is not one of the tools", allowed[unknown].function().Name)
	case !how.Mode() && !slices.ContainsFunc(functions, func(f tools.ClientTool) bool { return f.Name == string(how) }):
		wrong.addf("tool_choice", "names %.64q, which is not one of the tools", how)
	case how == llm.ToolChoiceRequired && len(functions) == 0:
		wrong.addf("tool_choice", "is required, but the request has no tools")
	}
	if len(*wrong) > 0 {
		return
	}
	if allowed != nil {
		functions = slices.DeleteFunc(functions, func(f tools.ClientTool) bool {
			return !slices.ContainsFunc(allowed, func(t wireTool) bool { return t.names(f) })
		})
	}
	if err := h.clientTools.Keep(h.turns.Runner().Tree(), functions, how, metadata); err != nil {
		wrong.addf("tools", "%s", err)
	}
}

// choiceOf returns a tool_choice: a mode, or the name of a function in an object. allowed are the only tools of the
// request that agents can call; nil is all of them.
func choiceOf(raw json.RawMessage) (choice llm.ToolChoice, allowed []wireTool, err error) {
	type limit struct {
		Mode  string     `json:"mode"`
		Tools []wireTool `json:"tools"`
	}
	var mode string
	var named struct {
		wireTool
		limit
		Nested *limit `json:"allowed_tools"` // in chat completions
	}
	switch {
	case len(raw) == 0:
		return "", nil, nil
	case json.Unmarshal(raw, &mode) == nil:
	case json.Unmarshal(raw, &named) == nil && named.Type == "function" && named.function().Name != "":
		return llm.ToolChoice(named.function().Name), nil, nil
	case named.Type == "allowed_tools":
		if named.Nested != nil {
			named.limit = *named.Nested
		}
		mode, allowed = named.Mode, append([]wireTool{}, named.Tools...)
	}
	if !slices.Contains([]string{"none", "auto", "required"}, mode) {
		err = fmt.Errorf("is %.80q; it must be none, auto, required, the name of a function or allowed_tools", raw)
	}
	return llm.ToolChoice(mode), allowed, err
}

// callPrefix begins the ids of calls in chat completions, as OpenAI's do. Agno gives calls whose ids begin otherwise new
// ones, with which their results would answer nothing.
const callPrefix = "call_"

// wireCall is a call in a message of a chat completion.
type wireCall struct {
	Index *int `json:"index,omitempty"` // in a stream
	chatform.Call
}

// callsOf returns the calls that wait for the client.
func callsOf(asked []*event.Relay, streamed bool) (calls []wireCall) {
	for i, q := range front.ClientCalls(asked) {
		call := wireCall{Call: chatform.CallOf(llm.ToolCall{ID: callPrefix + q.ToolCallID, Name: q.Tool, Arguments: string(q.Params)})}
		if streamed {
			call.Index = &i
		}
		calls = append(calls, call)
	}
	return calls
}
