package llmagent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/view"
)

// execution is one call of an agent's Run: a step of an agent with a model, or the whole run of a function. It is for
// one goroutine only.
type execution struct {
	*kit // the agent with its tools of this step
	ctx  context.Context
	inv  *agent.Invocation
	view *view.View
	run  view.Run // the run as of the last catchUp

	yield func(*event.Event, error) bool
}

// errStopped is the error of methods after the consumer has stopped the iteration. They must not yield anything after
// it.
var errStopped = errors.New("the consumer stopped the iteration")

// begin sets the kit of this execution. It returns notices about the tools.
func (x *execution) begin(a *Agent) (notices []string, err error) {
	x.kit, notices, err = a.kitFor(x.ctx, x.inv)
	return notices, err
}

// openView opens the agent's view of the running scope and brings it up to date.
func (x *execution) openView() error {
	n, scope := x.inv.Node(), x.inv.Scope()
	key, create := x.template(n).viewKey, x.template(n).newView
	if scope != "" {
		key, create = viewKey{n.Agent.Name(), scope}, func() any { return x.agent.newView(n, scope) }
	}
	x.view = x.inv.Session().Memo(key, create).(*view.View)
	if err := x.view.Begin(x.ctx, x.inv); err != nil {
		return err
	}
	return x.catchUp()
}

// catchUp applies to the view what was stored since the last call.
func (x *execution) catchUp() error {
	err := x.view.CatchUp(x.inv.Session().Events(x.ctx, x.view.Seq()))
	x.run = x.view.Run()
	// The question of the agent before chose from at least the agents that this one can reach.
	x.run.Decided = x.run.Decided || x.run.Chosen && x.question() != nil
	return err
}

// emit yields events.
func (x *execution) emit(events ...*event.Event) error {
	for _, e := range events {
		if !x.yield(e, nil) {
			return errStopped
		}
	}
	return nil
}

// write yields events that the runner stores in one write.
func (x *execution) write(events ...*event.Event) error {
	for i, e := range events {
		e.More = i < len(events)-1
	}
	return x.emit(events...)
}

// notify yields notices about the agent's tools.
func (x *execution) notify(notices []string) error {
	var events []*event.Event
	for _, n := range notices {
		events = append(events, &event.Event{Data: &event.Notice{Code: event.NoticeToolset, Message: n}})
	}
	return x.emit(events...)
}

// pause yields questions and ends the run until they are answered.
func (x *execution) pause(questions []*event.Relay) error {
	var events []*event.Event
	for _, q := range questions {
		events = append(events, &event.Event{Data: q})
	}
	return x.write(append(events, &event.Event{Data: &event.Finish{Reason: event.FinishReasonInputRequired}})...)
}

// continueRun asks the runner for another step of the run.
func (x *execution) continueRun() error { return x.emit(&event.Event{Data: &event.Continue{}}) }

// yieldError yields an error, unless it is nil or the consumer has stopped the iteration.
func (x *execution) yieldError(err error) {
	if err != nil && !errors.Is(err, errStopped) {
		x.yield(nil, err)
	}
}

// missingSetsKey is the key under which the session keeps which sets had no tools in the step before.
type missingSetsKey viewKey

// returnedSets returns a notice for each set that has tools now and had none in the conversation's step before.
func (x *execution) returnedSets() (notices []string) {
	if !x.hasExtraTools {
		return nil
	}
	before := x.inv.Session().Memo(missingSetsKey{x.inv.Agent().Name(), x.inv.Scope()}, func() any { return new([]string) }).(*[]string)
	for _, name := range *before {
		if !slices.Contains(x.missingSets, name) {
			notices = append(notices, fmt.Sprintf("the tools of %s are available again", name))
		}
	}
	*before = x.missingSets
	return notices
}
