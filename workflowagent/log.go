package workflowagent

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/agent/workflow"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/tools"
)

// ExitToolName is the name of the tool that ends a loop.
const ExitToolName = "exit_loop"

type exitInput struct {
	Result string `json:"result,omitempty" jsonschema:"description=What the loop has come to\\, in full. Leave it out if that is what you were given\\, as it is."`
}

// ExitTool makes the tool by which the model of an agent in a [Loop] ends the loop. The
// agents after it in the round do not run. The loop's output is the result that the call
// names, or without one what the agent was given; it is not what the agent says besides.
//
// The call ends the innermost loop around the agent and no other. A workflow between
// them ends with it: a sequence at once, a Parallel when all of its children have
// ended. An agent behind an agent tool ends no loop around that.
func ExitTool() (tools.Tool, error) {
	return tools.Func(ExitToolName, "Ends the loop that you are part of, when nothing in it is left to do.",
		func(tools.Context, exitInput) (string, error) {
			return "The loop ends with this. Say so in one short sentence.", nil
		}, tools.Idempotent())
}

// The codes of notices: a child has ended the loop around, or its limit has ended a loop.
const noticeExit, noticeLimit = "loop_exit", "loop_limit"

// step is what is known of one run of a child: from the log, and before that has it from
// the group.
type step struct {
	workflow.Result // without a Reason while the child runs
	child           workflow.Child
	scope           string          // "" before it has begun
	input           json.RawMessage // as the log has it
	asks, given     json.RawMessage // what the exit tool makes its output, once it is called and has answered
	exits           bool            // it has ended the loop around
}

func (s *step) waits() bool { return s.Reason == event.FinishReasonInputRequired }
func (s *step) over() bool  { return s.Reason != "" && !s.waits() }

// ended takes in how the child has ended.
func (s *step) ended(how workflow.Result) {
	if s.Result = how; s.given != nil && how.Reason == event.FinishReasonStop {
		s.Output = s.given
	}
}

// read takes in what was stored since it was called last.
func (r *run) read(ctx context.Context) error {
	for e, err := range r.inv.Session().Events(ctx, r.seq) {
		if err != nil {
			return err
		}
		r.seq = e.Seq
		if e.Scope != r.inv.Scope() {
			if s := r.of(e.Scope); s != nil {
				s.apply(e)
			}
			continue
		}
		switch d := e.Data.(type) {
		case *event.HarnessStart:
			r.runs = append(r.runs, e.RunID)
		case *event.Notice:
			r.noted = r.noted || d.Code == noticeExit
		}
	}
	if r.runs == nil { // a runtime that keeps no log
		r.runs = []string{r.inv.RunID()}
	}
	return nil
}

// of returns the step that has the scope, nil if none of this workflow has.
func (r *run) of(scope string) *step {
	for _, run := range r.runs {
		if rest, ok := strings.CutPrefix(scope, run); ok && strings.HasPrefix(rest, ".") {
			number, _, _ := strings.Cut(rest[1:], "/")
			if n, err := strconv.Atoi(number); err == nil {
				return r.step(n)
			}
		}
	}
	return nil
}

// step returns a step by its number, which counts from 1 through all rounds of a loop.
func (r *run) step(n int) *step {
	if r.past[n] == nil {
		r.past[n] = new(step)
	}
	return r.past[n]
}

func (s *step) apply(e *event.Event) {
	switch d := e.Data.(type) {
	case *event.HarnessStart: // of the child, or of whom it has handed the inner conversation to
		if s.Result, s.scope = (workflow.Result{}), e.Scope; d.Input != nil {
			s.input = d.Input
		}
	case *event.Failure:
		s.Code, s.Message = d.Code, d.Message
	case *event.ToolCall:
		var in exitInput
		if d.Name == ExitToolName && json.Unmarshal(d.Input, &in) == nil {
			if s.asks = s.input; in.Result != "" {
				s.asks = event.EncodeJSON(in.Result)
			}
		}
	case *event.ToolResult:
		if d.Name == ExitToolName && !d.IsError {
			s.given, s.exits = s.asks, true
		}
	case *event.Notice:
		s.exits = s.exits || d.Code == noticeExit
	case *event.HarnessEnd:
		if d.FinishReason != event.FinishReasonTransfer {
			s.ended(workflow.Result{RunID: e.RunID, Reason: d.FinishReason, Output: d.Output, Code: s.Code, Message: s.Message, Err: s.Err})
		}
	}
}
