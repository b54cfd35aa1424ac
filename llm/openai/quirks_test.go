package openai

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/llm"
)

// wireObject is a request as an endpoint reads it.
type wireObject = map[string]any

func messagesOf(req wireObject) (list []wireObject) {
	all, _ := req["messages"].([]any)
	for _, m := range all {
		list = append(list, m.(wireObject))
	}
	return list
}

func callsOf(m wireObject) (list []wireObject) {
	all, _ := m["tool_calls"].([]any)
	for _, c := range all {
		list = append(list, c.(wireObject))
	}
	return list
}

// some reports whether a message of the request is so.
func some(req wireObject, is func(m wireObject) bool) bool {
	for _, m := range messagesOf(req) {
		if is(m) {
			return true
		}
	}
	return false
}

func has(names ...string) func(wireObject) bool {
	return func(req wireObject) bool {
		for _, name := range names {
			if _, there := req[name]; there {
				return true
			}
		}
		return false
	}
}

func follows(first, then string) func(wireObject) bool {
	return func(req wireObject) bool {
		before := ""
		return some(req, func(m wireObject) bool {
			is := before == first && m["role"] == then
			before, _ = m["role"].(string)
			return is
		})
	}
}

func emptyText(m wireObject) bool {
	text, ok := m["content"].(string)
	return ok && strings.TrimSpace(text) == ""
}

