package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/race"
	"github.com/agentarbor/arbor/llm"
)

// offered is what a coordinator offers: a tool of its own, and the transfer tool.
var offered = []llm.ToolSpec{
	{Name: "refund", Parameters: json.RawMessage(`{"type":"object","properties":{"amount":{"type":"number"}}}`)},
	{Name: "transfer_to_agent", Parameters: json.RawMessage(`{"type":"object","properties":{"agent_name":{"type":"string","enum":["billing","tech"]}}}`),
		Aliases: []string{"billing", "tech"}},
}

func asking(messages ...llm.Message) *llm.Request {
	if len(messages) == 0 {
		messages = []llm.Message{llm.UserText("I was charged twice")}
	}
	return &llm.Request{Messages: messages, Tools: offered}
}

const (
	toBilling     = `{"name": "transfer_to_agent", "arguments": {"agent_name": "billing"}}`
	toBillingArgs = `{"agent_name": "billing"}`
)

// split cuts words into deltas of n runes; 0 is all in one.
func split(words string, n int) (deltas []string) {
	from, runes := 0, 0
	for i := range words {
		if n > 0 && runes > 0 && runes%n == 0 {
			deltas, from = append(deltas, words[from:i]), i
		}
		runes++
	}
	return append(deltas, words[from:])
}

// answers plays an answer in every way that it can come in, and returns what it
// became in each; all must be the same.
func answers(t *testing.T, words string, req *llm.Request, opts ...Option) result {
	t.Helper()
	return answersIn(t, []int{1, 2, 3, 7, 16, 0, -1}, words, req, opts...)
}

// answersIn plays an answer in deltas of so many runes; 0 is one delta, and -1 an
// answer that is not streamed.
func answersIn(t *testing.T, sizes []int, words string, req *llm.Request, opts ...Option) result {
	t.Helper()
	var all []result
	for _, n := range sizes {
		stream := *req
		stream.Stream = n >= 0
		var body string
		if n >= 0 {
			for _, d := range split(words, n) {
				body += text(d)
			}
			body += delta(`{}`, "stop") + `data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7}}` + "\n\n" + done
		} else {
			quoted, err := json.Marshal(words)
			require.NoError(t, err)
			body = `{"model":"m-1","choices":[{"message":{"content":` + string(quoted) + `},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":7}}`
		}
		h := bodyOf(body)
		if n < 0 {
			h = jsonOf(body)
		}
		got, err := ask(t, serve(t, h, opts...), &stream)
		require.NoError(t, err)
		for i := range got.Calls {
			require.NotEmpty(t, got.Calls[i].ID)
			got.Calls[i].ID = ""
		}
		require.Equal(t, &llm.Usage{InputTokens: 5, OutputTokens: 7}, got.Usage)
		require.Equal(t, "m-1", got.Model)
		if len(all) > 0 {
			require.Equal(t, all[0], got, "in deltas of %d runes", n)
		}
		all = append(all, got)
	}
	return all[0]
}

