package openaiapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/internal/chatform"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/internal/responses"
)

var responseFields = fields{
	supported: []string{"model", "input", "stream", "stream_options", "metadata", "user", "conversation", "previous_response_id", "store", "background", "include", "text", "tools", "tool_choice", "arbor"},
	refused:   map[string][]string{"top_logprobs": {"0"}, "prompt": nil, "moderation": nil},
}

type responseBody struct {
	Model         string          `json:"model"`
	Input         json.RawMessage `json:"input"`
	Stream        bool            `json:"stream"`
	StreamOptions struct {
		IncludeObfuscation bool `json:"include_obfuscation"`
	} `json:"stream_options"`
	Metadata     map[string]any    `json:"metadata"`
	User         string            `json:"user"`
	Conversation json.RawMessage   `json:"conversation"` // an id, or an object with one
	Previous     string            `json:"previous_response_id"`
	Store        *bool             `json:"store"`
	Background   bool              `json:"background"`
	Include      []string          `json:"include"`
	Tools        []json.RawMessage `json:"tools"`
	ToolChoice   json.RawMessage   `json:"tool_choice"`
	Text         struct {
		Format    json.RawMessage `json:"format"`
		Verbosity string          `json:"verbosity"`
	} `json:"text"`
	Arbor struct {
		Events bool `json:"events"`
	} `json:"arbor"`
}

// responseRequest is a decoded body.
type responseRequest struct {
	chatRequest  // the messages
	body         responseBody
	conversation string
}

// wireApproval is an item of an input that decides about a call.
type wireApproval struct {
	Request string `json:"approval_request_id"`
	Approve *bool  `json:"approve"`
	Reason  string `json:"reason"`

	call, question string
}

// readResponse reads a request. A header of the answer lists what is ignored.
func (h *Handler) readResponse(c *front.Call) (*responseRequest, error) {
	var wrong faults
	q := &responseRequest{}
	ignored, err := responseFields.read(c, &q.body, &wrong)
	if err != nil {
		return nil, err
	}
	b := &q.body
	for i, name := range b.Include {
		if name == "message.output_text.logprobs" {
			wrong.addf(fmt.Sprintf("include[%d]", i), "is not supported")
		} else {
			ignored = append(ignored, fmt.Sprintf("include[%d]", i))
		}
	}
	if b.Text.Verbosity != "" {
		ignored = append(ignored, "text.verbosity")
	}
	ignoredItems, err := q.input("input", b.Input, h.references(c), &wrong)
	if err != nil {
		return nil, err
	}
	ignored = append(ignored, ignoredItems...)
	q.check(&wrong)
	if err := wrong.err(); err != nil {
		return nil, err
	}
	setIgnored(c, ignored)
	q.formatAt = "text.format"
	q.chatBody = chatBody{Model: b.Model, Metadata: b.Metadata, User: b.User, Tools: b.Tools, ToolChoice: b.ToolChoice, Format: b.Text.Format}
	return q, nil
}

// input reads a member with items, and returns the paths of ignored items. refer returns an item to which an
// item_reference refers.
func (q *responseRequest) input(member string, raw json.RawMessage, refer func(id, path string) (json.RawMessage, error), wrong *faults) (ignored []string, err error) {
	if len(raw) > 0 && raw[0] == '"' {
		q.message(append(append([]byte(`{"role":"user","content":`), raw...), '}'), member, wrong)
		return nil, nil
	}
	var items []json.RawMessage
	if len(raw) > 0 && json.Unmarshal(raw, &items) != nil {
		wrong.addf(member, "must be a string or an array of items")
		return nil, nil
	}
	if member == "input" && q.body.Previous == "" && len(q.body.Conversation) == 0 {
		items = prompts(items)
	}
	for i, raw := range items {
		path := fmt.Sprintf("%s[%d]", member, i)
		var item struct {
			Type string `json:"type"`
			ID   string `json:"id"`
			Role string `json:"role"`
		}
		if json.Unmarshal(raw, &item) != nil || bytes.Equal(raw, []byte("null")) {
			wrong.addf(path, "is not an item")
			continue
		}
		if item.Type == "item_reference" || item.Type == "" && item.Role == "" && item.ID != "" {
			if raw, err = refer(item.ID, path); err != nil {
				return nil, err
			}
			_ = json.Unmarshal(raw, &item) // cannot fail: refer encoded it
			if item.Type == "mcp_approval_response" || item.Type == "function_call_output" {
				continue // the call has this answer already
			}
		}
		switch item.Type {
		case "", "message":
			if q.message(raw, path, wrong) {
				ignored = append(ignored, path)
			}
		case "mcp_approval_response":
			var a wireApproval
			err := json.Unmarshal(raw, &a)
			ok := false
			a.call, a.question, ok = responses.ReadApproval(a.Request)
			if err != nil || a.Approve == nil || !ok {
				wrong.addf(path, "needs the approval_request_id of an mcp_approval_request, and approve as true or false")
				continue
			}
			q.approvals = append(q.approvals, a)
		case "function_call_output":
			q.addResult(raw, path, wrong)
		case "function_call":
			q.addCall(raw, path, wrong)
		default:
			if !isHistory(item.Type) {
				wrong.addf(path+".type", "is %.40q, which is not supported; it must be message, function_call_output, mcp_approval_response or item_reference", item.Type)
				continue
			}
			q.moveToPast()
			ignored = append(ignored, path)
		}
	}
	return ignored, nil
}

