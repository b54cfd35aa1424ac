package runner_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/transcript"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/policy"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/workflowagent"
)

// refuses4111 is a guard of text alone, which quotes it.
func refuses4111() agent.Guard { g := quoting(); g.In = nil; return g }

// blocks are what a consumer was shown, by block, with deltas and whole events apart.
type blocks map[string]string

func (b blocks) take(e *event.Event) {
	switch d := e.Data.(type) {
	case *event.Text:
		b[fmt.Sprint(e.Scope, e.ID, e.Partial)] += d.Content
	case *event.Reasoning:
		b[fmt.Sprint(e.Scope, e.ID, e.Partial)] += d.Content
	default:
		b[fmt.Sprint(len(b))] = string(event.EncodeJSON(d))
	}
}

// guardedShapes are the ways in which the deltas of a guarded agent reach a consumer.
var guardedShapes = map[string]func(t testing.TB, g agent.Guard, m llm.Model, pieces []string) agent.Agent{
	"an agent": func(t testing.TB, g agent.Guard, m llm.Model, _ []string) agent.Agent {
		return talker(t, m, llmagent.WithGuards(g))
	},
	"an edge": func(t testing.TB, g agent.Guard, m llm.Model, _ []string) agent.Agent {
		return agent.Via(talker(t, m), agent.GuardedBy(g))
	},
	"two guards": func(t testing.TB, g agent.Guard, m llm.Model, _ []string) agent.Agent {
		fine := agent.Guard{Name: "fine", Out: func(context.Context, *agent.Invocation, string) error { return nil }}
		return agent.Via(talker(t, m, llmagent.WithGuards(fine.Window(1))), agent.GuardedBy(g, fine.StreamUnchecked()))
	},
	"after a transfer": func(t testing.TB, g agent.Guard, m llm.Model, _ []string) agent.Agent {
		return handsTo(t, "talker", talker(t, m, llmagent.WithGuards(g)))
	},
	"a workflow": func(t testing.TB, g agent.Guard, m llm.Model, _ []string) agent.Agent {
		flow := must.Get(workflowagent.Sequential("flow", "", []agent.Agent{talker(t, m), says(t, "last", "Bye.")}))
		return agent.Via(flow, agent.GuardedBy(g))
	},
	"agents side by side": func(t testing.TB, g agent.Guard, m llm.Model, _ []string) agent.Agent {
		flow := must.Get(workflowagent.Parallel("flow", "", []agent.Agent{talker(t, m), says(t, "other", "Bye.")}))
		return agent.Via(flow, agent.GuardedBy(g))
	},
	"an agent tool": func(t testing.TB, g agent.Guard, m llm.Model, _ []string) agent.Agent {
		return scriptedAgent(t, "root", seq(scripted.Reply(scripted.Call("talker", `{"input":"go"}`)), scripted.Reply(scripted.Text("Done."))),
			llmagent.WithTools(agentTool(t, talker(t, m, llmagent.WithGuards(g)))))
	},
	"a stream of a function": func(t testing.TB, g agent.Guard, _ llm.Model, pieces []string) agent.Agent {
		return must.Get(llmagent.Func("talker", "", func(s *llmagent.Step) error {
			w := s.Stream()
			for _, p := range pieces {
				if _, err := w.Write([]byte(p)); err != nil {
					return err
				}
			}
			return w.Close()
		}, llmagent.WithGuards(g)))
	},
	"deltas of its own, calls in pieces among them": func(t testing.TB, g agent.Guard, _ llm.Model, pieces []string) agent.Agent {
		return function(t, "talker", func(_ context.Context, inv *agent.Invocation) iterSeq {
			return func(yield func(*event.Event, error) bool) {
				id, whole := inv.NewID(), strings.Join(pieces, "")
				for _, p := range pieces {
					input := event.EncodeJSON(map[string]string{"card": whole})
					if !yield(&event.Event{ID: id + "c", Partial: true, Attempt: 1, Data: &event.ToolCall{Name: "pay", Input: input}}, nil) ||
						!yield(&event.Event{ID: id, Partial: true, Attempt: 1, Data: &event.Text{Content: p}}, nil) {
						return
					}
				}
				if yield(&event.Event{Data: &event.Discard{Code: "replaced", Message: "not " + whole, IDs: []string{id}}, More: true}, nil) {
					yield(&event.Event{Data: &event.Text{Content: whole}}, nil)
				}
			}
		}, agent.WithGuards(g))
	},
	"an error that quotes": func(t testing.TB, g agent.Guard, _ llm.Model, pieces []string) agent.Agent {
		return function(t, "talker", func(_ context.Context, inv *agent.Invocation) iterSeq {
			return func(yield func(*event.Event, error) bool) {
				id, whole := inv.NewID(), strings.Join(pieces, "")
				for _, p := range pieces {
					if !yield(&event.Event{ID: id, Partial: true, Attempt: 1, Data: &event.Text{Content: p}}, nil) {
						return
					}
				}
				yield(nil, errors.New("the task failed: "+whole))
			}
		}, agent.WithGuards(g))
	},
}

func talker(t testing.TB, m llm.Model, opts ...llmagent.Option) agent.Agent {
	return must.Get(llmagent.New("talker", "", m, append(opts, llmagent.WithTools(lookupTool(t, "x")))...))
}

