package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// Result is the outcome of a turn.
type Result struct {
	event.Answer
	// Pending are the open questions of these events, about approvals and answers, in all scopes. [Runner.Resume]
	// takes the decisions. After Resume, questions that were asked before may be open too; [Runner.Pending] returns
	// all of them.
	Pending []*event.Relay
	// Transfers are the committed transfers of the user's conversation, in order.
	Transfers []*event.Transfer
	// Notices are the notices of the turn for people, of all scopes, such as that an agent has no tools of a server.
	// Package event has their codes.
	Notices []*event.Notice
	// Usage is the usage of all model calls of the turn, in tools and graphs too; see [event.Usage]. It does not
	// include the usage that remote agents report.
	Usage llm.Usage
	// Output is the output of the agent that answered, in addition to its text, such as the value of
	// llmagent.WithOutput or the output of a graph. It is nil if there is none.
	Output json.RawMessage
	// Log relates the events of the turn to each other, for example questions to the agents that ask them.
	Log session.Reader `json:"-"`
}

// ErrNoOutput is wrapped by the error of [Result.Decode] if the turn has no output.
var ErrNoOutput = errors.New("the turn has no output")

// Decode decodes the output into the value that v points to, as [json.Unmarshal] does. The error wraps [ErrNoOutput]
// if the turn has no output, because it ended in another way or an agent answered in text.
func (r *Result) Decode(v any) error {
	if len(r.Output) == 0 {
		return fmt.Errorf("%w: %s has ended it with %q", ErrNoOutput, r.Agent, r.FinishReason)
	}
	if err := json.Unmarshal(r.Output, v); err != nil {
		return fmt.Errorf("the output of %s: %w", r.Agent, err)
	}
	return nil
}

// CollectAs is [Collect] for a turn that ends with an output, which it decodes.
func CollectAs[T any](turn iter.Seq2[*event.Event, error]) (value T, res *Result, err error) {
	if res, err = Collect(turn); err == nil {
		err = res.Decode(&value)
	}
	return value, res, err
}

// Collect runs a turn, the sequence that [Runner.Run] or [Runner.Resume] returns, to its end and returns its outcome.
// If the turn fails, Collect returns its error and the outcome up to then.
func Collect(turn iter.Seq2[*event.Event, error]) (*Result, error) {
	res := &Result{}
	for e, err := range turn {
		if err != nil {
			return res, err
		}
		res.Apply(e)
	}
	return res, nil
}

// Apply updates the result with the next event of the turn, of any scope. Deltas change nothing. It is for programs
// that follow a turn which another program runs.
func (r *Result) Apply(e *event.Event) {
	if e.Partial {
		return
	}
	outer := e.Scope == ""
	r.Log.Next(e)
	r.Answer = r.Log.Answer
	switch d := e.Data.(type) {
	case *event.Usage:
		r.Usage = r.Usage.Add(d.Counted())
	case *event.Discard:
		if d.Usage != nil {
			r.Usage = r.Usage.Add(d.Usage.Counted())
		}
	case *event.Notice:
		r.Notices = append(r.Notices, d)
	case *event.Transfer:
		if outer && d.Outcome == event.TransferCommitted {
			r.Transfers = append(r.Transfers, d)
		}
	case *event.Relay, *event.RelayResolved, *event.ToolResult:
		r.Pending = r.Log.Pending()
	case *event.HarnessStart:
		if outer {
			r.Output = nil
		}
	case *event.HarnessEnd:
		if outer {
			r.Output = d.Output
		}
		r.Pending = r.Log.Pending()
	}
}
