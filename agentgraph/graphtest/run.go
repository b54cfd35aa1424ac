package graphtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/plainjson"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// Outcome is the outcome of a case.
type Outcome struct {
	Result agentgraph.Result
	Events []*event.Event // all events of the session, in order
	// Differences lists the differences from the expected result, one per element, without line breaks.
	Differences []string
}

// OK reports whether the run was as expected.
func (o *Outcome) OK() bool { return len(o.Differences) == 0 }

// backoff is the pause before a failed agent is called again in a case. Later pauses grow to at most four times as
// long. It is short because a test overloads no server.
const backoff = time.Millisecond

// Run runs the case and compares the result. The error reports why there is nothing to compare: the case is wrong, or
// ctx has ended.
func (c *Case) Run(ctx context.Context) (*Outcome, error) {
	if c.Refused != nil {
		return c.refusal(), nil
	}
	if c.Graph == nil {
		return nil, fmt.Errorf("graphtest: the case %q has no graph", c.Name)
	}
	input, err := plainjson.Marshal(c.Input)
	if err != nil {
		return nil, fmt.Errorf("graphtest: the input of the case %q has no JSON form: %w", c.Name, err)
	}
	agents, err := c.Mocks.agents(c.Graph, barriers(c.Expect.Parallel))
	if err != nil {
		return nil, err
	}
	resolve := c.Resolve
	if resolve == nil {
		resolve = func(ref string, _ map[string]any) (agent.Agent, error) {
			return nil, fmt.Errorf("there is no mock for it: %w", agentgraph.ErrUnknownRef)
		}
	}
	graph, err := agentgraph.New(c.Graph, resolve, append(agents, agentgraph.WithBackoff(backoff, 4*backoff))...)
	if err != nil {
		return nil, err
	}
	r, err := runner.New(graph, session.NewMemory())
	if err != nil {
		return nil, err
	}
	key := session.ID("case")
	out := &Outcome{}
	events, answered := r.Run(ctx, key, llm.UserText(string(input))), map[string]bool{}
	var failed error
	for {
		for _, failed = range events {
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		out.Events = out.Events[:0]
		for e, err := range r.History(ctx, key) {
			if err != nil {
				return nil, err
			}
			out.Events = append(out.Events, e)
		}
		decisions := c.decisions(out.Events, answered)
		if len(decisions) == 0 {
			break
		}
		events = r.Resume(ctx, key, decisions...)
	}
	results, err := graph.Runs(func(yield func(*event.Event, error) bool) {
		for _, e := range out.Events {
			if !yield(e, nil) {
				return
			}
		}
	})
	if err != nil {
		return nil, err
	}
	if len(results) != 1 {
		return nil, fmt.Errorf("graphtest: the log of the case %q has %d runs of the graph, not one: %w", c.Name, len(results), failed)
	}
	out.Result = results[0].Result
	out.Differences = c.compare(out)
	if failed != nil && out.Result.Error == nil {
		out.Differences = append(out.Differences, "the run ended with an error that its result does not have: "+oneLine(failed.Error()))
	}
	return out, nil
}

// decisions returns the case's decisions about calls that wait for an approval, except those that were already
// answered.
func (c *Case) decisions(events []*event.Event, answered map[string]bool) (decisions []runner.Decision) {
	for _, e := range events {
		relay, ok := e.Data.(*event.Relay)
		if !ok || relay.Tool != agentgraph.ApprovalTool || answered[relay.ToolCallID] {
			continue
		}
		var asked struct{ Agent string }
		if json.Unmarshal(relay.Params, &asked) != nil {
			continue
		}
		switch {
		case slices.Contains(c.Approve, asked.Agent):
			decisions = append(decisions, runner.Approve(relay.ToolCallID))
		case slices.Contains(c.Deny, asked.Agent):
			decisions = append(decisions, runner.Deny(relay.ToolCallID, "the case says so"))
		default:
			continue
		}
		answered[relay.ToolCallID] = true
	}
	return decisions
}

// barrierTime is how long the mocks of a group in Expect.Parallel wait for each other before they fail.
const barrierTime = 5 * time.Second

// barrier lets the mocks of a group wait for each other.
type barrier struct {
	group []string
	open  chan struct{}

	mu      sync.Mutex
	arrived []string
}

// barriers returns, for each node in a group, the function that its first call runs first.
func barriers(groups [][]string) map[string]func(context.Context) error {
	waits := make(map[string]func(context.Context) error)
	for _, group := range groups {
		b := &barrier{group: group, open: make(chan struct{})}
		for _, id := range group {
			before := waits[id]
			waits[id] = func(ctx context.Context) error {
				if before != nil { // the node is in two groups
					if err := before(ctx); err != nil {
						return err
					}
				}
				return b.wait(ctx, id)
			}
		}
	}
	return waits
}

var errAlone = errors.New("nodes that are ready together have to run at the same time")

func (b *barrier) wait(ctx context.Context, id string) error {
	b.mu.Lock()
	b.arrived = append(b.arrived, id)
	if len(b.arrived) == len(b.group) {
		close(b.open)
	}
	b.mu.Unlock()
	timer := time.NewTimer(barrierTime)
	defer timer.Stop()
	select {
	case <-b.open:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var missing []string
	for _, other := range b.group {
		if !slices.Contains(b.arrived, other) {
			missing = append(missing, other)
		}
	}
	return fmt.Errorf("%s waited %v, and %s did not start: %w", id, barrierTime, strings.Join(missing, ", "), errAlone)
}
