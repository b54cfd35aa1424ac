package runner_test

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/transcript"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai"
	"github.com/agentarbor/arbor/llm/openai/endpoint"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/view"
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

// TestEncryptedReasoning: what a model has thought before a call goes back to it with the
// call's result, from the log, in another process too. Nobody else gets it: not an agent
// with another model, nor a view that redacts what it cannot look into.
func TestEncryptedReasoning(t *testing.T) {
	for name, c := range map[string]struct {
		second string // the model of the second process
		opts   []llmagent.Option
		given  bool
	}{
		"the same model":  {"o4", nil, true},
		"another model":   {"o3", nil, false},
		"a redacted view": {"o4", []llmagent.Option{llmagent.WithHistory(view.Full().Redact(strings.ToUpper))}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var thoughts []string
			served := func(name string) (llm.Model, bool) {
				return scripted.Func(name, func(req *llm.Request) scripted.Answer {
					last := req.Messages[len(req.Messages)-1]
					if last.Role != llm.RoleTool {
						return scripted.Reply(scripted.Think("It is ", "the first."), scripted.Call("lookup", `{"id": 1}`))
					}
					for _, p := range req.Messages[len(req.Messages)-2].Parts {
						if r, ok := p.(llm.Reasoning); ok {
							thoughts = append(thoughts, r.Text)
						}
					}
					return scripted.Reply(scripted.Text("Found."))
				}), true
			}
			server := must.Get(endpoint.Start(served))
			defer server.Close()
			store, key := sessiontest.Memory(t), session.ID("s")
			process := func(model string) *runner.Runner {
				m := must.Get(openai.New(model, openai.WithBaseURL(server.URL()), openai.WithResponses()))
				a := must.Get(llmagent.New("desk", "You look.", m, append(c.opts, llmagent.WithTools(transcript.Tools(t).Get("lookup")))...))
				return newRunner(t, a, store, runner.WithStreaming())
			}
			sealed := false
			for e, err := range process("o4").Run(t.Context(), key, llm.UserText("Which?")) {
				require.NoError(t, err)
				if r, ok := e.Data.(*event.Reasoning); ok && !e.Partial {
					require.Empty(t, r.Content, "a summary was not asked for")
					require.NotContains(t, r.Sealed, "the first")
					sealed = r.Sealed != ""
				}
				if _, ok := e.Data.(*event.ToolResult); ok {
					break // the process ends here
				}
			}
			require.True(t, sealed)
			res := must.Get(runner.Collect(process(c.second).Resume(t.Context(), key)))
			require.Equal(t, "Found.", res.Text)
			want := []string(nil)
			if c.given {
				want = []string{"It is the first."}
			}
			require.Equal(t, want, thoughts)
		})
	}
}

// TestForgedReasoning: an endpoint that refuses what it has not encrypted fails the call
// with its words, as for every bad request.
func TestForgedReasoning(t *testing.T) {
	server := must.Get(endpoint.Start(endpoint.Models(scripted.Always("o4", scripted.Reply(scripted.Think("Hm."), scripted.Call("lookup", `{"id": 1}`))))))
	defer server.Close()
	m := must.Get(openai.New("o4", openai.WithBaseURL(server.URL()), openai.WithResponses()))
	a := must.Get(llmagent.New("desk", "", m, llmagent.WithTools(transcript.Tools(t).Get("lookup"))))
	r := newRun(t, a, runner.WithInterceptors(forging{}))
	_, err := runner.Collect(r.Run(t.Context(), session.ID("s"), llm.UserText("Which?")))
	require.Equal(t, llm.CodeBadRequest, must.As[*llm.Error](err).Code)
	require.ErrorContains(t, err, "was not encrypted here")
}

// forging changes what a model gets back of its reasoning.
type forging struct{ agent.Passthrough }

func (forging) ModelCall(ctx context.Context, c agent.ModelCallInfo, next agent.ModelFunc) iter.Seq2[llm.Chunk, error] {
	req := *c.Request
	req.Messages = slices.Clone(req.Messages)
	for i, m := range req.Messages {
		req.Messages[i].Parts = slices.Clone(m.Parts)
		for j, p := range m.Parts {
			if r, ok := p.(llm.Reasoning); ok {
				r.Sealed = strings.Replace(r.Sealed, `"encrypted_content":"`, `"encrypted_content":"AAAA`, 1)
				req.Messages[i].Parts[j] = r
			}
		}
	}
	return next(ctx, &req)
}
