package agui

import (
	"encoding/json"

	"github.com/agentarbor/arbor/event"
)

// What events are made of. Their members are those of the protocol.
type (
	// head begins all events.
	head struct {
		Type string `json:"type"`
		// Run is that of an inner scope to which the event belongs.
		Run string `json:"subagentRunId,omitempty"`
	}
	// lifeEvent is one of a run, a step or a sub-agent.
	lifeEvent struct {
		head
		Thread  string  `json:"threadId,omitempty"`
		ID      string  `json:"runId,omitempty"`
		Version string  `json:"protocolVersion,omitempty"`
		Input   any     `json:"input,omitempty"` // that of a run which somebody else has begun
		Step    string  `json:"stepName,omitempty"`
		Name    string  `json:"name,omitempty"`
		Call    string  `json:"parentToolCallId,omitempty"`
		Parent  string  `json:"parentSubagentRunId,omitempty"`
		Message string  `json:"message,omitempty"`
		Code    string  `json:"code,omitempty"`
		Result  any     `json:"result,omitempty"`
		Outcome *ending `json:"outcome,omitempty"`
		Usage   []used  `json:"usage,omitempty"`
	}
	ending struct {
		Type       string      `json:"type"`
		Interrupts []interrupt `json:"interrupts,omitempty"`
		IDs        []string    `json:"interruptIds,omitempty"`
	}
	interrupt struct {
		Run      string          `json:"subagentRunId,omitempty"`
		ID       string          `json:"id"`
		Reason   string          `json:"reason"`
		Message  string          `json:"message,omitempty"`
		Call     string          `json:"toolCallId,omitempty"`
		Schema   json.RawMessage `json:"responseSchema,omitempty"`
		Metadata asking          `json:"metadata"`
	}
	asking struct {
		Agent string `json:"agent"`
		*event.Relay
	}
	used struct {
		Model  string `json:"model,omitempty"`
		Input  int    `json:"inputTokens"`
		Output int    `json:"outputTokens"`
		Total  int    `json:"totalTokens"`
		Cached int    `json:"cachedInputTokens,omitempty"`
	}
	// itemEvent is one of a message, of reasoning, of a call or its result.
	itemEvent struct {
		head
		Message  string         `json:"messageId,omitempty"`
		Call     string         `json:"toolCallId,omitempty"`
		CallName string         `json:"toolCallName,omitempty"`
		Parent   string         `json:"parentMessageId,omitempty"`
		Role     string         `json:"role,omitempty"`
		Name     string         `json:"name,omitempty"`
		Delta    string         `json:"delta,omitempty"`
		Content  *string        `json:"content,omitempty"`
		Metadata map[string]any `json:"metadata,omitempty"`
	}
	activityEvent struct {
		head
		Message string `json:"messageId"`
		Kind    string `json:"activityType"`
		Content any    `json:"content"`
	}
	stateEvent struct {
		head
		Snapshot any  `json:"snapshot,omitempty"`
		Delta    []op `json:"delta,omitempty"`
	}
	op struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value,omitempty"`
	}
	messagesEvent struct {
		head
		Messages []*message `json:"messages"`
	}
	customEvent struct {
		head
		Name  string `json:"name"`
		Value any    `json:"value"`
	}
)

// message is one of a conversation, as a page has it and as it is sent one.
type message struct {
	Run      string          `json:"subagentRunId,omitempty"`
	ID       string          `json:"id"`
	Role     string          `json:"role"`
	Name     string          `json:"name,omitempty"`
	Content  json.RawMessage `json:"content,omitempty"`
	Calls    []call          `json:"toolCalls,omitempty"`
	Call     string          `json:"toolCallId,omitempty"`
	Error    string          `json:"error,omitempty"` // of a tool of the page's
	Metadata map[string]any  `json:"metadata,omitempty"`
}

type call struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// part is one of the content of a user's message.
type part struct {
	Type   string  `json:"type"`
	Text   *string `json:"text,omitempty"`
	Source *source `json:"source,omitempty"`
	binary
}

// binary is a part as clients from before version 1.0 of the protocol send it.
type binary struct {
	MIME string `json:"mimeType,omitempty"`
	ID   string `json:"id,omitempty"`
	URL  string `json:"url,omitempty"`
	Data string `json:"data,omitempty"`
	Name string `json:"filename,omitempty"`
}

type source struct {
	Type  string `json:"type"`
	Value string `json:"value"`
	MIME  string `json:"mimeType,omitempty"`
}