// Every form in which a call leaks, recorded from small models and made up after
// them, is read as that call.
func TestLeakedCalls(t *testing.T) {
	billing := llm.ToolCall{Name: "transfer_to_agent", Arguments: toBillingArgs}
	cases := map[string]struct {
		words string
		text  string
		calls []llm.ToolCall
	}{
		"bare":                   {toBilling, "", []llm.ToolCall{billing}},
		"white space around":     {"\n\n " + toBilling + " \n", "", []llm.ToolCall{billing}},
		"over several lines":     {"{\n  \"name\": \"transfer_to_agent\",\n  \"arguments\": {\n    \"agent_name\": \"billing\"\n  }\n}", "", []llm.ToolCall{{Name: "transfer_to_agent", Arguments: "{\n    \"agent_name\": \"billing\"\n  }"}}},
		"other order":            {`{"arguments": {"agent_name": "billing"}, "name": "transfer_to_agent"}`, "", []llm.ToolCall{billing}},
		"tool_call":              {"<tool_call>\n" + toBilling + "\n</tool_call>", "", []llm.ToolCall{billing}},
		"tool_call on one line":  {"<tool_call>" + toBilling + "</tool_call>", "", []llm.ToolCall{billing}},
		"tool_call not closed":   {"<tool_call>\n" + toBilling + "\n", "", []llm.ToolCall{billing}},
		"tools":                  {"<tools>\n" + toBilling + "\n</tools>", "", []llm.ToolCall{billing}},
		"doubled braces":         {`{{"name": "transfer_to_agent", "arguments": {"agent_name": "billing"}}}`, "", []llm.ToolCall{billing}},
		"one brace missing":      {`{{"name": "transfer_to_agent", "arguments": {"agent_name": "billing"}}`, "", []llm.ToolCall{billing}},
		"missing in a tag":       {"<tool_call>\n{{\"name\": \"transfer_to_agent\", \"arguments\": {\"agent_name\": \"billing\"}}\n</tool_call>", "", []llm.ToolCall{billing}},
		"wrapped in a tag":       {`<tool_call>{"tool_call": {"name": "transfer_to_agent", "arguments": {"agent_name": "billing"}}}</tool_call>`, "", []llm.ToolCall{billing}},
		"wrapped and doubled":    {`{"function_call": {{"name": "transfer_to_agent", "arguments": {"agent_name": "billing"}}}}`, "", []llm.ToolCall{billing}},
		"doubled in a tag":       {"<tool_call>\n{{\"name\": \"transfer_to_agent\", \"arguments\": {\"agent_name\": \"billing\"}}}\n</tool_call>", "", []llm.ToolCall{billing}},
		"all braces doubled":     {`{{"name": "transfer_to_agent", "arguments": {{"agent_name": "billing"}}}}`, "", []llm.ToolCall{billing}},
		"inner braces doubled":   {`{"name": "transfer_to_agent", "arguments": {{"agent_name": "billing"}}}`, "", []llm.ToolCall{billing}},
		"one brace too many":     {`{{"name": "billing", "arguments": {"invoice_id": "12345"}}}}`, "", []llm.ToolCall{{Name: "billing", Arguments: `{"invoice_id": "12345"}`}}},
		"as on the wire":         {"<tools>\n{\"type\": \"function\", \"function\": {\"name\": \"billing\", \"arguments\": {\"product\": \"thermostats\", \"quantity\": 40}}}\n</tools>", "", []llm.ToolCall{{Name: "billing", Arguments: `{"product": "thermostats", "quantity": 40}`}}},
		"as on the wire, a text": {`{"id": "c1", "type": "function", "function": {"name": "transfer_to_agent", "arguments": "{\"agent_name\": \"billing\"}"}}`, "", []llm.ToolCall{billing}},
		"fenced as json":         {"```json\n" + toBilling + "\n```", "", []llm.ToolCall{billing}},
		"fenced":                 {"```\n" + toBilling + "\n```\n", "", []llm.ToolCall{billing}},
		"fenced on one line":     {"```json " + toBilling + "```", "", []llm.ToolCall{billing}},
		"fence not closed":       {"```json\n" + toBilling, "", []llm.ToolCall{billing}},
		"tag in a fence":         {"```xml\n<tool_call>\n" + toBilling + "\n</tool_call>\n```", "", []llm.ToolCall{billing}},
		"behind a line":          {"I will hand you over.\n\n" + toBilling, "I will hand you over.\n\n", []llm.ToolCall{billing}},
		"behind a sentence":      {"Sure! " + toBilling, "Sure! ", []llm.ToolCall{billing}},
		"behind a colon, fenced": {"Here is the call: ```json\n" + toBilling + "\n```", "Here is the call: ", []llm.ToolCall{billing}},
		"behind Chinese":         {"好的。" + toBilling, "好的。", []llm.ToolCall{billing}},
		"behind an ellipsis":     {"One moment… " + toBilling, "One moment… ", []llm.ToolCall{billing}},
		"behind other code":      {"Run this:\n```go\nx := map[string]any{}\n```\n<tool_call>" + toBilling + "</tool_call>", "Run this:\n```go\nx := map[string]any{}\n```\n", []llm.ToolCall{billing}},
		"behind other JSON":      {"{\"name\": \"Ann\"}\n" + toBilling, "{\"name\": \"Ann\"}\n", []llm.ToolCall{billing}},
		"an agent as the tool":   {`{"name": "billing", "arguments": {}}`, "", []llm.ToolCall{{Name: "billing", Arguments: `{}`}}},
		"null arguments":         {`{"name": "billing", "arguments": null}`, "", []llm.ToolCall{{Name: "billing", Arguments: `{}`}}},
		"arguments as a string":  {`{"name": "transfer_to_agent", "arguments": "{\"agent_name\": \"billing\"}"}`, "", []llm.ToolCall{billing}},
		"parameters":             {`{"type": "function", "name": "refund", "parameters": {"amount": 19.5}}`, "", []llm.ToolCall{{Name: "refund", Arguments: `{"amount": 19.5}`}}},
		"a target unknown":       {`{"name": "transfer_to_agent", "arguments": {"agent_name": "nobody"}}`, "", []llm.ToolCall{{Name: "transfer_to_agent", Arguments: `{"agent_name": "nobody"}`}}},
		"odd strings":            {`{"name": "refund", "arguments": {"note": "}} \" \\ {{ ` + "```" + ` </tool_call>\u007d"}}`, "", []llm.ToolCall{{Name: "refund", Arguments: `{"note": "}} \" \\ {{ ` + "```" + ` </tool_call>\u007d"}`}}},
		"a dict":                 {`{'name': 'refund', 'arguments': {'ok': True,}}`, "", []llm.ToolCall{{Name: "refund", Arguments: `{"ok": true}`}}},
		"a list":                 {"[" + toBilling + ", {\"name\": \"refund\", \"arguments\": {}}]", "", []llm.ToolCall{billing, {Name: "refund", Arguments: "{}"}}},
		"a tag only closed":      {toBilling + "</tool_call>", "", []llm.ToolCall{billing}},
		"a name in a tag":        {"<tool_call>billing</tool_call>", "", []llm.ToolCall{{Name: "billing", Arguments: "{}"}}},
		"two in one tag":         {"<tools>\n{\"name\": \"refund\", \"arguments\": {\"amount\": 1}}\n" + toBilling + "\n</tools>", "", []llm.ToolCall{{Name: "refund", Arguments: `{"amount": 1}`}, billing}},
		"two tags":               {"<tool_call>{\"name\": \"refund\", \"arguments\": {\"amount\": 1}}</tool_call>\n<tool_call>" + toBilling + "</tool_call>", "", []llm.ToolCall{{Name: "refund", Arguments: `{"amount": 1}`}, billing}},
		"two lines":              {"{\"name\": \"refund\", \"arguments\": {\"amount\": 1}}\n" + toBilling, "", []llm.ToolCall{{Name: "refund", Arguments: `{"amount": 1}`}, billing}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := answers(t, c.words, asking())
			require.Equal(t, c.text, got.Text)
			require.Equal(t, c.calls, got.Calls)
			require.Equal(t, llm.FinishToolCalls, got.Finish)

			for why, off := range map[string]func(*llm.Request) []Option{
				"by option":      func(*llm.Request) []Option { return []Option{WithLeakedCalls(llm.LeakedCallsOff)} },
				"by the request": func(r *llm.Request) []Option { r.LeakedCalls = llm.LeakedCallsOff; return nil },
				"no tools":       func(r *llm.Request) []Option { r.Tools = nil; return nil },
				"no call wanted": func(r *llm.Request) []Option { r.ToolChoice = llm.ToolChoiceNone; return nil },
				"the answer's JSON": func(r *llm.Request) []Option {
					r.ResponseFormat = &llm.ResponseFormat{Schema: json.RawMessage(`{}`)}
					return nil
				},
			} {
				req := *asking()
				opts := off(&req)
				got := answersIn(t, []int{16, -1}, c.words, &req, opts...)
				require.Equal(t, result{Text: c.words, Usage: got.Usage, Model: "m-1", Finish: llm.FinishStop}, got, why)
			}
			req := *asking()
			req.LeakedCalls = llm.LeakedCallsAuto
			require.Len(t, answersIn(t, []int{16, -1}, c.words, &req, WithLeakedCalls(llm.LeakedCallsOff)).Calls, len(c.calls), "the request counts more")
		})
	}
}

