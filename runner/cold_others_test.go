package runner_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2atest"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/race"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

// talk is a conversation whose turns another one than a model of this process answers.
type talk struct {
	root agent.Agent
	opts []runner.Option
	// begin is the first turn, nil if it is as all others.
	begin func(t testing.TB, r *runner.Runner)
	// acts come again and again in this order, each in another process.
	acts []step
	// more events are read by one: those of a scope that goes on.
	more int
	// shown are the turns that an agent is shown and reads at most.
	shown int
}

// step is one thing that happens to a session; n counts them.
type step func(t testing.TB, r *runner.Runner, store session.Store, n int)

// talks are conversations with a person, with remote agents, and with an agent in a tool that is shown the conversation around it.
func talks(t testing.TB) map[string]talk {
	says := func(t testing.TB, r *runner.Runner, _ session.Store, _ int) { turn(t, r, s1) }
	seated := talk{root: answering(t), opts: []runner.Option{runner.WithDesk(human.Log{})}}
	seated.begin = func(t testing.TB, r *runner.Runner) {
		must.All(r.Run(t.Context(), s1, llm.UserText("A person"), runner.CallHuman("")))
	}
	word := func(t testing.TB, r *runner.Runner, store session.Store, n int) {
		shared := must.Get(store.SharedState(t.Context(), s1))
		open := human.Handoffs(shared)
		require.Len(t, open, 1)
		require.NoError(t, r.Deliver(t.Context(), s1, human.Event{ID: "w" + strconv.Itoa(n), HandoffID: open[0].ID, Text: "One moment."}))
	}
	alone := seated
	seated.acts, alone.acts = []step{says, word}, []step{word}
	remote := func(answer a2atest.Answer) talk {
		a := must.Get(a2a.Remote("billing", "", a2a.WithClient(a2atest.New().Always(answer)), a2a.WithHistory(view.LastTurns(20))))
		return talk{root: a, acts: []step{says}}
	}
	pauses, approved := pausing()
	return map[string]talk{
		"desk": seated, "desk alone": alone, "remote": remote(a2atest.Reply(a2atest.Text("I see two charges."))),
		"remote with one task": remote(a2atest.Reply(a2atest.InputRequired("Which of them?"))),
		"agent tool":           {root: outer(t, 1, false, nil), acts: []step{says}, shown: 42},
		"agent tools at once":  {root: outer(t, 2, false, nil), acts: []step{says}, shown: 42},
		"namesakes":            {root: namesakes(t, view.LastTurns(20), view.LastTurns(10)), acts: []step{says}, shown: 42},
		"equal namesakes":      {root: namesakes(t, view.LastTurns(20), view.LastTurns(20)), acts: []step{says}, shown: 42},
		"agent tool that asks": {root: outer(t, 1, true, nil), acts: []step{pauses, approved}, more: 16, shown: 42},
	}
}

// outer is an agent that asks another one in a tool, in so many calls at once. That one may have to ask the user first. shown, unless
// it is nil, is given what the model of the inner one is asked.
func outer(t testing.TB, calls int, asks bool, shown func(*llm.Request)) agent.Agent {
	refund := must.Get(tools.Func("refund", "Pays back.", func(tools.Context, struct{}) (string, error) { return "paid", nil }, tools.NeedsApproval()))
	inner := must.Get(llmagent.New("inner", "", scripted.Func("inner", func(req *llm.Request) scripted.Answer {
		if shown != nil {
			shown(req)
		}
		if asks && req.Messages[len(req.Messages)-1].Role != llm.RoleTool {
			return scripted.Reply(scripted.Call("refund", "{}"))
		}
		return scripted.Reply(scripted.Text("Two charges."))
	}), llmagent.WithTools(refund)))
	tool := must.Get(agenttool.New(inner, agenttool.WithHistory(view.LastTurns(20))))
	lookup := must.Get(tools.Func("lookup", "Looks a customer up.", func(tools.Context, struct{}) (string, error) { return "a customer", nil }))
	ask := []scripted.Item{scripted.Text("I look.")}
	if shown != nil {
		ask = append(ask, scripted.Call("lookup", "{}")) // the result of which no agent beside it is shown
	}
	for n := range calls {
		ask = append(ask, scripted.Call("inner", fmt.Sprintf(`{"input":"Look %d."}`, n)))
	}
	return must.Get(llmagent.New("outer", "", callsThen("outer", "There are two.", ask...), llmagent.WithTools(tool, lookup), llmagent.WithHistory(view.LastTurns(20))))
}

// namesakes is an agent that asks two agents of one name in turn, each in a tool of its own. They are shown more or less.
func namesakes(t testing.TB, policies ...view.Policy) agent.Agent {
	var box []tools.Tool
	for i, p := range policies {
		inner := must.Get(llmagent.New("inner", "", scripted.Always("inner", scripted.Reply(scripted.Text("Two charges.")))))
		tool := must.Get(agenttool.New(inner, agenttool.WithName(fmt.Sprint("ask", i)), agenttool.WithHistory(p)))
		box = append(box, tool)
	}
	return must.Get(llmagent.New("outer", "", scripted.Func("outer", func(req *llm.Request) scripted.Answer {
		n := 0
		for _, m := range slices.Backward(req.Messages) {
			if m.Role == llm.RoleUser {
				break
			}
			if m.Role == llm.RoleTool {
				n++
			}
		}
		if n < len(box) {
			return scripted.Reply(scripted.Call(fmt.Sprint("ask", n), `{"input":"Look."}`))
		}
		return scripted.Reply(scripted.Text("There are two."))
	}), llmagent.WithTools(box...), llmagent.WithHistory(view.LastTurns(20))))
}

