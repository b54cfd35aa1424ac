package runner_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/tools"
)

var errCard = errors.New("a card number")

// noCards trips on the word 4111, and notes by which ways it was asked.
func noCards(asked *[]string) agent.Guard {
	check := func(text string) error {
		if strings.Contains(text, "4111") {
			return errCard
		}
		return nil
	}
	return agent.Guard{Name: "no-cards",
		In: func(_ context.Context, inv *agent.Invocation, in agent.Ingress) error {
			*asked = append(*asked, inv.Agent().Name()+" "+string(in.Kind))
			return check(in.Content.PlainText())
		},
		Out: func(_ context.Context, inv *agent.Invocation, text string) error {
			*asked = append(*asked, inv.Agent().Name()+" says")
			return check(text)
		}}
}

func handsTo(t testing.TB, target string, child agent.Agent, opts ...llmagent.Option) agent.Agent {
	return must.Get(llmagent.New("support", "", scripted.Always("support", scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"`+target+`"}`))),
		append(opts, llmagent.WithSubAgents(child))...))
}

func lookupTool(t testing.TB, output string) tools.Tool {
	return must.Get(tools.Func("lookup", "Looks up.", func(tools.Context, struct{}) (string, error) { return output, nil }))
}

// looks calls lookup once, then says done.
func looks(t testing.TB, output string, opts ...llmagent.Option) agent.Agent {
	return must.Get(llmagent.New("looker", "", callsThen("looker", "done", scripted.Call("lookup", "{}"), scripted.Call("lookup", "{}")), append(opts, llmagent.WithTools(lookupTool(t, output)), llmagent.WithParallelTools(1))...))
}

func TestGuards(t *testing.T) {
	for name, c := range map[string]struct {
		root  func(t *testing.T, g agent.Guard) agent.Agent
		user  string
		asked string
		kind  agent.IngressKind
		agent string // that tripped, "" if none did
		said  string
	}{
		"nothing to refuse": {func(t *testing.T, g agent.Guard) agent.Agent {
			return says(t, "solo", "Hello.", llmagent.WithGuards(g))
		},
			"Hi", "solo user, solo says", "", "", "solo: Hello."},
		"the user's words": {func(t *testing.T, g agent.Guard) agent.Agent {
			return says(t, "solo", "Hello.", llmagent.WithGuards(g))
		},
			"My card is 4111", "solo user", agent.IngressUser, "solo", ""},
		"after a transfer": {func(t *testing.T, g agent.Guard) agent.Agent {
			return handsTo(t, "billing", says(t, "billing", "Hello.", llmagent.WithGuards(g)))
		}, "My card is 4111", "billing transfer", agent.IngressTransfer, "billing", "support → billing committed "},
		"after a transfer, on the edge": {func(t *testing.T, g agent.Guard) agent.Agent {
			return handsTo(t, "billing", agent.Via(says(t, "billing", "Hello."), agent.GuardedBy(g)))
		}, "My card is 4111", "billing transfer", agent.IngressTransfer, "billing", "support → billing committed "},
		"on the root's edge": {func(t *testing.T, g agent.Guard) agent.Agent {
			return agent.Via(says(t, "solo", "Hello."), agent.GuardedBy(g))
		}, "My card is 4111", "solo user", agent.IngressUser, "solo", ""},
		"the words of the root, on its edge": {func(t *testing.T, g agent.Guard) agent.Agent {
			return agent.Via(says(t, "solo", "Yours is 4111."), agent.GuardedBy(g))
		}, "Hi", "solo user, solo says", "", "solo", ""},
		"after a route": {func(t *testing.T, g agent.Guard) agent.Agent {
			return says(t, "one", "One.", llmagent.WithSubAgents(says(t, "two", "Two.", llmagent.WithGuards(g))), llmagent.WithRoutes(agent.OnStop("two")))
		}, "My card is 4111", "two transfer", agent.IngressTransfer, "two", "one: One.\none → two committed route"},
		"the agent's words": {func(t *testing.T, g agent.Guard) agent.Agent {
			return says(t, "solo", "Yours is 4111.", llmagent.WithGuards(g))
		}, "Hi", "solo user, solo says", "", "solo", ""},
		"a tool's result": {func(t *testing.T, g agent.Guard) agent.Agent { return looks(t, "4111", llmagent.WithGuards(g)) },
			"Hi", "looker user, looker tool", agent.IngressTool, "looker", ""},
		"a function agent": {func(t *testing.T, g agent.Guard) agent.Agent {
			return must.Get(agent.New("function", "", func(context.Context, *agent.Invocation) iterSeq { return yields(&event.Text{Content: "4111"}) }, agent.WithGuards(g)))
		}, "Hi", "function user, function says", "", "function", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, streaming := range []bool{false, true} {
				var asked []string
				var opts []runner.Option
				if streaming {
					opts = append(opts, runner.WithStreaming())
				}
				r := newRun(t, c.root(t, noCards(&asked)), opts...)
				events, err := collect(r.Run(context.Background(), s1, llm.UserText(c.user)))
				log := load(t, r, s1)
				require.Equal(t, c.asked, strings.Join(asked, ", "))
				require.Equal(t, c.said, said(log))
				if c.agent == "" {
					require.NoError(t, err)
					continue
				}
				trip := must.As[*agent.TripwireError](err)
				require.ErrorIs(t, err, errCard)
				require.Equal(t, agent.TripwireError{Guard: "no-cards", Agent: c.agent, Kind: c.kind, Tool: trip.Tool, Err: errCard}, *trip)
				require.Equal(t, c.kind == agent.IngressTool, trip.Tool == "lookup")
				require.Equal(t, "tripwire", log[len(log)-2].Data.(*event.Failure).Code)
				for _, e := range log[1:] {
					require.NotContains(t, string(event.EncodeJSON(e.Data)), `4111`, "what the guard refused is not stored again")
				}
				// What was shown of refused words is taken back.
				shown := map[string]bool{}
				for _, e := range events {
					switch d := e.Data.(type) {
					case *event.Text:
						shown[e.ID] = e.Partial
					case *event.Discard:
						for _, id := range d.IDs {
							delete(shown, id)
						}
					}
				}
				for id, open := range shown {
					require.False(t, open, "the delta %s is neither completed nor taken back", id)
				}
				// The next turn works.
				asked = nil
				_, _ = collect(r.Run(context.Background(), s1, llm.UserText("And now?")))
				require.NotEmpty(t, asked)
			}
		})
	}
}

// TestRefusedWordsWerePaidFor: the usage of an answer whose words a guard
// refused is in the log, and its calls are answered without being run.
func TestRefusedWordsWerePaidFor(t *testing.T) {
	var asked []string
	a := must.Get(llmagent.New("solo", "", scripted.Always("m", scripted.Reply(scripted.Text("4111"), scripted.Call("lookup", "{}"), scripted.Usage(10, 5, 0))),
		llmagent.WithTools(lookupTool(t, "x")), llmagent.WithGuards(noCards(&asked))))
	r := newRun(t, a)
	events, err := collect(r.Run(context.Background(), s1, llm.UserText("Hi")))
	require.ErrorIs(t, err, errCard)
	var types []string
	for _, e := range events {
		types = append(types, e.Type())
	}
	require.Equal(t, "user harness_start tool_call usage tool_result error harness_end", strings.Join(types, " "))
	require.Equal(t, 10, events[3].Data.(*event.Usage).InputTokens)
}

// TestGuardsOfInnerScopes: the input of an agent tool is an ingress, and a
// tripwire inside fails the tool's call, not the turn. It is the same whether the
// guard is the agent's own or that of the edge which was made a tool of.
func TestGuardsOfInnerScopes(t *testing.T) {
	for name, guarded := range map[string]func(agent.Guard) agent.Agent{
		"its own": func(g agent.Guard) agent.Agent { return says(t, "inner", "fine", llmagent.WithGuards(g)) },
		"of the edge": func(g agent.Guard) agent.Agent {
			return agent.Via(says(t, "inner", "fine"), agent.GuardedBy(g))
		},
		"of a function's edge": func(g agent.Guard) agent.Agent {
			return agent.Via(function(t, "inner", func(context.Context, *agent.Invocation) iterSeq { return yields(&event.Text{Content: "fine"}) }), agent.GuardedBy(g))
		},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			tool := must.Get(agenttool.New(guarded(noCards(&asked))))
			root := must.Get(llmagent.New("root", "", callsThen("m", "done", scripted.Call("inner", `{"input":"4111"}`)), llmagent.WithTools(tool)))
			r := newRun(t, root)
			events := run(t, r, s1, "Hi")
			require.Equal(t, []string{"inner input"}, asked)
			require.Equal(t, "root: done", said(events))
		})
	}
}

// quoting refuses texts with 4111, and its error quotes them.
func quoting() agent.Guard {
	check := func(text string) error {
		if strings.Contains(text, "4111") {
			return fmt.Errorf("there is a card number in %q", text)
		}
		return nil
	}
	return agent.Guard{Name: "no-cards",
		In: func(_ context.Context, _ *agent.Invocation, in agent.Ingress) error {
			return check(in.Content.PlainText())
		},
		Out: func(_ context.Context, _ *agent.Invocation, text string) error { return check(text) }}
}

// TestRefusedWordsReachNoModel: what a guard refused never reaches a model, as
// words or by the error that quotes them, in this turn or the next one. Where a
// call is answered, the result says that something was withheld.
func TestRefusedWordsReachNoModel(t *testing.T) {
	const card = "Your card is 4111."
	type model = func(name string, answers ...scripted.Answer) llm.Model
	text := func(s string) scripted.Answer { return scripted.Reply(scripted.Text(s)) }
	call := func(name string) scripted.Answer { return scripted.Reply(scripted.Call(name, `{"input":"go"}`)) }
	made := func(name string, m llm.Model, opts ...llmagent.Option) agent.Agent {
		return must.Get(llmagent.New(name, "", m, opts...))
	}
	caller := func(m model, inner agent.Agent) agent.Agent {
		return made("root", m("root", call(inner.Name()), text("Fine.")), llmagent.WithTools(agentTool(t, inner)))
	}
	guards := llmagent.WithGuards(quoting())
	for name, c := range map[string]struct {
		root func(m model) agent.Agent
		told string // the text of the result that a model reads
		err  bool   // the first turn ends with it
	}{
		"words beside a call": {func(m model) agent.Agent {
			return made("solo", m("solo", scripted.Reply(scripted.Text(card), scripted.Call("lookup", "{}"))), guards, llmagent.WithTools(lookupTool(t, "found")))
		}, `withheld by the guard no-cards`, true},
		"a tool's result": {func(m model) agent.Agent {
			return made("solo", m("solo", scripted.Reply(scripted.Call("lookup", "{}"))), guards, llmagent.WithTools(lookupTool(t, card)))
		}, `withheld by the guard no-cards`, true},
		"a tool's error": {func(m model) agent.Agent {
			broken := must.Get(tools.Func("lookup", "", func(tools.Context, struct{}) (string, error) { return "", errors.New(card) }))
			return made("solo", m("solo", scripted.Reply(scripted.Call("lookup", "{}"))), guards, llmagent.WithTools(broken))
		}, `withheld by the guard no-cards`, true},
		"words of an agent tool": {func(m model) agent.Agent {
			return caller(m, made("inner", m("inner", text(card)), guards))
		}, `withheld by the guard no-cards`, false},
		"words of an agent tool, guarded by its edge": {func(m model) agent.Agent {
			return caller(m, agent.Via(made("inner", m("inner", text(card))), agent.GuardedBy(quoting())))
		}, `withheld by the guard no-cards`, false},
		"words of an agent tool in an agent tool": {func(m model) agent.Agent {
			deep := made("deep", m("deep", text(card)), guards)
			return caller(m, made("inner", m("inner", call("deep"), text("I do not know.")), llmagent.WithTools(agentTool(t, deep))))
		}, `withheld by the guard no-cards`, false},
		"a tool's result inside an agent tool": {func(m model) agent.Agent {
			return caller(m, made("inner", m("inner", scripted.Reply(scripted.Call("lookup", "{}"))), guards, llmagent.WithTools(lookupTool(t, card))))
		}, `withheld by the guard no-cards`, false},
		"words after a transfer inside an agent tool": {func(m model) agent.Agent {
			leaf := made("leaf", m("leaf", text(card)), guards)
			return caller(m, made("inner", m("inner", scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"leaf"}`))), llmagent.WithSubAgents(leaf)))
		}, `withheld by the guard no-cards`, false},
		"a tool that asks an agent, and tells what became of it": {func(m model) agent.Agent {
			inner := made("inner", m("inner", text(card)), guards)
			ask := must.Get(tools.Func("ask", "", func(c tools.Context, _ struct {
				Input string `json:"input"`
			}) (string, error) {
				_, err := c.RunAgent(inner, "go")
				return "", fmt.Errorf("it said no: %w", err)
			}))
			return made("root", m("root", call("ask"), text("Fine.")), llmagent.WithTools(ask))
		}, `withheld by the guard no-cards`, false},
		"a panic of an agent tool": {func(m model) agent.Agent {
			return caller(m, function(t, "inner", func(context.Context, *agent.Invocation) iterSeq { panic(card) }))
		}, "internal error", false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, streaming := range []bool{false, true} {
				var read []string
				m := func(name string, answers ...scripted.Answer) llm.Model {
					return scripted.Func(name, func(req *llm.Request) scripted.Answer {
						read = append(read, fmt.Sprintf("%+v", req.Messages))
						if len(answers) == 0 {
							return scripted.Reply(scripted.Text("And so on."))
						}
						answer := answers[0]
						answers = answers[1:]
						return answer
					})
				}
				var opts []runner.Option
				if streaming {
					opts = append(opts, runner.WithStreaming())
				}
				r := newRun(t, c.root(m), opts...)
				_, err := say(r, s1, "Hi")
				require.Equal(t, c.err, err != nil, "%v", err)
				run(t, r, s1, "And now?")
				for _, req := range read {
					require.NotContains(t, req, "4111")
				}
				require.Contains(t, strings.Join(read, "\n"), c.told)
			}
		})
	}
}

