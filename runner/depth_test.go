package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
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
	"github.com/agentarbor/arbor/session/sqlite"
	"github.com/agentarbor/arbor/tools"
)

func deepJSON(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

func deepObject(levels int) string { return `{"a":` + deepJSON(levels-1) + `}` }

func deepValue(levels int) (v any) {
	for range levels {
		v = []any{v}
	}
	return v
}

// TestDeepJSON brings JSON that is nested too deeply in by every door, at depths that
// Go's decoder takes, takes only without the event around it, and does not take. What
// was said is in the file and can be read again, and the conversation goes on.
func TestDeepJSON(t *testing.T) {
	echo := func(give func(c tools.Context) any) func(*testing.T, int) agent.Agent {
		return func(t *testing.T, _ int) agent.Agent {
			tool := must.Get(tools.New(tools.Info{ToolSpec: llm.ToolSpec{Name: "echo", Parameters: json.RawMessage(`{"type":"object"}`)}},
				func(c tools.Context, _ json.RawMessage) (any, error) { return give(c), nil }))
			return must.Get(llmagent.New("root", "", checked{scripted.New().
				Add("root", scripted.Reply(scripted.Call("echo", "{}")), scripted.Reply(scripted.Text("Done."))).Model("root")}, llmagent.WithTools(tool)))
		}
	}
	function := func(data func(levels int) event.Data) func(*testing.T, int) agent.Agent {
		return func(t *testing.T, levels int) agent.Agent {
			return must.Get(agent.New("root", "", func(context.Context, *agent.Invocation) iterSeq { return yields(data(levels)) }))
		}
	}
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	for _, levels := range []int{event.MaxDepth, event.MaxDepth + 1, 9_998, 9_999, 10_000, 10_001, 20_000} {
		for name, c := range map[string]func(*testing.T, int) agent.Agent{
			"tool output, JSON":    echo(func(tools.Context) any { return raw(deepJSON(levels)) }),
			"tool output, a value": echo(func(tools.Context) any { return deepValue(levels) }),
			"tool progress":        echo(func(c tools.Context) any { c.Progress(deepValue(levels)); return "fine" }),
			"state":                echo(func(c tools.Context) any { c.Set("user:k", deepValue(levels)); return "fine" }),
			"arguments":            nil,
			"state of an agent":    function(func(n int) event.Data { return &event.State{Delta: map[string]any{"k": deepValue(n)}} }),
			"state as JSON":        function(func(n int) event.Data { return &event.State{Delta: map[string]any{"k": raw(deepJSON(n))}} }),
			"relay":                function(func(n int) event.Data { return &event.Relay{Kind: "k", ToolCallID: "c", Params: raw(deepJSON(n))} }),
			"transfer that failed": function(func(n int) event.Data {
				return &event.Transfer{Outcome: event.TransferFailed, Payload: raw(deepJSON(n)), RouteDecision: raw(deepJSON(n))}
			}),
			"an event of tomorrow": function(func(n int) event.Data { return &event.Unknown{Type: "hologram", Raw: raw(deepObject(n))} }),
			"a run's output":       function(func(n int) event.Data { return &event.Finish{Output: raw(deepJSON(n))} }),
			"progress of an agent": function(func(n int) event.Data { return &event.ToolProgress{Name: "x", Content: raw(deepJSON(n))} }),
		} {
			t.Run(fmt.Sprintf("%s, %d", name, levels), func(t *testing.T) {
				t.Parallel()
				var root agent.Agent
				if c == nil {
					tool := must.Get(tools.New(tools.Info{ToolSpec: llm.ToolSpec{Name: "echo", Parameters: json.RawMessage(`{"type":"object"}`)}},
						func(_ tools.Context, in json.RawMessage) (any, error) { return len(in), nil }))
					root = must.Get(llmagent.New("root", "", checked{scripted.New().
						Add("root", scripted.Reply(scripted.Call("echo", deepObject(levels))), scripted.Reply(scripted.Text("Done."))).Model("root")}, llmagent.WithTools(tool)))
				} else {
					root = c(t, levels)
				}
				path := filepath.Join(t.TempDir(), "sessions.db")
				store := must.Get(sqlite.Open(path))
				r := newRunner(t, root, store)
				live := run(t, r, s1, "go")
				require.NoError(t, store.Close())

				store = must.Get(sqlite.Open(path))
				defer func() { require.NoError(t, store.Close()) }()
				r = newRunner(t, root, store)
				log := load(t, r, s1)
				if name != "relay" { // which asks about nothing
					checkLog(t, r, log)
				}
				notices, text := 0, ""
				require.Len(t, live, len(log))
				for i, e := range log {
					require.NotEqual(t, event.TypeUnreadable, e.Type())
					require.Equal(t, live[i].Data, e.Data, "warm as cold")
					b := must.Get(e.MarshalJSON())
					if e.IsNotice(event.NoticeTooDeep) {
						notices++
					}
					text += string(b)
				}
				require.Equal(t, levels > event.MaxDepth, notices > 0)
				require.True(t, strings.Contains(text, strings.Repeat("[", levels-1)) && strings.Contains(text, strings.Repeat("]", levels-1)), "nothing of it is lost")
				shared := must.Get(store.SharedState(t.Context(), s1))
				if name == "state" {
					require.Len(t, shared, 1)
				}
				_, err := collect(r.Run(t.Context(), session.Key{App: s1.App, User: s1.User, ID: "other"}, llm.UserText("go")))
				if err != nil { // the script of a model has no more
					require.ErrorIs(t, err, scripted.ErrDrift)
				}
			})
		}
	}
}

// TestDeepMetadata: what a caller gives is refused, and nothing is stored.
func TestDeepMetadata(t *testing.T) {
	r := newRun(t, chatty(t))
	for _, levels := range []int{event.MaxDepth + 1, 9_999, 20_000} {
		for _, v := range []any{deepValue(levels), json.RawMessage(deepJSON(levels))} {
			_, err := collect(r.Run(t.Context(), s1, llm.UserText("go"), runner.WithMetadata(map[string]any{"a": v})))
			require.ErrorIs(t, err, agent.ErrBadInput)
		}
	}
	_, err := collect(r.Run(t.Context(), s1, llm.UserText("go"), runner.WithMetadata(map[string]any{"a": json.Number("1e400")})))
	require.ErrorIs(t, err, agent.ErrBadInput)
	require.Empty(t, load(t, r, s1))
}

func chatty(t *testing.T) agent.Agent {
	return must.Get(agent.New("root", "", func(context.Context, *agent.Invocation) iterSeq { return yields(&event.Text{Content: "Hello."}) }))
}
