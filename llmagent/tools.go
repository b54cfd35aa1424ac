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

// runTools settles the calls of one answer: first the tools, in parallel, storing each
// result when it arrives; then the transfers, in one write.
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
		return x.transfer(transfers)
	}
	return x.next()
}

// toolRound runs calls of one answer.
type toolRound struct {
	*execution

	// All events of calls go through these channels to the one goroutine that may yield.
	// Reports is never closed: what a tool has left running may still send.
	reports chan []*event.Event
	ends    chan ended
	running int

	results []ended          // that have arrived and are not yielded yet
	settled <-chan time.Time // when to yield them; nil: not yet
	asked   []*event.Relay   // what waiting calls ask, in the order of the calls
	askedBy []int            // the places of these calls
	waits   bool             // a call waits
}

// ended is how a call has ended.
type ended struct {
	call   int // its place in the answer
	events []*event.Event
	err    error        // ends the run
	waits  bool         // it has no result yet
	asked  *event.Relay // what it asks, nil if an agent that it runs asks
}

// together is the time within which results count as simultaneous. It is shorter
// than that of the agents of a workflow, so that inner results have settled before outer ones.
const together = workflow.Settle / 2

// execute runs tools and yields their results. It yields results that arrive within a short time
// in the order of the calls, so that the order of the log does not depend
// on which processor was quicker. A slow tool does not delay other
// results. It returns only when no tool is running.
func (r *toolRound) execute(calls []view.Call) (err error) {
	if len(calls) == 1 && r.refuses(calls[0]) {
		return r.emit(r.refuse(calls[0]))
	}
	ctx, cancel := context.WithCancel(r.ctx)
	r.reports, r.ends = make(chan []*event.Event), make(chan ended, len(calls))
	send := func(e ...*event.Event) bool {
		select {
		case r.reports <- e:
			return true
		case <-ctx.Done():
			return false
		}
	}
	slots := semaphore.NewWeighted(int64(r.agent.parallel)) // a tool has one from its start until its result is received
	defer func() {
		for cancel(); r.running > 0; r.running-- { // yield panicked: the turn ends, and no tool may outlive it
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
			r.end(e)
		case <-r.settled:
			err = cmp.Or(err, r.settle(err == nil))
		}
		if r.running == 0 {
			err = cmp.Or(err, r.settle(err == nil))
		}
		if err != nil {
			cancel()
		}
	}
}

// end keeps how a call has ended.
func (r *toolRound) end(e ended) {
	if !e.waits {
		if r.results = append(r.results, e); r.settled == nil && r.running > 0 {
			r.settled = time.After(together)
		}
		return
	}
	r.waits = true
	if e.asked != nil {
		at, _ := slices.BinarySearch(r.askedBy, e.call)
		r.askedBy, r.asked = slices.Insert(r.askedBy, at, e.call), slices.Insert(r.asked, at, e.asked)
	}
}

// settle yields the results that have arrived, in the order of the calls, and then the first of
// the errors that end the run.
func (r *toolRound) settle(wanted bool) error {
	results := r.results
	r.results, r.settled = nil, nil
	if !wanted {
		return nil
	}
	slices.SortFunc(results, func(a, b ended) int { return a.call - b.call })
	var failed error
	for _, e := range results {
		failed = cmp.Or(failed, e.err)
		if err := r.emit(e.events...); err != nil {
			return err
		}
	}
	if failed != nil {
		r.finish(failed) // before the other tools are cancelled
		return errStopped
	}
	return nil
}
