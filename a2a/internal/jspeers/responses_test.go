package jspeers_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai"
	"github.com/agentarbor/arbor/llm/openai/endpoint"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

// recording keeps what is sent.
type recording struct{ bodies [][]byte }

func (r *recording) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	r.bodies = append(r.bodies, body)
	req = req.Clone(req.Context())
	req.Body = io.NopCloser(bytes.NewReader(body))
	return http.DefaultTransport.RoundTrip(req)
}

// TestResponsesAPI speaks with an endpoint that nobody here wrote: reasoning, words, calls
// and their results, errors, streamed and not. Everything that it was sent passes the
// strict check.
func TestResponsesAPI(t *testing.T) {
	t.Parallel()
	p := start(t, "aimock-responses.mjs")
	var sent recording
	m := must.Get(openai.New("o4-mini", openai.WithHTTPClient(&http.Client{Transport: &sent}), openai.WithBaseURL(p.URL+"/v1"), openai.WithResponses(), openai.WithEndpoint("echo"), openai.WithRetries(0)))
	look := must.Get(tools.Func("look", "Looks.", func(_ tools.Context, in struct {
		ID int `json:"id"`
	}) (int, error) {
		return in.ID + 1, nil
	}))
	a := must.Get(llmagent.New("billing", "You look at charges.", m, llmagent.WithTools(look)))
	for name, opts := range map[string][]runner.Option{"whole": nil, "streamed": {runner.WithStreaming()}} {
		r := must.Get(runner.New(a, sessiontest.Memory(t), opts...))
		var thought, said []string
		for e, err := range sessiontest.Turn(t, r.Run(t.Context(), session.ID(name), llm.UserText("I was charged twice"))) {
			require.NoError(t, err)
			switch d := e.Data.(type) {
			case *event.Reasoning:
				if !e.Partial {
					thought = append(thought, d.Content)
					require.NotEmpty(t, d.Sealed)
				}
			case *event.Text:
				if !e.Partial {
					said = append(said, d.Content)
				}
			case *event.ToolResult:
				require.JSONEq(t, "2", string(d.Output))
			}
		}
		require.Equal(t, []string{"The user was charged.", ""}, thought, "the second is encrypted alone")
		require.Equal(t, []string{"One moment.", "There are two charges."}, said)

		_, err := runner.Collect(r.Run(t.Context(), session.ID(name+" busy"), llm.UserText("busy")))
		var failed *llm.Error
		require.ErrorAs(t, err, &failed)
		require.Equal(t, llm.CodeRateLimited, failed.Code)
	}

	require.Len(t, sent.bodies, 6)
	back := 0
	for _, sent := range sent.bodies {
		var body struct {
			Input []struct {
				Type string `json:"type"`
			} `json:"input"`
		}
		require.NoError(t, json.Unmarshal(sent, &body))
		for _, item := range body.Input {
			if item.Type == "reasoning" {
				back++
			}
		}
		require.NoError(t, endpoint.CheckResponses(sent))
	}
	require.Equal(t, 2, back, "reasoning that was given back")
}
