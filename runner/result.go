package runner

import (
	"context"
	"iter"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// Result is what a turn has come to.
type Result struct {
	agent.Answer
	// Pending are the calls about which these events ask for an approval and which still
	// wait for it: [Runner.Resume] takes the decisions. After Resume others may wait that
	// were asked about before; [Runner.Pending] knows them all.
	Pending []*agent.Relay
	// Transfers are those of the user's conversation that were committed, in order.
	Transfers []*agent.Transfer
	// Usage is the sum of what models were asked in the turn, inside of tools and
	// graphs as well; see [agent.Usage]. What remote agents say of theirs is not in it.
	Usage llm.Usage
}

// Collect runs a turn, the sequence that [Runner.Run] or [Runner.Resume] returns, to its
// end and returns what it has come to. With an error, which is the turn's, the result
// is what had come until then.
func Collect(turn iter.Seq2[*agent.Event, error]) (*Result, error) {
	res := &Result{}
	asked := make(map[string]*agent.Relay)
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
		case *agent.Usage:
			res.Usage = res.Usage.Add(d.Counted())
		case *agent.Discard:
			if d.Usage != nil {
				res.Usage = res.Usage.Add(d.Usage.Counted())
			}
		case *agent.Transfer:
			if e.Scope == "" && d.Outcome == agent.TransferCommitted {
				res.Transfers = append(res.Transfers, d)
			}
		case *agent.Relay:
			asked[e.ID] = d
			res.Pending = append(res.Pending, d)
		case *agent.RelayResolved:
			res.settle(asked[d.RelayID])
		case *agent.HarnessEnd:
			if e.Scope == "" && d.FinishReason != agent.FinishReasonInputRequired {
				res.Pending = nil
			}
		}
	}
	return res, nil
}

func (r *Result) settle(d *agent.Relay) {
	r.Pending = slices.DeleteFunc(r.Pending, func(p *agent.Relay) bool { return p == d })
}

// Pending returns the calls of a session that wait for an approval, in the order of the
// calls: what a page asks about that was loaded anew. [Runner.Resume] takes the decisions.
func (r *Runner) Pending(ctx context.Context, key session.Key) ([]*agent.Relay, error) {
	w, err := r.warm(ctx, key, nil)
	if err != nil {
		return nil, err
	}
	defer r.cache.put(w)
	if !w.fold.Paused() {
		return nil, nil
	}
	return session.Questions(ctx, r.store, key, &w.fold)
}
