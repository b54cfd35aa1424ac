package sqlite_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/checkpoint"
	"github.com/agentarbor/arbor/conversation"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sqlite"
)

// TestMessages: the rows of a log with every kind of parentId, whatever batches it
// was stored in.
func TestMessages(t *testing.T) {
	want := `u1||user|||u1|2|2|1
a|u1|agent|agent-of-a||u1|3|26|1
by-call|a|agent|agent-of-by-call||u1|7|8|1
by-result|a|agent|agent-of-by-result||u1|10||0
by-block|a|agent|agent-of-by-block||u1|11||0
by-usage|a|agent|agent-of-by-usage||u1|12||0
by-error|a|agent|agent-of-by-error||u1|14||0
by-error-2|a|agent|agent-of-by-error-2||u1|16||0
by-start|a|agent|agent-of-by-start||u1|17||0
by-run|a|agent|agent-of-by-run||u1|18||0
without-start|a|agent|agent-of-without-start||u1|19||0
by-nothing||agent|agent-of-by-nothing||u1|20||0
by-no-run||agent|agent-of-by-no-run||u1|21||0
by-itself||agent|agent-of-by-itself||u1|22||0
by-what-comes||agent|agent-of-by-what-comes||u1|23||0
later|a|user|||later|27|27|1
by-call-of-last-turn||agent|agent-of-by-call-of-last-turn||later|28||0
with:colon|later|agent|agent-of-with:colon||later|29||0
by-colon|with:colon|agent|agent-of-by-colon||later|30||0
by-run-with-colon|with:colon|agent|agent-of-by-run-with-colon||later|31||0
open|later|agent|agent-of-open||later|32||0
`
	path := newFile(t)
	s := open(t, path)
	for n := 1; n <= 33; n += 4 {
		key := session.ID(fmt.Sprint(n))
		appendAll(t, s, key, odd(), n)
		require.Equal(t, want, messages(t, path, key), "%d events at a time", n)
	}
	// What a fork has of its own hangs on what it shares, and on nothing that came
	// to the other session later. (A run that begins a second time in a fork is a
	// message of the fork too.)
	want = regexp.MustCompile(`(?m)^a\|.*\n`).ReplaceAllString(want, "")
	for seq := range int64(len(odd()) + 1) {
		fork := session.ID(fmt.Sprint("fork", seq))
		require.NoError(t, s.Fork(t.Context(), session.ID("1"), seq, fork))
		appendAll(t, s, fork, odd()[seq:], 100)
		require.Equal(t, want, dump(t, path, fmt.Sprintf(`SELECT m.id, parent_message_id, role, agent, scope, turn_id, first_seq, last_seq, completed
			FROM message m JOIN session s ON s.key = m.session
			WHERE m.id <> 'a' AND (s.id = '%s' OR s.id = '1' AND first_seq <= %d) ORDER BY first_seq`, fork.ID, seq)), "forked at %d", seq)
	}
	sound(t, path)
}

// TestNoMessageOfNoRun: a run's id makes a message, and nothing else.
func TestNoMessageOfNoRun(t *testing.T) {
	path := newFile(t)
	s := open(t, path)
	events := odd()
	for _, e := range events {
		e.RunID = ""
	}
	appendAll(t, s, session.ID("s"), events, 5)
	require.Empty(t, messages(t, path, session.ID("s")))
}

// parents returns the run that each run hangs on, "" if none, as a graph has it.
func parents(g *conversation.Graph) map[string]string {
	out := map[string]string{}
	for run := range g.Runs() {
		out[run] = ""
		for _, node := range g.Parents(g.Run(run)[0].ID) {
			out[run] = node.RunID
		}
	}
	return out
}

// parentMessages is the same of the messages of the log of a session, which stand
// with it and with those it is a fork of.
func parentMessages(t testing.TB, path string, key session.Key) map[string]string {
	t.Helper()
	out := map[string]string{}
	for line := range strings.Lines(dump(t, path, fmt.Sprintf(`WITH RECURSIVE line (key, upto) AS (
			SELECT key, seq FROM session WHERE app = '%s' AND user = '%s' AND id = '%s'
			UNION ALL SELECT parent_key, parent_seq FROM session JOIN line USING (key) WHERE parent_key IS NOT NULL)
		SELECT id, parent_message_id FROM message JOIN line ON session = key AND first_seq <= upto`, key.App, key.User, key.ID))) {
		run, parent, _ := strings.Cut(strings.TrimSpace(line), "|")
		require.NotContains(t, out, run, "a run has one message")
		out[run] = parent
	}
	return out
}

func graphOf(events []*event.Event) *conversation.Graph {
	g := conversation.New()
	for _, e := range events {
		g = g.Reduce(e)
	}
	return g
}

func sameGraph(t testing.TB, want, got *conversation.Graph) {
	t.Helper()
	w, err := json.Marshal(want)
	require.NoError(t, err)
	g, err := json.Marshal(got)
	require.NoError(t, err)
	require.Equal(t, string(w), string(g))
}

// TestGraphFromTheFile: the graph of what a client saw, deltas included, is the
// graph of what is loaded from the file after it was closed, and the messages'
// parents are the graph's.
func TestGraphFromTheFile(t *testing.T) {
	path := newFile(t)
	s, err := sqlite.Open(path)
	require.NoError(t, err)
	key := session.ID("story")
	live := graphOf(tell(t, s, key))
	require.NoError(t, s.Close())
	s = open(t, path)
	log := loadAll(t, s, key)
	sameGraph(t, live, graphOf(log))
	require.Equal(t, parents(live), parentMessages(t, path, key))
	require.Equal(t, `story-2||user|||story-1|1|1|1
story-3|story-2|agent|support||story-1|2|20|1
story-10|story-3|agent|expert|story-9|story-1|9|13|1
story-21|story-3|agent|billing||story-1|21|24|1
story-27|story-21|user|||story-26|25|25|1
story-28|story-27|agent|billing||story-26|26|29|1
`, messages(t, path, key))

	// Forks at every position, before and after they have gone on.
	for seq := range int64(len(log) + 1) {
		fork := session.ID(fmt.Sprint("fork", seq))
		require.NoError(t, s.Fork(t.Context(), key, seq, fork))
		shared := loadAll(t, s, fork)
		sameGraph(t, graphOf(log[:seq]), graphOf(shared))
		require.Equal(t, parents(graphOf(log[:seq])), parentMessages(t, path, fork))
	}
	sound(t, path)
}

// TestEditIsASecondChild: an edited turn in a fork is a second message of one parent.
func TestEditIsASecondChild(t *testing.T) {
	path := newFile(t)
	s := open(t, path)
	key, edited := session.ID("story"), session.ID("edited")
	tell(t, s, key)
	sessions, err := checkpoint.New(s)
	require.NoError(t, err)
	second := int64(0)
	for _, e := range loadAll(t, s, key) {
		if _, ok := e.Data.(*event.User); ok {
			second = e.Seq
		}
	}
	require.Greater(t, second, int64(1))
	require.NoError(t, sessions.Edit(t.Context(), key, second, llm.Content{Text: "No thanks"}, edited))
	require.Equal(t, "story|story-21|user\nedited|story-21|user\n", dump(t, path, `SELECT s.id, parent_message_id, role FROM message m
		JOIN session s ON s.key = m.session WHERE parent_message_id = 'story-21' ORDER BY s.key`))
	require.Equal(t, parents(graphOf(loadAll(t, s, edited))), parentMessages(t, path, edited))
	sound(t, path)
}
