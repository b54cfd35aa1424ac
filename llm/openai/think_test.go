package openai

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
)

// TestThoughtsInTwoFields: what two fields repeat is one thought, and true or false is none.
func TestThoughtsInTwoFields(t *testing.T) {
	for _, field := range []string{"reasoning_content", "reasoning", "reasoning_text", "thinking"} {
		body := delta(`{"`+field+`":"Hm.","reasoning_details":[{"type":"reasoning.text","text":"Hm.","index":0}]}`, "") + delta(`{"content":"Hi.","`+field+`":false}`, "stop") + done
		for _, body := range []string{body, `{"choices":[{"message":{"content":"Hi.","` + field + `":"Hm."},"finish_reason":"stop"}]}`} {
			got, err := ask(t, serve(t, jsonOf(body)), helloS)
			require.NoError(t, err)
			require.Equal(t, "Hm.", got.Reasoning, field)
			require.Equal(t, "Hi.", got.Text, field)
		}
	}
}

// TestThoughtsAmongParts: the reasoning among the parts of the content is reasoning (BerriAI/litellm#16272).
func TestThoughtsAmongParts(t *testing.T) {
	for _, part := range []string{`{"type":"thinking","thinking":[{"type":"text","text":"Hm."}]}`, `{"type":"reasoning","summary":[{"type":"summary_text","text":"Hm."}]}`} {
		for _, body := range []string{delta(`{"content":[`+part+`]}`, "") + text("Hi.") + delta(`{}`, "stop") + done,
			`{"choices":[{"message":{"content":[` + part + `,{"type":"text","text":"Hi."}]},"finish_reason":"stop"}]}`} {
			got, err := ask(t, serve(t, jsonOf(body)), helloS)
			require.NoError(t, err)
			require.Equal(t, "Hm. Hi.", got.Reasoning+" "+got.Text)
		}
	}
}

