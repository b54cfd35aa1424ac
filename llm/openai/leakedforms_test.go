package openai

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/race"
	"github.com/agentarbor/arbor/llm"
)

// stock has a tool for values of all types, a transfer, and an agent that is not on offer.
func stock(messages ...llm.Message) *llm.Request {
	req := asking(messages...)
	req.Tools = []llm.ToolSpec{
		{Name: "lookup", Parameters: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"},"count":{"type":"integer"},
			"all":{"type":["boolean","null"]},"tags":{"type":"array"},"any":{}}}`)},
		{Name: "ping"},
		{Name: "transfer_to_billing", Aliases: []string{"billing", "transfer_to_agent"}, Bare: []string{"transfer_to_billing"}},
	}
	req.Known = []llm.ToolSpec{{Aliases: []string{"archive", "transfer_to_archive", "restock"}, Bare: []string{"transfer_to_archive"}}}
	return req
}

const (
	ulmArgs = `{"city": "Ulm"}`
	ulmCall = `{"name": "lookup", "arguments": {"city": "Ulm"}}`
)

// ulmForms are the call of lookup for Ulm, as models of many families write it.
var ulmForms = map[string]string{
	"Hermes, Qwen 2.5":             "<tool_call>\n" + ulmCall + "\n</tool_call>",
	"Hermes in a fence":            "<tool_call>\n```json\n" + ulmCall + "\n```\n</tool_call>",
	"Mistral, a list":              "[TOOL_CALLS][" + ulmCall + "]",
	"Mistral, a list, spaced":      "[TOOL_CALLS] [" + ulmCall + "]</s>",
	"Mistral, a list with ids":     `[TOOL_CALLS] [{"name": "lookup", "arguments": {"city": "Ulm"}, "id": "VvvODy9mT"}]`,
	"Mistral, a name":              "[TOOL_CALLS]lookup" + ulmArgs,
	"Mistral, arguments":           "[TOOL_CALLS]lookup[ARGS]" + ulmArgs,
	"Mistral, an id":               "[TOOL_CALLS]lookup[CALL_ID]VvvODy9mT[ARGS]" + ulmArgs,
	"Llama 3, JSON":                `{"name": "lookup", "parameters": {"city": "Ulm"}}`,
	"Llama 3, a type":              `{"type": "function", "name": "lookup", "parameters": {"city": "Ulm"}}`,
	"Llama 3, a tag":               `<|python_tag|>{"name": "lookup", "parameters": {"city": "Ulm"}}<|eom_id|>`,
	"Llama 3, built in":            `<|python_tag|>lookup.call(city="Ulm")`,
	"Llama 3, a function":          "<function=lookup>" + ulmArgs + "</function>",
	"Llama 3, <|eom_id|>":          "<function=lookup>" + ulmArgs + "</function><|eom_id|>",
	"Llama 3.2, Python":            `[lookup(city="Ulm")]`,
	"Llama 4, Python":              "<|python_start|>[lookup(city='Ulm')]<|python_end|>",
	"Python alone":                 `lookup(city="Ulm")`,
	"Python, a dict":               "lookup({'city': 'Ulm'})",
	"Granite 3":                    "<|tool_call|>[" + ulmCall + "]",
	"Granite 3, a tag":             "<tool_call>[" + ulmCall + "]",
	"Granite 20B":                  "<function_call> " + ulmCall,
	"DeepSeek R1, V3":              "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>lookup\n```json\n" + ulmArgs + "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
	"DeepSeek V3.1":                "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>lookup<｜tool▁sep｜>" + ulmArgs + "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
	"DeepSeek V3.1, end cut":       "<｜tool▁call▁begin｜>lookup<｜tool▁sep｜>" + ulmArgs,
	"DeepSeek V3.2":                "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"lookup\">\n<｜DSML｜parameter name=\"city\" string=\"true\">Ulm</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
	"MiniMax, arrows":              "[TOOL_CALL]\n{tool => \"lookup\", args => {\n  --city \"Ulm\"\n}}\n[/TOOL_CALL]",
	"Qwen 3 Coder":                 "<tool_call>\n<function=lookup>\n<parameter=city>\nUlm\n</parameter>\n</function>\n</tool_call>",
	"Qwen 3 Coder, no tag":         "<function=lookup>\n<parameter=city>\nUlm\n</parameter>\n</function>\n</tool_call>",
	"Seed OSS":                     "<seed:tool_call>\n<function=lookup>\n<parameter=city>Ulm</parameter>\n</function>\n</seed:tool_call>",
	"Kimi K2":                      "<|tool_calls_section_begin|><|tool_call_begin|>functions.lookup:0<|tool_call_argument_begin|>" + ulmArgs + "<|tool_call_end|><|tool_calls_section_end|>",
	"Kimi K2, no section":          "<|tool_call_begin|>functions.lookup:0<|tool_call_argument_begin|>" + ulmArgs + "<|tool_call_end|>",
	"GLM 4.5":                      "<tool_call>lookup\n<arg_key>city</arg_key>\n<arg_value>Ulm</arg_value>\n</tool_call>",
	"GLM 4.7":                      "<tool_call>lookup<arg_key>city</arg_key><arg_value>Ulm</arg_value></tool_call>",
	"MiniMax M1":                   "<tool_calls>\n" + ulmCall + "\n</tool_calls>",
	"MiniMax M2":                   "<minimax:tool_call>\n<invoke name=\"lookup\">\n<parameter name=\"city\">Ulm</parameter>\n</invoke>\n</minimax:tool_call>",
	"MiniMax M3":                   m3("<tool_call>\n", `<invoke name="lookup">`, "<city>Ulm", "</city>", "</invoke>\n", "</tool_call>"),
	"MiniMax M3, no token":         `<tool_call><invoke name="lookup"><city>Ulm</city></invoke></tool_call>`,
	"Gemma, tags":                  "<function name=\"lookup\">\n<parameter name=\"city\">Ulm</parameter>\n</function>",
	"DeepSeek V3.2, double bars":   dsml("｜｜DSML｜｜", "tool_calls"),
	"DeepSeek V4, a space":         dsml("｜｜DSML｜｜ ", "calls"),                                                                                                    // CommandCodeAI/command-code#909
	"DeepSeek V4, another bar":     dsml("‖DSML‖", "tool_calls"),                                                                                                  // lsdefine/GenericAgent#804
	"DeepSeek V4, spaces":          dsml(" | DSML | ", "tool_use"),                                                                                                // AgentFlocks/flocks#687
	"Hunyuan 3":                    "<tool_calls>\n<tool_call>lookup<tool_sep>\n<arg_key>city</arg_key>\n<arg_value>Ulm</arg_value>\n</tool_call>\n</tool_calls>", // vllm-project/vllm#43872
	"Hunyuan 3, a suffix":          hy("opensource", "<tool_sep>\n"),
	"Hunyuan 4, a suffix":          hy("6124c78e", ""),
	"Step-Audio 2":                 "<tool_call>function\nlookup\n" + ulmArgs + "</tool_call>",
	"RWKV":                         "**Tool Call:**\n```json\n" + ulmCall + "\n```",
	"Kimi K3":                      k3("<|open|>tools<|sep|>", `<|open|>argument key="city" type="string"<|sep|>Ulm<|close|>argument<|sep|>`, "<|close|>tools<|sep|><|close|>message<|sep|>"), // can1357/oh-my-pi#8495
	"Kimi K3, no section":          k3("", `<|open|>argument key="city" type="string"<|sep|>Ulm<|close|>argument<|sep|>`, ""),
	"Kimi K3, JSON":                k3("<|open|>tools<|sep|>", `<|open|>json type="object"<|sep|>`+ulmArgs+"<|close|>json<|sep|>", "<|close|>tools<|sep|>"),
	"ReAct":                        "Action: lookup\nAction Input: " + ulmArgs,
	"Command R, older":             "Action: ```json\n[{\"tool_name\": \"lookup\", \"parameters\": {\"city\": \"Ulm\"}}]```",
	"harmony":                      "<|channel|>commentary to=functions.lookup <|constrain|>json<|message|>" + ulmArgs + "<|call|>",
	"harmony, stop left out":       "<|start|>assistant<|channel|>commentary to=functions.lookup<|message|>" + ulmArgs,
	"harmony, in the role":         "<|start|>assistant to=functions.lookup<|channel|>commentary json<|message|>" + ulmArgs,
	"harmony, analysis":            "<|channel|>analysis to=functions.lookup code<|message|>" + ulmArgs,
	"harmony without tokens":       "commentary to=functions.lookup json" + ulmArgs,
	"harmony, the role alone":      "assistant to=functions.lookup commentary json\n" + ulmArgs, // openai/codex#13114
	"Jamba, Hunyuan":               "<tool_calls>[" + ulmCall + "]</tool_calls>",
	"InternLM":                     `<|action_start|><|plugin|>{"name": "lookup", "parameters": {"city": "Ulm"}}<|action_end|>`,
	"Command R":                    `<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "lookup", "parameters": {"city": "Ulm"}}]<|END_ACTION|>`,
	"Nemotron":                     "<TOOLCALL>[" + ulmCall + "]</TOOLCALL>",
	"Phi 4":                        "functools[" + ulmCall + "]",
	"xLAM":                         "[" + ulmCall + "]",
	"LFM2":                         `<|tool_call_start|>[lookup(city="Ulm")]<|tool_call_end|>`,
	"Olmo 3":                       "<function_calls>\nlookup(city=\"Ulm\")\n</function_calls>",
	"Gemma":                        "```tool_code\nlookup(city=\"Ulm\")\n```",
	"Gemini":                       "print(default_api.lookup(city='Ulm'))",
	"Functionary":                  ">>>lookup\n" + ulmArgs,
	"LongCat":                      "<longcat_tool_call>" + ulmCall + "</longcat_tool_call>",
	"Step 3":                       "<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name=\"lookup\"><steptml:parameter name=\"city\">Ulm</steptml:parameter></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>",
	"Mistral without its token":    "lookup" + ulmArgs,
	"Kimi K2 without tokens":       "functions.lookup:0 " + ulmArgs,
	"FunctionGemma":                "<start_function_call>call:lookup{city:<escape>Ulm<escape>}<end_function_call>",
	"Gemma 4":                      `<|tool_call>call:lookup{city:<|"|>Ulm<|"|>}<tool_call|>`,
	"GigaChat":                     "<|message_sep|>\n\nfunction call<|role_sep|>\n" + ulmCall,
	"Hermes, a dict":               "<tool_call>\n{'name': 'lookup', 'arguments': {'city': 'Ulm'}}\n</tool_call>",
	"as on the wire":               `{"tool_calls": [{"id": "1", "type": "function", "function": {"name": "lookup", "arguments": "{\"city\": \"Ulm\"}"}}]}`,
	"as on the wire, a message":    `{"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "lookup", "arguments": "{\"city\": \"Ulm\"}"}}]}`,
	"Hermes, quotes and a name":    "<tool_call>\n" + `{"name": " functions.lookup", "arguments": {"city": "Ulm"}}` + "\n</tool_call><|im_end|>",
	"DeepSeek V3.2 through ASCII":  "<|DSML|function_calls>\n<|DSML|invoke name=\"lookup\">\n<|DSML|parameter name=\"city\" string=\"true\">Ulm</|DSML|parameter>\n</|DSML|invoke>\n</|DSML|function_calls>",
	"DeepSeek V3.2, JSON":          "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"lookup\">" + ulmArgs + "</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
	"Claude":                       "<" + tagSpaces[2] + "function_calls>\n<" + tagSpaces[2] + "invoke name=\"lookup\">\n<" + tagSpaces[2] + "parameter name=\"city\">Ulm</" + tagSpaces[2] + "parameter>\n</" + tagSpaces[2] + "invoke>\n</" + tagSpaces[2] + "function_calls>",
	"LM Studio":                    "[TOOL_REQUEST]" + ulmCall + "[END_TOOL_REQUEST]",
	"LM Studio, a mark":            "[TOOL_CALL]" + ulmCall + "[/TOOL_CALL]",
	"Mistral, stripped":            "lookup[ARGS]" + ulmArgs,
	"Hunyuan":                      "<tool_call>lookup\n```json\n" + ulmArgs + "\n```\n</tool_call>",
	"LongCat, pairs":               "<longcat_tool_call>lookup\n<longcat_arg_key>city</longcat_arg_key>\n<longcat_arg_value>Ulm</longcat_arg_value>\n</longcat_tool_call>",
	"Functionary 2":                "<|from|>assistant\n<|recipient|>lookup\n<|content|>" + ulmArgs,
	"Gemma, no fence":              "tool_code\nlookup(city=\"Ulm\")",
	"Gemma 4, quotes":              `<|tool_call>call:lookup{city: "Ulm"}<tool_call|>`,
	"Gemma 4, parentheses":         `<|tool_call>call:lookup(city: "Ulm")<tool_call|>`,    // NousResearch/hermes-agent#7449
	"Gemma 4, an object":           `<|tool_call>call:lookup({"city":"Ulm"})<tool_call|>`, // osaurus-ai/osaurus#1505
	"Gemini, a tag":                `<call:default_api:lookup{"city":"Ulm"}/>`,            // bayesimpact/bayes-platform#620
	"CWM":                          "<tool: function>\nlookup " + ulmArgs + "\n</tool>",
	"Gemma 4, stripped":            `call:lookup{city:"Ulm"}`,
	"Apertus":                      `<|tools_prefix|>[{"lookup": {"city": "Ulm"}}]<|tools_suffix|>`,
	"a name as attribute":          `<tool_call name="lookup">` + ulmArgs + `</tool_call>`,
	"tag of Claude":                "<tool_use>\n" + ulmCall + "\n</tool_use>",
	"tags":                         "<tool_use>\n<name>lookup</name>\n<arguments>" + ulmArgs + "</arguments>\n</tool_use>",
	"tool and args":                `{"tool": "lookup", "args": {"city": "Ulm"}}`,
	"function and parameters":      `{"function": "lookup", "parameters": {"city": "Ulm"}}`,
	"DeepSeek V3 through ASCII":    "<|tool▁calls▁begin|><|tool▁call▁begin|>function<|tool▁sep|>lookup\n```json\n" + ulmArgs + "\n```<|tool▁call▁end|><|tool▁calls▁end|>",
	"DeepSeek V3, its end":         "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>lookup<｜tool▁sep｜>" + ulmArgs + "<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>",
	"Granite 3, its end":           "<|tool_call|>" + ulmCall + "<|end_of_text|>",
	"GLM 4.5, its end":             "<tool_call>lookup\n<arg_key>city</arg_key>\n<arg_value>Ulm</arg_value>\n</tool_call><|observation|>",
	"Hermes, opened twice":         "<tool_call>\n<tool_call>\n" + ulmCall + "\n</tool_call>",
	"Hermes, opened to close":      "<tool_call>\n" + ulmCall + "\n<tool_call>",
	"Qwen 3 Coder, attributes":     "<tool_call>\n<function=lookup>\n<parameter name=\"city\">\nUlm\n</parameter>\n</function>\n</tool_call>",
	"Qwen 3 Coder, quotes":         "<tool_call>\n<function=\"lookup\">\n<parameter=\"city\">\nUlm\n</parameter>\n</function>\n</tool_call>",
	"attributes alone":             "<tool_call name=\"lookup\">\n<parameter name=\"city\">Ulm</parameter>\n</tool_call>",
	"Grok":                         "<xai:function_call name=\"lookup\">\n<parameter name=\"city\">Ulm</parameter>\n</xai:function_call>",
	"Grok, a call in it":           "<xai:function_call>\n<invoke name=\"lookup\"><parameter name=\"city\">Ulm</parameter></invoke>\n</xai:function_call>",
	"Solar":                        "<|tool_calls|><|tool_call:begin|>abc123<|tool_call:name|>lookup<|tool_call:args|>" + ulmArgs + "<|tool_call:end|>",
	"harmony, final":               "<|channel|>final to=functions.lookup <|constrain|>json<|message|>" + ulmArgs,
	"harmony, a type first":        "<|channel|>commentary <|constrain|>json to=functions.lookup<|message|>" + ulmArgs,
	"Llama 3, in function":         `{"type": "function", "function": {"name": "lookup", "parameters": {"city": "Ulm"}}}`,
	"a recipient":                  `{"recipient_name": "functions.lookup", "parameters": {"city": "Ulm"}}`,
	"FunctionGemma, its end":       "<start_function_call>call:lookup{city:<escape>Ulm<escape>}<end_function_call><start_function_response>",
	"ReAct, a result":              "Action: lookup\nAction Input: " + ulmArgs + "\nObservation: There are 7.",
	"Glaive":                       "<functioncall> " + `{"name": "lookup", "arguments": '{"city": "Ulm"}'}` + " <|endoftext|>",
	"Gemma, code in tags":          "<tool_code>\nprint(default_api.lookup(city='Ulm'))\n</tool_code>", // DenisovAV/flutter_gemma#228
	"MiniCPM 3":                    "<|tool_call_start|>\n```python\nlookup(city=\"Ulm\")\n```\n<|tool_call_end|>",
	"MiniCPM 5":                    "<function name=\"lookup\"><param name=\"city\">Ulm</param></function>",
	"Qwen 3 Coder, a tag left out": "<tool_call>\n<function=lookup>\n<parameter=city>\nUlm\n</parameter>\n</tool_call>",
	"PLaMo 3": "<|plamo:begin_tool_requests:plamo|><|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>lookup<|plamo:end_tool_name:plamo|>" +
		"<|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>" + ulmArgs + "<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|><|plamo:end_tool_requests:plamo|>",
	"K2 Horizon":               "<ifm|tool_calls>\n<ifm|tool_call>lookup\n<ifm|arg_key>city</ifm|arg_key>\n<ifm|arg_value>Ulm</ifm|arg_value>\n</ifm|tool_call>\n</ifm|tool_calls>",
	"K2 Horizon, JSON":         "<ifm|tool_calls>\n<ifm|tool_call>" + ulmCall + "</ifm|tool_call>\n</ifm|tool_calls>",
	"dots":                     "<dots_function_call>\n<invoke name=\"lookup\">\n<parameter name=\"city\">Ulm</parameter>\n</invoke>\n</dots_function_call>",
	"dots, JSON":               "<dots_function_call>" + ulmCall + "</dots_function_call>",
	"Inkling":                  `<|message_model|>lookup<|content_invoke_tool_json|>{"name":"lookup","args":{"city":"Ulm"}}<|end_message|>`,
	"Inkling, its name cut":    `<|content_invoke_tool_json|>{"name":"lookup","args":{"city":"Ulm"}}<|end_message|>`, // vllm-project/vllm#49876
	"Solar Open 2":             "<|tool_call:start|>lookup\n<|tool_arg:start|>city<|tool_arg:value|>Ulm<|tool_arg:end|>\n<|tool_call:end|>",
	"iQuest Coder":             "<iquestcoder_tool_call>lookup\n<arg_key>city</arg_key>\n<arg_value>Ulm</arg_value>\n</iquestcoder_tool_call>",
	"iQuest Q1":                "<iquest_tool_call>lookup<arg_key>city</arg_key><arg_value>Ulm</arg_value></iquest_tool_call>",
	"Pangu":                    "[unused11][" + ulmCall + "][unused12]",
	"MiniCPM 5, CDATA":         "<function name=\"lookup\"><param name=\"city\"><![CDATA[Ulm]]></param></function>", // ml-explore/mlx-lm#1317
	"GigaChat 3.5":             dsml("｜GCML｜", "tool_calls"),
	"MuseGlimmer":              dsml("atem:", "function_calls"),
	"marks in marks":           "<tool_calls>\n<tool_call>" + ulmCall + "</tool_call>\n</tool_calls>",
	"Hermes, a brace left out": "<tool_call>\n" + strings.TrimSuffix(ulmCall, "}") + "\n</tool_call>", // warpfront/hipfire#508
	"Hermes, a brace too many": "<tool_call>\n" + ulmCall + "}\n</tool_call>",
	"as on the wire, content":  `{"content": "", "tool_calls": [{"function": {"name": "lookup", "arguments": "{\"city\": \"Ulm\"}"}}]}`,
	"action and input":         "<tool_call>" + `{"action": "lookup", "action_input": {"city": "Ulm"}}` + "</tool_call>",
}