// An answer of only the marks around calls is an empty one; beside words they are
// words.
func TestMarksAroundNothing(t *testing.T) {
	for _, words := range []string{"<tools></tools>", "<tool_call>\n</tool_call>\n", "```json\n```", "```\n<tool_call></tool_call>\n```"} {
		got := answers(t, words, asking())
		require.Empty(t, got.Text, words)
		require.Empty(t, got.Calls, words)
	}
	for _, words := range []string{"<tools></tools> Hello.", "Well.\n<tools></tools>", "<tools>", "<tools></tools>{"} {
		require.Equal(t, words, answers(t, words, asking()).Text)
	}
	for _, token := range []string{"<|im_end|>", "<end_of_turn>", "<eos>", "]<]minimax[>[</tool_call>", "<|tool_calls_section_end|>"} { // anomalyco/opencode#30684
		for _, words := range []string{"There are 7.", "There are 7", "这里有七个"} {
			require.Equal(t, words, answers(t, words+token, asking()).Text)
		}
		for _, words := range []string{"It is:" + token, "This one.\n" + token, "There are 7." + token + " or so", "Write `" + token} {
			require.Equal(t, words, answers(t, words, asking()).Text)
		}
	}
	require.Equal(t, toBillingArgs, answers(t, "<tools></tools>\n"+toBilling, asking()).Calls[0].Arguments)
}

// A long call is one up to a bound, beyond which it is words, and goes on as such.
func TestLongLeakedCalls(t *testing.T) {
	const head, tail = `{"name": "refund", "arguments": {"note": "`, `"}}`
	c := &client{config: defaults()}
	read := func(words string) (out string, calls []llm.ToolCall) {
		l := c.leaksOf(asking())
		var b strings.Builder
		for i := range len(words) {
			b.WriteString(l.filter(words[i : i+1]))
			require.LessOrEqual(t, len(l.held), maxLeak)
		}
		rest, calls := l.end(nil)
		return b.String() + rest, calls
	}
	longest := head + repeat("x", maxLeak-len(head+tail)) + tail
	out, calls := read(longest)
	require.Empty(t, out)
	require.Len(t, calls, 1)
	require.Len(t, calls[0].Arguments, maxLeak-len(`{"name": "refund", "arguments": `)-1)

	longer := head + "x" + longest[len(head):]
	out, calls = read(longer)
	require.Equal(t, longer, out)
	require.Empty(t, calls)

	out, calls = read(longer + "\n" + toBilling)
	require.Equal(t, longer+"\n", out)
	require.Len(t, calls, 1)
}

// TestLeakedNamesOfTransfers: however the targets are offered, a call by each name that
// an agent understands is one, in each form; other names are words.
func TestLeakedNamesOfTransfers(t *testing.T) {
	one := []llm.ToolSpec{{Name: "transfer_to_agent", Aliases: []string{"billing", "transfer_to_billing"}}}
	each := []llm.ToolSpec{{Name: "transfer_to_tech", Aliases: []string{"tech", "transfer_to_agent"}}, {Name: "transfer_to_billing", Aliases: []string{"billing", "transfer_to_agent"}}}
	for _, form := range [][]llm.ToolSpec{one, each} {
		req := asking()
		req.Tools = form
		for _, c := range []struct{ name, arguments string }{
			{"billing", `{}`}, {"billing", `{"reason": "x"}`}, {"transfer_to_billing", `{}`}, {"transfer_to_billing", `{"reason": "x"}`},
			{"transfer_to_agent", toBillingArgs}, {"transfer_to_agent", `{}`},
		} {
			call := fmt.Sprintf(`{"name": %q, "arguments": %s}`, c.name, c.arguments)
			for _, words := range []string{call, "<tool_call>\n" + call + "\n</tool_call>", "<tools>" + call + "</tools>", "```json\n" + call + "\n```", "One moment.\n" + call, "{" + call + "}",
				"{" + call + "}\n```", call + "\n```\n", "{" + call + "}}\n```"} {
				got := answersIn(t, []int{1, 5, 0, -1}, words, req)
				require.Len(t, got.Calls, 1, words)
				require.Equal(t, c.name, got.Calls[0].Name)
				require.JSONEq(t, c.arguments, got.Calls[0].Arguments)
			}
			quoted := *req
			quoted.Messages = []llm.Message{llm.UserText("print " + call)}
			require.Empty(t, answersIn(t, []int{1, -1}, call, &quoted).Calls, "a quotation")
			require.Empty(t, answersIn(t, []int{1, -1}, call, req, WithLeakedCalls(llm.LeakedCallsOff)).Calls)
		}
		for _, name := range []string{"nobody", "transfer_to_nobody", "transfer_to_", "Billing"} {
			require.Empty(t, answersIn(t, []int{1, -1}, fmt.Sprintf(`{"name": %q, "arguments": {}}`, name), req).Calls, name)
		}
	}
}

// What is no whole call, or is in the middle, comes out byte for byte.
// TestHalfACall: an answer that begins as a call, and is none, is not shown; it counts as empty, so that
// the model is asked again.
func TestHalfACall(t *testing.T) {
	for name, words := range map[string]string{
		"a tag cut off":      "<tool_call>\n" + toBilling + "\n</tool_ca",
		"another tag closed": "<tool_call>\n" + toBilling + "\n</tools>",
		"cut off":            `{"name": "transfer_to_agent", "arguments": {"agent_na`,
		"a description":      "<tools>\n" + `{"type": "function", "function": {"name": "refund", "description": "Refunds", "parameters": {"type": "object"`,
		"a name and words":   "<tool_call>billing it is</tool_call>",
		"and words":          "<tools>\n" + `{"type": "function", "function": {"name": "refund", "description": "Refunds"}}` + "\n</tools>\nHello.",
	} {
		t.Run(name, func(t *testing.T) {
			got := answers(t, words, asking())
			require.Empty(t, got.Text)
			require.Empty(t, got.Calls)
			asked := asking()
			asked.Messages = append(asked.Messages, llm.UserText("What is refund, and what "+toBilling+"?"))
			require.Equal(t, words, answers(t, words, asked).Text, "the user's message holds it")
		})
	}
}

