package openai

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
)

// TestThinkBlocks: a block at the beginning is reasoning, however its answer is cut.
func TestThinkBlocks(t *testing.T) {
	for written, want := range map[string]result{
		"<think>\nHm.\n</think>\n\nHello.":                    {Text: "Hello.", Reasoning: "Hm."},
		"<think>Hm. <think>So.</think></think>\nHello.":       {Text: "Hello.", Reasoning: "Hm. <think>So."},
		" \n<thinking>Hm. </think> </thinking>Hello. <think>": {Text: "Hello. <think>", Reasoning: "Hm. </think>"},
		"[THINK]Hm.[/THINK]Hello.":                            {Text: "Hello.", Reasoning: "Hm."},
		"<think></think>\n\n<think>Hm.</think>Hello.\n":       {Text: "Hello.\n", Reasoning: "Hm."},
		"<think>Hm.\n\nUnclosed </thi":                        {Reasoning: "Hm.\n\nUnclosed </thi"},
		"<think>Hm. \n":                                       {Reasoning: "Hm."},
		"<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hello.<|return|>": {Text: "Hello.", Reasoning: "Hm."},
		"<|channel|>final<|message|>Hello. <|x":                                         {Text: "Hello. <|x"},
		"<|START_THINKING|>Hm.<|END_THINKING|><|START_RESPONSE|>Hello.<|END_RESPONSE|>": {Text: "Hello.", Reasoning: "Hm."},
		"<think>Hm.</think><|begin_of_box|>Hello.<|end_of_box|>":                        {Text: "Hello.", Reasoning: "Hm."},
		"<mm:think>Hm.</mm:think>\n\nHello.":                                            {Text: "Hello.", Reasoning: "Hm."},
		"<think>Hm.</think>\n<answer>\nHello.\n</answer>":                               {Text: "Hello.", Reasoning: "Hm."},
		"◁think▷Hm.◁/think▷Hello.":                                                      {Text: "Hello.", Reasoning: "Hm."},
		"Models write <think> and </think>.":                                            {Text: "Models write <think> and </think>."},
		"`<think>` is a tag.":                                                           {Text: "`<think>` is a tag."},
		"Hm.</think>Hello.":                                                             {Text: "Hm.</think>Hello."},
		"<thin":                                                                         {Text: "<thin"},
		" <thinker>":                                                                    {Text: " <thinker>"},
		"  \n":                                                                          {Text: "  \n"},
		"<think>Hm.</think>\n<thi":                                                      {Text: "<thi", Reasoning: "Hm."},
	} {
		for size := 1; size <= len(written); size++ {
			var body strings.Builder
			for rest := written; rest != ""; {
				n := min(size, len(rest))
				for n < len(rest) && rest[n]&0xc0 == 0x80 {
					n++
				}
				body.WriteString(text(rest[:n]))
				rest = rest[n:]
			}
			got, err := ask(t, serve(t, bodyOf(body.String()+delta(`{}`, "stop")+done)), helloS)
			require.NoError(t, err)
			require.Equal(t, want, result{Text: got.Text, Reasoning: got.Reasoning}, "%q in pieces of %d", written, size)
		}
		got, err := ask(t, serve(t, bodyOf(text(written)+delta(`{}`, "stop")+done), WithoutThinkBlocks()), helloS)
		require.NoError(t, err)
		require.Equal(t, written, got.Text)
		quoted, err := json.Marshal(written)
		require.NoError(t, err)
		got, err = ask(t, serve(t, jsonOf(`{"choices":[{"message":{"reasoning":"So.","content":`+string(quoted)+`},"finish_reason":"stop"}]}`)), hello)
		require.NoError(t, err)
		require.Equal(t, result{Text: written, Reasoning: "So.", Finish: llm.FinishStop}, got, "where the endpoint has a field for it, all else are words")
	}
	got, err := ask(t, serve(t, bodyOf(delta(`{"reasoning_content":"Hm."}`, "")+text("</thi")+text("nk>\n\n")+text("Hello.")+delta(`{}`, "stop")+done)), helloS)
	require.NoError(t, err)
	require.Equal(t, result{Text: "Hello.", Reasoning: "Hm.", Model: "m-1", Finish: llm.FinishStop}, got, "what closes the thoughts of another field")
	got, err = ask(t, serve(t, bodyOf(text("<think>Hm.</think>\n\n")+toolDelta(`{"index":0,"id":"1","function":{"name":"f","arguments":"{}"}}`)+delta(`{}`, "tool_calls")+done)), helloS)
	require.NoError(t, err)
	require.Equal(t, result{Reasoning: "Hm.", Calls: []llm.ToolCall{{ID: "1", Name: "f", Arguments: "{}"}}, Model: "m-1", Finish: llm.FinishToolCalls}, got)
}