// refusing is, for each quirk, what an endpoint refuses, and how endpoints were reported to say so.
var refusalsOf = map[string]struct {
	refuses func(req wireObject) bool
	says    []string
}{
	"echo-empty": {func(req wireObject) bool {
		return some(req, func(m wireObject) bool { _, there := m["reasoning_content"]; return m["role"] == "assistant" && !there })
	}, []string{"thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
		"The `reasoning_content` in the thinking mode must be passed back to the API.",
		"preserved thinking (thinking.keep=all) requires reasoning_content on every assistant message, but assistant message at index 6 is missing reasoning_content"}},
	"echo-filled": {func(req wireObject) bool {
		return some(req, func(m wireObject) bool {
			return m["role"] == "assistant" && (m["reasoning_content"] == nil || m["reasoning_content"] == "")
		})
	}, []string{"thinking is enabled but reasoning_content is missing in assistant tool call message at index 2"}},
	"no-echo": {func(req wireObject) bool {
		return some(req, has("reasoning_content", "reasoning", "reasoning_details"))
	},
		[]string{"'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2' : property 'reasoning_content' is unsupported)]",
			`[{"type":"extra_forbidden","loc":["body","messages",2,"assistant","reasoning_content"],"msg":"Extra inputs are not permitted"}]`}},
	"signatures": {func(req wireObject) bool {
		return some(req, func(m wireObject) bool {
			for _, c := range callsOf(m) {
				if c["extra_content"] == nil {
					return true
				}
			}
			return false
		})
	}, []string{"Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly."}},
	"no-signatures": {func(req wireObject) bool {
		return some(req, func(m wireObject) bool {
			for _, c := range callsOf(m) {
				if has("extra_content", "provider_specific_fields")(c) {
					return true
				}
			}
			return false
		})
	}, []string{"messages.2.tool_calls.0.extra_content: Extra inputs are not permitted"}},
	"max-completion-tokens": {has("max_tokens"), []string{"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."}},
	"max-tokens":            {has("max_completion_tokens"), []string{"Validation error at #/max_completion_tokens: Extra inputs are not permitted"}},
	"alternate": {func(req wireObject) bool {
		return follows("user", "user")(req) || follows("assistant", "assistant")(req) || follows("tool", "user")(req) || follows("system", "assistant")(req)
	}, []string{"Please ensure that function call turn comes immediately after a user turn or after a function response turn.",
		"deepseek-reasoner does not support successive user or assistant messages (messages[1] and messages[2] in your input). You should interleave the user/assistant messages in the message sequence.",
		"A conversation must start with a user message.", `messages: first message must use the "user" role`,
		"Jinja Exception: No user query found in messages.",                                                // lmstudio-ai/lmstudio-bug-tracker#1586
		"messages.7.content: Conversation blocks and tool use blocks cannot be provided in the same turn.", // quarkiverse/quarkus-langchain4j#1983
		"Conversation roles must alternate user/assistant/user/assistant/...", "After the (optional) system message(s), user or tool message(s) should alternate with assistant message(s)."}},
	"bridge": {follows("tool", "user"), []string{"Unexpected role 'user' after role 'tool'"}},
	"no-system": {func(req wireObject) bool { return some(req, func(m wireObject) bool { return m["role"] == "system" }) }, []string{"'system' is not one of ['user', 'assistant', 'tool'] - 'messages.0.role'",
		"Input tag 'system' found using 'role' does not match any of the expected tags: 'user', 'assistant', 'tool'", "messages.0.role: unexpected value; permitted: 'user', 'assistant'",
		"Only user and assistant roles are supported!", "invalid params, invalid message role: system (2013)", "the role of the first message must be user", "System role not supported", "Developer instruction is not enabled for models/gemma-3-27b-it", "Unsupported value: 'messages[0].role' does not support 'system' with this model."}},
	"no-empty": {func(req wireObject) bool { return some(req, emptyText) }, []string{"invalid request: message must be at least 1 token long or tool results must be specified",
		"Value at 'messages.2.member.content.1.member.text' failed to satisfy constraint: Member must have length greater than or equal to 1", "messages: text content blocks must be non-empty", "messages: text content blocks must contain non-whitespace text", "The content field in the Message wireObject at messages.2 is empty."}},
	"string-content": {func(req wireObject) bool {
		return some(req, func(m wireObject) bool { _, ok := m["content"].(string); return !ok })
	}, []string{"Value is not an array or object: null at row 22, column 40: {%- set content = message.content %}", "body.messages.content.str - Input should be a valid string", "Invalid value for 'content': expected a string, got null", "invalid type: sequence, expected a string at line 1 column 20",
		"invalid message content type: <nil>", "messages[2]: missing field `content` at line 1 column 900", "'messages.[2].content' : property 'content' is missing", "messages 参数非法。请检查文档。", "The messages parameter is illegal. Please check the documentation.",
		"<400> InternalError.Algo.InvalidParameter: The content field is a required field.", `can only concatenate str (not "NoneType") to str`,
		"Invalid request content: Each message must have at least one content element.",
		`[{'type':'string_type','loc':('body','messages',1,'content','str'),'msg':'Input should be a valid string','input':[{'type':'text','text':'Why is my free tier exhausted? 输入过长'}]}]`,
		"An empty message was provided. Every message needs at least one non-empty content element.", // langbot-app/LangBot#1205
		"The request failed because it is missing `messages.content` parameter.",                     // AstrBotDevs/AstrBot#6852
		"At body -> messages -> 0 -> content: Field required",                                        // BerriAI/litellm#11665
		"message[2].content is required", // BerriAI/litellm#39268
		"Unable to tokenize message: Invalid 'content' type. Expected one of: ['str'], got list.", // musistudio/claude-code-router#965
		"Failed to deserialize the JSON body into the target type: messages[14].content: data did not match any variant of untagged enum MessageContent",
		"[json.exception.type_error.302] type must be string, but is null", `can only concatenate str (not "list") to str`,
		"'messages' array must only contain objects with a 'content' field that is not empty."}},
	"tools-always": {func(req wireObject) bool { return req["tools"] == nil && some(req, has("tool_calls")) }, []string{"litellm.UnsupportedParamsError: Bedrock doesn't support tool calling without `tools=` param specified.", "The toolConfig field must be defined when using toolUse and toolResult content blocks."}},
	"no-stream-options": {has("stream_options"), []string{"[{'type': 'extra_forbidden', 'loc': ('body', 'stream_options'), 'msg': 'Extra inputs are not permitted'}]",
		"property stream_options should not exist", "stream_options is not yet supported", "stream_options isn't allowed", "参数 stream_options 不支持",
		`[{"params":{"additionalProperty":"stream_options"},"message":"must NOT have additional properties"}]`}},
	"no-stream": {func(req wireObject) bool { return req["stream"] == true }, []string{"Your organization must be verified to stream this model. Please go to: https://platform.openai.com/settings/organization/general",
		"This model doesn't support tool use in streaming mode.", "Streaming is not supported for this model", "Model does not support streaming. Set stream=false."}},
	"stream-always": {func(req wireObject) bool { return req["stream"] != true }, []string{"This model only support stream mode, please enable the stream parameter to access the model. ", // infiniflow/ragflow#5912
		"parameter.enable_thinking must be set to false for non-streaming calls",                                                             // coze-dev/coze-studio#324
		"enable thinking can not be support when `stream=False`",                                                                             // musistudio/claude-code-router#948
		"Requests with max_tokens > 4096 must have stream=true", "Stream must be set to true", "Non-streaming requests are not supported."}}, // Codex
	"no-parallel-calls": {has("parallel_tool_calls"), []string{"Unsupported parameter: 'parallel_tool_calls' is not supported with this model.", "tool_choice.disable_parallel_tool_use: Extra inputs are not permitted"}},
	"no-tool-choice": {has("tool_choice"), []string{"deepseek-reasoner does not support this tool_choice", "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set",
		"No endpoints found that support the provided 'tool_choice' value.", "tool_choice 'specified' is incompatible with thinking enabled",
		"This model doesn't support the toolConfig.toolChoice.any field. Remove toolConfig.toolChoice.any and try again.", // aws-samples/bedrock-access-gateway#92
		"Thinking may not be enabled when tool_choice forces tool use.",                                                   // usestrix/strix#503
		"Invalid value for 'tool_choice': expected one of 'auto', 'none'", "tool_choice: Input should be 'auto', 'none' or 'any'",
		"Failed to deserialize the JSON body into the target type: tool_choice: invalid type: string \"auto\", expected internally tagged enum ToolChoice", // Xerxes-2/clewdr#126
		"Invalid tool_choice type: 'object'. Supported string values: none, auto, required"}},
	"schema-in-prompt": {has("response_format"), []string{"This response_format type is unavailable now", "Function calling with a response mime type: 'application/json' is unsupported",
		"For controlled generation of only function calls, please set 'tool_config.function_calling_config.mode' field to ANY instead of populating 'response_mime_type' and 'response_schema' fields.",
		"json mode cannot be combined with tool/function calling", "You cannot specify response format and function call at the same time", "'response_format.type' must be 'json_schema' or 'text'", "The provided JSON schema contains features not supported by xgrammar.",
		"This model doesn't support the outputConfig.textFormat field. Remove it and try again.",
		"[{'type': 'literal_error', 'loc': ('body', 'response_format', 'type'), 'msg': \"Input should be 'text' or 'json_object'\", 'input': 'json_schema'}]"}},
	"no-cache-keys": {has("prompt_cache_key", "id_slot", "service_tier"), []string{"Unrecognized request argument supplied: prompt_cache_key"}},
	"no-logprobs":   {has("logprobs"), []string{"logprobs is not supported with this model"}},
	"no-sampling": {has("temperature", "top_p"), []string{"Unsupported value: 'temperature' does not support 0.5 with this model. Only the default (1) value is supported.", "invalid temperature: only 1 is allowed for this model", "`temperature` is deprecated for this model.",
		"`temperature` and `top_p` cannot both be specified for this model. Please use only one.", "This model doesn't support the topP field. Remove topP and try again."}},
	"no-seed": {has("seed"), []string{"Unsupported parameter: seed", "ollama does not support parameters: {'seed': 7}, for model=llama3. To drop these, set `litellm.drop_params=True`",
		`[{"type":"extra_forbidden","loc":["body","seed"],"msg":"Extra inputs are not permitted","input":7}]`}},
	"no-stop": {has("stop"), []string{"Unsupported parameter: 'stop' is not supported with this model.", "Argument not supported on this model: stop", "body.stop: property 'stop' is unsupported",
		"This model doesn't support the stopSequences field. Remove stopSequences and try again."}}, // crewAIInc/crewAI#3317
	"effort-none": {func(req wireObject) bool { return req["tools"] != nil && req["reasoning_effort"] != "none" },
		[]string{"Function tools with reasoning_effort are not supported for m in /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'."}},
	"no-thinking": {has("reasoning_effort", "chat_template_kwargs"), []string{"Model m does not support parameter reasoningEffort.", "Unrecognized request argument supplied: chat_template_kwargs",
		"Unsupported value: 'reasoning_effort' does not support 'none' with this model. Supported values are: 'low', 'medium', and 'high'.",
		"The value of the enable_thinking parameter is restricted to True.",
		"Reasoning is mandatory for this endpoint and cannot be disabled.", "Unsupported parameter: 'reasoning'",
		"Budget 0 is invalid. This model only works in thinking mode.", "The model does not support setting thinking_budget to 0.",
		"messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final `assistant` message must start with a thinking block."}}, // vercel/ai#8027, GewoonJaap/gemini-cli-openai#22
	"letter-names": {func(req wireObject) bool {
		names := fmt.Sprint(req["tools"], req["messages"])
		return strings.Contains(names, "name:3f")
	}, []string{"GenerateContentRequest.tools[0].function_declarations[1].name: Invalid function name. Must start with a letter or an underscore."}},
	"tool-names": {func(req wireObject) bool {
		return some(req, func(m wireObject) bool {
			return m["role"] == "tool" && m["name"] != "f" && m["name"] != "3f" && m["name"] != "_3f"
		})
	}, []string{"* GenerateContentRequest.contents[2].parts[0].function_response.name: Name cannot be empty."}},
	"plain-keys": {func(req wireObject) bool { return strings.Contains(fmt.Sprint(req["tools"]), "filter[id]") },
		[]string{"tools.14.custom.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"}},
	"bare-schemas": {func(req wireObject) bool { return strings.Contains(fmt.Sprint(req["tools"]), "minimum") }, []string{
		"JSON schema conversion failed:\nUnrecognized schema: {\"description\":\"any\"}",                                                                        // browseros-ai/BrowserOS#255
		"JSON schema conversion failed:\nPattern must start with '^' and end with '$'",                                                                          // containers/kubernetes-mcp-server#758
		"* GenerateContentRequest.tools[0].function_declarations[1].parameters.properties: should be non-empty for OBJECT type\n",                               // MarkusPfundstein/mcp-obsidian#21
		"* GenerateContentRequest.tools[0].function_declarations[3].parameters.properties[c].enum: only allowed for STRING type\n",                              // anomalyco/opencode#28397
		"Invalid value at 'tools[0].function_declarations[3].parameters.properties[2].value.enum[0]' (TYPE_STRING), 1",                                          // esengine/DeepSeek-Reasonix#9005
		"* GenerateContentRequest.tools[0].function_declarations[3].parameters.properties[g].format: only 'enum' and 'date-time' are supported for STRING type", // google-gemini/gemini-cli#3178
		"Unable to submit request because `f` functionDeclaration `parameters.b` schema specified other fields alongside any_of. When using any_of, it must be the only field set.",
		"Unable to submit request because one or more function parameters didn't specify the schema type field.",
		"Unsupported JSON schema fields: {'minimum'}", // Cerebras
		"tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level",
		"Failed to initialize samplers: failed to parse grammar", // ggml-org/llama.cpp#25895
		"tools.function.parameters is not a valid moonshot flavored json schema, details: <At path 'properties.stop': when using anyOf, type should be defined in anyOf items instead of the parent schema>", // MoonshotAI/kimi-code#2661
		"Invalid JSON payload received. Unknown name \"minimum\" at 'tools[0].function_declarations[0].parameters.properties[0].value': Cannot find field.",                                                  // can1357/oh-my-pi#1405
		"tools.0.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12",
		"tools[0].function.parameters contains unsupported field minimum"}}, // gittensor-ai-lab/sparkinfer#972
	"short-descriptions": {func(req wireObject) bool {
		tools, _ := req["tools"].([]any)
		for _, t := range tools {
			if d, _ := t.(wireObject)["function"].(wireObject)["description"].(string); len([]rune(d)) > 1024 {
				return true
			}
		}
		return false
	}, []string{"Invalid 'tools[1].function.description': string too long. Expected a string with maximum length 1024, but got a string with length 2121 instead."}}, // langchain-ai/open_deep_research#80
	"max-tokens-always": {func(req wireObject) bool { return !has("max_tokens", "max_completion_tokens")(req) }, []string{"max_tokens: Field required"}}, // sigoden/aichat#1314
	"single-calls":      {func(req wireObject) bool { return some(req, func(m wireObject) bool { return len(callsOf(m)) > 1 }) }, []string{"This model only supports single tool-calls at once!"}},
	"words-apart": {func(req wireObject) bool {
		return some(req, func(m wireObject) bool { text, _ := m["content"].(string); return text != "" && len(callsOf(m)) > 0 })
	}, []string{"Assistant message must have either content or tool_calls, but not both."}}, // langchain-ai/langchain#21196
}