// TestOnlyDescriptions: a description in marks is no call, and not shown.
func TestOnlyDescriptions(t *testing.T) {
	for _, words := range []string{
		"<tools>\n" + `{"type": "function", "function": {"name": "refund"}}` + "\n</tools>",
		"<tools>\n" + `{"type": "function", "function": {"name": "refund", "parameters": {}}}` + "\n</tools>",
		"<tools>\n" + `{"name": "refund", "parameters": {"type": "object", "properties": {}}}` + "\n</tools>",
	} {
		got := answers(t, words, asking())
		require.Empty(t, got.Text, words)
		require.Empty(t, got.Calls, words)
	}
	got := answers(t, `{"name": "refund", "parameters": {}}`, asking())
	require.Len(t, got.Calls, 1, "Llama calls a tool without arguments so")
}

// TestTurnsOfOthers: what a model makes up after its call, as the result or the user's next words, is dropped.
func TestTurnsOfOthers(t *testing.T) {
	other := `{"name": "refund", "arguments": {}}`
	for _, mark := range []string{"<|observation|>", "<|user|>", "<｜tool▁outputs▁begin｜>", "<|tool▁outputs▁begin|>", "\n<|im_end|>\n<|im_start|>user\n",
		"<end_of_turn>\n<start_of_turn>user\n", "\n<tool_response>\n", "<|eot_id|><|start_header_id|>ipython<|end_header_id|>", "<｜end▁of▁sentence｜><｜User｜>", "</s>[TOOL_RESULTS]"} {
		for _, call := range []string{toBilling, "<tool_call>" + toBilling + "</tool_call>", "```json\n" + toBilling + "\n```"} {
			for _, rest := range []string{"", other, "\n" + other, "\n{\"ok\": true}\nDone.\n" + other, "Thanks.<|assistant|>\n<tool_call>" + other + "</tool_call>"} {
				got := answersIn(t, []int{1, 5, 0, -1}, call+mark+rest, asking())
				require.Empty(t, got.Text, call+mark+rest)
				require.Len(t, got.Calls, 1, call+mark+rest)
				require.Equal(t, "transfer_to_agent", got.Calls[0].Name)
			}
		}
	}
	for words, text := range map[string]string{ // buriedsignals/spotlight#32
		"Sure.<|user|>": "Sure.", "Sure. <|observation|>": "Sure. ", "Sure<|endoftext|><|observation|>\nDone.\n": "Sure", "<|observation|>": "",
		"Sure.\n<｜tool▁outputs▁begin｜>\n": "Sure.\n", "Sure.<|im_end|>\n<|im_start|>user\nThanks.\n<|im_start|>assistant\n": "Sure.", "Sure\n<start_of_turn>user\n": "Sure\n",
	} {
		req := asking()
		require.Equal(t, text, answersIn(t, []int{3, 0, -1}, words+toBilling, req).Text)
		req.Tools = nil
		require.Equal(t, result{Text: text, Usage: &llm.Usage{InputTokens: 5, OutputTokens: 7}, Model: "m-1", Finish: llm.FinishStop}, answersIn(t, []int{3, 0, -1}, words+toBilling, req))
		prose := "So `a<|im_start|>user`, or:\n```\n" + words + "\n```"
		require.Equal(t, prose, answersIn(t, []int{0, -1}, prose, req).Text)
	}
	for _, prose := range []string{"- **<|user|>**: the user speaks.", "**[TOOL_RESULTS]** opens results.", "It begins with: <|im_start|>user and ends so.",
		"It has three:\n1. <|im_start|>system\n2. <|im_start|>user\n", "It is so:\n\n    <|im_start|>user\n    Hi.", `p = f"{system}\n<|user|>\n{q}"` + "\nprint(p)",
		"It is so:\n\n<|im_start|>user\nHi.<|im_end|>\n"} {
		require.Equal(t, prose, answersIn(t, []int{3, 0, -1}, prose, asking()).Text)
	}
	for _, known := range []*llm.Request{{System: "Prompts begin with <|im_start|>user."}, {Messages: []llm.Message{llm.UserText("Hi"), assistant("<|im_start|>user is one."), llm.UserText("Why?")}}} {
		require.Equal(t, "Sure.\n<|im_start|>user\nHi", answers(t, "Sure.\n<|im_start|>user\nHi", known).Text)
	}
	const value = `{"a":"Sure.<|user|>","b":1}`
	form := &llm.ResponseFormat{Name: "a", Schema: []byte(`{"type":"object"}`)}
	require.Equal(t, value, answers(t, value, &llm.Request{Messages: asking().Messages, Settings: llm.Settings{ResponseFormat: form}}).Text)
	const about = "It is so:\n<|im_start|>user\nHi."
	require.Equal(t, about, answers(t, about, asking(llm.UserText("How does a template use <|im_start|>user?"))).Text)
	got := answers(t, toBilling+"\n<tool_call>"+other+"</tool_call><|observation|>", asking())
	require.Len(t, got.Calls, 2)
	got = answers(t, `{"name": "refund", "arguments": {"note": "<|user|>"}}`+"\n"+toBilling, asking())
	require.Len(t, got.Calls, 2, "a mark in a value")
}

// TestBareNames: the name of a transfer alone is a call of it.
func TestBareNames(t *testing.T) {
	ask := func() *llm.Request {
		req := asking()
		req.Tools = slices.Clone(offered)
		req.Tools[0].Bare = []string{"transfer_to_agent", "transfer_to_billing"}
		req.Known = []llm.ToolSpec{{Aliases: []string{"archive", "transfer_to_archive"}, Bare: []string{"transfer_to_archive"}}}
		return req
	}
	for words, name := range map[string]string{
		"transfer_to_billing":             "transfer_to_billing",
		" transfer_to_archive.\n":         "transfer_to_archive",
		"`transfer_to_billing`":           "transfer_to_billing",
		`{"name": "transfer_to_archive"}`: "transfer_to_archive",
		`{"name": "refund"}`:              "",
		"transfer_to_bill":                "",
		"transfer_to_billing now":         "",
		"billing":                         "",
		"archive":                         "",
		"So: transfer_to_billing.":        "",
	} {
		got := answers(t, words, ask())
		if name == "" {
			require.Empty(t, got.Calls, words)
			require.Equal(t, words, got.Text)
			continue
		}
		require.Len(t, got.Calls, 1, words)
		require.Equal(t, name+" {}", got.Calls[0].Name+" "+got.Calls[0].Arguments)
		asked := ask()
		asked.Messages = append(asked.Messages, llm.UserText("Say "+name))
		require.Equal(t, words, answers(t, words, asked).Text)
	}
	got := answers(t, `{"name": "archive", "arguments": {}}`, ask())
	require.Len(t, got.Calls, 1, "a tool that is not on offer is called, so that the call can be refused")
}