// TestWordsOfOddStreams: words that come so far, once more, in halves of characters, in lines
// that end with CR.
func TestWordsOfOddStreams(t *testing.T) {
	so := func(words ...string) string {
		var b strings.Builder
		for _, w := range words {
			b.WriteString(text(w))
		}
		return b.String()
	}
	half := func(words ...string) string {
		var b strings.Builder
		for _, w := range words {
			b.WriteString(delta(`{"content":"`+w+`"}`, ""))
		}
		return b.String()
	}
	end := delta(`{}`, "stop") + done
	for name, c := range map[string]struct{ body, want string }{
		"so far":                  {so("There ", "There are ", "There are 7.") + end, "There are 7."},
		"so far, twice":           {so("There ", "There are ", "There are 7.", "There are 7.") + end, "There are 7."},
		"so far, two":             {so("There are ", "There are 7.") + end, "There are 7."},
		"once more":               {so("There ", "are seven", " of them.") + delta(`{"content":"There are seven of them."}`, "stop") + done, "There are seven of them."},
		"like another":            {so("1", "1", "11", "11") + end, "111111"},
		"like another, two":       {so("ha", "haha", "!") + end, "hahaha!"},
		"like another, a refrain": {so("Row, row, ", "row your boat. ") + so("Row, row, row your boat. ") + end, "Row, row, row your boat. Row, row, row your boat. "},
		"surrogates":              {half(`a\ud83e`, `\udd9c b`, `\uD83E`, `\uDD9C`) + end, "a🦜 b🦜"},
		"half of one":             {half(`a\ud83e`, `b`, `\udd9c\\ud83e`) + end, "a\ufffdb\ufffd\\ud83e"},
		"half of one at the end":  {half(`a\ud83e`) + end, "a\ufffd"},
		"bytes":                   {half("a\xf0\x9f", "\xa6", "\x9c\xff") + end, "a🦜\ufffd"},
		"CR":                      {strings.ReplaceAll(so("There ", "are 7.")+end, "\n", "\r"), "There are 7."},
		"CR LF, over lines":       {strings.ReplaceAll("data: {\"choices\":\ndata: [{\"delta\":{\"content\":\"There are 7.\"}}]}\n\n"+end, "\n", "\r\n"), "There are 7."},
	} {
		for _, h := range []string{"whole", "byte by byte"} {
			serving := bodyOf(c.body)
			if h != "whole" {
				serving = byteByByte(c.body)
			}
			got, err := ask(t, serve(t, serving), helloS)
			require.NoError(t, err, name)
			require.Equal(t, c.want, got.Text, name)
		}
	}
	half2 := toolDelta(`{"index":0,"id":"1","function":{"name":"f","arguments":"{\"a\":\"\ud83e"}}`) + toolDelta(`{"index":0,"function":{"arguments":"\udd9c\"}"}}`)
	got, err := ask(t, serve(t, bodyOf(half2+delta(`{}`, "tool_calls")+done)), helloS)
	require.NoError(t, err)
	require.Equal(t, `{"a":"🦜"}`, got.Calls[0].Arguments)
}
