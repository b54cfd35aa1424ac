package agui

import (
	"encoding/json"

	"github.com/agentarbor/arbor/event"
)

// The events of the protocol.
type (
	// head contains the members that all events have.
	head struct {
		Type string `json:"type"`
		// Run is the id of the inner run to which the event belongs, or "" for the conversation.
		Run string `json:"subagentRunId,omitempty"`
	}
	// lifeEvent is the start or the end of a run, a step or a subagent.
	lifeEvent struct {
		head
		Thread  string       `json:"threadId,omitempty"`
		ID      string       `json:"runId,omitempty"`
		Version string       `json:"protocolVersion,omitempty"`
		Input   any          `json:"input,omitempty"` // the input of a run that another client started
		Step    string       `json:"stepName,omitempty"`
		Name    string       `json:"name,omitempty"`
		Call    string       `json:"parentToolCallId,omitempty"`
		Parent  string       `json:"parentSubagentRunId,omitempty"`
		Message string       `json:"message,omitempty"`
		Code    string       `json:"code,omitempty"`
		Result  any          `json:"result,omitempty"`
		Outcome *runOutcome  `json:"outcome,omitempty"`
		Usage   []modelUsage `json:"usage,omitempty"`
	}
	runOutcome struct {
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
		Metadata question        `json:"metadata"`
	}
	question struct {
		Agent string `json:"agent"`
		*event.Relay
	}
	modelUsage struct {
		Model  string `json:"model,omitempty"`
		Input  int    `json:"inputTokens"`
		Output int    `json:"outputTokens"`
		Total  int    `json:"totalTokens"`
		Cached int    `json:"cachedInputTokens,omitempty"`
	}
	// itemEvent is an event of a message, of reasoning, or of a call or its result.
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

// message is a message of a conversation, in requests and in events.
type message struct {
	Run      string          `json:"subagentRunId,omitempty"`
	ID       string          `json:"id"`
	Role     string          `json:"role"`
	Name     string          `json:"name,omitempty"`
	Content  json.RawMessage `json:"content,omitempty"`
	Calls    []call          `json:"toolCalls,omitempty"`
	Call     string          `json:"toolCallId,omitempty"`
	Error    string          `json:"error,omitempty"` // of a page's tool
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

// part is a part of a user message's content.
type part struct {
	Type   string  `json:"type"`
	Text   *string `json:"text,omitempty"`
	Source *source `json:"source,omitempty"`
	binary
}

// binary is the form of a part before version 1.0 of the protocol.
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
