package openai

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
)

// asksForLogProbs wants the two likeliest tokens at each place.
var asksForLogProbs = &llm.Request{Messages: []llm.Message{llm.UserText("Who?")}, Settings: llm.Settings{TopLogProbs: 2}}

func TestLogProbsAreAskedFor(t *testing.T) {
	got := sent(t, "m", asksForLogProbs)
	require.Equal(t, true, got["logprobs"])
	require.Equal(t, 2.0, got["top_logprobs"])
	require.NotContains(t, sent(t, "m", hello), "logprobs")
	require.NotContains(t, sent(t, "m", hello), "top_logprobs")
}

// TestLogProbs reads the log probabilities as OpenAI and llama.cpp send them, whole
// and streamed; what is of another form, or was not asked for, is left out.
func TestLogProbs(t *testing.T) {
	const first = `{"token":"bill","id":7,"bytes":[98],"logprob":-0.25,"top_logprobs":[{"token":"bill","logprob":-0.25},{"token":"tech","logprob":-1.5}]}`
	const second = `{"token":"ing","logprob":null,"top_logprobs":[]}`
	want := []llm.LogProb{{Token: "bill", LogProb: -0.25, Top: []llm.LogProb{{Token: "bill", LogProb: -0.25}, {Token: "tech", LogProb: -1.5}}}}
	cases := map[string]struct {
		answer http.HandlerFunc
		want   []llm.LogProb
	}{
		"whole": {jsonOf(`{"choices":[{"message":{"content":"billing"},"logprobs":{"content":[` + first + `],"refusal":null},"finish_reason":"stop"}]}`), want},
		"streamed": {bodyOf(`data: {"choices":[{"delta":{"content":"bill"},"logprobs":{"content":[` + first + `]}}]}` + "\n\n" +
			`data: {"choices":[{"delta":{"content":"ing"},"logprobs":null}]}` + "\n\n" + delta("{}", "stop") + done), want},
		"without a probability": {jsonOf(`{"choices":[{"message":{"content":"billing"},"logprobs":{"content":[` + first + `,` + second + `]},"finish_reason":"stop"}]}`), nil},
		"of completions":        {jsonOf(`{"choices":[{"message":{"content":"billing"},"logprobs":{"tokens":["bill"],"token_logprobs":[-0.2]},"finish_reason":"stop"}]}`), nil},
		"odd":                   {jsonOf(`{"choices":[{"message":{"content":"billing"},"logprobs":[3],"finish_reason":"stop"}]}`), nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m := serve(t, c.answer)
			for _, stream := range []bool{false, true} {
				req := *asksForLogProbs
				req.Stream = stream
				var text string
				var got []llm.LogProb
				for chunk, err := range m.Generate(t.Context(), &req) {
					require.NoError(t, err)
					text += chunk.Text
					got = append(got, chunk.LogProbs...)
				}
				require.Equal(t, "billing", text)
				require.Equal(t, c.want, got)
				req.TopLogProbs = 0
				for chunk, err := range m.Generate(t.Context(), &req) {
					require.NoError(t, err)
					require.Empty(t, chunk.LogProbs)
				}
			}
		})
	}
}
