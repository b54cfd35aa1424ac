package agenttool_test

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/session"
)

// counting counts the events that are read from a store.
type counting struct {
	session.Store
	loaded atomic.Int64
}

func (c *counting) Load(ctx context.Context, key session.Key, after int64) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		for e, err := range c.Store.Load(ctx, key, after) {
			c.loaded.Add(1)
			if !yield(e, err) {
				return
			}
		}
	}
}

// On a warm session a call of an agent tool costs the same however long the
// conversation is: the inner agent's view needs nothing from before its scope.
func TestCallOnWarmSessionReadsNoHistory(t *testing.T) {
	const turns = 20
	s := scripted.New()
	for i := range turns {
		s.Add("support", scripted.Reply(scripted.Text(fmt.Sprint("answer ", i))))
	}
	s.Add("support", scripted.Reply(scripted.CallID("c1", "echo", `{"input":"x"}`)), scripted.Reply(scripted.Text("done"))).
		Add("echo", scripted.Reply(scripted.Text("y")))
	support := newAgent(t, s, "support", llmagent.WithTools(newTool(t, newAgent(t, s, "echo"))))
	store := session.NewMemory()
	counted := &counting{Store: store}
	r := newRunner(t, support, counted)
	for i := range turns {
		counted.loaded.Store(0)
		must.Get(turn(t, r, store, fmt.Sprint("question ", i)))
	}
	plain := counted.loaded.Swap(0) // of a turn without a tool
	must.Get(turn(t, r, store, "now with a tool"))
	require.LessOrEqual(t, counted.loaded.Load(), plain, "events read again from the store")
}
