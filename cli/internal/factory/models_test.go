package factory

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
)

func TestGuard(t *testing.T) {
	const key = "sk-sk-secret-0123"
	script := scripted.New().Add("m", scripted.Reply(
		scripted.Think("it is "+key), scripted.Text("It is sk", "-sk-sk-sec", "ret-0123, is", "n't it? sk-", "s"),
		scripted.Call("f", `{"key":"`+key+`"}`)))
	var text, reasoning string
	var calls []llm.ToolCall
	for c, err := range guard(script.Model("m"), " "+key+"\n").Generate(t.Context(), &llm.Request{Stream: true}) {
		require.NoError(t, err)
		text, reasoning = text+c.Text, reasoning+c.Reasoning
		if c.Call != nil {
			calls = append(calls, *c.Call)
		}
	}
	require.Equal(t, "It is sk-[secret], isn't it? sk-s", text)
	require.Equal(t, "it is [secret]", reasoning)
	require.Len(t, calls, 1)
	require.Equal(t, `{"key":"[secret]"}`, calls[0].Arguments)

	m := script.Model("m")
	require.Equal(t, m, guard(m, "lm-studio"), "a word for a key is no secret")
}

// However a text is cut into pieces, nothing but the key is taken out.
func FuzzScrubber(f *testing.F) {
	f.Add("abcabcabd and more", "abcabd", uint8(3))
	f.Fuzz(func(t *testing.T, text, key string, size uint8) {
		if key == "" || strings.Contains(removed, key) || strings.Contains(key, "[") || strings.Contains(key, "]") {
			t.Skip()
		}
		s := scrubber{key: key}
		var got strings.Builder
		for rest := text; ; {
			n := min(int(size)+1, len(rest))
			got.WriteString(s.next(rest[:n], n == len(rest)))
			if rest = rest[n:]; rest == "" {
				break
			}
		}
		require.Equal(t, strings.ReplaceAll(text, key, removed), got.String())
	})
}
