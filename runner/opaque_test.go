package runner_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/internal/transcript"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// TestOpaqueDataOfProviders: what a provider gives with a call and with words goes back to it, in a process that resumes
// the turn, after transfers there and back, and in a fork; the provider of another agent never gets it.
func TestOpaqueDataOfProviders(t *testing.T) {
	long := "call_1__thought__" + strings.Repeat("c2ln/+", 300) // as LiteLLM makes them
	serve := func(calls string) (*openai.Model, *[]string) {
		var bodies []string
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			raw, _ := io.ReadAll(r.Body)
			bodies = append(bodies, string(raw))
			var asked struct {
				Messages []struct{ Role, Content string }
			}
			_ = json.Unmarshal(raw, &asked)
			last := asked.Messages[len(asked.Messages)-1]
			answer := `"content":"Well.","reasoning_content":"Words of mine."`
			if last.Role == "user" && last.Content == "Look" {
				answer = `"reasoning_content":"I look.","tool_calls":[{"id":"` + long + `","function":{"name":"lookup","arguments":"{\"id\": 1}"},"extra_content":{"google":{"thought_signature":"c2ln"}}}]`
			} else if last.Role == "user" && last.Content == "Go" {
				answer = `"tool_calls":[{"id":"t` + strings.Repeat("x", len(bodies)) + `","function":{"name":"` + agent.TransferTool + `","arguments":"{\"agent_name\": \"` + calls + `\"}"}}]`
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"choices":[{"message":{`+answer+`},"finish_reason":"stop"}]}`)
		}))
		t.Cleanup(s.Close)
		m := must.Get(openai.New("m", openai.WithBaseURL(s.URL), openai.WithRetries(0), openai.WithEndpoint("echo")))
		return m, &bodies
	}
	ours, asked := serve("other")
	theirs, heard := serve("desk")
	store, key := sessiontest.Memory(t), session.ID("s")
	process := func() *runner.Runner {
		other := must.Get(llmagent.New("other", "You also look.", theirs, llmagent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToParent: true})))
		desk := must.Get(llmagent.New("desk", "You look.", ours, llmagent.WithTools(transcript.Tools(t).Get("lookup")), llmagent.WithSubAgents(other)))
		return newRunner(t, desk, store)
	}
	for e, err := range process().Run(t.Context(), key, llm.UserText("Look")) {
		require.NoError(t, err)
		if _, ok := e.Data.(*event.ToolResult); ok {
			break // the process ends here
		}
	}
	must.Get(runner.Collect(process().Resume(t.Context(), key)))
	back := func(key session.Key, text string) string {
		must.Get(runner.Collect(process().Run(t.Context(), key, llm.UserText(text))))
		return (*asked)[len(*asked)-1]
	}
	require.Contains(t, (*asked)[1], `"reasoning_content":"I look.","tool_calls":[{"id":"`+long+`","type":"function","function":{"name":"lookup","arguments":"{\"id\":1}"},"extra_content":{"google":{"thought_signature":"c2ln"}}}]`)
	back(key, "Go") // to the other, which answers
	require.Len(t, *heard, 1)
	last := int64(0)
	for e, err := range process().Run(t.Context(), key, llm.UserText("Go")) { // and back
		require.NoError(t, err)
		last = max(last, e.Seq)
	}
	for _, body := range *heard {
		require.NotContains(t, body, "I look.")
		require.NotContains(t, body, "of mine")
		require.NotContains(t, body, "c2ln")
	}
	fork := session.ID("fork")
	require.NoError(t, store.Fork(t.Context(), key, last, fork))
	for _, key := range []session.Key{key, fork} {
		body := back(key, "And now?")
		require.Contains(t, body, `"thought_signature":"c2ln"`)
		require.Contains(t, body, `"tool_call_id":"`+long+`"`)
		require.Contains(t, body, `"reasoning_content":"I look."`)
		require.Contains(t, body, `"content":"Well.","reasoning_content":"Words of mine."`)
	}
}
