package agent

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// Interceptor wraps the operations of a runner: a turn, each call of a model, and each call of a tool. The first of
// several interceptors is the outermost: it sees a call first and its outcome last. Embed [Passthrough] to wrap only
// some operations.
//
// An interceptor may pass another context or other arguments to next, read or replace the outcome, or answer without
// calling next. Several goroutines call its methods at the same time, because tools run in parallel. The methods must
// not keep the Invocation after they return.
type Interceptor interface {
	// Turn wraps a turn, or the part of a turn that Resume or Advance runs. The sequence is what the turn's consumer
	// receives.
	Turn(ctx context.Context, t TurnInfo, next TurnFunc) iter.Seq2[*event.Event, error]
	// ModelCall wraps one attempt of a model at an answer. The request is shared and must not be changed; to change
	// it, pass a changed copy to next.
	ModelCall(ctx context.Context, c ModelCallInfo, next ModelFunc) iter.Seq2[llm.Chunk, error]
	// ToolCall wraps one call of a tool, including transfers. It is not called for calls that get a result without
	// running. Changed arguments run only if they were approved, or if the rules allow them. A transfer with an error
	// as its result is not committed. An error ends the agent's run.
	ToolCall(ctx context.Context, c ToolCallInfo, next ToolFunc) (*event.ToolResult, error)
}

// The operations that an interceptor wraps: the next interceptor or, after the last, the turn, the model or the tool.
type (
	TurnFunc  func(ctx context.Context) iter.Seq2[*event.Event, error]
	ModelFunc func(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error]
	ToolFunc  func(ctx context.Context, input json.RawMessage) (*event.ToolResult, error)
)

// TurnInfo describes the turn that runs.
type TurnInfo struct {
	Session SessionKey
	// Message is the user's message, or nil when an earlier turn is resumed.
	Message *llm.Message
	// Root is the name of the agent at the root of the tree.
	Root string
	// Tree is the whole tree.
	Tree *Tree
}

// ModelCallInfo describes a call of a model for an agent.
type ModelCallInfo struct {
	Invocation *Invocation
	Model      llm.Model
	Request    *llm.Request
}

// ToolCallInfo describes a call of a tool for an agent. ID is the call's id in the log. Input is always a JSON object.
type ToolCallInfo struct {
	Invocation *Invocation
	ID, Name   string
	Input      json.RawMessage
}

// Passthrough is an interceptor that changes nothing.
type Passthrough struct{}

// Turn implements Interceptor.
func (Passthrough) Turn(ctx context.Context, _ TurnInfo, next TurnFunc) iter.Seq2[*event.Event, error] {
	return next(ctx)
}

// ModelCall implements Interceptor.
func (Passthrough) ModelCall(ctx context.Context, c ModelCallInfo, next ModelFunc) iter.Seq2[llm.Chunk, error] {
	return next(ctx, c.Request)
}

// ToolCall implements Interceptor.
func (Passthrough) ToolCall(ctx context.Context, c ToolCallInfo, next ToolFunc) (*event.ToolResult, error) {
	return next(ctx, c.Input)
}
