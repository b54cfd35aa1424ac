package live_test

import (
	"context"
	"errors"
	"iter"
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
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// TestOwnHidesWordsOfOthers has a model that decides, an agent that refuses a conversation, and an agent that fails, all
// with an error in which an endpoint says something: the log has it, and the user does not read it in any event.
func TestOwnHidesWordsOfOthers(t *testing.T) {
	const hidden = "the endpoint at 10.0.0.7 says: key sk-4711 is wrong"
	wrong := &llm.Error{Code: llm.CodeUnauthorized, Message: hidden}
	away := must.Get(agent.New("away", "Is away", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			yield(nil, &agent.RefusedError{Agent: "away", Reason: hidden, Err: errors.New(hidden)})
		}
	}))
	asked := 0
	desk := must.Get(llmagent.New("desk", "", scripted.Func("desk", func(*llm.Request) scripted.Answer {
		if asked++; asked == 1 {
			return scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"away"}`))
		}
		return scripted.Reply(scripted.Fail(wrong))
	}), llmagent.WithSubAgents(away), llmagent.WithDecision(scripted.Always("decider", scripted.Reply(scripted.Fail(wrong))))))
	store := sessiontest.Memory(t)
	r := must.Get(runner.New(desk, store))
	for _, err := range r.Run(t.Context(), session.ID("s"), llm.UserText("Hello")) {
		_ = err
	}
	see, hides := live.Own(r.Tree()), make(map[string]int)
	for e, err := range store.Load(t.Context(), session.ID("s"), 0) {
		require.NoError(t, err)
		if of := string(event.EncodeJSON(e.Data)); strings.Contains(of, hidden) {
			hides[e.Type()]++
		}
		if e = see(e); e != nil {
			require.NotContains(t, string(event.EncodeJSON(e.Data)), "4711")
		}
	}
	require.Equal(t, map[string]int{"notice": 2, "transfer": 1, "error": 1}, hides)
}
