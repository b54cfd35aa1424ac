package chats

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/tail"
)

func newChats(t *testing.T) *Chats {
	t.Helper()
	a := must.Get(llmagent.New("solo", "", scripted.Func("m", func(*llm.Request) scripted.Answer { return scripted.Reply(scripted.Text("Hello.")) })))
	store := must.Get(tail.New(sessiontest.Memory(t)))
	run := must.Get(runner.New(a, store))
	turns := must.Get(live.New(run, store))
	t.Cleanup(func() { require.NoError(t, turns.Close(context.Background())) })
	require.Error(t, must.Err(New(turns, 0)))
	return must.Get(New(turns, time.Second))
}

// say sends a conversation whose last message is the user's, and returns the answer that was read to its end.
func say(t *testing.T, c *Chats, id string, past []llm.Message, words string) *Answer {
	t.Helper()
	ctx := context.Background()
	q := &Ask{Key: session.Key{App: session.DefaultApp, User: "ann"}, Agent: c.turns.Runner().Tree().Root(), Past: past, Now: []llm.Message{llm.UserText(words)}, ID: id, Repeats: id != ""}
	require.NoError(t, c.Place(ctx, q))
	a := must.Get(c.Begin(ctx, q))
	rep := must.Get(c.Follow(ctx, a, true, func(session.Entry, *live.Report) error { return nil }))
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
	fork.ID = NewID(one.Key, "k")
	require.NoError(t, c.sessions.Fork(context.Background(), one.Key, one.Seq, fork))
	require.Equal(t, fork, say(t, c, "k", past, "c").Key)
	var words []string
	for _, e := range must.All(c.turns.Store().Load(context.Background(), fork, 0)) {
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
		a := must.Get(c.Begin(context.Background(), q))
		must.Get(c.Follow(context.Background(), a, true, func(session.Entry, *live.Report) error { return nil }))
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

// TestQuotedQuestions: a text answers the question with which the client's last text of an assistant ends.
func TestQuotedQuestions(t *testing.T) {
	asked := func(kind, tool, message, params string) *event.Event {
		q := &event.Relay{Kind: kind, Tool: tool, Message: message, Params: []byte(params), Digest: tool + params}
		return &event.Event{Data: q}
	}
	ten, same := asked(event.RelayPermission, "pay", "", `{"amount":10}`), asked(event.RelayPermission, "pay", "", `{"amount":10}`)
	eleven, lines := asked(event.RelayPermission, "pay", "", `{"amount":11}`), asked(event.RelayInput, "ask", "One\n\nTwo", `{}`)
	sure, again := asked(event.RelayInput, "ask", "Sure?", `{}`), asked(event.RelayInput, "ask", "Sure?", `{"all":true}`)
	quoted := func(text string, asked ...*event.Event) *event.Event {
		rep := &live.Report{}
		rep.Log.Asked = asked
		return (&Ask{last: Said{Text: text}.normal()}).quoted(rep)
	}
	const question = "The tool pay wants to run with amount=10. Answer yes to let it run, or no."
	for text, want := range map[string]*event.Event{"": nil, question: ten, "Words.\n\n" + question + "\n": ten,
		"Words.\r\n\r\n" + question: ten, question + "\n\nMore.": nil, "Words. " + question: nil, question[:len(question)-1]: nil,
		"The tool ask asks:\n│ Sure?\nAnswer with your next message.":          sure,
		"The tool ask asks:\n│ One\n│ \n│ Two\nAnswer with your next message.": lines} {
		require.True(t, want == quoted(text, ten, eleven, sure, lines), text)
	}
	require.True(t, same == quoted(question, ten, eleven, same), "the same tool and arguments")
	require.Nil(t, quoted("The tool ask asks:\n│ Sure?\nAnswer with your next message.", sure, again), "other arguments, which the text does not show")
}