// ofOneRequest reports whether words refuse what other requests may not have: a schema, or the value of an effort.
func ofOneRequest(says string) bool {
	return slices.ContainsFunc([]string{"xgrammar", "parse grammar", "conversion failed", "draft 2020-12", "unsupported field", "Unable to submit", "Unsupported JSON schema", "input_schema does", "does not support 'none'", "found `tool_use`", "].parameters", "moonshot flavored"}, func(words string) bool { return strings.Contains(says, words) })
}

// strictEndpoint refuses what the rules say, one at a time, and gives an answer otherwise.
type strictEndpoint struct {
	mu      sync.Mutex
	rules   []string
	form    int // of the refusals
	status  int
	refused []string
	last    wireObject
}

func (s *strictEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	raw, _ := io.ReadAll(r.Body)
	s.last = nil
	_ = json.Unmarshal(raw, &s.last)
	for _, name := range s.rules {
		rule := refusalsOf[name]
		if !rule.refuses(s.last) {
			continue
		}
		s.refused = append(s.refused, name)
		w.WriteHeader(s.status)
		fmt.Fprintf(w, `{"error":{"message":%s,"type":"invalid_request_error"}}`, quoted(rule.says[s.form%len(rule.says)]))
		return
	}
	if s.last["stream"] == true {
		bodyOf(delta(`{"content":"ok"}`, "stop")+done)(w, r)
		return
	}
	jsonOf(`{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}`)(w, r)
}

