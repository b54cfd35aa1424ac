package sqlite_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// odd is a log of runs with every kind of parentId, those included that no
// runner of ours writes.
func odd() (events []*event.Event) {
	turn := ""
	add := func(run, id, parent string, data event.Data) {
		seq := int64(len(events) + 1)
		if id == "" {
			id = fmt.Sprint("odd", seq)
		}
		if (&event.Event{Data: data}).Type() == event.TypeUser {
			turn = run
		}
		events = append(events, &event.Event{Seq: seq, ID: id, TurnID: turn, RunID: run, ParentID: parent, Agent: "agent-of-" + run,
			Time: time.Unix(1_800_000_000, seq).UTC(), Data: data})
	}
	user := func(run, parent string) { add(run, "", parent, &event.User{Content: llm.Content{Text: "Hi"}}) }
	start := func(run, parent string) { add(run, "", parent, &event.HarnessStart{AgentID: "x"}) }
	end := func(run string) {
		add(run, "", "", &event.HarnessEnd{AgentID: "x", FinishReason: event.FinishReasonStop})
	}
	words := func(run, id, parent string) { add(run, id, parent, &event.Text{Content: "said by " + run}) }

	words("before", "", "") // a run that begins with neither a start nor a parent has no row
	user("u1", "")
	start("a", "u1:user")
	words("a", "block", "")
	add("a", "call", "", &event.ToolCall{Name: "f", Input: []byte("{}")})
	add("a", "", "", &event.Usage{})
	start("by-call", "call")
	end("by-call")
	add("a", "call", "", &event.ToolResult{Name: "f", Output: []byte("1")})
	start("by-result", "call:result")
	start("by-block", "block")
	start("by-usage", "a:usage:1")
	add("a", "", "", &event.Failure{Code: "x"})
	start("by-error", "a:error")
	add("a", "", "", &event.Failure{Code: "x"})
	start("by-error-2", "a:error:2")
	start("by-start", "a:harness_start")
	start("by-run", "a")
	words("without-start", "", "a:harness_start")
	start("by-nothing", "no such id")
	start("by-no-run", "nobody:harness_end")
	start("by-itself", "by-itself")
	start("by-what-comes", "later:user")
	end("a")
	start("a", "") // again
	end("a")
	user("later", "a:harness_end")
	start("by-call-of-last-turn", "call")
	start("with:colon", "later:user")
	start("by-colon", "with:colon:harness_start")
	start("by-run-with-colon", "with:colon")
	start("open", "later:user")
	return events
}

// appendAll appends a log in one turn, n events at a time.
func appendAll(t testing.TB, s session.Store, key session.Key, events []*event.Event, n int) {
	t.Helper()
	lease := must.Get(sessiontest.Acquire(t.Context(), s, key, session.Self()))
	for seq := lease.Head.Seq; len(events) > 0; {
		batch := events[:min(n, len(events))]
		require.NoError(t, sessiontest.Append(t.Context(), s, key, seq, lease, batch...))
		seq += int64(len(batch))
		events = events[len(batch):]
	}
	require.NoError(t, sessiontest.Release(t.Context(), s, key, lease))
}
