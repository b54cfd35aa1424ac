package responses

import (
	"encoding/json"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/server/live"
)

// The JSON that clients receive.
type (
	// Object is a response.
	Object struct {
		ID                string            `json:"id"`
		Object            string            `json:"object"`
		CreatedAt         int64             `json:"created_at"`
		CompletedAt       *int64            `json:"completed_at"`
		Status            string            `json:"status"`
		Background        bool              `json:"background"`
		Error             *Failure          `json:"error"`
		Incomplete        *Reason           `json:"incomplete_details"`
		Instructions      *string           `json:"instructions"`
		Metadata          map[string]string `json:"metadata"`
		Model             string            `json:"model"`
		Output            []*Item           `json:"output"`
		ParallelToolCalls bool              `json:"parallel_tool_calls"`
		Previous          *string           `json:"previous_response_id"`
		Conversation      Conversation      `json:"conversation"`
		Store             bool              `json:"store"`
		Temperature       *float64          `json:"temperature"`
		ToolChoice        string            `json:"tool_choice"`
		Tools             []struct{}        `json:"tools"`
		TopP              *float64          `json:"top_p"`
		Usage             *Usage            `json:"usage"`
		User              string            `json:"user,omitempty"`
		Arbor             Arbor             `json:"arbor"`
	}
	// Failure is the error of a response that failed.
	Failure struct {
		Type    string `json:"type"`
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	// Reason is the reason why an answer is incomplete.
	Reason struct {
		Reason string `json:"reason"`
	}
	// Conversation names the session.
	Conversation struct {
		ID string `json:"id"`
	}
	// Usage is the usage of the response alone.
	Usage struct {
		Input        int `json:"input_tokens"`
		InputDetails struct {
			Cached int `json:"cached_tokens"`
		} `json:"input_tokens_details"`
		Output        int `json:"output_tokens"`
		OutputDetails struct {
			Reasoning int `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
		Total int `json:"total_tokens"`
	}
	// Arbor contains what the protocol has no members for.
	Arbor struct {
		Session string         `json:"session,omitempty"`
		Turn    string         `json:"turn,omitempty"`
		Agent   string         `json:"agent,omitempty"`
		State   live.State     `json:"state,omitempty"`
		Pending []Pending      `json:"pending,omitempty"`
		Events  []*event.Event `json:"events,omitempty"`
	}
	// Pending is an open question.
	Pending struct {
		CallID  string          `json:"callId"`
		Kind    string          `json:"kind"`
		Tool    string          `json:"tool"`
		Params  json.RawMessage `json:"params,omitempty"`
		Message string          `json:"message,omitempty"`
		Schema  json.RawMessage `json:"schema,omitempty"`
	}
	// Item is a message, a request for an approval or its answer, a call of a client's tool or its result, or an item
	// that a client added.
	Item struct {
		Type        string  `json:"type"`
		ID          string  `json:"id"`
		Status      string  `json:"status,omitempty"`
		Role        string  `json:"role,omitempty"`
		Content     *[]Text `json:"content,omitempty"`
		ServerLabel string  `json:"server_label,omitempty"`
		CallID      string  `json:"call_id,omitempty"`
		Name        string  `json:"name,omitempty"`
		Arguments   *string `json:"arguments,omitempty"`
		Output      *string `json:"output,omitempty"`
		Request     string  `json:"approval_request_id,omitempty"`
		Approve     *bool   `json:"approve,omitempty"`
		Reason      string  `json:"reason,omitempty"`
		Agent       string  `json:"agent,omitempty"`

		// Key is the key of the session's state that has the item, if a client added it.
		Key     string         `json:"-"`
		whole   map[string]any // the item, if a client added it
		request string         // the Idempotency-Key of the request that added it
	}
	// Text is a part of a message's content. Only messages of agents have annotations and logprobs.
	Text struct {
		Type        string     `json:"type"`
		Text        string     `json:"text"`
		Annotations []struct{} `json:"annotations,omitzero"`
		LogProbs    []struct{} `json:"logprobs,omitzero"`
		ImageURL    string     `json:"image_url,omitempty"`
		Detail      string     `json:"detail,omitempty"`
		FileName    string     `json:"filename,omitempty"`
		FileData    string     `json:"file_data,omitempty"`
		FileURL     string     `json:"file_url,omitempty"`
		FileID      string     `json:"file_id,omitempty"`
	}
	// Event is an event of a stream.
	Event struct {
		Type         string       `json:"type"`
		Number       int64        `json:"sequence_number"`
		Response     *Object      `json:"response,omitempty"`
		OutputIndex  *int         `json:"output_index,omitempty"`
		Item         *Item        `json:"item,omitempty"`
		ItemID       string       `json:"item_id,omitempty"`
		ContentIndex *int         `json:"content_index,omitempty"`
		Part         *Text        `json:"part,omitempty"`
		Delta        *string      `json:"delta,omitempty"`
		Text         *string      `json:"text,omitempty"`
		Name         string       `json:"name,omitempty"`      // of a function
		Arguments    *string      `json:"arguments,omitempty"` // of its call, whole
		LogProbs     any          `json:"logprobs,omitempty"`
		Event        *event.Event `json:"event,omitempty"` // of the log, if the client asks for it
		// The following members belong to errors.
		Code    string           `json:"code,omitempty"`
		Message string           `json:"message,omitempty"`
		Param   *json.RawMessage `json:"param,omitempty"`
	}
)

func textOf(s string) *Text {
	return &Text{Type: "output_text", Text: s, Annotations: []struct{}{}, LogProbs: []struct{}{}}
}

// PendingOf returns the form of open questions.
func PendingOf(asked []*event.Relay) (list []Pending) {
	for _, d := range asked {
		list = append(list, Pending{d.ToolCallID, d.Kind, d.Tool, d.Params, d.Message, d.Schema})
	}
	return list
}