// sealedBy is reasoning as the model m of an endpoint has given it.
func sealedBy(m *Model, text string) llm.Reasoning {
	s := sealed{By: m.endpoint().sealer("m"), Field: "reasoning_content"}
	return llm.Reasoning{Text: text, Sealed: s.text()}
}

// everything is a request that has all that an endpoint may refuse.
func everything(m *Model, rules ...string) *llm.Request {
	no := false
	req := &llm.Request{System: "You help.", Stream: true, Agent: "a/b", Messages: []llm.Message{
		llm.UserText("one"), llm.UserParts(llm.TextPart{Text: "two"}, llm.TextPart{Text: "and"}),
		assistant(" ", sealedBy(m, "because"), llm.ToolCall{ID: "call_1", Name: "f", Arguments: `{"a":1}`}, llm.ToolCall{ID: "call_3", Name: "3f"}),
		toolResult("call_1", ""), toolResult("call_3", ""),
		llm.UserText("three"), assistant("", llm.Reasoning{Text: "a secret"}, llm.ToolCall{ID: "call_2", Name: "f"}), toolResult("call_2", "r"), assistant("four", llm.ToolCall{ID: "call_4", Name: "f"}), toolResult("call_4", "r"), llm.UserText("\n"),
	}, Tools: []llm.ToolSpec{{Name: "f", Parameters: json.RawMessage(`{"type":"object","properties":{"filter[id]":{"minimum":1}}}`)}, {Name: "3f"}}, Settings: llm.Settings{Temperature: ptr(0.5), Seed: ptr(int64(7)), Stop: []string{"X"}, ReasoningEffort: "low", MaxTokens: 9, ToolChoice: llm.ToolChoiceAuto, ParallelToolCalls: &no, TopLogProbs: 2,
		ResponseFormat: &llm.ResponseFormat{Schema: json.RawMessage(`{"a":1}`)}}}
	for _, rule := range rules {
		switch rule {
		case "tools-always":
			req.Tools = nil
		case "no-echo":
			req.Echo = llm.EchoOn
		case "stream-always":
			req.Stream = false
		case "max-tokens":
			req.Endpoint = []string{"max-completion-tokens"}
		case "short-descriptions":
			if len(req.Tools) > 0 { // another rule may remove them
				req.Tools[0].Description = strings.Repeat("ä", 1025)
			}
		case "max-tokens-always":
			req.MaxTokens = 0
		case "no-signatures":
			req.Endpoint = []string{"signatures"}
		}
	}
	return req
}

