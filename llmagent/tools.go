package llmagent

import (
	"cmp"
	"context"
	"slices"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agent/workflow"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/view"
)

// runTools runs the calls of one answer. First it runs the tools in parallel, and stores each result when it arrives.
// Then it decides about the transfers, in one write.
func (x *execution) runTools(calls []view.Call) error {
	var plain, transfers []view.Call
	for _, c := range calls {
		if c.Name == agent.TransferTool {
			transfers = append(transfers, c)
		} else {
			plain = append(plain, c)
		}
	}
	r := &toolRound{execution: x}
	now, later := r.sort(plain)
	if len(now) > 0 {
		if err := r.execute(now); err != nil {
			return err
		}
	}
	switch {
	case r.waits || len(later) > 0:
		return x.pause(append(r.questions(later), r.asked...))
	case len(transfers) > 0:
		return x.runTransfers(transfers)
	}
	return x.continueRun()
}

// toolRound runs calls of one answer.
type toolRound struct {
	*execution

	// These channels carry the events of the calls to the one goroutine that may yield.
	// reports is never closed, because a goroutine that a tool has left running may still send.
	reports chan []*event.Event
	ends    chan callEnd
	running int

	results []callEnd        // received and not yielded yet
	flushAt <-chan time.Time // when to yield the results; nil if there are none
	asked   []*event.Relay   // the questions of waiting calls, in the order of the calls
	askedBy []int            // the index of the call of each question
	waits   bool             // at least one call waits
}

// callEnd is how a call has ended.
type callEnd struct {
	call   int // the index of the call
	events []*event.Event
	err    error        // the error that ends the run, or nil
	waits  bool         // the call has no result yet
	asked  *event.Relay // the call's question; nil if an agent that it runs asks
}

// flushDelay is the time within which results count as simultaneous. It is shorter than the time for the agents of a
// workflow, so that inner results are yielded before outer ones.
const flushDelay = workflow.Settle / 2

// execute runs tools and yields their results. Results that arrive within flushDelay are yielded in the order of the
// calls, so that the log's order does not depend on small differences in speed. A slow tool does not delay other
// results. execute returns only when no tool is running.
func (r *toolRound) execute(calls []view.Call) (err error) {
	if len(calls) == 1 && r.refuses(calls[0]) {
		return r.emit(r.refuse(calls[0]))
	}
	ctx, cancel := context.WithCancel(r.ctx)
	r.reports, r.ends = make(chan []*event.Event), make(chan callEnd, len(calls))
	send := func(e ...*event.Event) bool {
		select {
		case r.reports <- e:
			return true
		case <-ctx.Done():
			return false
		}
	}
	slots := semaphore.NewWeighted(int64(r.agent.parallel)) // a tool holds a slot until its result is received
	defer func() {
		for cancel(); r.running > 0; r.running-- { // only after a panic of yield: the turn ends, and no tool may outlive it
			<-r.ends
		}
	}()
	for next := 0; ; {
		for ; next < len(calls) && ctx.Err() == nil && slots.TryAcquire(1); next++ {
			r.running++
			c, place := &toolCall{toolRound: r, call: calls[next], send: send}, next
			go func() {
				e := c.run(ctx)
				e.call = place
				r.ends <- e
			}()
		}
		if r.running == 0 {
			return cmp.Or(err, ctx.Err())
		}
		select {
		case events := <-r.reports:
			if err == nil {
				err = r.emit(events...)
			}
		case e := <-r.ends:
			r.running--
			slots.Release(1)
			r.collect(e)
		case <-r.flushAt:
			err = cmp.Or(err, r.flush(err == nil))
		}
		if r.running == 0 {
			err = cmp.Or(err, r.flush(err == nil))
		}
		if err != nil {
			cancel()
		}
	}
}

// collect keeps the end of a call for the next flush, or the question of a call that waits.
func (r *toolRound) collect(e callEnd) {
	if !e.waits {
		if r.results = append(r.results, e); r.flushAt == nil && r.running > 0 {
			r.flushAt = time.After(flushDelay)
		}
		return
	}
	r.waits = true
	if e.asked != nil {
		at, _ := slices.BinarySearch(r.askedBy, e.call)
		r.askedBy, r.asked = slices.Insert(r.askedBy, at, e.call), slices.Insert(r.asked, at, e.asked)
	}
}

// flush yields the collected results in the order of the calls, then the first error that ends the run. If wanted is
// false, it drops the results.
func (r *toolRound) flush(wanted bool) error {
	results := r.results
	r.results, r.flushAt = nil, nil
	if !wanted {
		return nil
	}
	slices.SortFunc(results, func(a, b callEnd) int { return a.call - b.call })
	var failed error
	for _, e := range results {
		failed = cmp.Or(failed, e.err)
		if err := r.emit(e.events...); err != nil {
			return err
		}
	}
	if failed != nil {
		r.yieldError(failed) // before execute cancels the other tools
		return errStopped
	}
	return nil
}