// TestCallsOfToolsThatDoNotExist: a model that is known to make tools up has them refused.
func TestCallsOfToolsThatDoNotExist(t *testing.T) {
	for words, name := range map[string]string{
		`{{"name": "change_email", "arguments": {"email": "a@example.com"}}}}`: "change_email",
		`{"name": "Ann", "age": 7}`:                             "",
		"Call it so:\n" + `{"name": "launch", "arguments": {}}`: "",
	} {
		req := asking()
		require.Empty(t, answers(t, words, req).Calls)
		req.LeakedCalls = llm.LeakedCallsAny
		got := answers(t, words, req)
		if name == "" {
			require.Empty(t, got.Calls)
			require.Equal(t, words, got.Text)
			continue
		}
		require.Len(t, got.Calls, 1)
		require.Equal(t, name, got.Calls[0].Name)
		require.Empty(t, got.Text)
	}
}

func TestWordsThatAreNoCalls(t *testing.T) {
	for name, words := range map[string]string{
		"a name alone behind words":   "Write it so:\n" + `{"name": "transfer_to_billing"}`,
		"a trace":                     "Here is such a trace:\nAction: transfer_to_agent\nAction Input: {\"agent_name\": \"billing\"}\nObservation: ok\nThought: done.",
		"a brace behind all":          `{"name": "billing", "arguments": {}}}`,
		"two braces behind doubled":   `{{"name": "billing", "arguments": {}}}}}`,
		"a brace behind a space":      `{{"name": "billing", "arguments": {}}} }`,
		"a description of a function": `{"type": "function", "function": {"name": "billing", "parameters": {"type": "object"}}}`,
		"a description, no members":   `{"type": "function", "function": {"name": "billing", "parameters": {}}}`,
		"a description without type":  `{"function": {"name": "billing", "parameters": { }}}`,
		"a description, null":         `{"type": "function", "function": {"name": "billing", "parameters": null}}`,
		"a description, unwrapped":    `{"name": "billing", "parameters": {"type": "object", "properties": {}}}`,
		"a description of Responses":  `{"type": "function", "name": "refund", "parameters": {"properties": {"amount": {"type": "number"}}}}`,
		"a description in a list":     `[{"name": "billing", "parameters": {"type": "object"}}]`,
		"a result in tags":            "<tool_response>\n" + toBilling + "\n</tool_response>",
		"a function in a function":    `{"function": {"function": {"name": "billing", "arguments": {}}}}`,
		"a name beside a function":    `{"name": "billing", "function": {"name": "billing", "arguments": {}}}`,
		"a function that is a text":   `{"type": "function", "function": "billing"}`,
		"words":                       "I can do that.",
		"white space":                 " \n\t",
		"words behind":                toBilling + "\nI have handed you over.",
		"another brace":               toBilling + "}",
		"a tag with words":            "<tool_call>is how it begins</tool_call>",
		"nothing but a name":          `{"name": "transfer_to_agent"}`,
		"a tool not offered":          `{"name": "launch", "arguments": {}}`,
		"an agent not offered":        `{"name": "root", "arguments": {}}`,
		"a name in other case":        `{"name": "Billing", "arguments": {}}`,
		"arguments as a list":         `{"name": "refund", "arguments": [1]}`,
		"arguments as a word":         `{"name": "refund", "arguments": "all"}`,
		"both arguments":              `{"name": "refund", "arguments": {}, "parameters": {}}`,
		"more than a call":            `{"name": "refund", "arguments": {}, "comment": "x"}`,
		"a raw line in a text":        "{\"name\": \"refund\", \"arguments\": {\"note\": \"a\nb\"}}",
		"bad JSON":                    `{"name": "refund", "arguments": {"amount": 1 2}}`,
		"keys without quotes":         `{name: "refund", arguments: {}}`,
		"three braces":                `{{{"name": "refund", "arguments": {}}}}`,
		"a list in a list":            `[[` + toBilling + `]]`,
		"a list with more":            `[` + toBilling + `, 1]`,
		"in a line":                   "The call " + toBilling,
		"behind a dot":                "see call." + toBilling,
		"quoted in code":              "Call it so: `" + toBilling + "`",
		"one good, one not":           toBilling + "\n{\"name\": \"launch\", \"arguments\": {}}",
		"in other code":               "```go\nconst s = `\n" + toBilling + "\n",
		"JSON as an answer":           "```json\n{\"name\": \"Ann\", \"age\": 7}\n```",
		"code as an answer":           "```python\nprint({})\n```\nThat is all.",
		"a page as an answer":         "<html>\n<tool>\n</html>",
		"words in ticks":              "```K```",
		"two words in ticks":          "``` a b```",
		"ticks behind an old newline": "```\rK```",
		"a diff as an answer":         "{\n{\n<<<<<<<\n`x`\n``\n`````\n",
		"too deep":                    `{"name": "refund", "arguments": ` + repeat(`{"a":`, 64) + "1" + repeat("}", 65),
		"no UTF-8 in deltas":          "{\"name\": \"é\"}",
		"an opening at the end":       "See: <tool",
		"too many":                    repeat(`{"name": "refund", "arguments": {}}`, 33),
	} {
		t.Run(name, func(t *testing.T) {
			got := answers(t, words, asking())
			require.Equal(t, words, got.Text)
			require.Empty(t, got.Calls)
			require.Equal(t, llm.FinishStop, got.Finish)
		})
	}
}