// saidIn is the conversation of a request, whatever its form.
func saidIn(req wireObject) string {
	var b strings.Builder
	for _, m := range messagesOf(req) {
		texts, _ := m["content"].([]any)
		if s, ok := m["content"].(string); ok {
			texts = []any{wireObject{"text": s}}
		}
		for _, p := range texts {
			for line := range strings.Lines(p.(wireObject)["text"].(string)) {
				if line = strings.TrimSpace(line); line != "" && line != noText && line != noOutput && line != bridgeText && line != beginning && !strings.HasPrefix(line, "Answer with JSON") && !strings.HasPrefix(line, "More about the tool f: …ä") {
					b.WriteString(line + "\n")
				}
			}
		}
		for _, c := range callsOf(m) {
			f := c["function"].(wireObject)
			fmt.Fprintln(&b, strings.TrimPrefix(f["name"].(string), "_"), f["arguments"])
		}
	}
	return b.String()
}

const everythingSaid = "You help.\none\ntwo\nand\nf {\"a\":1}\n3f {}\nthree\nf {}\nr\nfour\nf {}\nr\n"

// TestQuirks: what an endpoint refuses is found by its error, once in a process, and what is named is not refused at all.
func TestQuirks(t *testing.T) {
	for _, row := range quirkTable {
		rule, ok := refusalsOf[row.name]
		if row.name == "echo" || row.name == "item-types" || row.words == never {
			continue // no endpoint is known to want it and to say so alone
		}
		require.True(t, ok, row.name)
		for i := range rule.says {
			t.Run(row.name, func(t *testing.T) {
				s := &strictEndpoint{rules: []string{row.name}, form: i, status: http.StatusBadRequest}
				m := serve(t, s.ServeHTTP, WithPromptCacheKey("k"))
				req := everything(m, row.name)
				for range 2 {
					got, err := ask(t, m, req)
					require.NoError(t, err)
					require.Equal(t, "ok", got.Text)
					require.Equal(t, everythingSaid, saidIn(s.last))
					require.NotContains(t, fmt.Sprint(s.last), "a secret")
				}
				most := 1
				if ofOneRequest(rule.says[i]) {
					most = 2
				}
				if row.name == "echo-filled" || row.name == "string-content" && strings.Contains(rule.says[i], "empty") {
					most = 2 // an empty one is tried first, or none
				}
				if strings.Contains(rule.says[i], "found `tool_use`") {
					most = 4 // the thoughts go back first, in each request
				}
				require.Len(t, s.refused, most)
				other := serve(t, s.ServeHTTP, WithPromptCacheKey("k"), WithEndpoint(row.name))
				req.Endpoint = nil
				_, err := ask(t, other, req)
				require.NoError(t, err)
				require.Len(t, s.refused, most)
			})
		}
	}
}

// TestQuirksThatDoNotHelp are not remembered, and change nothing of the error.
func TestQuirksThatDoNotHelp(t *testing.T) {
	bodies, broken := []string{}, true
	m := serve(t, func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(raw))
		if broken {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"message":"Unsupported parameter: 'parallel_tool_calls'"}}`)
			return
		}
		bodyOf(delta(`{"content":"ok"}`, "stop")+done)(w, r)
	})
	req := everything(m)
	require.Contains(t, fails(t, m, req).Message, "Unsupported parameter")
	require.Len(t, bodies, 2, "with it and without")
	broken = false
	_, err := ask(t, m, req)
	require.NoError(t, err)
	require.Equal(t, bodies[0], bodies[2])
}

// TestQuirksThatDidNotHelp: of the forms that were tried only the one that ended the refusal is remembered.
func TestQuirksThatDidNotHelp(t *testing.T) {
	var last wireObject
	m := serve(t, func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		last = nil
		_ = json.Unmarshal(raw, &last)
		if has("parallel_tool_calls")(last) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"message":"our system does not support parallel_tool_calls"}}`)
			return
		}
		bodyOf(delta(`{"content":"ok"}`, "stop")+done)(w, r)
	})
	system := func(m wireObject) bool { return m["role"] == "system" }
	req := everything(m)
	_, err := ask(t, m, req)
	require.NoError(t, err)
	require.False(t, some(last, system), "the words were taken for a refusal of the role at first")
	_, err = ask(t, m, req)
	require.NoError(t, err)
	require.True(t, some(last, system))
}