// k3 returns a call in the tokens of Kimi K3.
func k3(open, args, end string) string {
	return open + `<|open|>call tool="lookup" index="1"<|sep|>` + args + "<|close|>call<|sep|>" + end
}

// hy returns a call in the tags of Hunyuan, with the suffix of a checkpoint and what follows the name.
func hy(suffix, after string) string {
	tags := "<tool_calls>\n<tool_call>lookup" + after + "<arg_key>city</arg_key><arg_value>Ulm</arg_value></tool_call>\n</tool_calls>"
	return strings.ReplaceAll(tags, ">", ":"+suffix+">")
}

// dsml returns a call in the tags of DeepSeek, with a namespace and the name of the tag around the calls.
func dsml(space, calls string) string {
	return strings.NewReplacer("DSML", space, "calls", calls).Replace("<DSMLcalls>\n<DSMLinvoke name=\"lookup\">\n<DSMLparameter name=\"city\" string=\"true\">Ulm</DSMLparameter>\n</DSMLinvoke>\n</DSMLcalls>")
}

// m3 writes the token of MiniMax M3 before each tag.
func m3(tags ...string) string {
	const token = "]<]minimax[>["
	return token + strings.Join(tags, token)
}

// TestNestedTags: an object in tags of its own has no certain meaning, so that it is neither a call nor shown.
func TestNestedTags(t *testing.T) {
	for _, words := range []string{
		m3("<tool_call>", `<invoke name="lookup">`, "<city>", "<name>Ulm", "</name>", "</city>", "</invoke>", "</tool_call>"),
		`<tool_call><invoke name="lookup"><city><name>Ulm</name></city></invoke></tool_call>`,
		`<tool_call><invoke name="lookup"><parameter=city>Ulm</parameter></invoke></tool_call>`,
	} {
		for _, n := range []int{1, 0} {
			out, calls, l := readLeaked(stock(), words, n)
			require.Empty(t, calls, words)
			require.Empty(t, out, words)
			require.True(t, l.suppressed(), words)
		}
	}
}

