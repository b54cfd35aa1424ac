package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/conversation"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/internal/testing/storetest"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/checkpoint"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// blockRow is a row of the table, without what it says about messages.
type blockRow struct {
	ID, Parent, Role, Agent, Scope, Turn string
	First, Last                          int64
	Completed                            *time.Time
}

// lineSQL is a session and those that it is a fork of.
const lineSQL = `WITH RECURSIVE line (key, parent, after, upto) AS (
		SELECT key, parent_key, parent_seq, seq FROM arbor.session WHERE app = $1 AND user_id = $2 AND id = $3
		UNION ALL
		SELECT s.key, s.parent_key, s.parent_seq, line.after FROM line JOIN arbor.session s ON s.key = line.parent)`

const blocksSQL = lineSQL + `
	SELECT id, coalesce(parent_block_id, ''), role, coalesce(agent, ''), coalesce(scope, ''), coalesce(turn_id, ''), first_seq, coalesce(last_seq, 0), completed
	FROM line JOIN arbor.block b ON b.session = line.key AND b.first_seq <= line.upto ORDER BY first_seq`

// hyperedgesSQL yields what the rows say about messages, as hyperedges have it.
const hyperedgesSQL = lineSQL + `, b AS (SELECT b.* FROM line JOIN arbor.block b ON b.session = line.key AND b.first_seq <= line.upto)
	SELECT 'block_to_message', 'block:' || id, 'message:' || message_id FROM b
	UNION SELECT 'parent_message', 'message:' || message_id, 'message:' || parent_message_id FROM b WHERE parent_message_id IS NOT NULL`

// query returns what a statement about a session yields.
func query[T any](t testing.TB, url, sql string, key session.Key) []T {
	t.Helper()
	conn := must.Get(pgx.Connect(t.Context(), url))
	defer conn.Close(context.Background())
	rows := must.Get(conn.Query(t.Context(), sql, key.App, key.User, key.ID))
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[T])
	require.NoError(t, err)
	return out
}

// blocks returns a session's blocks, those that it shares included.
func blocks(t testing.TB, url string, key session.Key) []blockRow {
	t.Helper()
	return query[blockRow](t, url, blocksSQL, key)
}

// hyperedge joins one part.
type hyperedge struct{ Kind, From, To string }

func graphOf(events []*event.Event) *conversation.Graph {
	g := conversation.New()
	for _, e := range events {
		g = g.Reduce(e)
	}
	return g
}

// requireBlocks requires that the rows say what the graph of the log says, whose
// first events are shared with another session: its runs, and of which messages
// they are blocks.
func requireBlocks(t testing.TB, url string, key session.Key, log []*event.Event, shared int64) []blockRow {
	t.Helper()
	g := graphOf(log)
	rows := blocks(t, url, key)
	byID := make(map[string]blockRow)
	for _, b := range rows {
		require.NotContains(t, byID, b.ID)
		byID[b.ID] = b
	}
	for run := range g.Runs() {
		b, ok := byID[run]
		require.True(t, ok, "the run %s is no block", run)
		parent := ""
		for _, p := range g.Parents(g.Run(run)[0].ID) {
			require.NotEqual(t, run, p.RunID)
			parent = p.RunID
		}
		require.Equal(t, parent, b.Parent, "the parent of %s", run)
		var first, end *event.Event
		for _, e := range log {
			if e.RunID != run {
				continue
			}
			if first == nil {
				first = e
			}
			if e.Type() == event.TypeUser || e.Type() == event.TypeHarnessEnd {
				end = e
			}
		}
		want := blockRow{ID: run, Parent: parent, Role: "agent", Agent: first.Agent, Scope: first.Scope, Turn: first.TurnID, First: first.Seq}
		if first.Type() == event.TypeUser {
			want.Role, want.Agent = "user", ""
		}
		if end != nil {
			want.Last = end.Seq
			require.WithinDuration(t, end.Time, *b.Completed, time.Microsecond)
		} else if b.Completed != nil { // in the session that it is shared from
			require.Greater(t, b.Last, shared)
			want.Last = b.Last
		}
		b.Completed = nil
		require.Equal(t, want, b)
		delete(byID, run)
	}
	require.Empty(t, byID, "blocks that are no runs")
	var want []hyperedge
	for _, e := range g.Hypergraph().Edges {
		for _, part := range e.From {
			if e.Kind != conversation.ChunkToBlock {
				want = append(want, hyperedge{string(e.Kind), part, e.To})
			}
		}
	}
	require.ElementsMatch(t, want, query[hyperedge](t, url, hyperedgesSQL, key))
	return rows
}

