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
	// Pending are the calls about which these events ask, for an approval or an answer, and
	// which still wait for it, in all scopes: [Runner.Resume] takes the decisions. After Resume others may wait that
	// were asked about before; [Runner.Pending] knows them all.
	Pending []*event.Relay
	// Transfers are those of the user's conversation that were committed, in order.
	Transfers []*event.Transfer
	// Notices are what people should know about the turn, of all scopes, such as that an agent
	// goes without the tools of a server: see the codes in package event.
	Notices []*event.Notice
	// Usage is the sum of what models were asked in the turn, inside of tools and
	// graphs as well; see [event.Usage]. What remote agents say of theirs is not in it.
	Usage llm.Usage
	// Output is what the agent that answers has finished with besides its words, such as
	// the value of llmagent.WithOutput or the output of a graph; nil if it has none.
	Output json.RawMessage
	// Log has what the events of the turn say about each other, such as who asks each question.
	Log session.Reader `json:"-"`
}

// ErrNoOutput is wrapped by the error of a result that has no output to decode.
var ErrNoOutput = errors.New("the turn has no output")

// Decode decodes the output into what v points to, as json.Unmarshal does. The error wraps
// [ErrNoOutput] if the turn has none: it ended otherwise, or an agent has answered in
// words.
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

// Collect runs a turn, the sequence that [Runner.Run] or [Runner.Resume] returns, to its
// end and returns its outcome. With an error, which is the turn's, the result is the
// outcome until then.
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

// Apply takes in the next event of the turn, of whatever scope. Deltas change nothing. It is for
// programs that follow a turn which another program runs.
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