// firstRefuses refuses the first request with a status and a message, and answers the others. It collects them.
func firstRefuses(status int, message string) (h http.HandlerFunc, got func(i int) wireObject) {
	var all []wireObject
	return func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		var req wireObject
		_ = json.Unmarshal(raw, &req)
		if all = append(all, req); len(all) == 1 {
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"error":{"message":%s}}`, quoted(message))
			return
		}
		jsonOf(`{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}`)(w, r)
	}, func(i int) wireObject { return all[i] }
}

// TestInvalidSchemas: the author of a wrong schema sees the error, and other requests keep their schemas.
func TestInvalidSchemas(t *testing.T) {
	for _, message := range []string{
		"Invalid schema for response_format 'x': In context=(), 'additionalProperties' is required to be supplied and to be false.",
		"Invalid schema for response_format 'x': In context=('properties', 'seed'), 'oneOf' is not permitted.",
		"invalid JSON schema for response_format: 'x': /properties/a: format is unsupported",
		"response_format is required to have a name",
		"Invalid schema for function 'f': In context=('properties', 'seed'), 'minimum' is not permitted.",
		"invalid_function_parameters",
		"Invalid value for reasoning_effort: 'max'. It must be one of low, medium, high.",
	} {
		h, got := firstRefuses(http.StatusBadRequest, message)
		m := serve(t, h)
		req := everything(m)
		require.Contains(t, fails(t, m, req).Message, message)
		_, err := ask(t, m, req)
		require.NoError(t, err)
		require.True(t, has("response_format", "seed")(got(1)))
	}
}

// TestQuotedSchemas: words about schemas in a text that a refusal quotes hide no other form, and change no other request.
func TestQuotedSchemas(t *testing.T) {
	for _, quoted := range []string{`"Write the schema for function f"`, `"Is it a moonshot flavored JSON schema?"`, `{"role":"user","content":[{"text":"A \\"moonshot flavored\\" {JSON schema"}]}`} {
		var last wireObject
		m := serve(t, func(w http.ResponseWriter, r *http.Request) {
			raw, _ := io.ReadAll(r.Body)
			last = nil
			_ = json.Unmarshal(raw, &last)
			if has("seed")(last) {
				w.WriteHeader(http.StatusUnprocessableEntity)
				_, _ = io.WriteString(w, `[{"loc":["body","seed"],"msg":"Extra inputs are not permitted","input":`+quoted+`}]`)
				return
			}
			jsonOf(`{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}`)(w, r)
		})
		for range 2 {
			_, err := ask(t, m, everything(m))
			require.NoError(t, err)
		}
		require.Contains(t, fmt.Sprint(last["tools"]), "minimum")
	}
}

// TestConflicts: a form that the settings of a request need together applies to requests with the same settings alone.
func TestConflicts(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		says    string
		refuses func(req wireObject) bool
		a, b    func(req *llm.Request)
		has     string // a member of request b
	}{
		{"Thinking may not be enabled when tool_choice forces tool use.", func(req wireObject) bool { return has("tool_choice")(req) && req["reasoning_effort"] != "none" },
			func(req *llm.Request) { req.Thinking = &yes }, func(req *llm.Request) { req.Thinking, req.ReasoningEffort = &no, "" }, "tool_choice"},
		{"Budget 0 is invalid. This model only works in thinking mode.", func(req wireObject) bool { return req["reasoning_effort"] == "none" },
			func(req *llm.Request) { req.Thinking, req.ReasoningEffort = &no, "" }, func(*llm.Request) {}, "reasoning_effort"},
		{"`temperature` and `top_p` cannot both be specified for this model. Please use only one.", func(req wireObject) bool { return has("temperature")(req) && has("top_p")(req) },
			func(req *llm.Request) { req.TopP = ptr(0.5) }, func(*llm.Request) {}, "temperature"},
		{"json mode cannot be combined with tool/function calling", func(req wireObject) bool { return has("response_format")(req) && has("tools")(req) },
			func(*llm.Request) {}, func(req *llm.Request) { req.Tools = nil }, "response_format"},
	} {
		var last wireObject
		refused := 0
		m := serve(t, func(w http.ResponseWriter, r *http.Request) {
			raw, _ := io.ReadAll(r.Body)
			last = nil
			_ = json.Unmarshal(raw, &last)
			if c.refuses(last) {
				refused++
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprintf(w, `{"error":{"message":%s}}`, quoted(c.says))
				return
			}
			bodyOf(delta(`{"content":"ok"}`, "stop")+done)(w, r)
		})
		for _, set := range []func(*llm.Request){c.a, c.a, c.b} {
			req := everything(m)
			req.ToolChoice = llm.ToolChoiceRequired
			set(req)
			_, err := ask(t, m, req)
			require.NoError(t, err)
		}
		require.Equal(t, 1, refused, c.says)
		require.True(t, has(c.has)(last), c.says)
	}
}

// TestPermanentRefusals: the verdict of a filter, and an error that quotes a text or has empty members, ask for no other form.
func TestPermanentRefusals(t *testing.T) {
	value := `{"detail":[{"loc":["body","messages",0],"msg":"Value error","input":{"role":"user","content":"the \"temperature\" is not supported \\\\","more":["seed is unknown"]}}]}`
	for _, body := range []string{
		`{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","type":null,"param":"prompt","code":"content_filter"}}`,
		`{"error":{"message":"The content is not right","type":"invalid_request_error","param":null,"code":null}}`,
		`{"detail":[{"loc":["body","messages",0],"msg":"Value error","input":"\"temperature\" is not supported"}]}`,
		value,
		`{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":` + quoted(value) + `}}}`,
		`{"error":{"message":` + quoted("upstream: "+`{"raw":`+quoted(value)+`}`) + `}}`,
		`{"object":"error","message":"[{'type': 'value_error', 'loc': ('body', 'messages'), 'msg': 'Value error', 'input': {'role': 'user', 'content': \"it's a seed, not supported\"}}]"}`,
		`{"message":"1 validation error: Value error [type=value_error, input_value={'content': 'the seed... is not supported'}, input_type=dict]"}`,
	} {
		requests := 0
		m := serve(t, func(w http.ResponseWriter, r *http.Request) {
			requests++
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, body)
		})
		fails(t, m, everything(m))
		require.Equal(t, 1, requests, body)
	}
}

