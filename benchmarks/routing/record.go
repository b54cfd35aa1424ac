package main

import (
	"slices"
	"strings"

	"github.com/agentarbor/arbor/event"
)

// record is what came of a message or of a conversation, one line in the file of
// results.
type record struct {
	Model   string `json:"model"`
	Variant string `json:"variant"`
	Half    half   `json:"half"`
	ID      string `json:"id"`
	Turns   []turn `json:"turns"` // one for a message
	Talk    bool   `json:"conversation,omitempty"`
}

// turn is what came of something that a user said.
type turn struct {
	prompt
	// First is the first agent that the conversation was handed to, or who had it if
	// it was not handed on.
	First string `json:"first"`
	// End is the agent whose words the user saw last, empty if there were none.
	End string `json:"end"`
	// Error is the code of what ended the turn.
	Error   string  `json:"error,omitempty"`
	Message string  `json:"message,omitempty"`
	Seconds float64 `json:"seconds"`
	Asked   []asked `json:"asked"`
	Steps   []step  `json:"steps"`
}

// asked is a question to the model, in tokens.
type asked struct {
	Agent  string `json:"agent"`
	Input  int    `json:"input"`
	Cached int    `json:"cached"` // of the input: what the server had computed before
	Output int    `json:"output"`
	// Handed says that it is the first one after a transfer.
	Handed bool `json:"handed,omitempty"`
}

// step is something that an agent did, to look at.
type step struct {
	Agent string          `json:"agent"`
	Text  string          `json:"text,omitempty"`
	Call  *event.ToolCall `json:"call,omitempty"`
	To    string          `json:"to,omitempty"` // of a transfer, with what became of it
	Note  string          `json:"note,omitempty"`
}

// Nothing is right where a call was shown to the user: the coordinator did not answer
// itself then, but failed to hand over.
func (t *turn) firstRight() bool { return t.right(t.First) && !t.leaked() }
func (t *turn) endRight() bool   { return t.right(t.End) && !t.leaked() }

func (t *turn) right(name string) bool {
	return name != "" && (name == t.Right || name == t.Also)
}

// leaked reports whether the user saw something that looks like a call.
func (t *turn) leaked() bool {
	return slices.ContainsFunc(t.Steps, func(s step) bool { return looksLikeCall(s.Text) })
}

// looksLikeCall reports whether words that a user saw were meant for the framework.
// Nobody asks about tools here, so that no answer has a reason to name their parts.
func looksLikeCall(text string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc([]string{
		"transfer_to_", "agent_name", "tool_call", "<tool", `"arguments"`, `"parameters"`, `{"name"`, `{"function"`,
	}, func(part string) bool { return strings.Contains(text, part) })
}
