package runner_test

import (
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2atest"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
	"github.com/agentarbor/arbor/view"
)

// talk is a conversation whose turns another one than a model of this process answers.
type talk struct {
	root agent.Agent
	opts []runner.Option
	// begin is the first turn, nil if it is as all others.
	begin func(t testing.TB, r *runner.Runner)
	// then comes after each turn, nil if nothing does.
	then func(t testing.TB, r *runner.Runner, store session.Store, n int)
	// alone: then comes in the place of turns, which the user does not begin.
	alone bool
}

// talks are conversations with a person, with remote agents, and with an agent in a tool that is shown the conversation around it.
func talks(t testing.TB) map[string]talk {
	seated := talk{root: answering(t), opts: []runner.Option{runner.WithDesk(human.Log{})}}
	seated.begin = func(t testing.TB, r *runner.Runner) {
		for _, err := range r.Run(t.Context(), s1, llm.UserText("A person"), runner.CallHuman("")) {
			require.NoError(t, err)
		}
	}
	seated.then = func(t testing.TB, r *runner.Runner, store session.Store, n int) {
		shared, err := store.SharedState(t.Context(), s1)
		require.NoError(t, err)
		open := human.Handoffs(shared)
		require.Len(t, open, 1)
		require.NoError(t, r.Deliver(t.Context(), s1, human.Event{ID: "w" + strconv.Itoa(n), HandoffID: open[0].ID, Text: "One moment."}))
	}
	alone := seated
	alone.alone = true
	remote := func(answer a2atest.Answer) talk {
		a, err := a2a.Remote("billing", "", a2a.WithClient(a2atest.New().Always(answer)), a2a.WithHistory(view.LastTurns(20)))
		require.NoError(t, err)
		return talk{root: a}
	}
	inner, err := llmagent.New("inner", "", scripted.Always("inner", scripted.Reply(scripted.Text("Two charges."))))
	require.NoError(t, err)
	tool, err := agenttool.New(inner, agenttool.WithHistory(view.LastTurns(20)))
	require.NoError(t, err)
	outer, err := llmagent.New("outer", "", scripted.Func("outer", func(req *llm.Request) scripted.Answer {
		if req.Messages[len(req.Messages)-1].Role == llm.RoleTool {
			return scripted.Reply(scripted.Text("There are two."))
		}
		return scripted.Reply(scripted.Call("inner", `{"input":"Look."}`))
	}), llmagent.WithTools(tool), llmagent.WithHistory(view.LastTurns(20)))
	require.NoError(t, err)
	return map[string]talk{
		"desk": seated, "desk alone": alone, "remote": remote(a2atest.Reply(a2atest.Text("I see two charges."))),
		"remote with one task": remote(a2atest.Reply(a2atest.InputRequired("Which of them?"))),
		"agent tool":           {root: outer},
	}
}

// TestColdTurnOfOthersReadsAsMuchAtAnyLength: so does a turn of a person, of a remote agent, and of an agent in a tool that is
// shown the conversation, and what a person says.
func TestColdTurnOfOthersReadsAsMuchAtAnyLength(t *testing.T) {
	for name, talk := range talks(t) {
		t.Run(name, func(t *testing.T) {
			for _, turns := range []int{10, 100, 1000} {
				path, said := filepath.Join(t.TempDir(), "s.db"), 0
				var acts []func(*runner.Runner, session.Store)
				if !talk.alone {
					acts = append(acts, func(r *runner.Runner, _ session.Store) { turn(t, r, s1) })
				}
				if talk.then != nil {
					acts = append(acts, func(r *runner.Runner, store session.Store) {
						talk.then(t, r, store, said)
						said++
					})
				}
				cold := func(act func(*runner.Runner, session.Store)) *meteredStore {
					file, err := sqlite.Open(path)
					require.NoError(t, err)
					defer file.Close()
					s := &meteredStore{Store: file}
					act(newRunner(t, talk.root, s, talk.opts...), s)
					return s
				}
				warm := sessiontest.Memory(t)
				r := newRunner(t, talk.root, warm, talk.opts...)
				if talk.begin != nil {
					talk.begin(t, r)
				}
				for range turns {
					for _, act := range acts {
						act(r, warm)
					}
				}
				file, err := sqlite.Open(path)
				require.NoError(t, err)
				moved(t, warm, file)
				require.NoError(t, file.Close())
				first := cold(acts[0]) // which has to read all of it
				require.GreaterOrEqual(t, first.events, 4*turns)
				most := 0
				for range 40 {
					for _, act := range acts {
						s := cold(act)
						most = max(most, s.events)
						require.LessOrEqual(t, s.parts, 24)
						require.LessOrEqual(t, s.bytes, 48<<10+24*turns, "24 bytes a turn at most, for the ids of its calls or of the desk's words")
					}
				}
				t.Logf("%d turns: %d events, at first %d", turns, most, first.events)
				require.LessOrEqual(t, most, snapshotRows, "%d turns", turns)
			}
		})
	}
}

// moved puts the session into another store.
func moved(t testing.TB, from, to session.Store) {
	var events []*event.Event
	for e, err := range from.Load(t.Context(), s1, 0) {
		require.NoError(t, err)
		events = append(events, e)
	}
	stored(t, to, s1, events)
}