// TestServerErrorsTeachNothing: a fault that passes may sound like a refusal. The same request is sent again, or another form of this
// request alone.
func TestServerErrorsTeachNothing(t *testing.T) {
	system := func(m wireObject) bool { return m["role"] == "system" }
	for _, c := range []struct {
		status  int
		message string
		same    bool // the next request has the same form
	}{
		{500, "The system encountered an unexpected error during processing. Try your request again.", true},
		{500, "Unexpected error in the system. You can retry your request.", true},
		{503, "The system is temporarily unavailable", true},
		{503, "The system is unavailable", true},
		{529, "unavailable: the system is overloaded", true},
		{500, "Internal error, please contact support. Stream closed", true},
		{502, "Unexpected response format from provider", true},
		{500, "Unexpected fault of our system", false},
	} {
		h, got := firstRefuses(c.status, c.message)
		m := serve(t, h, WithRetries(1), WithRetryDelay(0, 0))
		req := everything(m)
		for range 2 {
			_, err := ask(t, m, req)
			require.NoError(t, err)
		}
		require.Equal(t, c.same, some(got(1), system), c.message)
		require.Equal(t, c.same, reflect.DeepEqual(got(0), got(1)), c.message)
		require.Equal(t, got(0), got(2), c.message)
	}
}

// TestContentsOfParts: what is wrong with a part of a content or with a result does not make all contents strings.
func TestContentsOfParts(t *testing.T) {
	for _, says := range []string{"messages.0.content.1.image_url.url: field required", "missing url in messages[0].content[1]", "Missing required parameter: 'messages[0].content[0].image_url'.",
		"the content of tool result is missing: every tool call needs a tool message", "messages[0].content[1] is required"} {
		at := slices.IndexFunc(quirkTable[:], func(row struct{ name, sent, fields, words string }) bool { return row.name == "string-content" })
		require.False(t, refusals()[at].MatchString(strings.ToLower(says)), says)
	}
}

// TestEffortWithoutTools: only requests with tools lose their effort.
func TestEffortWithoutTools(t *testing.T) {
	h, got := firstRefuses(http.StatusBadRequest, refusalsOf["effort-none"].says[0])
	m := serve(t, h)
	req := everything(m)
	for i, effort := range []string{"none", "low"} {
		_, err := ask(t, m, req)
		require.NoError(t, err)
		require.Equal(t, effort, got(i + 1)["reasoning_effort"])
		req.Tools = nil
	}
}

// TestEffortThatIsMissing: a model that always thinks gets no effort when thinking is off, and another wrong effort stays an error.
func TestEffortThatIsMissing(t *testing.T) {
	off := false
	h, got := firstRefuses(http.StatusBadRequest, "`reasoning_effort` must be one of `low`, `medium`, or `high`") // of Groq
	m := serve(t, h)
	req := everything(m)
	req.Thinking = &off
	_, err := ask(t, m, req)
	require.NoError(t, err)
	require.Equal(t, "none", got(0)["reasoning_effort"])
	require.NotContains(t, got(1), "reasoning_effort")

	h, got = firstRefuses(http.StatusBadRequest, "[{'type': 'literal_error', 'loc': ('body', 'reasoning_effort'), 'msg': \"Input should be 'low', 'medium' or 'high'\", 'input': 'none'}]") // SGLang, vLLM
	m = serve(t, h)
	for _, thinking := range []*bool{&off, nil} {
		req.Thinking = thinking
		_, err = ask(t, m, req)
		require.NoError(t, err)
	}
	require.NotContains(t, got(1), "reasoning_effort")
	require.Equal(t, "low", got(2)["reasoning_effort"], "only the switch was refused")

	h, _ = firstRefuses(http.StatusBadRequest, "`reasoning_effort` must be one of `none` or `default`") // earendil-works/pi#1745
	m = serve(t, h)
	require.Contains(t, fails(t, m, everything(m)).Message, "`none` or `default`")
}

// TestEffortWithoutThinking: endpoints refuse an effort next to the member that turns thinking off (agno-agi/agno#9804).
func TestEffortWithoutThinking(t *testing.T) {
	off := false
	got := sent(t, "m", &llm.Request{Messages: hello.Messages, Settings: llm.Settings{Endpoint: []string{"glm"}, Thinking: &off, ReasoningEffort: "low"}})
	require.NotContains(t, got, "reasoning_effort")
	require.Equal(t, wireObject{"type": "disabled"}, got["thinking"])
}

// TestEchoIsOff: what a setting forbids no error brings back.
func TestEchoIsOff(t *testing.T) {
	s := &strictEndpoint{rules: []string{"echo-empty"}, status: http.StatusBadRequest}
	m := serve(t, s.ServeHTTP)
	req := everything(m)
	req.Echo = llm.EchoOff
	require.Contains(t, fails(t, m, req).Message, "reasoning_content is missing")
	require.Len(t, s.refused, 1)
}