// What a user, a tool or another agent wrote has no effect when a model repeats
// it, however it was written and however it is repeated.
func TestQuotedCallsStayWords(t *testing.T) {
	nested := func(s string) string {
		quoted, err := json.Marshal(s)
		require.NoError(t, err)
		return string(quoted)
	}
	const withAmount = `{"name": "refund", "arguments": {"amount": 19, "note": "Ünpaid <b>", "deep": {"list": [true, null, {"x": "y"}]}}}`
	for name, c := range map[string]struct{ given, words string }{
		"as it is":          {"please print " + toBilling, toBilling},
		"in a fence":        {"please print " + toBilling, "Of course:\n```json\n" + toBilling + "\n```"},
		"in a tag":          {"please print " + toBilling, "<tool_call>" + toBilling + "</tool_call>"},
		"doubled":           {"please print " + toBilling, `{{"name": "transfer_to_agent", "arguments": {"agent_name": "billing"}}}`},
		"without space":     {`print {"name":"transfer_to_agent","arguments":{"agent_name":"billing"}}`, toBilling},
		"with more space":   {"print {\n\t\"name\" :\r\n \"transfer_to_agent\", \"arguments\":{ \"agent_name\" : \"billing\" } }", toBilling},
		"other order":       {`print {"arguments":{"agent_name":"billing"},"name":"transfer_to_agent"}`, toBilling},
		"escaped":           {"print " + nested(toBilling), toBilling},
		"escaped twice":     {"print " + nested(nested(toBilling)), toBilling},
		"escaped lines":     {"print " + nested("{\n\t\"name\":\n\"transfer_to_agent\",\n\"arguments\":\n{\"agent_name\":\n\"billing\"}}"), toBilling},
		"unicode":           {`print {"n\u0061me":"transfer\u005fto_agent","arguments":{"agent_name":"b\u0069lling"}}`, toBilling},
		"unicode, twice":    {`print "{\\u0022n\\u0061me\\u0022:\\u0022transfer_to_agent\\u0022,\\u0022arguments\\u0022:{\\u0022agent_name\\u0022:\\u0022billing\\u0022}}"`, toBilling},
		"repeated unicode":  {"print " + toBilling, `{"name": "transfer_to_agent", "arguments": {"agent\u005fname": "b\u0069lling"}}`},
		"a page":            {`<p>{&quot;name&quot;: &quot;transfer_to_agent&quot;, &#34;arguments&#34;: {&quot;agent_name&quot;: &quot;billing&quot;}}</p>`, toBilling},
		"nested":            {`{"steps": [{"call": {"name": "transfer_to_agent", "arguments": {"agent_name": "billing"}}}]}`, toBilling},
		"more in it":        {`{"name": "transfer_to_agent", "id": 7, "arguments": {"reason": "x", "agent_name": "billing"}}`, toBilling},
		"single quotes":     {`{'name': 'transfer_to_agent', 'arguments': {'agent_name': 'billing'}}`, toBilling},
		"cut off":           {toBilling[:len(toBilling)-2], toBilling},
		"in two parts":      {`print "{\"name\": \"transfer_to_agent\", " + "\"arguments\": {\"agent_name\": \"billing\"}}"`, toBilling},
		"an agent's name":   {`{"name":"billing","arguments":{}}`, `{"name": "billing", "arguments": {}}`},
		"parameters":        {`{"name":"billing","parameters":{}}`, `{"name": "billing", "arguments": {}}`},
		"arguments as text": {`{"name":"transfer_to_agent","arguments":"{\"agent_name\":\"billing\"}"}`, toBilling},
		"many values":       {withAmount, `{"name": "refund", "arguments": {"deep": {"list": [true, null, {"x": "y"}]}, "note": "\u00dcnpaid \u003cb>", "amount": 19.00}}`},
		"one of two":        {toBilling, "{\"name\": \"refund\", \"arguments\": {}}\n" + toBilling},
	} {
		t.Run(name, func(t *testing.T) {
			for who, messages := range map[string][]llm.Message{
				"the user":             {llm.UserText(c.given)},
				"the user, in parts":   {llm.UserParts(llm.TextPart{Text: "see"}, llm.TextPart{Text: c.given})},
				"the user, long ago":   {llm.UserText(c.given), {Role: llm.RoleAssistant, Content: llm.Content{Text: "Yes?"}}, llm.UserText("print it")},
				"another agent":        {llm.UserText("hi"), llm.UserText("[tech] " + c.given)},
				"the result of a tool": {llm.UserText("hi"), toolResult("1", c.given)},
				"a result as JSON":     {llm.UserText("hi"), toolResult("1", nested(c.given))},
			} {
				got := answersIn(t, []int{1, -1}, c.words, asking(messages...))
				require.Equal(t, c.words, got.Text, who)
				require.Empty(t, got.Calls, who)
				require.Equal(t, llm.FinishStop, got.Finish, who)
			}
		})
	}
}

// TestQuotedCallsThatEnd: what a model writes after a quotation does not make it a call.
func TestQuotedCallsThatEnd(t *testing.T) {
	for _, end := range []string{"", "</s>", "<|observation|>", "<|user|>Thanks."} {
		words := "lookup({'city': 'Ulm'})" + end
		out, calls, _ := readLeaked(stock(llm.UserText("Please say lookup({'city': 'Ulm'}).")), words, 1)
		require.Empty(t, calls, words)
		require.Equal(t, words, out)
	}
}

// What merely looks alike is no quotation: people name agents and tools, and
// tools speak of both.
func TestCallsThatNobodyQuotes(t *testing.T) {
	for _, given := range []string{
		"transfer_to_agent billing", "my name: billing", `{"name": "billing", "id": 3}`,
		`{"name": "transfer_to_agent", "arguments": {"agent_name": "tech"}}`, "[tech] called transfer_to_agent({\"agent_name\": \"billing\"}): ok",
	} {
		for _, words := range []string{toBilling, `{"name": "billing", "arguments": {}}`} {
			require.Len(t, answers(t, words, asking(llm.UserText(given), toolResult("1", given))).Calls, 1, "%s after %s", words, given)
		}
	}
	own := llm.Message{Role: llm.RoleAssistant, Content: llm.Content{Text: toBilling}}
	req := asking(llm.UserText("hi"), own, llm.UserText("well?"))
	req.System = "Call a tool like this: " + toBilling
	require.Len(t, answers(t, toBilling, req).Calls, 1, "what the model and its author wrote is no quotation")
}

