package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/checkpoint"
	"github.com/agentarbor/arbor/conversation"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/servers"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// message is a row of the table.
type message struct {
	ID, Parent, Role, Agent, Scope, Turn string
	First, Last                          int64
	Completed                            *time.Time
}

const messagesSQL = `WITH RECURSIVE line (key, parent, after, upto) AS (
		SELECT key, parent_key, parent_seq, seq FROM arbor.session WHERE app = $1 AND user_id = $2 AND id = $3
		UNION ALL
		SELECT s.key, s.parent_key, s.parent_seq, line.after FROM line JOIN arbor.session s ON s.key = line.parent)
	SELECT id, coalesce(parent_message_id, ''), role, coalesce(agent, ''), coalesce(scope, ''), coalesce(turn_id, ''), first_seq, coalesce(last_seq, 0), completed
	FROM line JOIN arbor.message m ON m.session = line.key AND m.first_seq <= line.upto ORDER BY first_seq`

// messages returns a session's messages, those that it shares included.
func messages(t testing.TB, url string, key session.Key) []message {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	rows, err := conn.Query(t.Context(), messagesSQL, key.App, key.User, key.ID)
	require.NoError(t, err)
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[message])
	require.NoError(t, err)
	return out
}

func graphOf(events []*event.Event) *conversation.Graph {
	g := conversation.New()
	for _, e := range events {
		g = g.Reduce(e)
	}
	return g
}

// requireMessages requires that the rows say what the graph of the log says, whose
// first events are shared with another session.
func requireMessages(t testing.TB, url string, key session.Key, log []*event.Event, shared int64) []message {
	t.Helper()
	g := graphOf(log)
	rows := messages(t, url, key)
	byID := make(map[string]message)
	for _, m := range rows {
		require.NotContains(t, byID, m.ID)
		byID[m.ID] = m
	}
	for run := range g.Runs() {
		m, ok := byID[run]
		require.True(t, ok, "the run %s is no message", run)
		parent := ""
		for _, p := range g.Parents(g.Run(run)[0].ID) {
			require.NotEqual(t, run, p.RunID)
			parent = p.RunID
		}
		require.Equal(t, parent, m.Parent, "the parent of %s", run)
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
		want := message{ID: run, Parent: parent, Role: "agent", Agent: first.Agent, Scope: first.Scope, Turn: first.TurnID, First: first.Seq}
		if first.Type() == event.TypeUser {
			want.Role, want.Agent = "user", ""
		}
		if end != nil {
			want.Last = end.Seq
			require.WithinDuration(t, end.Time, *m.Completed, time.Microsecond)
		} else if m.Completed != nil { // in the session that it is shared from
			require.Greater(t, m.Last, shared)
			want.Last = m.Last
		}
		m.Completed = nil
		require.Equal(t, want, m)
		delete(byID, run)
	}
	require.Empty(t, byID, "messages that are no runs")
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
	log := load(t, s, key)
	want, err := client.MarshalJSON()
	require.NoError(t, err)
	got, err := graphOf(log).MarshalJSON()
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
	rows := requireMessages(t, url, key, log, 0)
	require.Len(t, rows, 3+2+1+2) // users, the first turn's two agents, the expert, billing twice
	scopes := 0
	for _, m := range rows {
		if m.Scope != "" {
			scopes++
			require.Equal(t, "expert", m.Agent)
			require.Equal(t, rows[1].ID, m.Parent, "the run with the call")
		}
	}
	require.Equal(t, 1, scopes)

	// A message said anew is a second one with the same parent.
	past, err := checkpoint.New(s)
	require.NoError(t, err)
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
	requireMessages(t, url, edited, load(t, s, edited), second.Seq-1)
	requireMessages(t, url, key, log, 0)
	var parent string
	for _, m := range rows {
		if m.ID == second.RunID {
			parent = m.Parent
		}
	}
	require.NotEmpty(t, parent)
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
		requireMessages(t, url, fork, load(t, s, fork), at.Seq)
	}
	require.Greater(t, forks, 10)
}

// TestOddMessages: messages follow from whatever events are stored.
func TestOddMessages(t *testing.T) {
	url := servers.Database(t)
	s, key := open(t, url), session.ID("s1")
	lease := acquire(t, s, key)
	at := int64(0)
	add := func(data event.Data, change func(*event.Event)) {
		t.Helper()
		e := saying(at+1, "")
		e.Data, e.RunID, e.ParentID = data, "r", ""
		change(e)
		require.NoError(t, s.Append(t.Context(), key, at, lease, e))
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
	for _, m := range messages(t, url, key) {
		parents[m.ID] = m.Parent
		require.Equal(t, m.Last != 0, m.Completed != nil)
		require.Equal(t, m.ID == "five" || m.ID == "six", m.Completed != nil, m.ID)
	}
	require.Equal(t, map[string]string{"a\uFFFD\uFFFD": "", "two": "one", "three": "one", "four": "", "five": "two", "six": "two",
		"seven": "one", "eight": "", "nine": "two"}, parents)
}
