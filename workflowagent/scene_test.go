package workflowagent_test

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/workflowagent"
)

var key = session.ID("s1")

// calls notes which agents ran.
type calls struct {
	mu   sync.Mutex
	made []string
}

func (c *calls) note(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made = append(c.made, name)
}

// does makes an agent whose output is what f returns.
func (c *calls) does(t testing.TB, name string, f func(ctx context.Context, in string) (any, error)) agent.Agent {
	t.Helper()
	return must.Get(agent.New(name, "Does "+name, func(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			c.note(name)
			out, err := f(ctx, event.OutputText(inv.Input()))
			if err != nil {
				yield(nil, err)
				return
			}
			yield(&event.Event{Data: &event.Finish{Output: event.EncodeJSON(out)}}, nil)
		}
	}))
}

// adds makes an agent that adds its name to its input.
func (c *calls) adds(t testing.TB, name string) agent.Agent {
	return c.does(t, name, func(_ context.Context, in string) (any, error) { return in + " " + name, nil })
}

func sequential(t testing.TB, name string, agents []agent.Agent, opts ...workflowagent.Option) agent.Agent {
	t.Helper()
	return must.Get(workflowagent.Sequential(name, "In turn", agents, opts...))
}

func parallel(t testing.TB, name string, agents []agent.Agent, opts ...workflowagent.Option) agent.Agent {
	t.Helper()
	return must.Get(workflowagent.Parallel(name, "Side by side", agents, opts...))
}

func loop(t testing.TB, name string, agents []agent.Agent, opts ...workflowagent.Option) agent.Agent {
	t.Helper()
	return must.Get(workflowagent.Loop(name, "Again and again", agents, opts...))
}

func newRunner(t testing.TB, root agent.Agent, store session.Store, opts ...runner.Option) *runner.Runner {
	t.Helper()
	return must.Get(runner.New(root, store, opts...))
}

// say runs a turn and returns what is stored of the session then, and the turn's error.
func say(t testing.TB, r *runner.Runner, store session.Store, text string) (log []*event.Event, err error) {
	t.Helper()
	for _, turnErr := range sessiontest.Turn(t, r.Run(t.Context(), key, llm.UserText(text))) {
		err = turnErr
	}
	return logOf(t, store), err
}

// run runs one turn of a tree.
func run(t testing.TB, root agent.Agent, opts ...runner.Option) (log []*event.Event, err error) {
	t.Helper()
	store := sessiontest.Memory(t)
	return say(t, newRunner(t, root, store, opts...), store, "go")
}

func logOf(t testing.TB, store session.Store) (log []*event.Event) {
	t.Helper()
	return must.All(store.Load(context.Background(), key, 0))
}

// find returns the payloads of one type, those in inner scopes too.
func find[T event.Data](log []*event.Event) (found []T) {
	for _, e := range log {
		if d, ok := e.Data.(T); ok {
			found = append(found, d)
		}
	}
	return found
}

// ends returns how the runs of an agent ended, the output or the reason.
func ends(log []*event.Event, name string) (ends []string) {
	for _, e := range log {
		if d, ok := e.Data.(*event.HarnessEnd); ok && e.Agent == name {
			end := string(d.Output)
			if d.Output == nil {
				end = string(d.FinishReason)
			}
			ends = append(ends, end)
		}
	}
	return ends
}

// said is what the user reads of a turn.
func said(log []*event.Event) (text string) {
	for _, e := range log {
		text += e.Visible()
	}
	return text
}

func codes(log []*event.Event) (codes []string) {
	for _, n := range find[*event.Notice](log) {
		codes = append(codes, n.Code)
	}
	return codes
}

// meet lets so many wait for each other.
func meet(n int) func(ctx context.Context) error {
	all := make(chan struct{})
	var here atomic.Int64
	return func(ctx context.Context) error {
		if here.Add(1) == int64(n) {
			close(all)
		}
		select {
		case <-all:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// output returns the output of the conversation's last run.
func output(t testing.TB, log []*event.Event) json.RawMessage {
	t.Helper()
	for _, e := range slices.Backward(log) {
		if d, ok := e.Data.(*event.HarnessEnd); ok && e.Scope == "" {
			return d.Output
		}
	}
	return nil
}