// readLeaked reads an answer in deltas of n runes, and returns what is shown of it and its calls.
func readLeaked(req *llm.Request, words string, n int) (out string, calls []llm.ToolCall, l *leakFilter) {
	l = (&client{config: defaults()}).leaksOf(req)
	for _, d := range split(words, n) {
		out += l.filter(d)
	}
	rest, calls := l.end(nil)
	return out + rest, calls, l
}

// TestTracesOfInstructions: instructions that describe ReAct's lines, as those of many agents do, hide no call.
func TestTracesOfInstructions(t *testing.T) {
	req := stock()
	req.System = "Write Action:, Action Input: and Observation: lines."
	for _, before := range []string{"", "I look it up.\n"} {
		out, calls, _ := readLeaked(req, before+ulmForms["ReAct, a result"], 1)
		require.Equal(t, before, out)
		require.Len(t, calls, 1)
	}
}

// TestLeakedForms: each form is read as the call, alone and after text. A quotation of the call stays text, in whatever form
// it was written and is repeated. Half a call is neither a call nor shown.
func TestLeakedForms(t *testing.T) {
	for form, words := range ulmForms {
		t.Run(form, func(t *testing.T) {
			check := func(words, text string) {
				for _, n := range []int{1, 4, 0} {
					out, calls, _ := readLeaked(stock(), words, n)
					require.Equal(t, text, out)
					require.Len(t, calls, 1)
					require.Equal(t, "lookup", calls[0].Name)
					require.JSONEq(t, ulmArgs, calls[0].Arguments)
				}
			}
			require.Len(t, answersIn(t, []int{3, -1}, words, stock()).Calls, 1)
			check(words, "")
			check("\n"+words+"\n", "")
			if strings.IndexByte("<[]{`>A", words[0]) >= 0 {
				check("I look it up.\n"+words, "I look it up.\n")
				check("I look it up. "+words, "I look it up. ")
			}
			glm := strings.HasPrefix(words, "<tool_call>") && strings.Contains(words, "<arg_key>") // vllm-project/vllm#47024
			if strings.HasPrefix(words, "<tool_call>\n") {                                         // as in a template; inline it may be text about calls
				check("I look it up:"+words, "I look it up:")
				check("I look it up"+words, "I look it up")
			}
			if strings.HasPrefix(words, "<|") || strings.HasPrefix(words, "<｜") {
				check("I look it up"+words, "I look it up")
				check("我来查一下"+words, "我来查一下")
			}
			if glm || slices.ContainsFunc([]string{"<|", "]<", "<｜", "<‖", "[TOOL"}, func(token string) bool { return strings.HasPrefix(words, token) }) {
				check("I look it up."+words, "I look it up.")
			}
			if strings.HasPrefix(words, "<tool_call>") {
				line, _, _ := strings.Cut(strings.ReplaceAll(words, "\n", ""), "<|observation|>") // at the beginning of a line other forms count
				about := []string{"GLM writes it so:" + line, "See e.g." + line + " That is all.", "See e.g." + line[:strings.Index(line, "Ulm")], "See e.g.<tool_call>ping</tool_call>"}
				if !glm {
					about = append(about, "See e.g."+line)
				}
				for _, prose := range about {
					out, calls, l := readLeaked(stock(), prose, 1)
					require.Equal(t, prose, out)
					require.Empty(t, calls, prose)
					require.False(t, l.endsInCall())
				}
			}
			if strings.IndexByte("<[]{", words[0]) >= 0 {
				half := "I look it up.\n" + words[:strings.Index(words, "Ulm")]
				req := stock()
				req.Stream = true
				_, err := ask(t, serve(t, bodyOf(text(half)+delta(`{}`, "stop")+done)), req)
				var e *llm.Error
				require.ErrorAs(t, err, &e, "there is text before it: whoever asks again discards it")
				require.Equal(t, llm.CodeTruncated, e.Code)
				require.True(t, e.Retryable)
			}
			for _, prose := range []string{"The call " + words, "Text:\n```text\n" + words + "\n```\nThat is all.", "Write `" + words + "`"} {
				if (form == "GigaChat" || form == "RWKV" || form == "Command R, older" || form == "Hermes, a brace left out" || strings.HasPrefix(form, "Hermes, opened")) && prose == "The call "+words {
					continue // its JSON or its mark begins a line or follows a colon
				}
				out, calls, _ := readLeaked(stock(), prose, 1)
				require.Empty(t, calls)
				require.Equal(t, prose, out)
			}
			for given, quoted := range ulmForms {
				if given == "Python, a dict" && given != form {
					continue // agents are shown calls of others so
				}
				if race.Enabled && given != form && given != "LongCat" {
					continue // all pairs take the race detector, which looks for nothing here, most of a minute
				}
				out, calls, _ := readLeaked(stock(llm.UserText("Please say "+quoted)), words, 0)
				require.Empty(t, calls, given)
				require.Equal(t, words, out, given)
			}
			cut := words[:strings.Index(words, "Ulm")+1]
			out, calls, l := readLeaked(stock(), cut, 1)
			require.Empty(t, calls)
			require.Empty(t, out)
			require.True(t, l.suppressed())
		})
	}
}

