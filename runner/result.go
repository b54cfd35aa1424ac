package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"

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
	// Usage is the sum of what models were asked in the turn, inside of tools and
	// graphs as well; see [event.Usage]. What remote agents say of theirs is not in it.
	Usage llm.Usage
	// Output is what the agent that answers has finished with besides its words, such as
	// the value of llmagent.WithOutput or the output of a graph; nil if it has none.
	Output json.RawMessage
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
	asked := make(map[string]*event.Relay)
	for e, err := range turn {
		if err != nil {
			return res, err
		}
		if e.Partial {
			continue
		}
		if e.Scope == "" {
			res.Apply(e)
		}
		switch d := e.Data.(type) {
		case *event.Usage:
			res.Usage = res.Usage.Add(d.Counted())
		case *event.Discard:
			if d.Usage != nil {
				res.Usage = res.Usage.Add(d.Usage.Counted())
			}
		case *event.Transfer:
			if e.Scope == "" && d.Outcome == event.TransferCommitted {
				res.Transfers = append(res.Transfers, d)
			}
		case *event.Relay:
			asked[e.ID] = d
			res.Pending = append(res.Pending, d)
		case *event.ToolResult: // what it asked is needless
			res.Pending = slices.DeleteFunc(res.Pending, func(p *event.Relay) bool { return p.ToolCallID == e.ID })
		case *event.RelayResolved:
			res.settle(asked[d.RelayID])
		case *event.HarnessStart:
			if e.Scope == "" {
				res.Output = nil
			}
		case *event.HarnessEnd:
			if e.Scope == "" {
				res.Output = d.Output
			}
			if e.Scope == "" && d.FinishReason != event.FinishReasonInputRequired {
				res.Pending = nil
			}
		}
	}
	return res, nil
}

func (r *Result) settle(d *event.Relay) {
	r.Pending = slices.DeleteFunc(r.Pending, func(p *event.Relay) bool { return p == d })
}

// Pending returns what the session's turn waits for, inside of agents that tools and graphs
// run as well, in the order in which it was asked: what a page asks about that was loaded anew. [Runner.Resume] takes the decisions.
func (r *Runner) Pending(ctx context.Context, key session.Key) ([]*event.Relay, error) {
	w, err := r.warm(ctx, key, nil)
	if err != nil {
		return nil, err
	}
	defer r.cache.put(w)
	if !w.fold.Paused() {
		return nil, nil
	}
	return w.fold.Questions(), nil
}
