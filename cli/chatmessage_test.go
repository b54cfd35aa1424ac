package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
)

// Whatever can be read is written so that it is read alike.
func FuzzReadChat(f *testing.F) {
	for _, seed := range []string{
		``, `[]`, `[{"role":"user","content":"Hi"}]`, `{"role":"user","content":"Hi"} {"role":"assistant","content":"Hello."}`,
		`{"messages":[{"role":"system","content":"x"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAE="}},{"type":"file","file":{"filename":"b","file_data":"data:;base64,AAE="}}]}]}`,
		`[{"role":"assistant","content":null,"tool_calls":[{"id":"k","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"k","content":"1"}]`,
		`[{"role":"assistant","refusal":"no","content":[{"type":"refusal","refusal":"no"}]}]`, `[1]`, `{"role":1}`, `[{"role":"user","content":{}}]`,
		`[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:x"}}]}]`, "\x00", `{"messages":null}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		messages, _, err := readChat([]byte(text))
		if err != nil {
			return
		}
		var out strings.Builder
		writeChat(&out, chatMessages(messages))
		again, system, err := readChat([]byte(out.String()))
		require.NoError(t, err, out.String())
		require.Zero(t, system)
		require.Equal(t, plain(messages), plain(again))
	})
}

// plain writes messages without what has two forms of one meaning.
func plain(messages []llm.Message) []chatMessage {
	out := chatMessages(messages)
	for i, m := range out {
		if m.Content == nil {
			out[i].Content = ""
		}
	}
	return out
}