// TestWordsAfterCalls: words after a call in marks remain, and the call counts. Where they may belong to a text about
// calls, none counts, and no half call does.
func TestWordsAfterCalls(t *testing.T) {
	const hermes, lfm2 = "<tool_call>\n" + ulmCall + "\n</tool_call>", `<|tool_call_start|>[lookup(city="Ulm")]<|tool_call_end|>`
	for words, want := range map[string]string{
		lfm2 + "Checking the stock.<|im_end|>":                             "Checking the stock.",
		hermes + "\nI have looked it up.":                                  "I have looked it up.",
		hermes + "\nDone.\n" + hermes:                                      "Done.\n",
		hermes + "\nDone.<|im_end|>\n<|im_start|>user\nThanks.\n" + hermes: "Done.",
		"I look." + lfm2 + "Checking.":                                     "I look.Checking.",
	} {
		for _, n := range []int{1, 5, 0} {
			out, calls, l := readLeaked(stock(), words, n)
			require.Equal(t, want, out, words)
			require.Len(t, calls, strings.Count(strings.Split(words, "user")[0], "lookup"))
			require.Equal(t, "lookup", calls[0].Name)
			require.False(t, l.suppressed() || l.endsInCall())
		}
	}
	for _, words := range []string{hermes + " is how a call looks.", "It is so:\n" + hermes + "\nThat is all.", "It is so:\n" + lfm2 + "\nThat is all.",
		"It is so:" + hermes + "\nThat is all.", "```\n" + hermes + "\n```\nThat is all.", hermes + "\nDone.\n" + hermes[:30]} {
		_, calls, _ := readLeaked(stock(), words, 1)
		require.Empty(t, calls, words)
	}
}