// pausing is a turn that waits for approvals in inner scopes, and what gives these.
func pausing() (pauses, approved step) {
	var asked []runner.Decision
	pauses = func(t testing.TB, r *runner.Runner, _ session.Store, _ int) {
		asked = nil
		for _, e := range must.All(r.Run(t.Context(), s1, llm.UserText(complaint))) {
			if d, ok := e.Data.(*event.Relay); ok && e.Scope != "" {
				asked = append(asked, runner.Approve(d.ToolCallID))
			}
		}
		require.NotEmpty(t, asked)
	}
	return pauses, func(t testing.TB, r *runner.Runner, _ session.Store, _ int) {
		must.All(r.Resume(t.Context(), s1, asked...))
	}
}

// TestColdTurnOfOthersReadsAsMuchAtAnyLength: so does a turn of a person, of a remote agent, and of an agent in a tool that is
// shown the conversation, and what a person says.
func TestColdTurnOfOthersReadsAsMuchAtAnyLength(t *testing.T) {
	if race.Enabled {
		t.Skip("what is read does not depend on the race detector, which takes ten times as long")
	}
	for name, talk := range talks(t) {
		t.Run(name, func(t *testing.T) {
			const long, again = 120, 40
			for _, turns := range []int{10, long} {
				path, said := filepath.Join(t.TempDir(), "s.db"), 0
				cold := func(act step) *meteredStore {
					file := must.Get(sqlite.Open(path))
					defer file.Close()
					s := &meteredStore{Store: file}
					act(t, newRunner(t, talk.root, s, talk.opts...), s, said)
					said++
					return s
				}
				warm := sessiontest.Memory(t)
				r := newRunner(t, talk.root, warm, talk.opts...)
				if talk.begin != nil {
					talk.begin(t, r)
				}
				for range turns {
					for _, act := range talk.acts {
						act(t, r, warm, said)
						said++
					}
				}
				file := must.Get(sqlite.Open(path))
				moved(t, warm, file)
				require.NoError(t, file.Close())
				first := cold(talk.acts[0]) // which has to read all of it
				require.GreaterOrEqual(t, first.events, 4*turns)
				most := 0
				for range again {
					for _, act := range talk.acts {
						s := cold(act)
						most = max(most, s.events)
						require.LessOrEqual(t, s.bytes, 16<<10+60*turns, "60 bytes a turn at most, for the ids of the desk's words")
					}
				}
				t.Logf("%d turns: %d events, at first %d", turns, most, first.events)
				require.LessOrEqual(t, most, snapshotRows+talk.more+talk.shown*(first.events/turns), "%d turns", turns)
			}
		})
	}
}

// TestAgentsInToolsAreShownTheSame: what an agent in a tool is shown of the conversation around hangs neither on the process, nor
// on which of several calls comes first, nor on a pause.
func TestAgentsInToolsAreShownTheSame(t *testing.T) {
	for _, asks := range []bool{false, true} {
		asked := func(cold bool, every int) (requests []string) {
			var mu sync.Mutex
			root := outer(t, 3, asks, func(req *llm.Request) {
				all := ""
				for _, m := range req.Messages {
					all += fmt.Sprintf("%s %q %d\n", m.Role, m.PlainText(), len(m.Parts))
				}
				mu.Lock()
				defer mu.Unlock()
				requests = append(requests, all)
			})
			store := sessiontest.Memory(t, session.KeepSnapshots())
			acts := []step{func(t testing.TB, r *runner.Runner, _ session.Store, _ int) { turn(t, r, s1) }}
			if asks {
				pauses, approved := pausing()
				acts = []step{pauses, approved}
			}
			r := newRunner(t, root, store, runner.WithSnapshots(every))
			for n := range 6 {
				for _, act := range acts {
					if act(t, r, store, n); cold {
						r = must.Get(runner.New(root, store, runner.WithSnapshots(every)))
					}
				}
			}
			slices.Sort(requests)
			return requests
		}
		want := asked(true, 0)
		require.Len(t, want, map[bool]int{false: 18, true: 36}[asks])
		for range 3 {
			for _, got := range [][]string{asked(false, 0), asked(true, 1)} {
				require.Len(t, got, len(want))
				for i := range want {
					require.Equal(t, want[i], got[i])
				}
			}
		}
	}
}

// TestNamesakesAreStoredAsSeldom: what agents of one name are shown is stored no more often than what is due.
func TestNamesakesAreStoredAsSeldom(t *testing.T) {
	for _, n := range []int{20, 10} {
		s := &meteredStore{Store: sessiontest.Memory(t, session.KeepSnapshots())}
		r := newRunner(t, namesakes(t, view.LastTurns(20), view.LastTurns(n)), s)
		events := 0
		for range 60 {
			events = int(turn(t, r, s1).Seq)
		}
		require.LessOrEqual(t, s.puts, events/64)
	}
}

// moved puts the session into another store.
func moved(t testing.TB, from, to session.Store) {
	events := must.All(from.Load(t.Context(), s1, 0))
	stored(t, to, s1, events)
}