// isHistory reports whether an item is an output of models other than text and function calls, or the output of such a
// call. Clients send these items back with the messages.
func isHistory(kind string) bool {
	return slices.Contains([]string{"reasoning", "compaction", "mcp_approval_request", "mcp_list_tools"}, kind) ||
		strings.HasSuffix(kind, "_call") || strings.HasSuffix(kind, "_call_output")
}

// addCall reads a call of the client's function. Consecutive calls become one message, because they were one answer.
// Results before the call are kept, because some clients send each result directly after its call.
func (q *responseRequest) addCall(raw json.RawMessage, path string, wrong *faults) {
	var item struct {
		CallID    string `json:"call_id"`
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	if json.Unmarshal(raw, &item) != nil || item.CallID == "" {
		wrong.addf(path, "needs the call_id, the name and the arguments of a function_call")
		return
	}
	q.moveToPast()
	call := llm.ToolCall{ID: item.CallID, Name: item.Name, Arguments: item.Arguments}
	if n := len(q.past) - 1; n >= 0 && q.past[n].Role == llm.RoleAssistant && q.past[n].Text == "" {
		q.past[n].Parts = append(q.past[n].Parts, call)
		return
	}
	q.past = append(q.past, llm.Message{Role: llm.RoleAssistant, Content: llm.Content{Parts: []llm.Part{call}}})
}

// addResult reads the result of a call that the client ran.
func (q *responseRequest) addResult(raw json.RawMessage, path string, wrong *faults) {
	var item struct {
		CallID string          `json:"call_id"`
		Output json.RawMessage `json:"output"`
	}
	err := json.Unmarshal(raw, &item)
	output, wrongOutput := chatform.ReadContent(item.Output)
	switch {
	case err != nil || item.CallID == "":
		wrong.addf(path, "needs the call_id of a function_call, and its output")
	case wrongOutput != nil:
		wrong.addf(path+".output", "cannot be read: %s", wrongOutput)
	default:
		q.add(chatform.Result(item.CallID, output), "")
	}
}

// setPrevious sets the previous response to the one that the id of the last approval names. It returns false if the id
// names none.
func (q *responseRequest) setPrevious() bool {
	id, ok := responses.ResponseOf(q.approvals[len(q.approvals)-1].Request)
	if ok {
		q.body.Previous = id.String()
	}
	return ok
}

// check adds a problem for members that cannot be combined.
func (q *responseRequest) check(wrong *faults) {
	b := &q.body
	if raw := b.Conversation; len(raw) > 0 {
		var named struct {
			ID string `json:"id"`
		}
		if json.Unmarshal(raw, &q.conversation) != nil {
			_ = json.Unmarshal(raw, &named) // on failure the id is ""
			q.conversation = named.ID
		}
		if q.conversation == "" {
			wrong.addf("conversation", "must be the id of a conversation, or an object with it")
		}
	}
	inSession := q.conversation != "" || b.Previous != ""
	switch {
	case len(*wrong) > 0:
	case q.conversation != "" && b.Previous != "":
		wrong.addf("previous_response_id", "cannot be combined with a conversation")
	case len(q.approvals) > 0 && !inSession && !q.setPrevious():
		wrong.addf("previous_response_id", "must be the response that asked for the approval, unless the request names its conversation")
	case len(q.approvals) == 0 && len(q.now)+len(q.results) == 0:
		wrong.addf("input", "must end with a message of the user that is not empty, or with outputs of function calls")
	case inSession && slices.ContainsFunc(q.past, func(m llm.Message) bool { return m.Role == llm.RoleAssistant && m.PlainText() != "" }):
		wrong.addf("input", "contains messages of the assistant, but the conversation already has its own: send only the new messages")
	}
	if b.Background && b.Store != nil && !*b.Store {
		wrong.addf("store", "must be true with background, because the client reads the response later")
	}
}
