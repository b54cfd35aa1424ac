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

type exitArguments struct {
	Result string `json:"result,omitempty" jsonschema:"description=What the loop has come to\\, in full. Leave it out if that is what you were given\\, as it is."`
}

// ExitTool returns the tool by which the model of an agent in a [Loop] ends the loop. The agents after it in the round
// do not run. The loop's output is the result in the call's arguments or, without one, the input of the calling agent.
// The agent's text is not the output.
//
// The call ends only the innermost loop around the agent. A workflow between the two ends with it: a sequence at once,
// a Parallel when all of its children have ended. An agent that runs as an agent tool does not end a loop around the
// tool's owner.
func ExitTool() (tools.Tool, error) {
	return tools.Func(ExitToolName, "Ends the loop that you are part of, when nothing in it is left to do.",
		func(tools.Context, exitArguments) (string, error) {
			return "The loop ends with this. Say so in one short sentence.", nil
		}, tools.Idempotent())
}

// noticeExit is the code of the notice that a child has ended the loop around it.
const noticeExit = "loop_exit"

// step is the state of one run of a child, from the log. Before the log has the end of the run, it is from the group.
type step struct {
	workflow.Result // the Reason is "" while the child runs
	child           workflow.Child
	scope           string          // "" before the start
	input           json.RawMessage // the recorded input
	// The output that the exit tool sets: from its call, and confirmed by its result.
	requestedOutput, exitOutput json.RawMessage
	exitsLoop                   bool // the child has ended the loop around it
}

func (s *step) isPaused() bool { return s.Reason == event.FinishReasonInputRequired }
func (s *step) isDone() bool   { return s.Reason != "" && !s.isPaused() }

// setResult records how the child ended.
func (s *step) setResult(how workflow.Result) {
	if s.Result = how; s.exitOutput != nil && how.Reason == event.FinishReasonStop {
		s.Output = s.exitOutput
	}
}

// readLog applies the events that were stored since the last call.
func (r *run) readLog(ctx context.Context) error {
	for e, err := range r.inv.Session().Events(ctx, r.seq) {
		if err != nil {
			return err
		}
		r.seq = e.Seq
		if e.Scope != r.inv.Scope() {
			if s := r.stepIn(e.Scope); s != nil {
				s.apply(e)
			}
			continue
		}
		switch d := e.Data.(type) {
		case *event.HarnessStart:
			r.runs = append(r.runs, e.RunID)
		case *event.Notice:
			r.exitRecorded = r.exitRecorded || d.Code == noticeExit
		}
	}
	if r.runs == nil { // the runtime keeps no log
		r.runs = []string{r.inv.RunID()}
	}
	return nil
}

// stepIn returns the step with this scope, or nil if the scope is not one of this workflow.
func (r *run) stepIn(scope string) *step {
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

// step returns a step by its number. Numbers start at 1 and continue through all rounds of a loop.
func (r *run) step(n int) *step {
	if r.children[n] == nil {
		r.children[n] = new(step)
	}
	return r.children[n]
}

func (s *step) apply(e *event.Event) {
	switch d := e.Data.(type) {
	case *event.HarnessStart: // of the child, or of the target of a transfer in its scope
		if s.Result, s.scope = (workflow.Result{}), e.Scope; d.Input != nil {
			s.input = d.Input
		}
	case *event.Failure:
		s.Code, s.Message = d.Code, d.Message
	case *event.ToolCall:
		var in exitArguments
		if d.Name == ExitToolName && json.Unmarshal(d.Input, &in) == nil {
			if s.requestedOutput = s.input; in.Result != "" {
				s.requestedOutput = event.EncodeJSON(in.Result)
			}
		}
	case *event.ToolResult:
		if d.Name == ExitToolName && !d.IsError {
			s.exitOutput, s.exitsLoop = s.requestedOutput, true
		}
	case *event.Notice:
		s.exitsLoop = s.exitsLoop || d.Code == noticeExit
	case *event.HarnessEnd:
		if d.FinishReason != event.FinishReasonTransfer {
			s.setResult(workflow.Result{RunID: e.RunID, Reason: d.FinishReason, Output: d.Output, Code: s.Code, Message: s.Message, Err: s.Err})
		}
	}
}
