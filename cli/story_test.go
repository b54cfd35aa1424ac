package cli_test

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
)

// storyAt is when the story begins.
var storyAt = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// story is a session with all that a page can show, in steps of one write each:
// tools, a sub-agent inside of a call, state, a transfer, a failure, and markup in
// everybody's words.
func story() [][]*event.Event {
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	turn, run, scope := "", "", ""
	e := func(who, id string, data event.Data) *event.Event {
		path := map[string]string{"support": "support", "billing": "support/billing", "researcher": "support/researcher"}[who]
		return &event.Event{ID: id, TurnID: turn, RunID: run, Scope: scope, Agent: who, Path: path, Data: data}
	}
	in := func(t, r, s string) { turn, run, scope = t, r, s }
	under := func(parent string, e *event.Event) *event.Event { e.ParentID = parent; return e }

	var steps [][]*event.Event
	step := func(events ...*event.Event) { steps = append(steps, events) }
	in("t1", "u1", "")
	user := e("user", "e1", &event.User{Content: llm.Content{Text: "I was charged twice"}})
	in("t1", "r1", "")
	step(user, under("u1:user", e("support", "e2", &event.HarnessStart{AgentID: "support"})))
	step(e("support", "e3", &event.Text{Content: "One <moment>."}),
		e("support", "c1", &event.ToolCall{Name: "lookup", Input: raw(`{"order":7,"note":"<script>alert(1)</script>"}`)}),
		e("support", "c2", &event.ToolCall{Name: "research", Input: raw(`{"question":"why?"}`)}),
		e("support", "e6", &event.Usage{InputTokens: 100, OutputTokens: 10, Model: "m"}))
	step(e("support", "c1", &event.ToolResult{Name: "lookup", Output: raw(`[{"id":"ch_1","amount":"20 €"},{"id":"ch_2","amount":"20 €"}]`)}))
	in("t1", "i1", "c2")
	step(under("c2", e("researcher", "e8", &event.HarnessStart{AgentID: "researcher", Input: raw(`"why?"`)})))
	step(e("researcher", "e9", &event.Text{Content: "A retry </div> of the shop."}), e("researcher", "e10", &event.Usage{InputTokens: 30, OutputTokens: 3}),
		e("researcher", "e11", &event.HarnessEnd{AgentID: "researcher", FinishReason: event.FinishReasonStop}))
	in("t1", "r1", "")
	step(e("support", "c2", &event.ToolResult{Name: "research", Output: raw(`"A retry </div> of the shop."`)}))
	step(e("support", "e13", &event.State{Delta: map[string]any{"order": "7 & more", "turn:tries": 1}}))
	step(e("support", "c3", &event.ToolCall{Name: agent.TransferTool, Input: raw(`{"agent_name":"billing","reason":"a <double> charge"}`)}),
		e("support", "e15", &event.Usage{InputTokens: 150, OutputTokens: 8, Model: "m"}))
	step(e("support", "c3", &event.ToolResult{Name: agent.TransferTool, Output: raw(`"Transferred to billing."`)}),
		e("support", "e17", &event.Transfer{From: "support", To: "billing", Reason: "a <double> charge", ToolCallID: "c3", Outcome: event.TransferCommitted}),
		e("support", "e18", &event.HarnessEnd{AgentID: "support", FinishReason: event.FinishReasonTransfer, Target: "billing"}))
	in("t1", "r2", "")
	step(under("r1:harness_end", e("billing", "e19", &event.HarnessStart{AgentID: "billing"})))
	step(e("billing", "e20", &event.Reasoning{Content: "Two & two."}), e("billing", "e21", &event.Text{Content: "<b>Refunded</b> \"ch_2\".\nAnything else?"}),
		e("billing", "e22", &event.Usage{InputTokens: 200, CachedTokens: 150, OutputTokens: 12, Model: "m"}),
		e("billing", "e23", &event.HarnessEnd{AgentID: "billing", FinishReason: event.FinishReasonStop}))
	in("t2", "u2", "")
	user = under("r2:harness_end", e("user", "e24", &event.User{Content: llm.Content{Parts: []llm.Part{
		llm.TextPart{Text: "And <script>alert(2)</script>?"}, llm.Media{Kind: llm.MediaImage, MediaType: "image/png", URL: "https://example.com/a.png"}}}}))
	in("t2", "r3", "")
	step(user, under("u2:user", e("billing", "e25", &event.HarnessStart{AgentID: "billing"})))
	step(e("billing", "e26", &event.Failure{Code: "model_error", Message: "no <answer> \x1b[31mcame"}),
		e("billing", "e27", &event.HarnessEnd{AgentID: "billing", FinishReason: event.FinishReasonError}))
	return steps
}

// write stores steps as a session, three seconds after each other.
func write(t *testing.T, store session.Store, key session.Key, steps [][]*event.Event) {
	t.Helper()
	lease := must.Get(sessiontest.Acquire(t.Context(), store, key, session.Self()))
	seq := int64(0)
	for i, step := range steps {
		for j, e := range step {
			e.Seq, e.Time = seq+int64(j)+1, storyAt.Add(time.Duration(i)*3*time.Second)
		}
		require.NoError(t, sessiontest.Append(t.Context(), store, key, seq, lease, step...))
		seq += int64(len(step))
	}
	require.NoError(t, sessiontest.Release(t.Context(), store, key, lease))
}

// told is a command with the story in its database.
type told struct {
	invocation
	db string
}

func tell(t *testing.T) told {
	t.Helper()
	db := filepath.Join(t.TempDir(), "story.db")
	store := must.Get(sqlite.Open(db))
	write(t, store, session.ID("story"), story())
	require.NoError(t, store.Close())
	return told{invocation{home: t.TempDir()}, db}
}

// sessions runs a command about sessions that must end well, and returns what it
// printed.
func (s told) sessions(t *testing.T, args ...string) outcome {
	t.Helper()
	return s.try(t, args...).exits(t, 0)
}

func (s told) try(t *testing.T, args ...string) outcome {
	t.Helper()
	return s.run(t, append(append([]string{"sessions"}, args...), "--db", s.db)...)
}