// Words beside a native call are words.
func TestLeakedAndNativeCalls(t *testing.T) {
	native := toolDelta(`{"index":0,"id":"1","function":{"name":"refund","arguments":"{}"}}`)
	req := *asking()
	req.Stream = true
	for name, body := range map[string]string{
		"behind":  text(toBilling) + native,
		"before":  native + text(toBilling),
		"between": text(toBilling[:20]) + native + text(toBilling[20:]),
		"beside":  delta(`{"content":`+fmt.Sprintf("%q", toBilling)+`,"tool_calls":[{"index":0,"id":"1","function":{"name":"refund","arguments":"{}"}}]}`, ""),
	} {
		got, err := ask(t, serve(t, bodyOf(body+delta(`{}`, "tool_calls")+done)), &req)
		require.NoError(t, err, name)
		require.Equal(t, toBilling, got.Text, name)
		require.Equal(t, []llm.ToolCall{{ID: "1", Name: "refund", Arguments: "{}"}}, got.Calls, name)
	}
}

// A leaked call of an answer that is not whole counts as little as a native one.
func TestLeakedCallsOfBrokenAnswers(t *testing.T) {
	req := *asking()
	req.Stream = true
	chunks := 0
	var e *llm.Error
	for chunk, err := range serve(t, cutAfter(text(toBilling[:9])+text(toBilling[9:]))).Generate(t.Context(), &req) {
		if err != nil {
			require.ErrorAs(t, err, &e)
			break
		}
		require.Equal(t, llm.Chunk{Model: "m-1"}, chunk, "what is likely a call is not shown")
		chunks++
	}
	require.Equal(t, llm.CodeTruncated, e.Code)
	require.Equal(t, 1, chunks, "the answer had begun: who asks again has something to discard")

	for reason, want := range map[string]llm.FinishReason{"length": llm.FinishLength, "content_filter": llm.FinishContentFilter, "": llm.FinishToolCalls} {
		got, err := ask(t, serve(t, bodyOf(text(toBilling)+delta(`{}`, reason)+done)), &req)
		require.NoError(t, err)
		require.Equal(t, want != llm.FinishContentFilter, len(got.Calls) == 1, "a part of it may have been withheld")
		require.Equal(t, want, got.Finish)
	}
}

// TestCallsInReasoning: what a model only thinks of never runs, also if no answer follows.
func TestCallsInReasoning(t *testing.T) {
	call := "<tool_call>\n" + toBilling + "\n</tool_call>"
	for _, thought := range []string{"I must not do this:\n" + call, call + "\n" + call, strings.TrimSuffix(call, "\n</tool_call>"), call} {
		for _, words := range []string{"", " \n", "Hello.", `<tool_call>{"name":"transfer_to_agent","arguments":{"agent_name":"billing" 0}}</tool_call>`} {
			for _, body := range []string{delta(`{"reasoning_content":`+quoted(thought)+`}`, "") + text(words), text("<think>" + thought + "</think>" + words), text("<think>" + thought)} {
				got, err := ask(t, serve(t, bodyOf(body+delta(`{}`, "stop")+done)), asking())
				require.NoError(t, err)
				require.Empty(t, got.Calls, thought)
			}
		}
	}
}

// Reasoning is not looked at, and is not held back.
func TestReasoningBesideALeakedCall(t *testing.T) {
	req := *asking()
	req.Stream = true
	body := delta(`{"reasoning_content":"{\"name\": "}`, "") + text(toBilling[:9]) + delta(`{"reasoning_content":"hm"}`, "") + text(toBilling[9:])
	got, err := ask(t, serve(t, bodyOf(body+delta(`{}`, "stop")+done)), &req)
	require.NoError(t, err)
	require.Equal(t, `{"name": hm`, got.Reasoning)
	require.Empty(t, got.Text)
	require.Len(t, got.Calls, 1)
}

// Ordinary words are handed out delta by delta, and what is held back goes on as
// soon as it is clear that it is no call.
func TestWordsAreNotDelayed(t *testing.T) {
	for _, c := range []struct{ deltas, want []string }{
		{[]string{"Hel", "lo. ", "I am\n", "\n- one: ", "1 < 2, a{b}, ", "`x` and ```y```"}, []string{"Hel", "lo. ", "I am\n", "\n- one: ", "1 < 2, a{b}, ", "`x` and ```y```"}},
		{[]string{"\n", "Hi"}, []string{"", "\nHi"}},
		{[]string{"```", "go", "\n", "x := T{", "}\n{\n", "```", "\nok"}, []string{"", "```go\nx := T{", "}\n{\n", "```", "\nok"}},
		{[]string{"```json\n{\"na", "me\": \"An", "n\", ", "\"a\": 1}"}, []string{"", "```json\n{\"name\": \"Ann\", ", "\"a\": 1}"}},
		{[]string{"{\"a", "\": 1}"}, []string{"", "{\"a\": 1}"}},
		{[]string{"So: <", "b>"}, []string{"So: ", "<b>"}},
		{[]string{toBilling, " ", "No."}, []string{"", toBilling + " No."}},
	} {
		var body string
		for _, d := range c.deltas {
			body += text(d)
		}
		req := *asking()
		req.Stream = true
		var got []string
		for chunk, err := range serve(t, bodyOf(body+delta(`{}`, "stop")+done)).Generate(t.Context(), &req) {
			require.NoError(t, err)
			if chunk.Finish == "" {
				got = append(got, chunk.Text)
			}
		}
		require.Equal(t, c.want, got)
	}
}

// Ordinary words are looked at without being copied.
func TestWordsCostNoMemory(t *testing.T) {
	l := (&client{config: defaults()}).leaksOf(asking())
	const words = "Some words, a {brace}, and 1 < 2.\nMore of them, `x`\n"
	changed := 0
	require.Zero(t, race.Allocations(t, 100, func() {
		if l.filter(words) != words {
			changed++
		}
	}))
	require.Zero(t, changed)
}

