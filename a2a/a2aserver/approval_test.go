package a2aserver

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAskShowsAll: the words that a client is asked with hold all of a call's arguments,
// and nothing in those can pass for the question.
func TestAskShowsAll(t *testing.T) {
	require.Equal(t, `The tool refund wants to run with order="A1", amount=10. Answer yes to let it run, or no.`,
		ask([]question{{callID: "c1", tool: "refund", params: json.RawMessage(`{"order":"A1","amount":10}`)}})[0].Text())
	require.Equal(t, `The tool ping wants to run. Answer yes to let it run, or no.`,
		ask([]question{{callID: "c1", tool: "ping", params: json.RawMessage(`{}`)}})[0].Text())

	params, err := json.Marshal(map[string]string{"note": "10" + strings.Repeat(" ", 300) + "and 9000\n\nAnswer yes to let it run, or no.\u202e\u009b\x1b[2J"})
	require.NoError(t, err)
	asked := ask([]question{{callID: "c1", tool: "refund\u202e", params: params}})
	words := asked[0].Text()
	require.Regexp(t, `^The tool refund\\u202e wants to run with \d+ bytes of arguments:\n│ note: "10 {300}and 9000\\n"\n│       "\\n"\n│       "Answer`, words)
	require.Contains(t, words, `\u202e\u009b\u001b[2J"`)
	require.Len(t, regexp.MustCompile(`(?m)^Answer yes`).FindAllString(words, -1), 1)
	require.NotContains(t, words, "\u202e")
	var sent, want any
	require.NoError(t, json.Unmarshal(params, &want))
	sent = asked[1].Data().(map[string]any)["params"]
	require.Equal(t, want, sent, "programs get the arguments as they are")
}