// TestWithheldResultsKeepNoState: what a tool wanted to keep goes with the result
// that a guard refused, and that of other calls stays.
func TestWithheldResultsKeepNoState(t *testing.T) {
	admitted := make(chan struct{})
	first := must.Get(tools.Func("first", "", func(c tools.Context, _ struct{}) (string, error) {
		c.Set("order", "7")
		return "found", nil
	}))
	second := must.Get(tools.Func("second", "", func(c tools.Context, _ struct{}) (string, error) {
		<-admitted
		c.Set("card", "4111")
		return "4111", nil
	}))
	guard := quoting()
	check := guard.In
	guard.In = func(ctx context.Context, inv *agent.Invocation, in agent.Ingress) error {
		if in.Tool == "first" {
			close(admitted)
		}
		return check(ctx, inv, in)
	}
	root := scriptedAgent(t, "solo", seq(scripted.Reply(scripted.Call("second", "{}"), scripted.Call("first", "{}"))), llmagent.WithTools(first, second), llmagent.WithGuards(guard))
	r := newRun(t, root)
	_, err := say(r, s1, "Hi")
	require.Equal(t, "second", must.As[*agent.TripwireError](err).Tool)
	log := load(t, r, s1)
	var kept []map[string]any
	for _, e := range log {
		switch d := e.Data.(type) {
		case *event.State:
			kept = append(kept, d.Delta)
		case *event.ToolResult:
			require.NotContains(t, string(d.Output), "4111")
		}
	}
	require.Equal(t, []map[string]any{{"order": "7"}}, kept)
}

// TestRefusedSummariesAreNotKept: a summary is words of a model as well, and a
// guard of the agent that it was made for is asked.
func TestRefusedSummariesAreNotKept(t *testing.T) {
	long := strings.Repeat("words ", 60)
	a := must.Get(llmagent.New("solo", "", scripted.Always("m", scripted.Reply(scripted.Text(long))), llmagent.WithGuards(quoting()),
		llmagent.WithCompaction(llmagent.Compaction{Window: 300, Summarizer: scripted.Always("sums", scripted.Reply(scripted.Text("The card is 4111.")))})))
	r := newRun(t, a)
	var trip *agent.TripwireError
	for range 5 {
		if _, err := say(r, s1, "Go on."); err != nil {
			require.ErrorAs(t, err, &trip)
		}
	}
	require.NotNil(t, trip, "no summary was made")
	log := load(t, r, s1)
	for _, d := range find[*event.Compaction](log) {
		require.NotContains(t, d.Summary, "4111")
	}
	preview := must.Get(r.Preview(t.Context(), s1, "solo"))
	require.NotContains(t, fmt.Sprintf("%+v", preview.Messages), "4111")
}