// A request is the same, byte for byte, whether leaked calls are read or not.
func TestRequestsDoNotTellOfLeakedCalls(t *testing.T) {
	var bodies []string
	record := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
		jsonOf(`{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}`)(w, r)
	}
	for _, mode := range []llm.LeakedCalls{"", llm.LeakedCallsAuto, llm.LeakedCallsOff} {
		for _, option := range []llm.LeakedCalls{llm.LeakedCallsAuto, llm.LeakedCallsOff} {
			req := *asking(llm.UserText("hi"), llm.Message{Role: llm.RoleAssistant, Content: llm.Content{Text: toBilling}})
			req.LeakedCalls = mode
			_, err := ask(t, serve(t, record, WithLeakedCalls(option)), &req)
			require.NoError(t, err)
		}
	}
	require.Len(t, bodies, 6)
	for _, b := range bodies {
		require.Equal(t, bodies[0], b)
		require.NotContains(t, strings.ToLower(b), "leak")
	}
	_, err := New("m", WithLeakedCalls("maybe"))
	require.ErrorContains(t, err, `leaked calls can be auto, any or off, not "maybe"`)
}

// marksOnly reports whether a text has nothing but marks around calls.
func marksOnly(words string) bool {
	words = regexp.MustCompile("```[A-Za-z0-9_-]*").ReplaceAllString(words, "")
	for _, f := range forms() {
		if f.parts[0].kind == "mark" && len(f.parts[0].text) > 1 {
			words = strings.ReplaceAll(words, f.parts[0].text, "")
		}
	}
	return strings.TrimSpace(words) == ""
}

// FuzzLeakedCalls holds that nothing is lost or doubled, whatever a model writes
// and however it is cut: either all words come out, byte for byte, or words and
// the calls behind them, or nothing of the beginning of a call; and that the cuts
// make no difference.
func FuzzLeakedCalls(f *testing.F) {
	names := []string{"refund", "transfer_to_agent", "billing", "tech", "lookup", "ping", "archive"}
	for _, words := range []string{
		toBilling, "Sure! <tool_call>\n" + toBilling + "\n</tool_call>", "```json\n{{\"name\":\"billing\",\"arguments\":{{}}}}\n```",
		"<tools>\n" + toBilling + toBilling, "{\"name\":\"refund\",\"parameters\":\"{\\\"a\\\":[{}]}\"}", "```go\n{\n```\n" + toBilling + " x", "\xff{\"name\":\"\xff\"}",
	} {
		f.Add(words, "print "+toBilling, uint8(1))
		f.Add(words, "", uint8(5))
	}
	for _, words := range ulmForms {
		f.Add("I look it up. "+words, "Ulm?", uint8(3))
		f.Add(words+"\n"+words, "print "+words, uint8(1))
		f.Add(words[:strings.Index(words, "Ulm")], "", uint8(7))
	}
	c := &client{config: defaults()}
	f.Fuzz(func(t *testing.T, words, given string, size uint8) {
		req := asking(llm.UserText(given))
		req.Tools, req.Known = append(stock().Tools[:2:2], offered...), []llm.ToolSpec{{Aliases: []string{"archive"}}}
		type outcome struct {
			out           string
			calls         []llm.ToolCall
			spoiled, half bool
		}
		read := func(n int) (o outcome) {
			l := c.leaksOf(req)
			for _, d := range split(words, n) {
				s := l.filter(d)
				require.True(t, strings.HasPrefix(words, o.out+s), "words come out in order")
				o.out += s
				require.LessOrEqual(t, len(l.held), maxLeak)
				require.LessOrEqual(t, len(l.trials), 2*len(forms()), "a byte has few meanings")
			}
			rest, calls := l.end(nil)
			for i := range calls {
				calls[i].ID = ""
			}
			return outcome{o.out + rest, calls, l.suppressed(), l.endsInCall()}
		}
		got := read(0)
		require.Equal(t, got, read(int(size)))
		if cut := turnsOfOthers(); slices.ContainsFunc(cut, func(mark string) bool { return strings.Contains(words, mark) }) && len(got.calls) == 0 {
			require.True(t, strings.HasPrefix(words, got.out))
			return
		}
		left, ok := strings.CutPrefix(words, got.out)
		require.True(t, ok || len(got.calls) > 0 && strings.HasSuffix(words, got.out), "words stand before calls, or after them")
		if got.spoiled || got.half {
			require.Empty(t, got.calls)
			require.Equal(t, got.half, got.out != "" && strings.TrimSpace(got.out) != "")
			require.True(t, slices.ContainsFunc(names, func(name string) bool {
				return strings.Contains(strings.Join(strings.Fields(left), ""), name) || strings.Contains(left, `\u`)
			}))
			return
		}
		if len(got.calls) == 0 {
			if got.out != "" || !marksOnly(words) {
				require.Equal(t, words, got.out)
			}
			return
		}
		for _, call := range got.calls {
			require.Contains(t, names, call.Name)
			require.True(t, json.Valid([]byte(call.Arguments)))
			require.Equal(t, byte('{'), call.Arguments[0])
		}
		l := c.leaksOf(req)
		half := len(words) / 2
		shown := l.filter(words[:half])
		held := string(l.held)
		shown += l.nativeCall()
		require.True(t, shown+l.filter(words[half:]) == words || isToken(strings.TrimSpace(held)) || marksOnly(held), "beside a native call")
		rest, calls := l.end(nil)
		require.Empty(t, rest)
		require.Empty(t, calls)
		l = c.leaksOf(req)
		rest = l.filter(words) + l.nativeCall()
		more, calls := l.end(nil)
		require.Empty(t, calls)
		if !l.suppressed() {
			require.Equal(t, words, rest+more, "in front of another native call")
		}
	})
}

// BenchmarkLeakedCalls compares a streamed answer of 1000 deltas that may hold a
// leaked call with one that is not looked at.
func BenchmarkLeakedCalls(b *testing.B) {
	for _, mode := range []llm.LeakedCalls{llm.LeakedCallsOff, llm.LeakedCallsAuto} {
		b.Run(string(mode), func(b *testing.B) {
			m := canned(b, 1000)
			req := *asking()
			req.Stream, req.LeakedCalls = true, mode
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range m.Generate(context.Background(), &req) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
