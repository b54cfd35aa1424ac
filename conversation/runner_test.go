package conversation_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/conversation"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

// TestStreamAndLogAreEqual: three views of two turns reduce to one graph,
// written and read as JSON or not: what a client sees, deltas and discarded
// attempts included; the same without deltas; and the stored log. So does a
// client's view of the first turn with the log of the second.
func TestStreamAndLogAreEqual(t *testing.T) {
	script := must.Get(scripted.Parse([]byte(`
support: "One " "moment." call lookup#k1 {"id": 1}
support: call ask_expert#k2 {"input": "Is it right?"}
expert: think "Let me " think "see." "It " "is."
support: "I gue" fault=cut
support: call transfer_to_agent#k3 {"agent_name": "billing"}
billing: "Your money " "comes back."
billing: "You are " "welcome."
`)))
	model := script.Model
	expert := must.Get(llmagent.New("expert", "You know.", model("expert")))
	ask := must.Get(agenttool.New(expert, agenttool.WithName("ask_expert")))
	lookup := must.Get(tools.Func("lookup", "Looks something up.", func(_ tools.Context, in struct {
		ID int `json:"id"`
	}) (string, error) {
		return "two charges", nil
	}))
	billing := must.Get(llmagent.New("billing", "You pay back.", model("billing")))
	support := must.Get(llmagent.New("support", "You route.", model("support"), llmagent.WithTools(lookup, ask), llmagent.WithSubAgents(billing)))
	store, key := sessiontest.Memory(t), session.ID("s1")
	r := must.Get(runner.New(support, store, runner.WithStreaming()))

	client, whole, partials, discards := conversation.New(), conversation.New(), 0, 0
	var afterOne *conversation.Graph
	for _, text := range []string{"I was charged twice", "Thanks"} {
		for e, err := range r.Run(t.Context(), key, llm.UserText(text)) {
			require.NoError(t, err)
			client = client.Reduce(e)
			if _, ok := e.Data.(*event.Discard); ok {
				discards++
			}
			if e.Partial {
				partials++
				continue
			}
			whole = whole.Reduce(e)
		}
		if afterOne == nil {
			afterOne = client
		}
	}
	require.NoError(t, script.Done())
	require.Positive(t, partials)
	require.Positive(t, discards)

	stored, parsed := conversation.New(), conversation.New()
	again := afterOne
	for _, e := range must.All(store.Load(t.Context(), key, 0)) {
		stored, again = stored.Reduce(e), again.Reduce(e)
		line := must.Get(json.Marshal(e))
		parsed = must.Get(parsed.ReduceJSON(line))
	}
	want := must.Get(json.Marshal(stored))
	for name, g := range map[string]*conversation.Graph{"client": client, "without deltas": whole, "from JSON": parsed, "reconnected": again} {
		got := must.Get(json.Marshal(g))
		require.JSONEq(t, string(want), string(got), name)
	}

	thread := conversation.Thread(stored, conversation.Active{}, conversation.ThreadOptions{})
	var lines []string
	for _, v := range thread {
		require.Equal(t, conversation.StatusComplete, v.Status)
		lines = append(lines, v.Agent+": "+v.Text)
	}
	require.Equal(t, []string{"user: I was charged twice", "support: One moment.", "support: ", "support: ", "billing: Your money comes back.", "user: Thanks", "billing: You are welcome."}, lines)
	require.Equal(t, "It is.", thread[2].ToolCalls[0].Branches[0][0].Text)
	require.NoError(t, view.Check(&llm.Request{Messages: append(conversation.Messages(stored, conversation.Active{}), llm.UserText("And?"))}))
}