// TestGraphIsRebuilt: the graph that a client reduced from the stream, deltas
// included, is the graph of what is stored, and the messages have its parents.
func TestGraphIsRebuilt(t *testing.T) {
	url := servers.Database(t)
	s, key := open(t, url), session.ID("s1")
	r := newRunner(t, s, runner.WithStreaming())
	client, partials := conversation.New(), 0
	for _, words := range []string{"I was charged twice", "Thanks", "And \x00 again"} {
		events, err := turn(t.Context(), r, key, words)
		require.NoError(t, err)
		for _, e := range events {
			client = client.Reduce(e)
			if e.Partial {
				partials++
			}
		}
	}
	require.Greater(t, partials, 8)
	log := storetest.Load(t, s, key)
	want := must.Get(client.MarshalJSON())
	got, err := graphOf(log).MarshalJSON()
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
	require.Equal(t, client.Hypergraph(), graphOf(log).Hypergraph())
	rows := requireBlocks(t, url, key, log, 0)
	require.Len(t, rows, 3+2+1+2) // users, the first turn's two agents, the expert, billing twice
	scopes := 0
	for _, b := range rows {
		if b.Scope != "" {
			scopes++
			require.Equal(t, "expert", b.Agent)
			require.Equal(t, rows[1].ID, b.Parent, "the run with the call")
		}
	}
	require.Equal(t, 1, scopes)
	require.Equal(t, "6", run(t, url, "SELECT count(*) FROM arbor.message WHERE completed IS NOT NULL"), "three questions, three answers")
	require.Equal(t, "0", run(t, url, "SELECT count(*) FROM arbor.message WHERE last_seq IS NULL"))

	// And so it is if all of it is stored in one statement.
	at := session.ID("at once")
	require.NoError(t, sessiontest.Append(t.Context(), s, at, 0, acquire(t, s, at), log...))
	requireBlocks(t, url, at, log, 0)
	require.NoError(t, s.Delete(t.Context(), at))

	// A message said anew is a second one with the same parent.
	past := must.Get(checkpoint.New(s))
	var second *event.Event
	for _, e := range log {
		if e.Type() == event.TypeUser && e.Data.(*event.User).Content.PlainText() == "Thanks" {
			second = e
		}
	}
	edited := session.ID("edited")
	require.NoError(t, past.Edit(t.Context(), key, second.Seq, llm.Content{Text: "No thanks"}, edited))
	for _, err := range r.Resume(t.Context(), edited) {
		require.NoError(t, err)
	}
	requireBlocks(t, url, edited, storetest.Load(t, s, edited), second.Seq-1)
	requireBlocks(t, url, key, log, 0)
	parent := run(t, url, "SELECT parent_message_id FROM arbor.message WHERE id = $1", second.RunID)
	require.Equal(t, rows[1].ID, parent, "the first answer, of which another agent has spoken last")
	require.Equal(t, "2", run(t, url, "SELECT count(*) FROM arbor.message WHERE parent_message_id = $1 AND role = 'user'", parent))

	// And so it is with a fork at every checkpoint, wherever it cuts.
	forks := 0
	for at, err := range past.History(t.Context(), key) {
		require.NoError(t, err)
		forks++
		fork := session.ID(fmt.Sprint("fork", forks))
		require.NoError(t, s.Fork(t.Context(), key, at.Seq, fork))
		for _, err := range r.Resume(t.Context(), fork) {
			require.NoError(t, err, "fork at %d", at.Seq)
		}
		requireBlocks(t, url, fork, storetest.Load(t, s, fork), at.Seq)
	}
	require.Greater(t, forks, 10)
}

// TestOddBlocks: blocks and messages follow from whatever events are stored.
func TestOddBlocks(t *testing.T) {
	url := servers.Database(t)
	s, key := open(t, url), session.ID("s1")
	lease := acquire(t, s, key)
	at := int64(0)
	add := func(data event.Data, change func(*event.Event)) {
		t.Helper()
		e := storetest.Text(at+1, "")
		e.Data, e.RunID, e.ParentID = data, "r", ""
		change(e)
		require.NoError(t, sessiontest.Append(t.Context(), s, key, at, lease, e))
		at++
	}
	add(&event.Text{Content: "no start"}, func(e *event.Event) { e.RunID = "only text" })
	add(&event.HarnessEnd{AgentID: "billing"}, func(e *event.Event) { e.RunID = "only an end" })
	add(&event.HarnessStart{AgentID: "billing"}, func(e *event.Event) { e.RunID, e.Agent, e.Scope = "a\x00\xff", "x\x00", "\x00" })
	add(&event.ToolCall{Name: "t", Input: []byte(`{"id":"call2"}`)}, func(e *event.Event) { e.ID, e.RunID = `call"1\`, "one" })
	add(&event.HarnessStart{AgentID: "b"}, func(e *event.Event) { e.RunID, e.ParentID = "two", `call"1\` })
	add(&event.HarnessStart{AgentID: "b"}, func(e *event.Event) { e.RunID, e.ParentID = "three", `call"1\:result` })
	add(&event.HarnessStart{AgentID: "b"}, func(e *event.Event) { e.RunID, e.ParentID = "four", "call2" }) // which there is not
	add(&event.HarnessStart{AgentID: "b"}, func(e *event.Event) { e.RunID, e.ParentID = "five", "two:usage:12" })
	add(&event.HarnessStart{AgentID: "b"}, func(e *event.Event) { e.RunID, e.ParentID = "six", "two:error:2" })
	add(&event.HarnessStart{AgentID: "b"}, func(e *event.Event) { e.RunID, e.ParentID = "seven", `one:call"1\:result` })
	add(&event.HarnessStart{AgentID: "b"}, func(e *event.Event) { e.RunID, e.ParentID = "eight", `two:call"1\:result` }) // which there is not
	add(&event.ToolCall{Name: "t", Input: []byte(`{}`)}, func(e *event.Event) { e.ID, e.RunID = `f.x:0`, "two" })
	add(&event.HarnessStart{AgentID: "b"}, func(e *event.Event) { e.RunID, e.ParentID = "nine", `f.x:0` })
	add(&event.HarnessEnd{AgentID: "b"}, func(e *event.Event) { e.RunID, e.Time = "six", time.Time{} })
	add(&event.HarnessEnd{AgentID: "b"}, func(e *event.Event) { e.RunID, e.Time = "five", time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC) })
	parents := map[string]string{}
	for _, b := range blocks(t, url, key) {
		parents[b.ID] = b.Parent
		require.Equal(t, b.Last != 0, b.Completed != nil)
		require.Equal(t, b.ID == "five" || b.ID == "six", b.Completed != nil, b.ID)
	}
	require.Equal(t, map[string]string{"a\uFFFD\uFFFD": "", "two": "one", "three": "one", "four": "", "five": "two", "six": "two",
		"seven": "one", "eight": "", "nine": "two"}, parents)
}
