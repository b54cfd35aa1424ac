package conversation_test

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/conversation"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/checkpoint"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/view"
)

// family is a session, its forks, and forks of those.
type family struct {
	t        *testing.T
	c        *chance
	store    session.Store
	sessions *checkpoint.Sessions
	runner   *runner.Runner
	keys     []session.Key
}

func newFamily(t *testing.T, c *chance) *family {
	f := &family{t: t, c: c, store: sessiontest.Memory(t), keys: []session.Key{session.ID("s0")}}
	f.sessions = must.Get(checkpoint.New(f.store))
	f.runner = must.Get(runner.New(desk(t, c), f.store, runner.WithLimits(runner.Limits{Transfers: 4, ModelCalls: 12, ToolCalls: 20, Steps: 5})))
	return f
}

// say runs a turn, or what was left of one if there are no words; now and then the
// client goes away in the middle.
func (f *family) say(key session.Key, words string) {
	events := f.runner.Resume(f.t.Context(), key)
	if words != "" {
		events = f.runner.Run(f.t.Context(), key, llm.UserText(words))
	}
	stop := -1
	if f.c.n(4) == 0 {
		stop = 1 + f.c.n(20)
	}
	for _, err := range events {
		var run *agent.RunError
		if err != nil {
			require.ErrorAs(f.t, err, &run)
		}
		if stop--; stop == 0 {
			break
		}
	}
}

// fork makes a session from an earlier moment of another one and continues it.
func (f *family) fork() {
	of, to := f.keys[f.c.n(len(f.keys))], session.ID(fmt.Sprint("s", len(f.keys)))
	var moments, users []int64
	for _, c := range must.All(f.sessions.History(f.t.Context(), of)) {
		moments = append(moments, c.Seq)
		if c.Events[0].Type() == event.TypeUser {
			users = append(users, c.Seq)
		}
	}
	words := fmt.Sprint("Hello, this is ", to.ID)
	if f.c.n(3) == 0 {
		require.NoError(f.t, f.sessions.Edit(f.t.Context(), of, users[f.c.n(len(users))], llm.Content{Text: words}, to))
		f.say(to, "")
	} else {
		at := moments[f.c.n(len(moments))]
		require.NoError(f.t, f.sessions.Fork(f.t.Context(), of, at, to))
		if f.c.n(2) == 0 {
			f.say(to, "")
		}
	}
	f.keys = append(f.keys, to)
	for range f.c.n(3) {
		f.say(to, words)
	}
}

// reduce adds the whole log of a session to a graph.
func (f *family) reduce(g *conversation.Graph, key session.Key) *conversation.Graph {
	for _, e := range must.All(f.store.Load(f.t.Context(), key, 0)) {
		g = g.Reduce(e)
	}
	return g
}

// name is what a node is called in any graph of several sessions. Ids do not do: of
// two sessions in which a call has a result, the one that is reduced first gives
// its node the id.
func name(n conversation.Node) string { return fmt.Sprint(n.RunID, " ", n.Kind, " ", n.Seq) }

// facts lists the nodes of a graph with what they say and what they hang on, by
// names. What was decided about a relay is left out, because two forks can decide
// differently.
func facts(t *testing.T, g *conversation.Graph) []string {
	var all []string
	for n := range g.Nodes() {
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(marshal(t, n)), &fields))
		delete(fields, "id")
		delete(fields, "state")
		fact := name(n) + " " + marshal(t, fields) + " under"
		for _, p := range g.Parents(n.ID) {
			fact += " " + name(p)
		}
		all = append(all, fact)
	}
	slices.Sort(all)
	return all
}

