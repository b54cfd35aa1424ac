package runner_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/transcript"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// TestTranscriptsWithAFindAgentOfOnesOwn: a root of a type of one's own changes nothing.
func TestTranscriptsWithAFindAgentOfOnesOwn(t *testing.T) {
	for _, tr := range transcript.All(t, "testdata/*/*.txtar") {
		t.Run(tr.Name(), func(t *testing.T) {
			events, wire := play(t, tr, mode{stream: true, searching: true})
			require.Equal(t, tr.Section("events"), events)
			require.Equal(t, tr.Section("wire"), wire)
		})
	}
}

// finds is a root whose FindAgent can be replaced. It notes what it is asked for.
type finds struct {
	agent.Agent
	find  func(name string) agent.Agent
	asked []string
}

func (f *finds) Unwrap() agent.Agent { return f.Agent }

func (f *finds) FindAgent(name string) agent.Agent {
	f.asked = append(f.asked, name)
	if f.find != nil {
		return f.find(name)
	}
	return f.Agent.FindAgent(name)
}

// TestFindAgentDecidesWhoAnswers: the root, the target of a transfer and the active agent of the next turn are those
// that the root's FindAgent returns.
func TestFindAgentDecidesWhoAnswers(t *testing.T) {
	store := sessiontest.Memory(t)
	inner, _ := tree(t, "support\n  billing", `
support: call transfer_to_agent#c1 {"agent_name": "billing"}
billing: "Hello."
billing: "Again."`)
	root := &finds{Agent: inner}
	r := newRunner(t, root, store)
	root.asked = nil
	run(t, r, s1, "Hi")
	require.Contains(t, root.asked, "support")
	require.Equal(t, "billing", root.asked[len(root.asked)-1])
	root.asked = nil
	events := run(t, r, s1, "And now?")
	require.Equal(t, "billing", events[1].Agent)
	require.Subset(t, []string{"billing"}, root.asked)

	// A tree in which the agent has another name finds it by the old one.
	inner, _ = tree(t, "support\n  money", `money: "I am billing."`)
	root = &finds{Agent: inner, find: func(name string) agent.Agent {
		if name == "billing" {
			name = "money"
		}
		return inner.FindAgent(name)
	}}
	r = newRunner(t, root, store)
	events = run(t, r, s1, "Who are you?")
	require.Equal(t, "money: I am billing.", said(events))
}

// TestFindAgentChangesItsAnswer: each contradiction is one error, the log stays valid, and the session goes on as soon
// as FindAgent does what it did.
func TestFindAgentChangesItsAnswer(t *testing.T) {
	var root *finds
	alone := func(name string) agent.Agent {
		if name == "billing" {
			return nil
		}
		return root.Agent.FindAgent(name)
	}
	for name, find := range map[string]func(name string) agent.Agent{
		"nil":                 func(string) agent.Agent { return nil },
		"nil for one alone":   alone,
		"another of the tree": func(name string) agent.Agent { return root.Agent.FindAgent(map[string]string{"support": "tech"}[name]) },
		"none of the tree":    func(name string) agent.Agent { return says(t, name, "I am not in the tree.") },
		"a nil pointer":       func(string) agent.Agent { return (*llmagent.Agent)(nil) },
		"a panic":             func(string) agent.Agent { panic("boom") },
	} {
		t.Run(name, func(t *testing.T) {
			lie := true
			root = new(finds)
			support := scripted.Func("support", func(req *llm.Request) scripted.Answer {
				if last := req.Messages[len(req.Messages)-1]; last.Role == llm.RoleTool {
					require.Contains(t, last.Parts[0].(llm.ToolResult).Output, "transfer target not ready: billing: FindAgent")
					return scripted.Reply(scripted.Text("Then I answer."))
				}
				if lie {
					root.find = find
				}
				return handsOver("billing")
			})
			a := must.Get(llmagent.New("support", "", support, llmagent.WithSubAgents(says(t, "billing", "Hello."), says(t, "tech", "Tech."))))
			root.Agent = a
			r := newRun(t, root)
			turn := func(want string) (failed error) {
				events, err := say(r, s1, "Hi")
				if want != "" {
					require.NoError(t, err)
					require.Equal(t, want, said(events))
					return nil
				}
				require.ErrorAs(t, err, new(*agent.FindError))
				require.NotContains(t, err.Error(), "boom", "which is logged")
				failures := slices.DeleteFunc(events, func(e *event.Event) bool { return e.Type() != event.TypeError })
				require.Len(t, failures, 1)
				require.Equal(t, "find_agent", failures[0].Data.(*event.Failure).Code)
				require.Equal(t, event.FinishReasonError, load(t, r, s1)[len(load(t, r, s1))-1].Data.(*event.HarnessEnd).FinishReason)
				return err
			}
			if name == "nil for one alone" { // the target cannot start, and the source goes on
				require.NoError(t, turn("support → billing failed \nsupport: Then I answer."))
			} else {
				require.ErrorContains(t, turn(""), `agent support: FindAgent("support") of support (*runner_test.finds) `)
			}
			root.find, lie = nil, false
			require.NoError(t, turn("support → billing committed \nbilling: Hello."))
			root.find = find
			require.ErrorContains(t, turn(""), `agent billing: FindAgent("billing") of support (*runner_test.finds) `)
			root.find = nil
			require.NoError(t, turn("billing: Hello."))
		})
	}
}

// TestFindAgentContradictsOnTheWay: routes and agents that go on after an error lead to nobody who cannot be found.
func TestFindAgentContradictsOnTheWay(t *testing.T) {
	root := new(finds)
	billing := func(name string) agent.Agent {
		if name == "billing" {
			return nil
		}
		return root.Agent.FindAgent(name)
	}
	root.Agent = says(t, "support", "Hello.", llmagent.WithSubAgents(says(t, "billing", "Hello.")), llmagent.WithRoutes(agent.OnStop("billing")))
	r := newRun(t, root)
	root.find = billing
	events := run(t, r, s1, "Hi")
	require.Equal(t, "support: Hello.\nsupport → billing failed route", said(events))

	root.find = nil
	root.Agent = says(t, "support", "Hello.", llmagent.WithRoutes(agent.OnStop("billing")),
		llmagent.WithSubAgents(agent.Via(says(t, "billing", "Hello."), agent.OnError("tech")), says(t, "tech", "I go on.")))
	r = newRun(t, root)
	run(t, r, s1, "Hi")
	root.find = billing
	events = run(t, r, s1, "And now?")
	require.Equal(t, "billing → tech committed bot_to_bot\ntech: I go on.", said(events))
}
