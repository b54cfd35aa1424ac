package agent

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// Interceptor wraps what a runner does: a turn, each call of a model, each call
// of a tool. Of several the first is the outermost, so that it sees a call first
// and its outcome last. Embed [Passthrough] to wrap only some of the three.
//
// An interceptor may pass on another context or other arguments, look at the
// outcome or replace it, or answer without calling next at all. Its methods are
// called by many goroutines at once, because tools run in parallel. They must
// not keep the Invocation beyond the call.
type Interceptor interface {
	// Turn wraps a turn, or the part of one that Resume or Advance runs. The
	// sequence is what the turn's consumer gets.
	Turn(ctx context.Context, t TurnInfo, next TurnFunc) iter.Seq2[*event.Event, error]
	// ModelCall wraps one attempt at an answer of a model. The request is shared
	// and must not be changed: to change it, pass a changed copy to next.
	ModelCall(ctx context.Context, c ModelCallInfo, next ModelFunc) iter.Seq2[llm.Chunk, error]
	// ToolCall wraps one call of a tool, transfers among them. It is not asked
	// about calls that are answered without being run. Arguments that it changes
	// run only if they were approved, or the rules allow them. A transfer whose result
	// comes back as an error is not committed. An error ends the agent's run.
	ToolCall(ctx context.Context, c ToolCallInfo, next ToolFunc) (*event.ToolResult, error)
}

// What an interceptor wraps: the interceptors after it, and then the turn, the model or the tool itself.
type (
	TurnFunc  func(ctx context.Context) iter.Seq2[*event.Event, error]
	ModelFunc func(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error]
	ToolFunc  func(ctx context.Context, input json.RawMessage) (*event.ToolResult, error)
)

// TurnInfo says which turn runs.
type TurnInfo struct {
	Session SessionKey
	// Message is what the user said; nil when an earlier turn is resumed.
	Message *llm.Message
	// Root is the agent at the root of the tree.
	Root string
	// Tree is all of the tree.
	Tree *Tree
}

// ModelCallInfo says which model is asked, and for which agent.
type ModelCallInfo struct {
	Invocation *Invocation
	Model      llm.Model
	Request    *llm.Request
}

// ToolCallInfo says which tool is called, and for which agent. ID is the call's
// id in the log; Input is always a JSON object.
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