// TestHeldStreams: whatever the chunks of a text and whichever way it comes, no consumer sees what the guard
// refuses, in deltas or in events, and one that is passed arrives whole.
func TestHeldStreams(t *testing.T) {
	letters := rapid.SampledFrom([]string{"4", "1", "11", "41", "411", "4111", "é", "日本", " ", "Your card is "})
	chunks := rapid.SliceOfN(letters, 1, 8)
	for shape, made := range guardedShapes {
		t.Run(shape, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				thoughts, pieces, lost := chunks.Draw(rt, "thoughts"), append(chunks.Draw(rt, "text"), "."), chunks.Draw(rt, "lost")
				g := refuses4111()
				if n := rapid.IntRange(2, 8).Draw(rt, "window"); n > 2 { // as long as what it refuses, but one
					g = g.Window(n)
				}
				answer := []scripted.Item{scripted.Think(thoughts...), scripted.Text(pieces...)}
				if rapid.Bool().Draw(rt, "calls") {
					answer = append(answer, scripted.Call("lookup", "{}"))
				}
				answers := seq(scripted.Reply(answer...), scripted.Reply(scripted.Text("Done.")), scripted.Reply(scripted.Text("Done.")))
				if rapid.Bool().Draw(rt, "cut") {
					answers = append(seq(scripted.Reply(scripted.Think(lost...), scripted.Text(lost...), scripted.Cut())), answers...)
				}
				var m llm.Model = lenient{scripted.New().Add("talker", answers...).Model("talker")}
				if rapid.Bool().Draw(rt, "fallback") {
					bad := scripted.Always("bad", scripted.Reply(scripted.Text(lost...), scripted.Cut()))
					f := must.Get(policy.NewFallback([]llm.Model{bad, m}))
					m = f
				}
				r := newRun(t, made(t, g, m, pieces), runner.WithStreaming(), runner.WithIDs(transcript.Counter())) // random ids may contain 4111
				shown, visible := blocks{}, ""
				var failed error
				for e, err := range sessiontest.Turn(rt, r.Run(context.Background(), s1, llm.UserText("Hi"))) {
					if failed = err; err == nil {
						shown.take(e)
						visible += e.Visible()
					}
				}
				for _, text := range shown {
					if strings.Contains(text, "4111") {
						rt.Fatalf("a consumer sees %q", text)
					}
				}
				if text := strings.Join(pieces, ""); !strings.Contains(text, "4111") && shape == "an agent" && failed == nil {
					require.Contains(rt, visible, text)
				}
			})
		})
	}
}

// TestWindow: all of a text is shown but the characters that are held back, and those with its end.
func TestWindow(t *testing.T) {
	for _, c := range []struct {
		guards []agent.Guard
		text   []string
		want   string // the deltas, a discard as -, the whole text in brackets
	}{
		{[]agent.Guard{refuses4111()}, []string{"abc", "def"}, "[abcdef]"},
		{[]agent.Guard{refuses4111().Window(-1)}, []string{"abc", "def"}, "[abcdef]"},
		{[]agent.Guard{refuses4111().Window(0)}, []string{"abc", "def"}, "abc|def|[abcdef]"},
		{[]agent.Guard{refuses4111().Window(2)}, []string{"abc", "d", "ef"}, "a|b|cd|ef|[abcdef]"},
		{[]agent.Guard{refuses4111().Window(2)}, []string{"日本é", "x"}, "日|本|éx|[日本éx]"},
		{[]agent.Guard{refuses4111().Window(9)}, []string{"abc", "def"}, "[abcdef]"},
		{[]agent.Guard{refuses4111().Window(9), refuses4111().Window(0)}, []string{"abc", "def"}, "[abcdef]"},
		{[]agent.Guard{refuses4111().Window(0), refuses4111()}, []string{"abc", "def"}, "[abcdef]"},
		{[]agent.Guard{refuses4111().Window(0), refuses4111().StreamUnchecked()}, []string{"abc", "def"}, "abc|def|[abcdef]"},
		{[]agent.Guard{refuses4111().StreamUnchecked()}, []string{"abc41", "11"}, "abc41|11|-"},
		{[]agent.Guard{refuses4111().Window(3)}, []string{"is 4", "11", "1 x", "y"}, "i|s |-"},
		{[]agent.Guard{{Name: "in"}}, []string{"abc", "def"}, "abc|def|[abcdef]"},
	} {
		r := newRun(t, talker(t, scripted.Always("m", scripted.Reply(scripted.Text(c.text...))), llmagent.WithGuards(c.guards...)), runner.WithStreaming())
		var got []string
		for e, err := range sessiontest.Turn(t, r.Run(context.Background(), s1, llm.UserText("Hi"))) {
			if err != nil {
				require.ErrorAs(t, err, new(*agent.TripwireError))
				break
			}
			switch d := e.Data.(type) {
			case *event.Text:
				if e.Partial {
					got = append(got, d.Content)
				} else {
					got = append(got, "["+d.Content+"]")
				}
			case *event.Discard:
				got = append(got, "-")
			case *event.Failure:
				require.Equal(t, `the guard "no-cards" refused the text of talker`, d.Message, "the guard's own error may quote")
			}
		}
		require.Equal(t, c.want, strings.Join(got, "|"), "%q", c.text)
	}
}