// TestRefusingDialects: whatever an endpoint refuses, and however it says so, it gets to the same conversation.
func TestRefusingDialects(t *testing.T) {
	s := &strictEndpoint{}
	url := serve(t, s.ServeHTTP).endpoint().url
	var names []string
	for _, row := range quirkTable {
		if row.name != "echo" && row.name != "item-types" && row.words != never {
			names = append(names, row.name)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		m, err := New("m", WithBaseURL(url), WithRetries(rapid.IntRange(0, 1).Draw(rt, "retries")), WithRetryDelay(0, 0), WithPromptCacheKey("k"))
		require.NoError(rt, err)
		rules := rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 4, rapid.ID).Draw(rt, "rules")
		*s = strictEndpoint{form: rapid.IntRange(0, 5).Draw(rt, "form"), status: rapid.SampledFrom([]int{400, 404, 422, 500}).Draw(rt, "status")}
		for _, rule := range rules {
			against := map[string]string{"no-echo": "echo-empty echo-filled", "echo-empty": "no-echo", "echo-filled": "no-echo", "signatures": "no-signatures",
				"no-signatures": "signatures", "max-tokens": "max-completion-tokens", "max-completion-tokens": "max-tokens", "effort-none": "no-thinking", "no-thinking": "effort-none", "no-stream": "stream-always", "stream-always": "no-stream", "alternate": "words-apart", "words-apart": "alternate"}[rule]
			if !strings.Contains(against, rule) && !slicesContainAny(s.rules, against) {
				s.rules = append(s.rules, rule)
			}
		}
		req := everything(m, s.rules...)
		req.Stream = rapid.Bool().Draw(rt, "stream")
		for i := range 2 {
			before := len(s.refused)
			got, err := collect(t.Context(), m, req)
			require.NoError(rt, err, s.refused)
			require.Equal(rt, "ok", got.Text)
			require.Equal(rt, everythingSaid, saidIn(s.last))
			once := s.status >= 500 || slices.ContainsFunc(s.rules, func(rule string) bool {
				says := refusalsOf[rule].says
				return ofOneRequest(says[s.form%len(says)])
			})
			require.True(rt, i == 0 || once || len(s.refused) == before, "it was not remembered: %s", s.refused)
		}
	})
}

func slicesContainAny(list []string, words string) bool {
	for _, s := range list {
		for w := range strings.FieldsSeq(words) {
			if s == w {
				return true
			}
		}
	}
	return false
}

// TestEmptyReasoningBesideBlocks: a message that goes back with blocks of thinking gets no empty reasoning.
func TestEmptyReasoningBesideBlocks(t *testing.T) {
	var body string
	m := serve(t, func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		body = string(raw)
		jsonOf(`{"choices":[{"message":{"content":"Hi","thinking_blocks":[{"type":"thinking","thinking":"So.","signature":"s"}]},"finish_reason":"stop"}]}`)(w, r)
	}, WithEndpoint("echo-empty"))
	_, err := ask(t, m, &llm.Request{Messages: []llm.Message{llm.UserText("hi"), said(t, m, false), llm.UserText("more")}})
	require.NoError(t, err)
	require.Contains(t, body, `"thinking_blocks"`)
	require.NotContains(t, body, `"reasoning_content"`)
}

// TestProviders checks that an endpoint with the rules of a provider accepts what a model of this provider sends, and that only
// the provider's own hosts are taken for it.
func TestProviders(t *testing.T) {
	for _, p := range providers {
		t.Run(p.name, func(t *testing.T) {
			s := &strictEndpoint{status: http.StatusBadRequest}
			for i, row := range quirkTable {
				if p.quirks.resolved().has(1<<i) && refusalsOf[row.name].refuses != nil {
					s.rules = append(s.rules, row.name)
				}
			}
			m := serve(t, s.ServeHTTP)
			for _, on := range []bool{false, true} {
				req := everything(m, "tools-always")
				req.Endpoint, req.Thinking = []string{p.name}, &on
				_, err := ask(t, m, req)
				require.NoError(t, err)
				require.Empty(t, s.refused)
				require.Equal(t, everythingSaid, saidIn(s.last))
				want := map[bool]string{true: p.on, false: p.off}[on]
				if p.off == "" && !on {
					want = `"reasoning_effort":"none"`
				}
				if want != "" {
					var members wireObject
					require.NoError(t, json.Unmarshal([]byte("{"+want+"}"), &members))
					for name, value := range members {
						require.Equal(t, value, s.last[name])
					}
				}
			}
			for host := range strings.FieldsSeq(p.hosts) {
				require.Equal(t, p.name, providerAt(host))
				require.Empty(t, providerAt("not"+host))
				require.Empty(t, providerAt(host+".example.com"))
			}
		})
	}
	_, err := New("m", WithEndpoint("mistrol"))
	require.ErrorContains(t, err, `no endpoint is called "mistrol"; did you mean "mistral"?`)
	req := *hello
	req.Endpoint = []string{"nobody"}
	require.Contains(t, fails(t, serve(t, nil), &req).Message, `no endpoint is called "nobody"`)
}

// TestTableOfQuirks: the documentation has the tables of the code.
func TestTableOfQuirks(t *testing.T) {
	var pages strings.Builder
	for _, name := range []string{"models.md", "faults.md"} {
		page, err := os.ReadFile("../../docs/" + name)
		require.NoError(t, err)
		pages.Write(page)
	}
	var b strings.Builder
	b.WriteString("| provider | found by | what is special | thinking off |\n|---|---|---|---|\n")
	for _, p := range providers {
		var special []string
		for i, row := range quirkTable {
			if p.quirks.has(1 << i) {
				special = append(special, "`"+row.name+"`")
			}
		}
		if p.special != "" {
			special = append(special, p.special)
		}
		off := ""
		if p.off != "" {
			off = "`" + p.off + "`"
		}
		found := "its name"
		if p.hosts != "" {
			found = "`" + strings.Join(strings.Fields(p.hosts), "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", p.name, found, strings.Join(special, ", "), off)
	}
	b.WriteString("\n| quirk | what is sent |\n|---|---|\n")
	for _, row := range quirkTable {
		fmt.Fprintf(&b, "| `%s` | %s |\n", row.name, row.sent)
	}
	for table := range strings.SplitSeq(b.String(), "\n\n") {
		require.Contains(t, pages.String(), strings.TrimSpace(table)+"\n\n", "the table must be\n%s", table)
	}
}
