package checkpoint_test

import (
	"context"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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
	"github.com/agentarbor/arbor/session/sqlite"
	"github.com/agentarbor/arbor/tools"
)

var (
	s1   = session.ID("s1")
	fork = session.ID("fork")
)

// desk is a tree support → billing on a store, and the requests to its models.
type desk struct {
	t      testing.TB
	store  session.Store
	past   *checkpoint.Sessions
	runner *runner.Runner
	asked  []string // agents whose models were asked
	looked int      // how often the tool ran
}

// newDesk makes a desk whose coordinator looks something up, then hands over to
// billing, which answers; whoever is asked again says how many messages it saw.
func newDesk(t testing.TB, store session.Store) *desk {
	d := &desk{t: t, store: store}
	lookup := must.Get(tools.Func("lookup", "Looks something up.", func(ctx tools.Context, _ struct{}) (string, error) {
		d.looked++
		return "two charges", nil
	}))
	model := func(name string, f func(*llm.Request) scripted.Answer) llm.Model {
		return scripted.Func(name, func(req *llm.Request) scripted.Answer {
			d.asked = append(d.asked, name)
			return f(req)
		})
	}
	billing := must.Get(llmagent.New("billing", "", model("billing", func(req *llm.Request) scripted.Answer {
		return scripted.Reply(scripted.Text(fmt.Sprintf("Paid back. You said: %s", lastUser(req.Messages))))
	})))
	support := must.Get(llmagent.New("support", "", model("support", func(req *llm.Request) scripted.Answer {
		if last := req.Messages[len(req.Messages)-1]; last.Role == llm.RoleTool {
			return scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"billing"}`))
		}
		return scripted.Reply(scripted.Text("Let me see."), scripted.Call("lookup", "{}"))
	}), llmagent.WithTools(lookup), llmagent.WithSubAgents(billing)))
	d.runner = must.Get(runner.New(support, store))
	d.past = must.Get(checkpoint.New(store))
	return d
}

func lastUser(messages []llm.Message) (said string) {
	for _, m := range messages {
		if m.Role == llm.RoleUser && !strings.HasPrefix(m.PlainText(), "[") {
			said = m.PlainText()
		}
	}
	return said
}

func (d *desk) say(key session.Key, text string) []*event.Event {
	d.t.Helper()
	return d.collect(d.runner.Run(context.Background(), key, llm.UserText(text)))
}

func (d *desk) resume(key session.Key) []*event.Event {
	d.t.Helper()
	return d.collect(d.runner.Resume(context.Background(), key))
}

func (d *desk) collect(seq iter.Seq2[*event.Event, error]) (events []*event.Event) {
	d.t.Helper()
	for e, err := range seq {
		require.NoError(d.t, err)
		events = append(events, e)
	}
	return events
}

func (d *desk) log(key session.Key) []*event.Event {
	d.t.Helper()
	return d.collect(d.store.Load(context.Background(), key, 0))
}

func (d *desk) history(key session.Key) (all []checkpoint.Checkpoint) {
	d.t.Helper()
	return must.All(d.past.History(context.Background(), key))
}

func types(events []*event.Event) string {
	var out []string
	for _, e := range events {
		out = append(out, e.Type())
	}
	return strings.Join(out, " ")
}

// onStores runs a test on a store in memory and on one in a file.
func onStores(t *testing.T, test func(t *testing.T, d *desk)) {
	t.Run("memory", func(t *testing.T) { test(t, newDesk(t, sessiontest.Memory(t))) })
	t.Run("sqlite", func(t *testing.T) {
		store := must.Get(sqlite.Open(filepath.Join(t.TempDir(), "s.db")))
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		test(t, newDesk(t, store))
	})
}

func TestHistory(t *testing.T) {
	onStores(t, func(t *testing.T, d *desk) {
		require.Empty(t, d.history(s1))
		d.say(s1, "I was charged twice.")
		var got []string
		last := int64(0)
		for _, c := range d.history(s1) {
			require.Equal(t, last+int64(len(c.Events)), c.Seq)
			require.Equal(t, c.Time, c.Events[len(c.Events)-1].Time)
			last = c.Seq
			got = append(got, fmt.Sprintf("%d [%s] %s", c.Seq, c.Active, types(c.Events)))
		}
		require.Equal(t, []string{
			"1 [] user",
			"2 [] harness_start",
			"5 [] text tool_call usage",
			"6 [] tool_result",
			"12 [billing] tool_call usage tool_result transfer harness_end harness_start",
			"15 [billing] text usage harness_end",
		}, got)
		n := 0
		for range d.past.History(context.Background(), s1) { // may be left
			if n++; n == 2 {
				break
			}
		}
	})
}

// TestActiveInAHandoff: the history names the same active agents as a moment does, a person included.
func TestActiveInAHandoff(t *testing.T) {
	store := session.NewMemory()
	past := must.Get(checkpoint.New(store))
	var log []*event.Event
	for i, d := range []event.Data{&event.User{Content: llm.Content{Text: "A person, please"}}, &event.HandoffStatus{HandoffID: "h", Status: "queued"},
		&event.HandoffStatus{HandoffID: "h", Status: "completed", TargetAgent: "billing"}} {
		log = append(log, &event.Event{Seq: int64(i + 1), ID: fmt.Sprint(i), TurnID: "t", RunID: "r", Agent: "user", Time: time.Unix(int64(i), 0), Data: d})
	}
	lease := must.Get(sessiontest.Acquire(t.Context(), store, s1, session.Self()))
	require.NoError(t, sessiontest.Append(t.Context(), store, s1, 0, lease, log...))
	var active []string
	for _, c := range must.All(past.History(t.Context(), s1)) {
		require.Equal(t, must.Get(past.At(t.Context(), s1, c.Seq)).Active, c.Active)
		active = append(active, c.Active)
	}
	require.Equal(t, []string{"", agent.Human, "billing"}, active)
}

func TestAt(t *testing.T) {
	onStores(t, func(t *testing.T, d *desk) {
		d.say(s1, "I was charged twice.")
		ctx := context.Background()
		m := must.Get(d.past.At(ctx, s1, 5))
		require.EqualValues(t, 5, m.Seq)
		require.Equal(t, s1, m.Key)
		require.Equal(t, "", m.Active)
		require.Equal(t, "support", m.Fold.Scope("").Run.Agent)
		require.Equal(t, "lookup", m.Fold.Scope("").Run.Pending[0].Name)
		require.Equal(t, "text tool_call usage", types(m.Events))
		require.Equal(t, 5, m.Graph.Len())
		m = must.Get(d.past.At(ctx, s1, 15))
		require.Equal(t, "billing", m.Active)
		m = must.Get(d.past.At(ctx, s1, 0))
		require.Zero(t, m.Graph.Len())

		asked := len(d.asked)
		before := must.Get(d.runner.PreviewAt(ctx, s1, 6, "support"))
		require.Len(t, before.Messages, 3)
		require.Equal(t, llm.RoleTool, before.Messages[2].Role)
		theirs, err := d.runner.PreviewAt(ctx, s1, 6, "billing")
		require.NoError(t, err)
		require.Contains(t, theirs.Messages[1].PlainText(), "[support] Let me see.")
		require.Len(t, d.asked, asked)

		for _, seq := range []int64{-1, 16} {
			_, err = d.past.At(ctx, s1, seq)
			require.ErrorIs(t, err, agent.ErrBadInput)
			_, err = d.runner.PreviewAt(ctx, s1, seq, "support")
			require.ErrorIs(t, err, agent.ErrBadInput)
		}
		_, err = d.past.At(ctx, session.ID("nobody"), 0)
		require.ErrorIs(t, err, agent.ErrBadInput)
	})
}

func TestAtTheBeginningOfAnEmptyFork(t *testing.T) {
	onStores(t, func(t *testing.T, d *desk) {
		d.say(s1, "Hi.")
		require.NoError(t, d.past.Fork(t.Context(), s1, 0, fork))
		m := must.Get(d.past.At(t.Context(), fork, 0))
		require.Zero(t, m.Seq)
		require.Empty(t, d.collect(d.past.Replay(t.Context(), fork, 0)))
		_, err := d.past.At(t.Context(), fork, 1)
		require.ErrorIs(t, err, agent.ErrBadInput)
	})
}

func TestState(t *testing.T) {
	store := sessiontest.Memory(t)
	past := must.Get(checkpoint.New(store))
	ctx := context.Background()
	lease := must.Get(sessiontest.Acquire(ctx, store, s1, session.Self()))
	for seq, delta := range []map[string]any{{"mood": "calm", "user:name": "Ann"}, {"mood": "angry", "n": 1.0}, {"mood": nil}} {
		require.NoError(t, sessiontest.Append(ctx, store, s1, int64(seq), lease, &event.Event{Seq: int64(seq) + 1, ID: fmt.Sprint(seq), TurnID: "t", RunID: "r", Agent: "a",
			Time: time.Unix(int64(seq)+1, 0), Data: &event.State{Delta: delta}}))
	}
	for seq, want := range []map[string]any{{}, {"mood": "calm"}, {"mood": "angry", "n": 1.0}, {"n": 1.0}} {
		m := must.Get(past.At(ctx, s1, int64(seq)))
		got := m.State()
		if got == nil {
			got = map[string]any{}
		}
		require.Equal(t, want, got)
	}
}

// TestForkAtEveryCheckpoint: whatever is recorded is not asked for again, the rest
// is, and the session it was forked from stays as it was.
func TestForkAtEveryCheckpoint(t *testing.T) {
	onStores(t, func(t *testing.T, d *desk) {
		d.say(s1, "I was charged twice.")
		whole := d.log(s1)
		for seq, want := range map[int64]struct {
			asked  string
			looked int
		}{
			0: {"", 0}, 1: {"support support billing", 1}, 2: {"support support billing", 1},
			5: {"support billing", 0}, // what became of the call is not known here
			6: {"support billing", 0}, 12: {"billing", 0}, 15: {"", 0},
		} {
			to := session.ID(fmt.Sprint("fork at ", seq))
			require.NoError(t, d.past.Fork(context.Background(), s1, seq, to))
			d.asked, d.looked = nil, 0
			d.resume(to)
			require.Equal(t, want.asked, strings.Join(d.asked, " "), seq)
			require.Equal(t, want.looked, d.looked, seq)
			d.asked = nil
			d.resume(to)
			require.Empty(t, d.asked, "it is over")
			log := d.log(to)
			require.Equal(t, types(whole[:seq]), types(log[:seq]))
			if seq > 0 {
				require.Equal(t, "Paid back. You said: I was charged twice.", said(log))
				d.say(to, "Thanks.")
				require.Equal(t, "Paid back. You said: Thanks.", said(d.log(to)))
			}
			require.Equal(t, whole, d.log(s1))
		}
	})
}

func said(log []*event.Event) (text string) {
	for _, e := range log {
		if e.Type() == event.TypeText {
			text = e.Text()
		}
	}
	return text
}

func TestForkInTheMiddleOfAStep(t *testing.T) {
	d := newDesk(t, sessiontest.Memory(t))
	d.say(s1, "I was charged twice.")
	ctx := context.Background()
	for seq, around := range map[int64]string{3: "after 2 and ends at 5", 4: "after 2 and ends at 5", 7: "after 6 and ends at 12",
		9: "after 6 and ends at 12", 11: "after 6 and ends at 12", 13: "after 12 and ends at 15"} {
		err := d.past.Fork(ctx, s1, seq, fork)
		require.ErrorIs(t, err, agent.ErrBadInput)
		require.ErrorContains(t, err, around)
		middle := must.As[*checkpoint.MiddleError](err)
		require.Equal(t, around, fmt.Sprintf("after %d and ends at %d", middle.Before, middle.After))
	}
	for _, seq := range []int64{-1, 16, 100} {
		require.ErrorIs(t, d.past.Fork(ctx, s1, seq, fork), agent.ErrBadInput)
	}
	require.ErrorIs(t, d.past.Fork(ctx, session.ID("nobody"), 0, fork), agent.ErrBadInput)
	require.ErrorIs(t, d.past.Fork(ctx, s1, 15, s1), agent.ErrConflict)
	infos := must.Get(d.store.List(ctx, session.Key{}, session.Page{}))
	require.Len(t, infos, 1)
}

// A request that is sent twice makes one session, and one that asks for something else makes none.
func TestRepeatable(t *testing.T) {
	ctx := t.Context()
	d := newDesk(t, sessiontest.Memory(t))
	d.say(s1, "I was charged twice")
	again := d.past.Repeatable()
	made := func(s *checkpoint.Sessions, at int64, words, to string) []error {
		chat := []llm.Message{llm.UserText(words), {Role: llm.RoleAssistant, Content: llm.Content{Text: "Hello."}}}
		return []error{s.Fork(ctx, s1, at, session.ID("fork"+to)), s.Edit(ctx, s1, 1, llm.Content{Text: words}, session.ID("edit"+to)), s.Import(ctx, session.ID("import"+to), "support", chat)}
	}
	for range 2 {
		for _, err := range made(again, 2, "hello", "") {
			require.NoError(t, err)
		}
	}
	for _, err := range slices.Concat(made(again, 1, "else", ""), made(d.past, 2, "hello", "")) {
		require.ErrorIs(t, err, agent.ErrConflict)
	}
	d.resume(session.ID("edit"))
	require.NoError(t, again.Edit(ctx, s1, 1, llm.Content{Text: "hello"}, session.ID("edit")), "though it has gone on")
	require.ErrorIs(t, again.Fork(ctx, session.ID("edit"), 2, session.ID("fork")), agent.ErrConflict, "it is a fork of another session")
	require.ErrorIs(t, again.Fork(ctx, s1, 1, session.ID("import")), agent.ErrConflict)
	require.ErrorIs(t, again.Fork(ctx, s1, 0, session.ID("import")), agent.ErrConflict)
	require.NoError(t, again.Fork(ctx, s1, 0, session.ID("empty")))
	require.NoError(t, again.Fork(ctx, s1, 0, session.ID("empty")))
}

func TestEdit(t *testing.T) {
	onStores(t, func(t *testing.T, d *desk) {
		ctx := context.Background()
		d.say(s1, "I was charged twice.")
		d.say(s1, "Thanks.")
		whole := d.log(s1)
		require.Equal(t, event.TypeUser, whole[15].Type())
		require.NoError(t, d.past.Edit(ctx, s1, 16, llm.Content{Text: "And the other one?"}, fork))
		log := d.log(fork)
		require.Len(t, log, 16)
		require.True(t, log[15].Time.After(log[14].Time))
		require.Equal(t, whole[15].ParentID, log[15].ParentID)
		require.NotEqual(t, whole[15].RunID, log[15].RunID)
		d.asked = nil
		d.resume(fork)
		require.Equal(t, []string{"billing"}, d.asked)
		require.Equal(t, "Paid back. You said: And the other one?", said(d.log(fork)))
		require.Equal(t, whole, d.log(s1))

		first := session.ID("first")
		require.NoError(t, d.past.Edit(ctx, s1, 1, llm.Content{Text: "Hello."}, first))
		d.asked = nil
		d.resume(first)
		require.Equal(t, []string{"support", "support", "billing"}, d.asked)

		g, path, err := d.past.Graph(ctx, fork) // two messages side by side, and two at the beginning
		require.NoError(t, err)
		require.Len(t, g.Children(whole[14].RunID+":harness_end"), 2)
		require.Equal(t, "Paid back. You said: And the other one?", lastOf(conversation.Messages(g, path)))
		g, path, err = d.past.Graph(ctx, s1)
		require.NoError(t, err)
		require.Equal(t, "Paid back. You said: Thanks.", lastOf(conversation.Messages(g, path)))
		require.Equal(t, conversation.Messages(alone(whole), conversation.Active{}), conversation.Messages(g, path))
		g, path, err = d.past.Graph(ctx, first)
		require.NoError(t, err)
		require.Equal(t, conversation.Messages(alone(d.log(first)), conversation.Active{}), conversation.Messages(g, path))

		for _, seq := range []int64{-1, 0, 2, 15, 100} {
			require.ErrorIs(t, d.past.Edit(ctx, s1, seq, llm.Content{Text: "x"}, session.ID("none")), agent.ErrBadInput, seq)
		}
		middle := must.As[*checkpoint.MiddleError](d.past.Edit(ctx, s1, 2, llm.Content{Text: "x"}, session.ID("none")))
		require.Equal(t, []int64{1, 16}, []int64{middle.Before, middle.After})
		require.ErrorIs(t, d.past.Edit(ctx, s1, 16, llm.Content{}, session.ID("none")), agent.ErrBadInput)
		require.ErrorIs(t, d.past.Edit(ctx, s1, 16, llm.Content{Text: "x"}, fork), agent.ErrConflict)
		infos := must.Get(d.store.List(ctx, session.Key{}, session.Page{}))
		require.Len(t, infos, 3)
	})
}

func alone(log []*event.Event) *conversation.Graph {
	g := conversation.New()
	for _, e := range log {
		g = g.Reduce(e)
	}
	return g
}

func lastOf(messages []llm.Message) string { return messages[len(messages)-1].PlainText() }

func TestFamily(t *testing.T) {
	onStores(t, func(t *testing.T, d *desk) {
		ctx := context.Background()
		d.say(s1, "Hi.")
		d.say(session.ID("other"), "Hi.")
		require.NoError(t, d.past.Fork(ctx, s1, 15, fork))
		d.say(fork, "And now?")
		second := session.ID("second")
		require.NoError(t, d.past.Fork(ctx, fork, 16, second))
		for _, key := range []session.Key{s1, fork, second} {
			infos := must.Get(d.past.Family(ctx, key))
			require.Len(t, infos, 3)
			require.Equal(t, []session.Key{s1, fork, second}, []session.Key{infos[0].Key, infos[1].Key, infos[2].Key})
		}
		// The sessions of others are none of this user's.
		theirs := session.Key{App: session.DefaultApp, User: "ann", ID: "theirs"}
		require.NoError(t, d.past.Fork(ctx, s1, 15, theirs))
		require.NoError(t, d.past.Fork(ctx, theirs, 15, session.Key{App: session.DefaultApp, User: "ann", ID: "again"}))
		infos := must.Get(d.past.Family(ctx, s1))
		require.Len(t, infos, 3)
		infos = must.Get(d.past.Family(ctx, theirs))
		require.Equal(t, theirs, infos[0].Key)
		g, _, err := d.past.Graph(ctx, theirs)
		require.NoError(t, err)
		want := conversation.New()
		for _, e := range must.All(d.store.Load(ctx, theirs, 0)) {
			want = want.Reduce(e)
		}
		require.Equal(t, want.Hypergraph(), g.Hypergraph(), "what it shares is a part of it")
		_, err = d.past.Family(ctx, session.ID("nobody"))
		require.ErrorIs(t, err, agent.ErrBadInput)
	})
}

func TestDiff(t *testing.T) {
	onStores(t, func(t *testing.T, d *desk) {
		ctx := context.Background()
		d.say(s1, "I was charged twice.")
		d.say(s1, "Thanks.")
		require.NoError(t, d.past.Edit(ctx, s1, 16, llm.Content{Text: "And the other one?"}, fork))
		d.resume(fork)
		diff := must.Get(d.past.Diff(ctx, s1, fork))
		require.EqualValues(t, 15, diff.Common)
		require.EqualValues(t, 15, diff.Shared)
		require.False(t, diff.Same())
		require.Len(t, diff.A.Events, 5)
		require.Len(t, diff.B.Events, 5)
		require.Equal(t, "Paid back. You said: And the other one?", said(diff.B.Events))
		require.Equal(t, "billing", diff.B.Fold.Scope("").Active)
		require.EqualValues(t, 20, diff.A.Fold.Seq)

		twin := session.ID("twin") // says the same, but shares nothing
		d.say(twin, "I was charged twice.")
		d.say(twin, "Thanks.")
		diff = must.Get(d.past.Diff(ctx, twin, s1))
		require.True(t, diff.Same())
		require.Zero(t, diff.Shared)
		require.EqualValues(t, 20, diff.Common)

		short := session.ID("short")
		require.NoError(t, d.past.Fork(ctx, s1, 12, short))
		for _, keys := range [][2]session.Key{{s1, short}, {short, s1}} {
			diff = must.Get(d.past.Diff(ctx, keys[0], keys[1]))
			require.EqualValues(t, 12, diff.Common)
			require.Equal(t, 8, len(diff.A.Events)+len(diff.B.Events))
		}
		empty := session.ID("empty")
		require.NoError(t, d.past.Fork(ctx, s1, 0, empty))
		diff = must.Get(d.past.Diff(ctx, empty, s1))
		require.Zero(t, diff.Common)
		require.Len(t, diff.B.Events, 20)
		_, err := d.past.Diff(ctx, s1, session.ID("nobody"))
		require.ErrorIs(t, err, agent.ErrBadInput)
		require.ErrorContains(t, err, "nobody")
	})
}

// TestDiffLeavesOut: two turns that say the same are equal, whatever the ids of their calls and handoffs are, and however
// long a router needed.
func TestDiffLeavesOut(t *testing.T) {
	ctx, store := context.Background(), session.NewMemory()
	for i, key := range []session.Key{s1, fork} {
		id := fmt.Sprint("id", i)
		payloads := []event.Data{&event.Route{From: "a", To: "b", LatencyMs: float64(i)}, &event.File{Name: "a.txt", ToolCallID: id}, &event.Relay{Tool: "pay", ToolCallID: id},
			&event.RelayResolved{RelayID: id}, &event.HandoffStatus{HandoffID: id, Status: "queued"}, &event.Discard{Code: "retry", IDs: []string{id}}}
		var events []*event.Event
		for n, d := range payloads {
			events = append(events, &event.Event{Seq: int64(n + 1), ID: fmt.Sprint(id, n), RunID: id, Agent: "a", Data: d})
		}
		must.Get(sessiontest.Begin(ctx, store, key, 0, events...))
	}
	diff := must.Get(must.Get(checkpoint.New(store)).Diff(ctx, s1, fork))
	require.True(t, diff.Same(), "%v", diff.A.Events)
	require.EqualValues(t, 6, diff.Common)
}

func TestReplay(t *testing.T) {
	d := newDesk(t, sessiontest.Memory(t))
	d.say(s1, "I was charged twice.")
	whole, asked := d.log(s1), len(d.asked)
	for _, until := range []int64{0, 1, 7, 15} {
		require.Equal(t, whole[:until], append([]*event.Event{}, d.collect(d.past.Replay(context.Background(), s1, until))...))
	}
	require.Len(t, d.asked, asked)
	require.Equal(t, 1, d.looked)
}

// TestEditOfAProcessThatDies kills the process at each call of the store that an edit
// makes. What it leaves is the whole edit, or nothing that anybody sees, and then the
// same edit can be made.
func TestEditOfAProcessThatDies(t *testing.T) {
	for k := 0; ; k++ {
		store := &dying{Store: sessiontest.Memory(t), left: -1}
		d := newDesk(t, store)
		d.say(s1, "Hi.")
		d.say(s1, "Thanks.")
		ctx := context.Background()
		died := func() (died bool) {
			defer func() { died = recover() != nil }()
			store.left = k
			require.NoError(t, d.past.Edit(ctx, s1, 16, llm.Content{Text: "Hello"}, fork))
			return false
		}()
		store.left = -1
		infos := must.Get(store.List(ctx, fork, session.Page{}))
		if !died {
			require.Len(t, infos, 1)
			require.Positive(t, k)
		}
		if len(infos) == 0 {
			require.NoError(t, d.past.Edit(ctx, s1, 16, llm.Content{Text: "Hello"}, fork), "call %d", k)
		}
		log := d.log(fork)
		require.Len(t, log, 16, "call %d", k)
		require.Equal(t, "Hello", log[15].Data.(*event.User).Content.Text)
		require.ErrorIs(t, d.past.Edit(ctx, s1, 16, llm.Content{Text: "Hello"}, fork), agent.ErrConflict)
		if !died {
			return
		}
	}
}

// dying is the store of a process that dies at a call of it, before or after it is done.
type dying struct {
	session.Store
	left int // calls until then, two for each; negative: none
}

func (d *dying) pass() {
	if d.left == 0 {
		panic("killed")
	}
	d.left--
}

func (d *dying) Fork(ctx context.Context, of session.Key, seq int64, to session.Key, events ...*event.Event) error {
	d.pass()
	defer d.pass()
	return d.Store.Fork(ctx, of, seq, to, events...)
}

func (d *dying) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	d.pass()
	defer d.pass()
	return d.Store.Write(ctx, key, w)
}

func TestNew(t *testing.T) {
	_, err := checkpoint.New(nil)
	require.Error(t, err)
	_, err = checkpoint.New(sessiontest.Memory(t), checkpoint.WithClock(nil))
	require.Error(t, err)
	_, err = checkpoint.New(sessiontest.Memory(t), checkpoint.WithIDs(nil))
	require.Error(t, err)
}