// TestLeakedBesideNative: a call that comes as text and natively is one call, and no text. Another one stays text.
func TestLeakedBesideNative(t *testing.T) {
	for name, args := range map[string]string{"the same": `{"city":"Ulm"}`, "another": `{"city":"Bonn"}`, "<｜DSML｜function_calls": `{}`, "<|DSML|function_calls>\n": `{}`, "<tool_call>\n": `{}`} {
		words, written := "I look it up.\n", "<tool_call>\n"+ulmCall+"\n</tool_call>"
		if name[0] == '<' {
			written = name // only what opens a call (stdapi-ai/stdapi.ai#182)
		}
		want := words
		if name == "another" {
			want += written
		}
		native := `{"index":0,"id":"1","function":{"name":"lookup","arguments":` + quoted(args) + `}}`
		for form, body := range map[string]string{
			"streamed":     text(words) + text(written) + toolDelta(native) + delta(`{}`, "tool_calls") + done,
			"in one event": delta(`{"content":`+quoted(words+written)+`,"tool_calls":[`+native+`]}`, "tool_calls") + done,
			"whole":        `{"choices":[{"message":{"content":` + quoted(words+written) + `,"tool_calls":[` + native + `]},"finish_reason":"tool_calls"}]}`,
		} {
			req := stock()
			req.Stream = form != "whole"
			got, err := ask(t, serve(t, jsonOf(body)), req)
			require.NoError(t, err)
			require.Equal(t, want, got.Text, "%s, %s", name, form)
			require.Equal(t, []llm.ToolCall{{ID: "1", Name: "lookup", Arguments: args}}, got.Calls)
		}
	}
}