// readable is a conversation without the ids of calls.
func readable(messages []llm.Message) string {
	var b strings.Builder
	order := map[string]int{}
	for _, m := range messages {
		fmt.Fprintf(&b, "%s: %s", m.Role, m.Content.PlainText())
		for _, p := range m.Parts {
			switch p := p.(type) {
			case llm.ToolCall:
				order[p.ID] = len(order)
				fmt.Fprintf(&b, " %d=%s(%s)", order[p.ID], p.Name, p.Arguments)
			case llm.ToolResult:
				fmt.Fprintf(&b, " %d:%s %v", order[p.CallID], p.Output, p.IsError)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// TestForksMakeOneGraph reduces a session and its forks, taken at any checkpoint,
// also in the middle of a run, into one graph. Nothing of any of them is lost or
// occurs twice, whichever comes first. The path to where a session ends shows
// that session as a graph of its own would.
func TestForksMakeOneGraph(t *testing.T) {
	kinds := []string{event.TypeHarnessStart, event.TypeUsage, event.TypeToolResult}
	seen := map[string]int{}
	lacking := func() bool {
		return slices.ContainsFunc(kinds, func(kind string) bool { return seen["continued at "+kind] == 0 })
	}
	// What runs side by side draws its chances in no order, so that a seed is not the same family each time.
	for seed := uint64(0); seed < 16 || seed < 500 && lacking(); seed++ {
		c := &chance{rng: rand.New(rand.NewPCG(seed, 2)), calls: 1}
		f := newFamily(t, c)
		for i := range 1 + c.n(3) {
			f.say(f.keys[0], fmt.Sprint("Hello ", i))
		}
		for range 1 + c.n(3) {
			f.fork()
		}
		own := map[session.Key]*conversation.Graph{}
		together := map[string]bool{}
		for _, key := range f.keys {
			own[key] = f.reduce(conversation.New(), key)
			requireTurns(t, f.store, key, own[key])
			for _, fact := range facts(t, own[key]) {
				together[fact] = true
			}
		}
		want := slices.Sorted(maps.Keys(together))
		for range 4 {
			family := conversation.New()
			for _, i := range c.perm(len(f.keys)) {
				family = f.reduce(family, f.keys[i])
			}
			before := marshal(t, family)
			for _, key := range f.keys {
				family = f.reduce(family, key)
			}
			require.Equal(t, before, marshal(t, family), "all of it again")
			require.Equal(t, want, facts(t, family))
			for key, alone := range own {
				want := readable(conversation.Messages(alone, conversation.Active{}))
				if strings.Contains(want, conversation.NoResult) {
					continue // it was cut off, and the family may know what became of its calls
				}
				tip, _ := alone.Node(conversation.Active{}.Tip(alone))
				for n := range family.Nodes() {
					if name(n) != name(tip) {
						continue
					}
					path := must.Get(conversation.Active{}.Branch(family, n.ID))
					messages := conversation.Messages(family, path)
					require.Equal(t, want, readable(messages), "seed %d, %s", seed, key)
					require.NoError(t, view.Check(&llm.Request{Messages: append(slices.Clip(messages), llm.UserText("And?"))}))
					seen["paths"]++
				}
			}
		}
		for n := range f.reduceAll().Nodes() {
			if start, ok := n.Data().(*event.HarnessStart); ok && start != nil {
				for _, p := range f.reduceAll().Parents(n.ID) {
					if p.Agent == n.Agent {
						seen["continued at "+p.Kind]++
					}
				}
			}
		}
	}
	require.Positive(t, seen["paths"])
	for _, kind := range kinds {
		require.Positive(t, seen["continued at "+kind], kind)
	}
}

func (f *family) reduceAll() *conversation.Graph {
	g := conversation.New()
	for _, key := range f.keys {
		g = f.reduce(g, key)
	}
	return g
}

func (c *chance) perm(n int) []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rng.Perm(n)
}

// TestEditedTurns: messages that were edited, in forks, are beside the first ones
// in one graph, whichever session comes first.
func TestEditedTurns(t *testing.T) {
	model := scripted.New().Add("solo", scripted.Reply(scripted.Text("One.")), scripted.Reply(scripted.Text("Two.")), scripted.Reply(scripted.Text("Two again.")), scripted.Reply(scripted.Text("One again.")))
	solo := must.Get(llmagent.New("solo", "You answer.", model.Model("solo")))
	f := &family{t: t, store: sessiontest.Memory(t), keys: []session.Key{session.ID("s0"), session.ID("s1"), session.ID("s2")}}
	f.sessions = must.Get(checkpoint.New(f.store))
	f.runner = must.Get(runner.New(solo, f.store))
	run := func(events iter.Seq2[*event.Event, error]) {
		must.All(events)
	}
	run(f.runner.Run(t.Context(), f.keys[0], llm.UserText("First")))
	run(f.runner.Run(t.Context(), f.keys[0], llm.UserText("Second")))
	require.NoError(t, f.sessions.Edit(t.Context(), f.keys[0], 6, llm.Content{Text: "Second, edited"}, f.keys[1]))
	run(f.runner.Resume(t.Context(), f.keys[1]))
	require.NoError(t, f.sessions.Edit(t.Context(), f.keys[0], 1, llm.Content{Text: "First, edited"}, f.keys[2]))
	run(f.runner.Resume(t.Context(), f.keys[2]))
	require.NoError(t, model.Done())

	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		g, users := conversation.New(), map[string]string{}
		for _, i := range order {
			g = f.reduce(g, f.keys[i])
		}
		for n := range g.Nodes() {
			if n.Kind == event.TypeUser {
				users[n.Data().(*event.User).Content.Text] = n.ID
			}
		}
		require.Len(t, users, 4)
		require.Equal(t, g.Parents(users["Second"]), g.Parents(users["Second, edited"]))
		require.Len(t, g.Parents(users["Second"]), 1)
		for words, want := range map[string]string{
			"Second":         "user: First|assistant: One.|user: Second|assistant: Two.|",
			"Second, edited": "user: First|assistant: One.|user: Second, edited|assistant: Two again.|",
			"First, edited":  "user: First, edited|assistant: One again.|",
		} {
			path := must.Get(conversation.Active{}.Switch(g, users[words]))
			require.Equal(t, want, strings.ReplaceAll(readable(conversation.Messages(g, path)), "\n", "|"), "order %v", order)
			thread := conversation.Thread(g, path, conversation.ThreadOptions{})
			require.ElementsMatch(t, []string{users["First"], users["First, edited"]}, thread[0].Alternatives)
			if len(thread) > 2 {
				require.ElementsMatch(t, []string{users["Second"], users["Second, edited"]}, thread[2].Alternatives)
			}
		}
	}
}

// TestMessagesGoOnElsewhere puts the messages of any path into a new session: the
// graph of that one has the same messages, and its next turn runs.
func TestMessagesGoOnElsewhere(t *testing.T) {
	turns := 0
	for seed := range uint64(12) {
		c := &chance{rng: rand.New(rand.NewPCG(seed, 3)), calls: 1}
		f := newFamily(t, c)
		for i := range 1 + c.n(3) {
			f.say(f.keys[0], fmt.Sprint("Hello ", i))
		}
		f.fork()
		g := f.reduceAll()
		nodes := slices.Collect(g.Nodes())
		for i := range 8 {
			path := must.Get(conversation.Active{}.Branch(g, nodes[c.n(len(nodes))].ID))
			if i%3 == 0 {
				path = must.Get(path.Summarize(g, nodes[c.n(len(nodes))].ID, "They greeted each other."))
			}
			messages := conversation.Messages(g, path)
			if len(messages) == 0 || messages[0].Role != llm.RoleUser {
				continue
			}
			key := session.ID(fmt.Sprint("import", seed, i))
			require.NoError(t, f.sessions.Import(t.Context(), key, "support", messages))
			imported := f.reduce(conversation.New(), key)
			require.Equal(t, joined(withoutTransfers(messages)), joined(conversation.Messages(imported, conversation.Active{})))
			for _, err := range f.runner.Run(t.Context(), key, llm.UserText("Go on.")) {
				var run *agent.RunError
				if err != nil {
					require.ErrorAs(t, err, &run)
				}
			}
			after := readable(conversation.Messages(f.reduce(conversation.New(), key), conversation.Active{}))
			require.Contains(t, after, "user: Go on.\n")
			turns++
		}
	}
	require.Greater(t, turns, 30)
}

// withoutTransfers leaves out what an import does: how agents handed over.
func withoutTransfers(messages []llm.Message) (kept []llm.Message) {
	left := make(map[string]bool)
	for _, m := range messages {
		m.Parts = slices.DeleteFunc(slices.Clone(m.Parts), func(p llm.Part) bool {
			switch p := p.(type) {
			case llm.ToolCall:
				left[p.ID] = p.Name == agent.TransferTool
				return left[p.ID]
			case llm.ToolResult:
				return left[p.CallID]
			}
			return false
		})
		if m.Text != "" || len(m.Parts) > 0 {
			kept = append(kept, m)
		}
	}
	return kept
}

// joined is readable with the words of an assistant in one message where they are
// in several, one after the other.
func joined(messages []llm.Message) string {
	var out []llm.Message
	for _, m := range messages {
		if n := len(out) - 1; n >= 0 && m.Role == llm.RoleAssistant && out[n].Role == llm.RoleAssistant {
			out[n].Text, out[n].Parts = out[n].Text+m.Text, append(slices.Clip(out[n].Parts), m.Parts...)
			continue
		}
		out = append(out, m)
	}
	return readable(out)
}
