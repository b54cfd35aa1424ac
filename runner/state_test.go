package runner_test

import (
	"encoding/json"
	"fmt"
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
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

const largeID = 9007199254740993 // which no float64 holds

// orderTool tells what it reads of the state and of the turn's metadata.
func orderTool(t *testing.T) tools.Tool {
	return must.Get(tools.Func("order", "Tells the order.", func(c tools.Context, _ struct {
		Input string `json:"input"`
	}) (string, error) {
		id, ok, err := session.GetAs[int64](c.Get, "order")
		lang, _ := c.Get("turn:lang")
		plan, _ := c.Get("user:plan")
		c.Set("seen", id)
		again, _, _ := session.GetAs[int64](c.Get, "seen")
		return fmt.Sprintf("%v %v %v %v %v %v %v", id, ok, err, lang, plan, c.Metadata()["from"], again), nil
	}))
}

// asking is an agent that calls the tool in every turn.
func asking(t *testing.T, name string, tool tools.Tool) agent.Agent {
	return must.Get(llmagent.New(name, "Ask.", scripted.Func("m", func(req *llm.Request) scripted.Answer {
		if last := req.Messages[len(req.Messages)-1]; last.Role == llm.RoleTool {
			return scripted.Reply(scripted.Text(last.Parts[0].(llm.ToolResult).Output))
		}
		return scripted.Reply(scripted.Call(tool.Info().Name, `{"input":"x"}`))
	}), llmagent.WithTools(tool)))
}

func lastWords(events []*event.Event) (text string) {
	for _, e := range events {
		if e.Scope == "" && e.Text() != "" {
			text = e.Text()
		}
	}
	return text
}

// What a turn begins with is an event of the log, in the write of the user's message;
// tools see it, also inside of agent tools, and the metadata with it.
func TestWithState(t *testing.T) {
	store := sessiontest.Memory(t)
	inner := must.Get(agenttool.New(asking(t, "inner", orderTool(t))))
	for name, root := range map[string]agent.Agent{"s1": asking(t, "root", orderTool(t)), "inner": asking(t, "root", inner)} {
		t.Run(name, func(t *testing.T) {
			key := session.Key{App: "app", User: name, ID: name}
			r := newRunner(t, root, store)
			given := map[string]any{"order": int64(largeID), "turn:lang": "de", "user:plan": "gold", "never": nil}
			events := finish(t, r.Run(t.Context(), key, llm.UserText("Hi"), runner.WithState(given), runner.WithMetadata(map[string]any{"from": largeID})))
			require.Equal(t, "9007199254740993 true <nil> de gold 9007199254740993 9007199254740993", lastWords(events))
			require.Equal(t, event.TypeUser, events[0].Type())
			seed := events[1]
			require.Equal(t, &event.State{Delta: map[string]any{"order": json.Number("9007199254740993"), "turn:lang": "de", "user:plan": "gold", "never": nil}}, seed.Data)
			require.Equal(t, "user", seed.Agent)
			require.Equal(t, events[0].RunID, seed.RunID)
			require.Equal(t, events[0].Time, seed.Time, "one write")
			require.Equal(t, event.TypeHarnessStart, events[2].Type())

			// The turn's state ends with it; the session's and the user's stay, and so
			// does what a cold runner reads.
			r = newRunner(t, root, store)
			events = run(t, r, key, "And now?")
			require.Equal(t, "9007199254740993 true <nil> <nil> gold <nil> 9007199254740993", lastWords(events))
			events = finish(t, r.Run(t.Context(), key, llm.UserText("Forget it"), runner.WithState(map[string]any{"order": nil, "user:plan": nil})))
			require.Equal(t, "0 false <nil> <nil> <nil> <nil> 0", lastWords(events))
		})
	}
}

// What cannot be stored is refused before anything is.
func TestWithStateRefuses(t *testing.T) {
	r := newRun(t, chatty(t))
	for says, v := range map[string]any{
		"the state of the turn cannot be stored: json: unsupported type": func() {},
		"nested deeper than":   deepValue(event.MaxDepth + 1),
		"it contains a number": json.Number("1e400"),
	} {
		_, err := collect(r.Run(t.Context(), s1, llm.UserText("go"), runner.WithState(map[string]any{"a": v})))
		require.ErrorIs(t, err, agent.ErrBadInput)
		require.ErrorContains(t, err, says)
	}
	require.Empty(t, load(t, r, s1))
	events := finish(t, r.Run(t.Context(), s1, llm.UserText("go"), runner.WithState(map[string]any{})))
	require.Equal(t, event.TypeHarnessStart, events[1].Type(), "nothing to keep is no event")
}