// TestLeakedArguments: arguments become what the schema says, or stay what the model wrote; what may not be whole is no call.
func TestLeakedArguments(t *testing.T) {
	coder := func(pairs ...string) string {
		var b strings.Builder
		for i := 0; i < len(pairs); i += 2 {
			b.WriteString("<parameter=" + pairs[i] + ">\n" + pairs[i+1] + "\n</parameter>\n")
		}
		return "<tool_call>\n<function=lookup>\n" + b.String() + "</function>\n</tool_call>"
	}
	for words, args := range map[string]string{
		coder(): `{}`,
		coder("city", "7", "count", "7", "all", "True", "tags", `["a", {"b": 1}]`, "any", `{"x": 1}`, "more", "12"):     `{"city": "7", "count": 7, "all": true, "tags": ["a", {"b": 1}], "any": {"x": 1}, "more": "12"}`,
		coder("city", "  two\n\nlines \"quoted\" <b>\n", "count", "many", "all", "None", "any", "null"):                 `{"city": "  two\n\nlines \"quoted\" <b>\n", "count": "many", "all": null, "any": "null"}`,
		`<|tool_call>call:lookup{city:<|"|>a "b" {c}<|"|>,count:3,all:true,tags:[<|"|>x<|"|>,<|"|>y<|"|>]}<tool_call|>`: `{"city": "a \"b\" {c}", "count": 3, "all": true, "tags": ["x", "y"]}`,
		"<start_function_call>call:lookup{count:5,city:<escape>Ulm<escape>}":                                            `{"count": 5, "city": "Ulm"}`,
		coder("city", "a", "city", "b"):                                                    "half",
		"<tool_call>\n<function=lookup>\n<parameter=city>\nUlm\n</parameter>\n":            "half",
		"<tool_call>\n<function=lookup>\n<parameter=city>\nUlm\n</parameter>\n</function>": ulmArgs,
		"<tool_call>lookup\n<arg_key>city</arg_key>\n<arg_value>Ulm</arg_value>\n":         "half",
		"<tool_call>lookup\n":     "half",
		"[TOOL_CALLS]lookup{\"ci": "half",
		"[TOOL_CALLS][" + ulmCall: "half",
		`[lookup(city="Ulm")`:     "half",
		`[lookup(city="Ulm"`:      "half",
		`lookup(city="Ulm", count=7, all=True, tags=['a', "it's", {'b': -1.5e+3,}], any=None,)`: `{"city": "Ulm", "count": 7, "all": true, "tags": ["a", "it's", {"b": -1500}], "any": null}`,
		"[lookup(city = 'a \\'b\\' \"c\" \\n) ]')]":                                             `{"city": "a 'b' \"c\" \n) ]"}`,
		`lookup()`:                               `{}`,
		`lookup("Ulm")`:                          "words",
		`lookup(city="a", city="b")`:             "words",
		`lookup(city=ulm)`:                       "words",
		`lookup(city=f"x")`:                      "words",
		`lookup(city="a" + "b")`:                 "words",
		`lookup(**{"city": "Ulm"})`:              "words",
		`lookup(city="""Ulm""")`:                 "words",
		"```python\nlookup(city=\"Ulm\")\n```":   "words",
		"```python\n[lookup(city=\"Ulm\")]\n```": "words",
		"[lookup](https://example.com)":          "words",
		"[launch(city=\"Ulm\")]":                 "words",
		"<tool_call>launch</tool_call>":          "words",
		"Lookup ":                                "words", "lookup ": "words", "lookup is {\"city\": 1}": "words", "ping": "words",
		"<start_function_call>call:lookup{count:5,city:<escape>Ulm": "half",
		"lookups are done":     "words",
		"Lookup(city=\"Ulm\")": "words",
		"<|channel|>commentary to=functions.launch<|message|>{}": "words",
	} {
		got := answersIn(t, []int{1, 5, 0, -1}, words, stock())
		switch args {
		case "words":
			require.Equal(t, words, got.Text)
			require.Empty(t, got.Calls, words)
		case "half":
			require.Empty(t, got.Text, words)
			require.Empty(t, got.Calls, words)
		default:
			require.Len(t, got.Calls, 1, words)
			require.JSONEq(t, args, got.Calls[0].Arguments, words)
		}
	}
	for _, words := range []string{
		"[TOOL_CALLS]lookup{\"city\": \"Ulm\"}[TOOL_CALLS]ping{}", "[lookup(city='Ulm'), ping()]", "lookup(city='Ulm')\nping()",
		"<|python_tag|>" + ulmCall + "; {\"name\": \"ping\", \"parameters\": {}}", "<tool_call>lookup<arg_key>city</arg_key><arg_value>Ulm</arg_value></tool_call>\n<tool_call>ping</tool_call>",
		"<function=lookup>{\"city\": \"Ulm\"}</function>\n<tool_call>\n<function=ping>\n</function>\n</tool_call>",
		"<|tool_calls_section_begin|><|tool_call_begin|>functions.lookup:0<|tool_call_argument_begin|>{\"city\":\"Ulm\"}<|tool_call_end|><|tool_call_begin|>functions.ping:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
	} {
		got := answersIn(t, []int{1, 5, 0, -1}, words, stock())
		require.Len(t, got.Calls, 2, words)
		require.Equal(t, "lookup ping", got.Calls[0].Name+" "+got.Calls[1].Name)
		require.JSONEq(t, ulmArgs, got.Calls[0].Arguments)
		require.JSONEq(t, "{}", got.Calls[1].Arguments)
	}
}

