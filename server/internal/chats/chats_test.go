package chats

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/tail"
)

func newChats(t *testing.T) *Chats {
	t.Helper()
	a, err := llmagent.New("solo", "", scripted.Func("m", func(*llm.Request) scripted.Answer { return scripted.Reply(scripted.Text("Hello.")) }))
	require.NoError(t, err)
	store, err := tail.New(sessiontest.Memory(t))
	require.NoError(t, err)
	run, err := runner.New(a, store)
	require.NoError(t, err)
	turns, err := live.New(run, store)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, turns.Close(context.Background())) })
	_, err = New(turns, 0)
	require.Error(t, err)
	c, err := New(turns, time.Second)
	require.NoError(t, err)
	return c
}

// say sends a conversation whose last message is the user's, and returns the answer that was read to its end.
func say(t *testing.T, c *Chats, id string, past []llm.Message, words string) *Answer {
	t.Helper()
	ctx := context.Background()
	q := &Ask{Key: session.Key{App: session.DefaultApp, User: "ann"}, Agent: c.turns.Runner().Tree().Root(), Past: past, Now: []llm.Message{llm.UserText(words)}, ID: id, Repeats: id != ""}
	require.NoError(t, c.Place(ctx, q))
	a, err := c.Begin(ctx, q)
	require.NoError(t, err)
	rep, err := c.Follow(ctx, a, true, func(session.Entry, *live.Report) error { return nil })
	require.NoError(t, err)
	c.Sent(a, rep.Text)
	return a
}

// The doors test what clients do. A fork that was made by a process which died before it began the turn is found
// again by the same request.
func TestForkOfADeadProcess(t *testing.T) {
	c := newChats(t)
	past := []llm.Message{llm.UserText("a"), {Role: llm.RoleAssistant, Content: llm.Content{Text: "Hello."}}}
	one := say(t, c, "", nil, "a")
	require.Equal(t, one.Key, say(t, c, "", past, "b").Key)
	fork := one.Key
	fork.ID = (&Ask{Key: one.Key, ID: "k"}).newID()
	require.NoError(t, c.sessions.Fork(context.Background(), one.Key, one.Seq, fork))
	require.Equal(t, fork, say(t, c, "k", past, "c").Key)
	var words []string
	for e, err := range c.turns.Store().Load(context.Background(), fork, 0) {
		require.NoError(t, err)
		if u, ok := e.Data.(*event.User); ok {
			words = append(words, u.Content.Text)
		}
	}
	require.Equal(t, []string{"a", "c"}, words)
}

// A message without text, such as an image, is one of the history like others.
func TestMessageWithoutText(t *testing.T) {
	c := newChats(t)
	image := llm.UserParts(llm.Media{Kind: llm.MediaImage, MediaType: "image/png", URL: "https://example.com/a.png"})
	hello := llm.Message{Role: llm.RoleAssistant, Content: llm.Content{Text: "Hello."}}
	one := say(t, c, "", nil, "a")
	ask := func(past ...llm.Message) *Answer {
		last := len(past) - 1
		q := &Ask{Key: session.Key{App: session.DefaultApp, User: "ann"}, Agent: c.turns.Runner().Tree().Root(), Past: past[:last], Now: past[last:]}
		require.NoError(t, c.Place(context.Background(), q))
		a, err := c.Begin(context.Background(), q)
		require.NoError(t, err)
		_, err = c.Follow(context.Background(), a, true, func(session.Entry, *live.Report) error { return nil })
		require.NoError(t, err)
		c.Sent(a, "Hello.")
		return a
	}
	require.Equal(t, one.Key, ask(llm.UserText("a"), hello, image).Key)
	require.Equal(t, one.Key, ask(llm.UserText("a"), hello, image, hello, llm.UserText("b")).Key)
	require.NotEqual(t, one.Key, ask(llm.UserText("a"), hello, llm.UserText("c")).Key)
}

func TestManyAreForgotten(t *testing.T) {
	table := newHistories(2)
	h := func(text string) History { return historyOf(session.ID("x"), Said{Text: text}) }
	for i, text := range []string{"a", "b", "a", "c", "d"} {
		table.note(h(text), Seen{Seq: int64(i)})
	}
	for text, want := range map[string]bool{"a": false, "b": false, "c": true, "d": true} {
		_, ok := table.find(h(text))
		require.Equal(t, want, ok, text)
	}
	require.Len(t, table.known, 2)
}