// TestAnswerInReasoning: a model that was told not to think answers, and the endpoint's parser takes that for reasoning
// (vllm-project/vllm#17349).
func TestAnswerInReasoning(t *testing.T) {
	off, on := false, true
	for _, c := range []struct {
		thinking *bool
		body     string
		want     string
	}{
		{&off, thoughtDelta("There ") + thoughtDelta("are 7.") + delta(`{}`, "stop"), "There are 7."},
		{&on, thoughtDelta("There are 7.") + delta(`{}`, "stop"), ""},
		{nil, thoughtDelta("There are 7.") + delta(`{}`, "stop"), ""},
		{&off, thoughtDelta("There are") + delta(`{}`, "length"), ""},
		{&off, thoughtDelta("Hm.") + text("There are 7.") + delta(`{}`, "stop"), "There are 7."},
		{&off, thoughtDelta("<tool_call>"+toBilling+"</tool_call>") + delta(`{}`, "stop"), ""},
	} {
		req := asking()
		req.Stream, req.Thinking = true, c.thinking
		got, err := ask(t, serve(t, bodyOf(c.body+done)), req)
		require.NoError(t, err, c.body)
		require.Equal(t, c.want, got.Text, c.body)
		require.Empty(t, got.Calls, c.body)
	}
}

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
		"<|channel|>final<|message|>Hello. <|x": {Text: "Hello. <|x"},
		"<|channel|>commentary to=assistant<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hello.": {Text: "Hello.", Reasoning: "Hm."}, // ggml-org/llama.cpp#21286
		"<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=f<|message|>half":  {Text: "I look.<|start|>assistant<|channel|>commentary to=f<|message|>half"},
		"analysisThe user asks. So.assistantfinalHello.":                                                             {Text: "Hello.", Reasoning: "The user asks. So."},
		"analysis of the data":                         {Text: "analysis of the data"},
		"analysisReport.pdf is here":                   {Text: "analysisReport.pdf is here"},
		"analysisReport":                               {Text: "analysisReport"},
		"analysisResults are in the report. ":          {Text: "analysisResults are in the report. "},
		"<longcat_think>\nHm.</longcat_think>\nHello.": {Text: "Hello.", Reasoning: "Hm."},
		"<|open|>think<|sep|>Hm.<|close|>think<|sep|><|open|>response<|sep|>Hello.<|close|>response<|sep|>": {Text: "Hello.", Reasoning: "Hm."},
		"<|START_THINKING|>Hm.<|END_THINKING|><|START_RESPONSE|>Hello.<|END_RESPONSE|>":                     {Text: "Hello.", Reasoning: "Hm."},
		"<think>Hm.</think><|begin_of_box|>Hello.<|end_of_box|>":                                            {Text: "Hello.", Reasoning: "Hm."},
		"<mm:think>Hm.</mm:think>\n\nHello.":                                                                {Text: "Hello.", Reasoning: "Hm."},
		"<think>Hm.</think>\n<answer>\nHello.\n</answer>":                                                   {Text: "Hello.", Reasoning: "Hm."},
		"<think>Hm.</think>\n<response>\nHello.\n</response>\n":                                             {Text: "Hello.", Reasoning: "Hm."}, // vllm-project/vllm#45385
		"<think>Hm.</think>\n<response>\nHello.\n</response>\n\nSources: a":                                 {Text: "Hello.\n\nSources: a", Reasoning: "Hm."},
		"<response>Hello.</response>":                                                                       {Text: "<response>Hello.</response>"},
		"<|thought_start|>\nHm.\n<|thought_end|>\nHello.":                                                   {Text: "Hello.", Reasoning: "Hm."},
		"<|plamo:begin_think:plamo|>Hm.<|plamo:end_think:plamo|>Hello.":                                     {Text: "Hello.", Reasoning: "Hm."},
		"◁think▷Hm.◁/think▷Hello.":                                                                          {Text: "Hello.", Reasoning: "Hm."},
		"Models write <think> and </think>.":                                                                {Text: "Models write <think> and </think>."},
		"`<think>` is a tag.":                                                                               {Text: "`<think>` is a tag."},
		"Hm.</think>Hello.":                                                                                 {Text: "Hm.</think>Hello."},
		"<thin":                                                                                             {Text: "<thin"},
		" <thinker>":                                                                                        {Text: " <thinker>"},
		"  \n":                                                                                              {Text: "  \n"},
		"<think>Hm.</think>\n<thi":                                                                          {Text: "<thi", Reasoning: "Hm."},
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
		got, err := ask(t, serve(t, bodyOf(text(written)+delta(`{}`, "stop")+done), WithoutThinkBlocks(), WithLeakedCalls(llm.LeakedCallsOff)), helloS)
		require.NoError(t, err)
		require.Equal(t, written, got.Text)
		quoted, err := json.Marshal(written)
		require.NoError(t, err)
		got, err = ask(t, serve(t, jsonOf(`{"choices":[{"message":{"reasoning":"So.","content":`+string(quoted)+`},"finish_reason":"stop"}]}`), WithLeakedCalls(llm.LeakedCallsOff)), hello)
		require.NoError(t, err)
		require.Equal(t, result{Text: written, Reasoning: "So.", Finish: llm.FinishStop}, got, "where the endpoint has a field for it, all else are words")
	}
	got, err := ask(t, serve(t, bodyOf(text("<think>Hm.</think>\n<response>1</response>")+delta(`{}`, "stop")+done)),
		&llm.Request{Messages: []llm.Message{llm.UserText("Answer in <response> tags.")}, Stream: true})
	require.NoError(t, err)
	require.Equal(t, "<response>1</response>", got.Text, "the user has asked for this tag")
	got, err = ask(t, serve(t, bodyOf(delta(`{"reasoning_content":"Hm."}`, "")+text("</thi")+text("nk>\n\n")+text("Hello.")+delta(`{}`, "stop")+done)), helloS)
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