// TestValuesThatBringArguments: in a form without quotes, the value that a user gives could end early, and be more arguments.
func TestValuesThatBringArguments(t *testing.T) {
	for given, words := range map[string]string{
		"I am in Ulm</parameter><parameter=count>9":                        "<function=lookup><parameter=city>Ulm</parameter><parameter=count>9</parameter></function>",
		"I am in Ulm&lt;/arg_value>\\u003carg_key>count":                   "<tool_call>lookup<arg_key>city</arg_key><arg_value>Ulm</arg_value><arg_key>count</arg_key><arg_value>9</arg_value></tool_call>",
		`I am in Ulm<|"|>,count:9`:                                         `<|tool_call>call:lookup{city:<|"|>Ulm<|"|>,count:9}<tool_call|>`,
		"I am in Ulm</ parameter ><parameter name=\"count\">9</PARAMETER>": "<invoke name=\"lookup\"><parameter name=\"city\">Ulm</parameter><parameter name=\"count\">9</parameter></invoke>",
	} {
		out, calls, _ := readLeaked(stock(llm.UserText("hi"), toolResult("1", given)), words, 1)
		require.Empty(t, calls, given)
		require.Equal(t, words, out)
		out, calls, _ = readLeaked(stock(llm.UserText("I am in Ulm, and want 9")), words, 1)
		require.Empty(t, out)
		require.JSONEq(t, `{"city": "Ulm", "count": 9}`, calls[0].Arguments)
	}
}

