package peersuite

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

var key = session.ID("s1")

// line is what an account of a conversation says of an event: what must be the same
// wherever a specialist stands. Of errors it says that there is one: their texts and
// codes differ, because a server does not tell strangers what went wrong inside. What
// only a place has, the handles of remote tasks and the usage of models, is left out. Calls are numbered.
func line(e *event.Event, calls map[string]int) string {
	head := e.Agent + " " + e.Type()
	switch d := e.Data.(type) {
	case *event.Usage, *event.RemoteTask, *event.Discard:
		return ""
	case *event.Notice:
		if d.Code == event.CodeEmptyAnswer { // the specialist's own
			return ""
		}
	case *event.User:
		return fmt.Sprintf("%s %q", head, d.Content.PlainText())
	case *event.Text:
		return fmt.Sprintf("%s %q", head, d.Content)
	case *event.ToolCall:
		calls[e.ID] = len(calls) + 1
		return fmt.Sprintf("%s #%d %s %s", head, calls[e.ID], d.Name, d.Input)
	case *event.ToolResult:
		if d.IsError && d.Name == agent.TransferTool {
			return fmt.Sprintf("%s #%d %s error", head, calls[e.ID], d.Name)
		}
		return fmt.Sprintf("%s #%d %s %s", head, calls[e.ID], d.Name, d.Output)
	case *event.Transfer:
		return fmt.Sprintf("%s %s → %s: %s %s", head, d.From, d.To, d.Outcome, d.TransferType)
	case *event.HarnessEnd:
		return fmt.Sprintf("%s %s → %s", head, d.FinishReason, d.Target)
	}
	return head
}

func account(events []*event.Event) (lines []string) {
	calls := make(map[string]int)
	for _, e := range events {
		if l := line(e, calls); l != "" {
			lines = append(lines, l)
		}
	}
	return lines
}

// log reads what a store has of the conversation.
func log(store session.Store) []*event.Event {
	return must.All(store.Load(context.Background(), key, 0))
}

// callOf is the id of the first call of a tool.
func callOf(t testing.TB, store session.Store, tool string) string {
	t.Helper()
	for _, e := range log(store) {
		if d, ok := e.Data.(*event.ToolCall); ok && d.Name == tool {
			return e.ID
		}
	}
	require.Fail(t, "no call of "+tool)
	return ""
}

func newRunner(t testing.TB, root agent.Agent, store session.Store, opts ...runner.Option) *runner.Runner {
	t.Helper()
	return must.Get(runner.New(root, store, append([]runner.Option{runner.WithLogger(logger(t))}, opts...)...))
}

// turn runs a turn to its end, or until stop says that it has seen enough.
func turn(t testing.TB, r *runner.Runner, text string, stop func(*event.Event) bool) error {
	t.Helper()
	return drain(sessiontest.Turn(t, r.Run(context.Background(), key, llm.UserText(text))), stop)
}

func drain(events func(func(*event.Event, error) bool), stop func(*event.Event) bool) (failed error) {
	for e, err := range events {
		if err != nil {
			failed = err
			continue
		}
		if stop != nil && stop(e) {
			break
		}
	}
	return failed
}

// checkCalls requires that every tool call of a log has exactly one result.
func checkCalls(t testing.TB, events []*event.Event) {
	t.Helper()
	open := make(map[string]bool)
	for i, e := range events {
		require.EqualValues(t, i+1, e.Seq)
		id := e.RunID + "/" + e.ID
		switch e.Data.(type) {
		case *event.ToolCall:
			require.False(t, open[id], "call %s is there twice", id)
			open[id] = true
		case *event.ToolResult:
			require.True(t, open[id], "the result of %s has no call", id)
			delete(open, id)
		}
	}
	require.Empty(t, open, "calls without results")
}
