package agentgraph

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agent/workflow"
	"github.com/agentarbor/arbor/event"
)

// run is a run of a graph in one process.
type run struct {
	agent     *Agent
	inv       *agent.Invocation
	flow      *flow
	group     workflow.Group
	cut       []*call // calls that a crash interrupted or that wait
	running   int
	batch     []*workflow.Child
	questions []*question
	recorded  int // the number of the flow's records in the log
}

// load replays the log into the flow.
func (r *run) load(ctx context.Context) error {
	input := r.inv.Input()
	if r.inv.Scope() == "" {
		input = event.EncodeJSON(r.inv.Message().PlainText())
	}
	var rp *replay
	for e, err := range r.inv.Session().Events(ctx, r.inv.Since()) {
		if err != nil {
			return err
		}
		if _, ok := e.Data.(*event.HarnessStart); ok && e.Scope == r.inv.Scope() {
			if rp == nil {
				rp = newReplay(r.agent.plan, e.RunID, e.Scope, input)
			} else {
				rp.resumedBy(e.RunID)
			}
			continue
		}
		if rp != nil { // otherwise the event was written before the graph's run started
			rp.apply(e)
		}
	}
	if rp == nil { // the runtime keeps no log
		rp = newReplay(r.agent.plan, r.inv.RunID(), r.inv.Scope(), input)
	}
	r.flow, r.recorded, r.questions = rp.flow, rp.recorded, rp.questions
	r.cut = rp.rest()
	return nil
}

// all runs calls until none is left.
func (r *run) all(ctx context.Context) error {
	var err error
	if r.group, err = workflow.NewGroup(ctx, r.inv, r.agent.settle); err != nil {
		return err
	}
	defer r.group.Close()
	f := r.flow
	r.record()
	for {
		if err := r.start(); err != nil {
			return err
		}
		if r.running == 0 && len(f.delayed) == 0 {
			return f.failed()
		}
		ended, err := r.group.Next(r.wait())
		if err != nil {
			return err
		}
		for _, e := range ended {
			c := e.Child.Data.(*call)
			r.running--
			f.end(c, outcome{run: e.RunID, reason: e.Reason, output: e.Output, code: e.Code, message: e.Message, err: e.Err})
		}
		r.record()
		if f.stopped != nil && !f.saved {
			r.stop()
			f.save()
		}
	}
}

// start starts the calls that are due, up to the concurrency limit.
func (r *run) start() error {
	f, now := r.flow, time.Now()
	f.delayed = slices.DeleteFunc(f.delayed, func(c *call) bool {
		if c.until.IsZero() {
			c.until = now.Add(r.pause(c))
		}
		if c.until.After(now) {
			return false
		}
		f.starts = append(f.starts, c)
		return true
	})
	most := math.MaxInt
	if r.agent.concurrency > 0 {
		most = max(0, r.agent.concurrency-r.running)
	}
	r.batch = r.batch[:0]
	begin := func(calls []*call) {
		for _, c := range calls {
			if c.begun {
				f.resumed(c)
			} else {
				f.started(c)
			}
			r.batch = append(r.batch, &c.Child)
			r.running++
		}
	}
	cut := min(most, len(r.cut))
	begin(r.cut[:cut])
	r.cut = r.cut[cut:]
	due := f.due(most - cut)
	for _, c := range due {
		if f.nodes[c.node].approved && f.nodes[c.node].made == 0 && !r.approved(c.node) {
			return fmt.Errorf("the agent %s of the graph is not run: its input or its question is not what was approved, because the graph has changed since", f.plan.nodes[c.node].ID)
		}
	}
	begin(due)
	if len(r.batch) == 0 {
		return nil
	}
	return r.group.Start(r.batch...)
}

// pause returns the time to wait before a retry.
func (r *run) pause(c *call) time.Duration {
	first := r.agent.backoff
	if own := r.flow.plan.nodes[c.node].Retry; own != nil && own.Backoff > 0 {
		if first = own.Backoff; r.agent.bounded {
			first = min(first, r.agent.maxBackoff)
		}
	}
	b := backoff.ExponentialBackOff{InitialInterval: first, MaxInterval: max(first, r.agent.maxBackoff), Multiplier: 2, RandomizationFactor: 0.5}
	b.Reset()
	d := time.Duration(0)
	for range c.pause {
		d = b.NextBackOff()
	}
	return max(0, d)
}

// wait returns the time until the next delayed call is due, or 0 if no call is delayed.
func (r *run) wait() time.Duration {
	if len(r.flow.delayed) == 0 {
		return 0
	}
	next := slices.MinFunc(r.flow.delayed, func(a, b *call) int { return a.until.Compare(b.until) })
	return max(1, time.Until(next.until))
}

// record writes the flow's new records to the log.
func (r *run) record() {
	for _, data := range r.flow.records[min(r.recorded, len(r.flow.records)):] {
		r.group.Add(&event.Event{Data: data})
	}
	r.recorded = len(r.flow.records)
}

// stop cancels the running calls.
func (r *run) stop() {
	for _, child := range r.group.Stop() {
		r.flow.end(child.Data.(*call), outcome{reason: event.FinishReasonCanceled})
	}
	r.running, r.cut = 0, nil
}

// failed returns the error of a failed run, or nil if the run has an output.
func (f *progress) failed() error {
	fail := f.cause()
	if f.status() != Failed || fail == nil {
		return nil
	}
	return &agent.RunError{Agent: f.plan.nodes[fail.node].ID, Code: cmp.Or(fail.code, "graph_failed"), Err: fail}
}

// Error implements error. It returns the message as the log contains it.
func (fail *failure) Error() string { return fail.message }

// Unwrap returns the original error, or nil if the failure was read from the log.
func (fail *failure) Unwrap() error { return fail.err }
