package openai

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
)

func streamOf(parts ...string) http.HandlerFunc {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(text(p))
	}
	return bodyOf(b.String() + delta(`{}`, "stop") + done)
}

// TestAnalysisInThoughts: the word analysis in reasoning that no mark opens does not end the search for </think>.
func TestAnalysisInThoughts(t *testing.T) {
	got, err := ask(t, serve(t, streamOf("Let me do an analysis of a[0].\n", "</think>\n\n", "The answer.")).Named("deepseek-r1"), helloS)
	require.NoError(t, err)
	require.Equal(t, "The answer.", got.Text)
}

// TestQuotesInGemmasCalls: calls of FunctionGemma and Gemma 4 may have an apostrophe, a smiley or a lone quote in a text.
func TestQuotesInGemmasCalls(t *testing.T) {
	for _, c := range []string{
		"<start_function_call>call:lookup{city:<escape>What's new<escape>}<end_function_call>",
		"<start_function_call>call:lookup{city:<escape>L'Aquila<escape>,any:<escape>x<escape>}<end_function_call>",
		"<start_function_call>call:lookup{city:<escape>thanks :)<escape>}<end_function_call>",
		"<|tool_call>call:lookup{city:<|\"|>5\" pipe<|\"|>}<tool_call|>",
	} {
		req := stock(llm.UserText("go"))
		req.Stream = true
		got, err := ask(t, serve(t, streamOf(c)), req)
		require.NoError(t, err)
		if len(got.Calls) != 1 {
			t.Errorf("%s: text %q, calls %v", c, got.Text, got.Calls)
		}
	}
}

// TestLimitThatIsUsedUp: only the limit of which nothing is left says how long to wait.
func TestLimitThatIsUsedUp(t *testing.T) {
	require.Equal(t, 5*time.Second, resetAfter(http.Header{"Ratelimit": {`"burst";r=0;t=5, "day";r=900;t=86400`}}, time.Now()))
}

// TestSummariesWithoutDeltas: all parts of a summary of reasoning are read where no deltas come.
func TestSummariesWithoutDeltas(t *testing.T) {
	ev := func(typ, rest string) string { return `data: {"type":"` + typ + `",` + rest + "}\n\n" }
	body := ev("response.reasoning_summary_text.done", `"output_index":0,"item_id":"r1","summary_index":0,"text":"One."`) +
		ev("response.reasoning_summary_text.done", `"output_index":0,"item_id":"r1","summary_index":1,"text":"Two."`) +
		ev("response.output_item.done", `"output_index":0,"item":{"type":"reasoning","id":"r1","summary":[{"type":"summary_text","text":"One."},{"type":"summary_text","text":"Two."}]}`) +
		ev("response.output_text.delta", `"output_index":1,"item_id":"m1","delta":"Hi."`) + ev("response.completed", `"response":{"status":"completed","output":[]}`)
	got, err := ask(t, serve(t, bodyOf(body), WithResponses()), helloS)
	require.NoError(t, err)
	require.Equal(t, "One.Two.", got.Reasoning)
}

// TestManyObjects: arguments with more objects than an answer has calls are one call, which is broken.
func TestManyObjects(t *testing.T) {
	for n, want := range map[int]int{2: 2, maxLeakedCalls: maxLeakedCalls, maxLeakedCalls + 1: 0, 100_000: 0} {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `{"query":"what is number %d"}`, i)
		}
		require.Len(t, objectsIn(b.String()), want)
	}
}

// TestCountsThatAreNotCached: rates and counts of tokens that no cache had are not those that it had.
func TestCountsThatAreNotCached(t *testing.T) {
	for _, u := range []string{`{"prompt_tokens":100,"completion_tokens":5,"non_cached_tokens":90,"cached_tokens":10}`, `{"prompt_tokens":100,"completion_tokens":5,"cached_tokens":10,"cache_hit_rate":90}`} {
		require.Equal(t, 10, readUsage([]byte(u)).CachedTokens, u)
	}
}

// TestWrappersThatSayOK: answers and usage are read from wrappers that report a success, in both protocols.
func TestWrappersThatSayOK(t *testing.T) {
	for _, around := range []string{`{"code":0,"msg":"ok","data":%s}`, `{"code":200,"message":"success","data":%s}`, `{"success":true,"errors":[],"messages":[],"result":%s}`, `{"code":0,"data":%s}`} {
		body := fmt.Sprintf(around, `{"object":"response","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"Hi."}]}]}`)
		got, err := ask(t, serve(t, jsonOf(body), WithResponses()), hello)
		if err != nil || got.Text != "Hi." {
			t.Errorf("%s: text %q, err %v", around, got.Text, err)
		}
	}
	for _, around := range []string{`{"code":200,"message":"success","data":%s}`, `{"code":"200","msg":"OK","request_id":"x","data":%s}`, `{"status":"ok","message":"done","data":%s}`} {
		body := fmt.Sprintf(around, `{"choices":[{"message":{"content":"Hi."},"finish_reason":"stop"}]}`)
		got, err := ask(t, serve(t, jsonOf(body)), hello)
		if err != nil || got.Text != "Hi." {
			t.Errorf("chat %s: text %q, err %v", around, got.Text, err)
		}
	}
	body := `data: {"code":0,"msg":"ok","data":{"choices":[{"delta":{"content":"Hi."},"finish_reason":null}]}}` + "\n\n" + `data: {"code":0,"msg":"ok","data":{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}}` + "\n\n" + delta(`{}`, "stop") + done
	got, err := ask(t, serve(t, bodyOf(body)), helloS)
	if err != nil || got.Text != "Hi." || got.Usage == nil {
		t.Errorf("usage apart: %+v %v", got, err)
	}
}