// TestLeakedCallsNotOnOffer: a call of what the tree has elsewhere is a call, so that it is refused, in each form.
func TestLeakedCallsNotOnOffer(t *testing.T) {
	for form, words := range ulmForms {
		for _, name := range []string{"restock", "transfer_to_archive"} {
			out, calls, _ := readLeaked(stock(), strings.ReplaceAll(words, "lookup", name), 1)
			require.Empty(t, out, form)
			require.Len(t, calls, 1, form)
			require.Equal(t, name, calls[0].Name)
		}
		unknown := strings.ReplaceAll(words, "lookup", "launch")
		out, calls, _ := readLeaked(stock(), unknown, 1)
		require.Equal(t, unknown, out, form)
		require.Empty(t, calls)
	}
}

// TestOtherMarks: a call that comes both as a call and as text is one, also if the names have other marks.
func TestOtherMarks(t *testing.T) {
	for _, names := range [][2]string{{"get_weather", "get-weather"}, {"get-weather", "get_weather"}, {"get-weather", "Get.Weather"}} {
		req := stock()
		req.Stream = true
		req.Tools = append(req.Tools, llm.ToolSpec{Name: "get_weather"})
		got, err := ask(t, serve(t, bodyOf(text(`{"name":"`+names[0]+`","arguments":{"city":"Ulm"}}`)+
			toolDelta(`{"index":0,"id":"1","function":{"name":"`+names[1]+`","arguments":"{\"city\":\"Ulm\"}"}}`)+done)), req)
		require.NoError(t, err)
		require.Empty(t, got.Text, names)
		require.Equal(t, []llm.ToolCall{{ID: "1", Name: "get_weather", Arguments: `{"city":"Ulm"}`}}, got.Calls)
	}
}

// TestNames: a name that a model has decorated is the one that is left, if that is offered; otherwise it stays as it is.
func TestNames(t *testing.T) {
	for written, name := range map[string]string{
		"lookup": "lookup", "lookup<|channel|>commentary": "lookup", "lookup<|channel|>json": "lookup", "lookup<|constrain|>json": "lookup",
		"<|channel|>lookup": "lookup", "<|start|>assistant<|channel|>commentary to=functions.lookup <|constrain|>json": "lookup",
		"assistant to=functions.lookup": "lookup", "to=lookup": "lookup", "lookup<|end": "lookup", "lookup<｜tool▁sep｜>": "lookup", "lookup</function>": "lookup",
		"functions.lookup": "lookup", "functions.lookup:0": "lookup", "functions:lookup": "lookup", "function/lookup": "lookup", "tools.lookup": "lookup",
		"default_api:lookup": "lookup", "default_api.lookup": "lookup", " lookup\n": "lookup", "look up": "lookup", `"lookup"`: "lookup", `'lookup"`: "lookup",
		"`lookup`": "lookup", "lookup()": "lookup", "lookup:": "lookup", "functions.transfer_to_billing": "transfer_to_billing", " billing": "billing",
		"launch": "launch", "functions.launch": "functions.launch", "launch<|channel|>commentary": "launch<|channel|>commentary",
		"other.lookup": "other.lookup", "lookup_all": "lookup_all", "Lookup": "lookup", "TRANSFER_to_agent": "transfer_to_agent", "Ping": "Ping", "PING": "PING", "lookup ping": "lookup ping", "lookup<|channel|>ping": "lookup<|channel|>ping",
		"functions.archive": "functions.archive", " ": " ", "functions.": "functions.",
		"transfer-to-billing": "transfer_to_billing", "functions.Transfer-To-Agent": "transfer_to_agent", // google-gemini/gemini-cli#25952, RooCodeInc/Roo-Code#10642
		"<|channel|>": "<|channel|>", ":0": ":0", "lookup.ping": "lookup.ping",
	} {
		quoted, err := json.Marshal(written)
		require.NoError(t, err)
		call := `{"index":0,"id":"1","type":"function","function":{"name":` + string(quoted) + `,"arguments":"{}"}}`
		for _, answer := range []http.HandlerFunc{
			bodyOf(toolDelta(call) + delta(`{}`, "tool_calls") + done),
			jsonOf(`{"choices":[{"message":{"tool_calls":[` + call + `]},"finish_reason":"tool_calls"}]}`),
		} {
			req := stock()
			req.Stream = true
			req.Tools = append(req.Tools, llm.ToolSpec{Name: "pinG"})
			got, err := ask(t, serve(t, answer), req)
			require.NoError(t, err)
			require.Equal(t, []llm.ToolCall{{ID: "1", Name: name, Arguments: "{}"}}, got.Calls, "%q", written)
		}
	}
}