// TestThoughtsThatNoMarkOpens: where a template puts the mark that opens thoughts into the request, an answer has only the one
// that closes them. Thoughts that were handed out as words are an error, once: later answers are held until it is clear.
func TestThoughtsThatNoMarkOpens(t *testing.T) {
	inPieces := func(words string, size int, finish string) string {
		var body strings.Builder
		for _, piece := range split(words, size) {
			body.WriteString(text(piece))
		}
		return body.String() + delta(`{}`, finish) + done
	}
	for closed, mark := range map[string]string{"Hm.\n\nSo.\n</think>\n\nHello.": "<think>", "\nHm.\n\nSo.\n[/THINK]Hello.": "[THINK]"} {
		want := result{Text: "Hello.", Reasoning: "Hm.\n\nSo."}
		for size := range 12 {
			next := inPieces(closed, size, "stop")
			m := serve(t, func(w http.ResponseWriter, r *http.Request) { bodyOf(next)(w, r) })
			got, err := ask(t, m, helloS)
			if size > 0 {
				var e *llm.Error
				require.ErrorAs(t, err, &e, "%q in pieces of %d", closed, size)
				require.True(t, e.Retryable)
				got, err = ask(t, m, helloS)
			}
			require.NoError(t, err)
			require.Equal(t, want, result{Text: got.Text, Reasoning: got.Reasoning}, "%q in pieces of %d", closed, size)

			for _, later := range []struct {
				words, finish, text, thoughts string
			}{{"Hello.", "stop", "Hello.", ""}, {"Hm.\n\nSo", "length", "", "Hm.\n\nSo"}, {mark + "Hm." + closed[strings.LastIndex(closed, "So.")+4:], "stop", "Hello.", "Hm."}} {
				next = inPieces(later.words, size, later.finish)
				got, err = ask(t, m, helloS)
				require.NoError(t, err)
				require.Equal(t, result{Text: later.text, Reasoning: later.thoughts}, result{Text: got.Text, Reasoning: got.Reasoning}, "%q in pieces of %d", later.words, size)
			}
		}
	}
	// Models whose names speak of thoughts show none even the first time; what they say after answers without such thoughts comes
	// at once.
	for _, first := range []string{"Hm.\n</think>\n\nHello.", "Hello."} {
		next := inPieces(first, 1, "stop")
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { bodyOf(next)(w, r) }))
		t.Cleanup(s.Close)
		m, err := New("Qwen/QwQ-32B", WithBaseURL(s.URL), WithRetries(0))
		require.NoError(t, err)
		got, err := ask(t, m, helloS)
		require.NoError(t, err)
		require.Equal(t, "Hello.", got.Text)
		next = inPieces("He\n</think>", 1, "stop")
		_, err = ask(t, m, helloS)
		require.Equal(t, first == "Hello.", err != nil, "words were handed out before the mark came")
	}
	for size := range 12 { // thoughts that were none
		got, err := ask(t, serve(t, bodyOf(inPieces("</think>\n\nHello.", size, "stop"))), helloS)
		require.NoError(t, err)
		require.Equal(t, "Hello.", got.Text, "in pieces of %d", size)
	}
	about := &llm.Request{Messages: []llm.Message{llm.UserText("What is </think> for?")}, Stream: true}
	for words, req := range map[string]*llm.Request{
		"This:\n</think>\nends them.":          about,
		"This:\n<think>\nHm.\n</think>\nends.": helloS,
		"Hm.</think>Hello.":                    helloS,
		"a <\n</ b </thin":                     helloS,
	} {
		for size := range 12 {
			got, err := ask(t, serve(t, bodyOf(inPieces(words, size, "stop"))), req)
			require.NoError(t, err)
			require.Equal(t, result{Text: words}, result{Text: got.Text, Reasoning: got.Reasoning}, "in pieces of %d", size)
		}
	}
}

func thoughtDelta(s string) string { return delta(`{"reasoning_content":`+quoted(s)+`}`, "") }
