package runner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// TestALateTransferOfAClosedScope: what an agent of a tool wanted to store when its call got
// a result in the same write is left out, with the start of the agent that it handed over to.
func TestALateTransferOfAClosedScope(t *testing.T) {
	w := &cachedSession{key: session.ID("s1")}
	for i, e := range []*event.Event{
		{RunID: "u", Agent: "user", Data: &event.User{}},
		{RunID: "r1", Agent: "desk", Data: &event.HarnessStart{AgentID: "desk"}, ParentID: "u:user"},
		{RunID: "r1", Agent: "desk", ID: "c1", Data: &event.ToolCall{Name: "ask"}},
		{RunID: "r2", Agent: "inner", Scope: "s", ParentID: "c1", Data: &event.HarnessStart{AgentID: "inner"}},
	} {
		e.Seq, e.TurnID, e.Time = int64(i+1), "t", time.Unix(int64(i), 0)
		w.apply(e)
	}
	result := &event.Event{TurnID: "t", RunID: "r1", Agent: "desk", ID: "c1", Data: &event.ToolResult{Name: "ask"}}
	inner := func(run, agent, parent string, d event.Data) *event.Event {
		return &event.Event{TurnID: "t", RunID: run, Agent: agent, Scope: "s", ParentID: parent, Data: d}
	}
	late := []*event.Event{
		inner("r2", "inner", "", &event.Transfer{To: "other", Outcome: event.TransferCommitted}),
		inner("r2", "inner", "", &event.HarnessEnd{FinishReason: event.FinishReasonTransfer, Target: "other"}),
		inner("r3", "other", endNode("r2"), &event.HarnessStart{AgentID: "other"}),
	}
	types := func(events []*event.Event) (types []string) {
		for _, e := range (&turnSession{cached: w}).closer().ordered(events) {
			types = append(types, e.RunID+" "+e.Type())
		}
		return types
	}
	require.Equal(t, []string{"r2 transfer", "r2 harness_end", "r3 harness_start"}, types(late))
	require.Equal(t, []string{"r2 harness_end", "r1 tool_result"}, types(append([]*event.Event{result}, late...)))
}

// FuzzSessionSnapshot: a snapshot that could be read is stored as it is, and the session can go on.
func FuzzSessionSnapshot(f *testing.F) {
	key := session.ID("s1")
	w := &cachedSession{key: key}
	for i, d := range sessiontest.Payloads() {
		w.apply(&event.Event{Seq: int64(i) + 1, ID: "i", Time: time.Unix(1_700_000_000, 1), TurnID: "t", RunID: "r", Agent: "a", Data: d})
		data := must.Get(w.snapshotData())
		require.False(f, (&cachedSession{key: session.ID("s2")}).readSnapshot(data), "it is of another session")
		for n := range data {
			require.False(f, (&cachedSession{key: key}).readSnapshot(data[:n]))
		}
		f.Add(data[len(sum(key, "")):])
	}
	f.Fuzz(func(t *testing.T, document string) {
		w, again := &cachedSession{key: key}, &cachedSession{key: key}
		if !w.readSnapshot(sum(key, document) + document) {
			return
		}
		stored := must.Get(w.snapshotData())
		require.True(t, again.readSnapshot(stored))
		same := must.Get(again.snapshotData())
		require.Equal(t, stored, same)
		for i, d := range sessiontest.Payloads() {
			w.apply(&event.Event{Seq: w.fold.Seq + int64(i) + 1, TurnID: "t", RunID: "r", Agent: "a", Data: d})
		}
	})
}
