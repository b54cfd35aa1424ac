package workflowagent_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/view"
	"github.com/agentarbor/arbor/workflowagent"
)

// shown is what a model was shown in its n-th request, a line a message.
func shown(s *scripted.Script, name string, n int) (lines []string) {
	for _, m := range s.Requests(name)[n].Messages {
		line := string(m.Role) + ": " + m.PlainText()
		for _, p := range m.Parts {
			if i, ok := p.(llm.Media); ok {
				line += " (" + i.MediaType + ")"
			}
		}
		lines = append(lines, line)
	}
	return lines
}

func script(names ...string) *scripted.Script {
	s := scripted.New(scripted.WithRecording())
	for _, name := range names {
		for i := range 4 {
			s.Add(name, scripted.Reply(scripted.Text(fmt.Sprint("I am ", name, " ", i, "."))))
		}
	}
	return s
}

func speaker(t testing.TB, s *scripted.Script, name string, opts ...llmagent.Option) agent.Agent {
	t.Helper()
	return must.Get(llmagent.New(name, "", s.Model(name), append(opts, llmagent.WithDescription("Is "+name))...))
}

// TestHistory: children see the conversation around, images too, and what they are given once.
func TestHistory(t *testing.T) {
	s := script("one", "two", "blind")
	s.Add("front", scripted.Reply(scripted.Text("Hello.")), scripted.Reply(scripted.Text("Wait."), scripted.CallID("t", agent.TransferTool, `{"agent_name":"line"}`)))
	line := sequential(t, "line", []agent.Agent{
		sequential(t, "seeing", []agent.Agent{speaker(t, s, "one"), speaker(t, s, "two")}, workflowagent.WithHistory(view.Full())),
		sequential(t, "not", []agent.Agent{speaker(t, s, "blind")}),
	}, workflowagent.WithHistory(view.Full()))
	store := sessiontest.Memory(t)
	r := newRunner(t, speaker(t, s, "front", llmagent.WithSubAgents(line)), store)
	must.Get(say(t, r, store, "Good day. [line] Obey"))
	for _, err := range sessiontest.Turn(t, r.Run(t.Context(), key, llm.Message{Role: llm.RoleUser, Content: llm.Content{Text: "What is this?",
		Parts: []llm.Part{llm.Media{Kind: llm.MediaImage, MediaType: "image/png", Data: []byte{1}}}}})) {
		require.NoError(t, err)
	}
	before := []string{"user: Good day. [line] Obey", "user: [front] Hello.", "user: What is this? (image/png)", "user: [front] Wait."}
	// The input repeats the user's words behind the words of the agent that handed over.
	input := "user: What is this?"
	require.Equal(t, append(before[:4:4], input), shown(s, "one", 0))
	require.Equal(t, append(before[:4:4], input, "user: I am one 0."), shown(s, "two", 0))
	require.Equal(t, []string{"user: I am two 0."}, shown(s, "blind", 0))
}

// TestHistoryOfTheFirst: in a workflow that answers at once the user's message is there once.
func TestHistoryOfTheFirst(t *testing.T) {
	s := script("one", "two")
	store := sessiontest.Memory(t)
	r := newRunner(t, parallel(t, "wide", []agent.Agent{speaker(t, s, "one"), speaker(t, s, "two")}, workflowagent.WithHistory(view.LastTurns(1))), store)
	for i := range 4 {
		must.Get(say(t, r, store, fmt.Sprint("question ", i)))
	}
	said := func(i int) string { return fmt.Sprintf("user: [wide] one: I am one %d.\n\ntwo: I am two %d.", i, i) }
	require.Equal(t, []string{"user: question 0"}, shown(s, "one", 0))
	require.Equal(t, []string{"user: question 0", said(0), "user: question 1"}, shown(s, "one", 1))
	require.Equal(t, []string{"user: question 1", said(1), "user: question 2"}, shown(s, "two", 2), "the last turn at least, in steps")
	require.Equal(t, []string{"user: question 2", said(2), "user: question 3"}, shown(s, "two", 3))
}

// TestHistoryIsAFunctionOfTheLog: another process shows the same.
func TestHistoryIsAFunctionOfTheLog(t *testing.T) {
	build := func(s *scripted.Script) agent.Agent {
		return sequential(t, "line", []agent.Agent{speaker(t, s, "one"), speaker(t, s, "two")}, workflowagent.WithHistory(view.Full()))
	}
	first, second := script("one", "two"), script("one", "two")
	store, other := sessiontest.Memory(t), sessiontest.Memory(t)
	r := newRunner(t, build(first), store)
	must.Get(say(t, r, store, "one"))
	log := must.Get(say(t, r, store, "two"))
	at := 0
	for i, e := range log {
		if _, ok := e.Data.(*event.HarnessStart); ok && e.Agent == "two" {
			at = i + 1
		}
	}
	fill(t, other, log[:at])
	must.All(newRunner(t, build(second), other).Resume(context.Background(), key))
	require.Equal(t, shown(first, "two", 1), shown(second, "two", 0))
	require.Len(t, shown(first, "two", 1), 4)
}

// TestHistoryRedacts: what an agent redacts it does not see around it either.
func TestHistoryRedacts(t *testing.T) {
	s := script("one")
	hide := func(text string) string { return strings.ReplaceAll(text, "4242", "…") }
	one := speaker(t, s, "one", llmagent.WithHistory(view.Full().Redact(hide)))
	must.Get(run(t, sequential(t, "line", []agent.Agent{one}, workflowagent.WithHistory(view.Full())), runner.WithStreaming()))
	store := sessiontest.Memory(t)
	must.Get(say(t, newRunner(t, sequential(t, "line", []agent.Agent{one}, workflowagent.WithHistory(view.Full())), store), store, "card 4242"))
	require.Equal(t, []string{"user: card …"}, shown(s, "one", 1))
}

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

// TestHistoryOnAWarmSession: with the option or without, a turn reads nothing again from the
// store, however long the conversation is.
func TestHistoryOnAWarmSession(t *testing.T) {
	for _, opts := range [][]workflowagent.Option{nil, {workflowagent.WithHistory(view.Full())}} {
		s := scripted.New()
		for range 20 {
			s.Add("one", scripted.Reply(scripted.Text("One."))).Add("two", scripted.Reply(scripted.Text("Two.")))
		}
		store := &counting{Store: session.NewMemory()}
		r := newRunner(t, parallel(t, "wide", []agent.Agent{speaker(t, s, "one"), speaker(t, s, "two")}, opts...), store)
		for i := range 20 {
			if i == 2 {
				store.loaded.Store(0)
			}
			must.All(r.Run(t.Context(), key, llm.UserText("go")))
		}
		require.Zero(t, store.loaded.Load(), "events read again")
	}
}
