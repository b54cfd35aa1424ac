package openai

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
)

func TestContextLengthWords(t *testing.T) {
	for _, words := range []string{
		"The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
		"This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
		"Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192",
		"Invalid request: Your request exceeded model token limit: 131072 (requested: 141403)",
		"Range of input length should be [1, 98304]",
		"tokens to keep from the initial prompt is greater than the context length",
		"Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens",
		"The decoder prompt (length 10000) is longer than the maximum model length of 8192.",
		"The prompt (total length 9000) is too long to fit into the model (total length 8192).",
		"prompt token count of 140000 exceeds the limit of 128000",
		"prompt is too long: 210000 tokens > 200000 maximum",
		"input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000, decrease input length or `max_tokens` and try again",
		"Your input exceeds the context window of this model. Please adjust your input and try again.",
		"This endpoint's maximum context length is 32768 tokens. However, you requested about 40000 tokens",
		"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
		"The input (9000 tokens) is longer than the model's context length (8192 tokens).",
		"Prompt exceeds max length",
		"context window exceeds limit (2013)",
		"`inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 `inputs` tokens and 100 `max_new_tokens`",
		"Input validation error: `inputs` must have less than 1024 tokens. Given: 1200",
		"the request exceeds the available context size, try increasing it",
		"too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000.",
		"the number of input tokens 5000 cannot exceed the total tokens limit 4096 for this model",
		"The estimated number of input and maximum output tokens (9000) exceeded this model context window limit (8192).",
		"Request too large for m on tokens per minute (TPM): Limit 6000, Requested 9000, please reduce your message size and try again.",
		"too many tokens: size limit exceeded by 1000 tokens. Try using shorter or fewer inputs.",
		"Context size exceeded",
		"Please reduce the length of either one, or use the \"middle-out\" transform to compress your prompt automatically.",
		"Input length (9000 tokens) exceeds the maximum allowed length (8191 tokens).",
		"Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens.",
		"prompt too long; exceeded max context length by 100 tokens",
		"Request too large for m on tokens per min (TPM): Limit 10000, Requested 12000. The input or output tokens must be reduced in order to run successfully.",
		"Prompt too long: 5152 tokens exceeds max_seq_len 2048 (leave room for output tokens)",
		"The total length of all messages is too long.",
		"Input length (265330) exceeds model's maximum context length (262144).",
		"too many input tokens: 5000 > 4096",
		"Current length is 40000 while limit is 32768",
		"The number of input tokens (40000) exceeds the model limit",
		"max_prompt_tokens exceeded: prompt has 200000 tokens, limit 128000",
		"inputs tokens + max_new_tokens must be <= 4096. Given: 5000 inputs tokens",
		"Your request has 210000 input tokens, but the model only supports 200000.",
		"Conversation is too long for this model: 300000 tokens (max 262144)",
		"the prompt token count (9000) exceeds n_ctx (8192)",
		"input_tokens 9000 must be less than 8192",
		"Model token limit exceeded, please shorten your input.",
		"max_tokens must be at least 1, got -160.", // vllm-project/vllm#5700
		"max_completion_tokens must be at least 1, got -160.",
		"tokens in request more than max tokens allowed", // anomalyco/opencode#27519
		"context shift is disabled",
		"The maximum number of input tokens is 8192, got 9000",
		"Input prompt is too big compared to KV size. Please try increasing KV size.", // llama.cpp
		"Cannot truncate prompt with n_keep (10137) >= n_ctx (4096)",                  // LM Studio
		"Malformed input request: expected maxLength: 100000, actual: 120000, please reformat your input and try again.",
		"max_total_tokens (131328) must be less than or equal to max_seq_len (131072)", // SiliconFlow
		"The sum of prompt length (2000), query length (0) and max_tokens (100) should not exceed max_num_tokens (2048)",
		"Context limit reached", "chat history is too long", "Prompt has 9000 tokens, over the limit of 8192", "n_ctx exceeded: 9000 > 8192",
		"token数量超过上限。对话历史+问题的字数太多，需要精简输入", "上下文长度超过限制", "输入内容太长，请精简后重试",
		"Prompt 超长", "模型输入过长", "请求的 tokens 超长", "messages 内容过长，请缩短", "Invalid 'input': maximum context length is 8192 tokens.",
	} {
		for _, status := range []int{400, 413, 429, 500} {
			code, retry := classify(status, parseError([]byte(`{"error":{"message":`+strconv.Quote(words)+`}}`)), false)
			require.Equal(t, llm.CodeContextLength, code, "%d %s", status, words)
			require.False(t, retry)
		}
		require.Equal(t, llm.CodeContextLength, (&client{config: defaults()}).objectError(parseError([]byte(strconv.Quote(words)))).Code, words)
	}
	for _, words := range []string{
		"max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
		"Invalid schema for function 'x': context must be an object",
		"The name is too long",
		"The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value that is lower than 4096.", // Bedrock
		"The requested number of output tokens (9000) exceeds the limit of 4096", "Invalid request: function name too long, maximum length is 64",
		"messages[2].tool_call_id: exceeds the maximum length of 40", "prompt_cache_key exceeds the maximum length of 64",
		"stop sequences in the request are too long", "Image token limit exceeded", "The audio input is too long: 40 minutes",
		"max_tokens (50000) exceeds the maximum of 4096 output tokens for this model",
		"'max_tokens' is too large: 99999. This model's limit is 4096 completion tokens",
		"Invalid 'tools[0].function.description': string too long. Expected a string with maximum length 1024, but got one with length 1375.",
		"Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 140 instead.",
		"The request contains 21 images, which exceeds the limit of 20 images.",
		"max_tokens must be greater than thinking.budget_tokens",
		"max_tokens must be at least 1, got 0.",
		"n must be at least 1, got -1",
		"messages[3].tool_calls[0].id: string too long, maximum length 40",
		"tools.0.function.name 过长", "参数 user_id 超长", "参数 prompt_cache_key 过长", "tools.0.function.description 内容过长",
		`[{'type':'string_type','loc':('body','messages',1,'content','str'),'msg':'Input should be a valid string','input':[{'type':'text','text':'输入过长?'}]}]`,
		`[{'type':'string_type','loc':('body','messages',1,'content','str'),'msg':'Input should be a valid string','input':[{'type':'text','text':'Why is my free tier exhausted?'}]}]`,
		"1 validation error: Value error [type=value_error, input_value={'content': 'Too many requests: wait 3 seconds'}, input_type=dict]",
		"Model input error: file file-abc not found", "Invalid model: temperature must be <= 1", "Invalid model output",
		"The model produced a call of a tool which was not found", "Model error: tool not found",
	} {
		code, _ := classify(400, parseError([]byte(`{"error":{"message":`+strconv.Quote(words)+`}}`)), false)
		require.Equal(t, llm.CodeBadRequest, code, words)
	}
}

func TestClassify(t *testing.T) {
	for _, tt := range []struct {
		status int
		body   string
		code   llm.ErrorCode
		retry  bool
	}{
		{402, `{"error":{"message":"Payment Required"}}`, llm.CodeRateLimited, false},
		{403, `{"code":30001,"message":"Sorry, your account balance is insufficient","data":null}`, llm.CodeRateLimited, false}, // SiliconFlow
		{403, `{"error":"Your newly created team doesn't have any credits or licenses yet."}`, llm.CodeRateLimited, false},      // xAI
		{403, `{"code":403,"reason":"NOT_ENOUGH_BALANCE","message":"not enough balance"}`, llm.CodeRateLimited, false},          // Novita
		{403, `{"error":{"message":"user quota is not enough","code":"insufficient_user_quota"}}`, llm.CodeRateLimited, false},  // songquanpeng/one-api#1270
		{401, `{"error":{"message":"该令牌额度已用尽","type":"new_api_error"}}`, llm.CodeRateLimited, false},
		{500, `{"error":{"message":"the load balance is insufficient"}}`, llm.CodeServer, true},
		{429, `{"error":{"message":"Your request exceeded the TPM limit of 10000 tokens"}}`, llm.CodeRateLimited, true},
		{429, `{"error":{"message":"Token limit exceeded, retry after 20 seconds"}}`, llm.CodeRateLimited, true},
		{429, `{"error":{"message":"用户消息频率超过限制"}}`, llm.CodeRateLimited, true},
		{400, `{"message":"The provided model identifier is invalid."}`, llm.CodeNotFound, false}, // Bedrock
		{400, `{"error":{"message":"Unknown model: foo"}}`, llm.CodeNotFound, false},
		{400, `{"error":{"message":"API Key not found. Please pass a valid API key."}}`, llm.CodeUnauthorized, false}, // Gemini
		{500, `{"error":{"message":"no","code":"sensitive_words_detected"}}`, llm.CodeBadRequest, false},              // one-api
		{429, `{"error":{"message":"You exceeded your current quota, please check your plan","type":"insufficient_quota","code":"insufficient_quota"}}`, llm.CodeRateLimited, false},
		{429, `{"error":{"message":"no more","type":"exceeded_current_quota_error"}}`, llm.CodeRateLimited, false},
		{429, `{"error":{"code":"1113","message":"余额不足或无可用资源包,请充值。"}}`, llm.CodeRateLimited, false},
		{400, `{"error":{"message":"Your credit balance is too low to access the API"}}`, llm.CodeRateLimited, false},
		{400, `{"code":"Arrearage","message":"Access denied, please make sure your account is in good standing."}`, llm.CodeRateLimited, false},
		{403, `{"error":"Your team has either run out of available credits or reached its monthly spending limit."}`, llm.CodeRateLimited, false},
		{429, `[{"error":{"code":429,"message":"You exceeded your current quota. Please retry in 34.07s.","status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"34s"}]}}]`, llm.CodeRateLimited, true},
		{429, `{"error":{"message":"slow down"}}`, llm.CodeRateLimited, true},
		{403, `{"error":{"message":"Key limit exceeded (monthly limit). Manage it using https://openrouter.ai/settings/keys","code":403}}`, llm.CodeRateLimited, false}, // gptme/gptme#1449
		{400, `{"error":{"message":"Budget has been exceeded! Current cost: 14.1, Max budget: 10","code":"400"}}`, llm.CodeRateLimited, false},                          // BerriAI/litellm#14144
		{429, `{"error":{"message":"LiteLLM User: engineer-1, exceeded budget for model=m","type":"budget_exceeded","code":"429"}}`, llm.CodeRateLimited, false},
		{429, `{"error":{"message":"ExceededTokenBudget: Current spend for token: 1; Max Budget for Token: 0.5"}}`, llm.CodeRateLimited, false},
		{403, `{"error":{"message":"The free tier of the model has been exhausted."}}`, llm.CodeRateLimited, false},
		{429, `{"error":{"message":"You have reached your weekly usage limit"}}`, llm.CodeRateLimited, false},
		{403, `{"error":"You have exceeded your monthly included credits for Inference Providers."}`, llm.CodeRateLimited, false},
		{429, `{"error":{"message":"Quota exceeded for generate_content_requests_per_minute_per_project"}}`, llm.CodeRateLimited, true},
		{429, `{"error":{"message":"API key sk has exceeded its rate of 10 requests"}}`, llm.CodeRateLimited, true},
		{400, `{"error":{"message":"Model Not Exist","type":"invalid_request_error"}}`, llm.CodeNotFound, false}, // langbot-app/LangBot#1643
		{400, `{"error":{"message":"deepseek-chat is not a valid model ID","code":400}}`, llm.CodeNotFound, false},
		{400, `{"error":"/chat/completions: Invalid model name passed in model=m. Call /v1/models to view available models for your key."}`, llm.CodeNotFound, false},
		{400, `{"object":"error","message":"Invalid model: m","type":"invalid_model"}`, llm.CodeNotFound, false},
		{500, `{"error":{"code":500,"message":"tools param requires --jinja flag","type":"server_error"}}`, llm.CodeBadRequest, false}, // defilantech/LLMKube#126
		{498, `{"error":{"message":"Flex tier capacity exceeded"}}`, llm.CodeRateLimited, true},
		{424, `{"error":{"message":"a dependency failed"}}`, llm.CodeServer, true},
		{425, `{}`, llm.CodeServer, true},
		{499, `[{"error":{"code":499,"message":"The operation was cancelled.","status":"CANCELLED"}}]`, llm.CodeServer, true},
		{520, `<html>`, llm.CodeServer, true},
		{530, `<html>`, llm.CodeServer, true},
		{529, `{"error":{"type":"overloaded_error","message":"Overloaded"}}`, llm.CodeServer, true},
		{401, `{}`, llm.CodeUnauthorized, false},
		{404, `{}`, llm.CodeNotFound, false},
		{422, `{}`, llm.CodeBadRequest, false},
		{400, `{"error":{"message":"Rate limit reached for m on tokens per min (TPM): Limit 10000, Used 9000, Requested 2000. Please try again in 6s."}}`, llm.CodeRateLimited, true},
		{403, `{"error":{"message":"slow down","code":"rate_limit_exceeded"}}`, llm.CodeRateLimited, true},
		{400, `{"error":{"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}`, llm.CodeUnauthorized, false},
		{400, `{"error":{"message":"The model m does not exist","code":"model_not_found"}}`, llm.CodeNotFound, false},
		{429, `{"error":{"message":"ThrottlingException: Too many tokens, please wait before trying again."}}`, llm.CodeRateLimited, true},
		{429, `{"error":{"message":"Daily token limit exceeded"}}`, llm.CodeRateLimited, true},
		{400, `{"error":{"message":"Tool call validation failed: attempted to call tool 'f' which was not in request.tools"}}`, llm.CodeServer, true},
		{400, `{"errors":[{"code":"invalid_input_argument","message":"prompt is too long"}],"trace":"1","status_code":400}`, llm.CodeContextLength, false},
		{400, `{"status":400,"title":"Bad Request","detail":"Function id 'x': DEGRADED function cannot be invoked"}`, llm.CodeServer, true}, // tashfeenahmed/freellmapi#522
		{400, `{"error":{"message":"Failed to call a function.","code":"tool_use_failed","failed_generation":"<function=f>{"}}`, llm.CodeServer, true},
		{400, `{"error":{"code":"1261","message":"Prompt 超长"}}`, llm.CodeContextLength, false},                                                                                                                    // GLM: NousResearch/hermes-agent#1877
		{400, `{"message":"Failed to generate tool_calls. Please adjust your prompt. See 'failed_generation' for more details.","type":"invalid_request_error","code":"wrong_api_format"}`, llm.CodeServer, true}, // Cerebras
		{400, `{"error":{"message":"Model produced invalid sequence as part of ToolUse."}}`, llm.CodeServer, true},
		{400, `{"error":{"message":"The response was filtered","type":null,"param":"prompt","code":"content_filter"}}`, llm.CodeBadRequest, false},
		{403, `{"error":{"message":"m requires moderation on x. Your input was flagged for \"harassment\".","code":403}}`, llm.CodeBadRequest, false},
		{404, `{"error":{"message":"No endpoints found that support image input","code":404}}`, llm.CodeBadRequest, false},
		{400, `{"success":false,"result":[],"messages":[],"error":[{"code":2005,"message":"Failed to get response from provider"}]}`, llm.CodeServer, true}, // cloudflare/ai#436
		{400, `{"error":{"message":"Upstream failed","code":"503"}}`, llm.CodeServer, true},
		{400, `{"error":{"message":"No deployments available for selected model, Try again in 5 seconds.","type":"None","code":"429"}}`, llm.CodeRateLimited, true}, // LiteLLM
		{400, `{"error":{"code":"unknown_model","message":"Unknown model: m"}}`, llm.CodeNotFound, false},                                                           // GitHub Models
		{400, `{"error":{"message":"The model m has been decommissioned and is no longer supported.","code":"model_decommissioned"}}`, llm.CodeNotFound, false},     // iffse/pay-respects#85
		{400, `{"error":{"message":"litellm.AuthenticationError","code":"401"}}`, llm.CodeUnauthorized, false},
		{400, `{"error":{"type":"rate_limit_error","code":400,"message":"slow down please"}}`, llm.CodeRateLimited, true},
		{400, `{"error":{"type":"rate_limit_error","code":"400","message":"slow down please"}}`, llm.CodeRateLimited, true},
		{403, `{"error":{"type":"rate_limit_error","code":403,"message":"slow down please"}}`, llm.CodeRateLimited, true},
		{400, `{"error":{"type":"invalid_api_key","code":"400","message":"no"}}`, llm.CodeUnauthorized, false},
		{400, `{"error":{"type":"model_error","code":403,"message":"no"}}`, llm.CodeUnauthorized, false},
		{400, `{"error":{"code":"previous_response_not_found","type":"invalid_request_error","message":"no"}}`, llm.CodeBadRequest, false},
		{400, `{"error":{"code":"file_not_found","message":"no"}}`, llm.CodeBadRequest, false},
		{400, `{"error":{"code":"invalid_timeout","message":"no"}}`, llm.CodeBadRequest, false},
		{400, `{"error":{"code":"timeout","message":"no"}}`, llm.CodeTimeout, true},
		{400, `{"error":{"code":"request_timeout","message":"no"}}`, llm.CodeTimeout, true},
		{400, `{"error":{"type":"model_not_found","code":400,"message":"no"}}`, llm.CodeNotFound, false},
		{400, `{"error":{"code":"1211","message":"no"}}`, llm.CodeNotFound, false}, // GLM
		{429, `{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached"}}`, llm.CodeRateLimited, false},
		{504, `{"error":{"message":"请求处理时间过长，请稍后重试"}}`, llm.CodeServer, true},
		{500, `{"error":{"message":"排队时间过长"}}`, llm.CodeServer, true},
		{504, `{"error":{"message":"内容生成时间过长"}}`, llm.CodeServer, true},
		{503, `{"error":{"message":"upstream retry budget exceeded"}}`, llm.CodeServer, true},
		{500, `{"error":{"message":"Request time budget exhausted"}}`, llm.CodeServer, true},
		{503, `{"error":{"message":"Usage limit reached for requests per minute"}}`, llm.CodeServer, true},
		{429, `{"error":{"message":"Token budget per minute exceeded"}}`, llm.CodeRateLimited, true},
		{403, `{"error":{"message":"Key limit exceeded, try again in 5s"}}`, llm.CodeRateLimited, true},
		{422, `{"detail":"[{'msg':'Value error','input':'Wait 3 seconds: my credits are exhausted'}]"}`, llm.CodeBadRequest, false},
		{429, `{"error":"insufficient quota","input":"Please wait 3 seconds"}`, llm.CodeRateLimited, false},
		{500, `{"error":{"message":"Failed to parse the arguments of tool 'notify_customer'"}}`, llm.CodeServer, true},
		{500, `{"error":{"message":"The call failed: tool not found"}}`, llm.CodeServer, true},
		{500, `{"error":{"message":"The web_search tool is not available"}}`, llm.CodeServer, true},
		{500, `{"error":{"message":"This node does not support the functionality"}}`, llm.CodeServer, true},
		{500, `{"error":{"message":"m does not support this tool_choice"}}`, llm.CodeServer, true},
		{500, `{"error":{"message":"m does not support function calling"}}`, llm.CodeBadRequest, false},
		{500, `{"error":{"message":"Tools are not currently supported by m"}}`, llm.CodeBadRequest, false},
		{500, `{"error":{"message":"Function calling is not enabled for models/m"}}`, llm.CodeBadRequest, false},
		{400, "{\"error\":{\"message\":\"The model `m/x:free` does not exist or you do not have access to it.\"}}", llm.CodeNotFound, false},
		{400, `{"error":{"message":"Model id: m could not be found"}}`, llm.CodeNotFound, false},
		{400, `{"error":{"message":"Invalid model: m. See the list of models."}}`, llm.CodeNotFound, false},
		{400, `{"error":{"message":"The requested model is not supported.","code":"model_not_supported","param":"model"}}`, llm.CodeNotFound, false}, // Copilot
		{400, `{"error":{"message":"This parameter is not supported by the requested model"}}`, llm.CodeBadRequest, false},
		{400, `{"error":{"message":"API key expired. Please renew the API key.","status":"INVALID_ARGUMENT"}}`, llm.CodeUnauthorized, false},                          // Gemini
		{429, `{"error":{"message":"You exceeded your current quota, see https://x/error-code#token-limit","code":"insufficient_quota"}}`, llm.CodeRateLimited, true}, // can1357/oh-my-pi#8496
		{429, `{"error":{"message":"Your account has reached the set inference limit for the model","code":"SetLimitExceeded"}}`, llm.CodeRateLimited, false},         // Ark
		{403, `{"error":{"message":"The request failed because your account has an overdue balance.","code":"AccountOverdueError"}}`, llm.CodeRateLimited, false},
		{403, `{"error":"Content violates usage guidelines. Failed check: x"}`, llm.CodeBadRequest, false}, // xAI
	} {
		code, retry := classify(tt.status, parseError([]byte(tt.body)), waitIn([]byte(tt.body), time.Now()) > 0)
		require.Equal(t, tt.code, code, tt.body)
		require.Equal(t, tt.retry, retry, tt.body)
	}
	e := (&client{config: defaults()}).objectError(parseError([]byte(`{"base_resp":{},"error":{"message":"insufficient balance","code":"1008"}}`)))
	require.Equal(t, llm.CodeRateLimited, e.Code)
	require.False(t, e.Retryable)
	for body, code := range map[string]llm.ErrorCode{ // under a status of success
		`{"base_resp":{"status_code":1004,"status_msg":"cookie is missing, log in again"}}`:                      llm.CodeUnauthorized, // MiniMax
		`{"base_resp":{"status_code":2013,"status_msg":"invalid params, invalid chat setting"}}`:                 llm.CodeBadRequest,
		`{"base_resp":{"status_code":1026,"status_msg":"input new_sensitive"},"choices":null}`:                   llm.CodeBadRequest,
		`{"base_resp":{"status_code":2056,"status_msg":"usage limit exceeded"},"choices":null}`:                  llm.CodeRateLimited, // MiniMax-AI/MiniMax-M2.7#36
		`{"success":false,"errors":[{"code":5007,"message":"No such model m or task"}]}`:                         llm.CodeNotFound,    // Cloudflare
		`{"error":{"code":"1301","message":"系统检测到输入或生成内容可能包含不安全或敏感内容"}}`:                                         llm.CodeBadRequest,  // GLM
		`{"error":{"code":"data_inspection_failed","message":"Output data may contain inappropriate content."}}`: llm.CodeBadRequest,  // camel-ai/owl#432
	} {
		for _, stream := range []bool{true, false} {
			_, err := ask(t, serve(t, jsonOf(body)), &llm.Request{Messages: hello.Messages, Stream: stream})
			require.ErrorAs(t, err, &e)
			require.Equal(t, code, e.Code, body)
			require.False(t, e.Retryable, body)
		}
	}
}

// TestErrorsInsideAnswers: an error means the same with a status and inside an answer that began well.
func TestErrorsInsideAnswers(t *testing.T) {
	for _, tt := range []struct {
		status int
		body   string
		code   llm.ErrorCode
		retry  bool
	}{
		{529, `{"type":"overloaded_error","message":"Overloaded"}`, llm.CodeServer, true},
		{500, `{"type":"api_error","message":"Internal server error"}`, llm.CodeServer, true},
		{500, `{"code":"server_error","message":"The server had an error"}`, llm.CodeServer, true},
		{503, `{"code":"server_is_overloaded","message":"Our servers are currently overloaded"}`, llm.CodeServer, true},
		{499, `{"code":499,"message":"The operation was cancelled.","status":"CANCELLED"}`, llm.CodeServer, true},
		{429, `{"type":"rate_limit_error","message":"This request would exceed your limit"}`, llm.CodeRateLimited, true},
		{429, `{"type":"tokens","code":"rate_limit_exceeded","message":"Rate limit reached. Please try again in 6s."}`, llm.CodeRateLimited, true},
		{429, `{"code":"Throttling.RateQuota","message":"Requests rate limit exceeded"}`, llm.CodeRateLimited, true},
		{429, `{"type":"ThrottlingException","message":"Too many tokens, please wait before trying again."}`, llm.CodeRateLimited, true},
		{400, `{"type":"invalid_request_error","message":"Too many requests, wait a moment"}`, llm.CodeRateLimited, true},
		{429, `{"type":"insufficient_quota","message":"You exceeded your current quota"}`, llm.CodeRateLimited, false},
		{402, `{"type":"billing_error","message":"Payment is required"}`, llm.CodeRateLimited, false},
		{400, `{"type":"invalid_request_error","message":"You have reached your specified API usage limits."}`, llm.CodeRateLimited, false},
		{400, `{"type":"invalid_request_error","code":"tool_use_failed","message":"Failed to call a function."}`, llm.CodeServer, true},
		{400, `{"type":"invalid_request_error","message":"messages: at least one message is required"}`, llm.CodeBadRequest, false},
		{400, `{"code":"invalid_prompt","message":"The prompt was refused"}`, llm.CodeBadRequest, false},
		{413, `{"type":"request_too_large","message":"Request exceeds the maximum size"}`, llm.CodeBadRequest, false},
		{401, `{"type":"authentication_error","message":"invalid x-api-key"}`, llm.CodeUnauthorized, false},
		{500, `{"code":1004,"message":"The tool has failed"}`, llm.CodeServer, true},
		{403, `{"type":"permission_error","message":"no access"}`, llm.CodeUnauthorized, false},
		{404, `{"type":"not_found_error","message":"model: m"}`, llm.CodeNotFound, false},
		{429, `{"code":"1302","message":"too much at once"}`, llm.CodeRateLimited, true}, // GLM
		{408, `{"type":"timeout_error","message":"too slow"}`, llm.CodeTimeout, true},
		{400, `{"message":"Rate limit reached for this model"}`, llm.CodeRateLimited, true},
		{400, `{"message":"The model m does not exist"}`, llm.CodeNotFound, false},
		{400, `{"message":"Failed to call a function."}`, llm.CodeServer, true},
		{402, `{"message":"monthly budget exceeded"}`, llm.CodeRateLimited, false},
		{400, `{"code":"previous_response_not_found","type":"invalid_request_error","message":"no"}`, llm.CodeBadRequest, false},
		{400, `{"code":400,"type":"rate_limit_error","message":"slow down please"}`, llm.CodeRateLimited, true},
		{500, `{"message":"this model does not support image input"}`, llm.CodeBadRequest, false},
	} {
		a := parseError([]byte(`{"error":` + tt.body + `}`))
		inside := (&client{config: defaults()}).objectError(a)
		code, retry := classify(tt.status, a, inside.RetryAfter > 0)
		require.Equal(t, []any{tt.code, tt.retry}, []any{code, retry}, "%d %s", tt.status, tt.body)
		require.Equal(t, []any{tt.code, tt.retry}, []any{inside.Code, inside.Retryable}, tt.body)
	}
}

func TestWaitIn(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	for body, want := range map[string]time.Duration{
		`{"error":{"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}]}}`: 34500 * time.Millisecond,
		`{"retry_after":5}`:                          5 * time.Second,
		`{"retry_after":"2.5"}`:                      2500 * time.Millisecond,
		`{"retry_after_ms": 350}`:                    350 * time.Millisecond,
		`{"error":"loading","estimated_time":20.5}`:  20500 * time.Millisecond,
		`Please try again in 2s.`:                    2 * time.Second,
		`Please try again in 350ms. Visit`:           350 * time.Millisecond,
		`Please try again in 1m2.5s.`:                62500 * time.Millisecond,
		`Try again in 6m0s`:                          6 * time.Minute,
		`Please retry after 10 seconds.`:             10 * time.Second,
		`retry in about 1 minute and 30 seconds`:     90 * time.Second,
		`Please wait 2 hours, 3 minutes.`:            2*time.Hour + 3*time.Minute,
		`Wait for another 500 milliseconds`:          500 * time.Millisecond,
		`Your limit resets at 2026-11-26T12:01:00Z.`: time.Minute,
		`Your quota will reset after 27h41m36s.`:     27*time.Hour + 41*time.Minute + 36*time.Second, // diegosouzapw/OmniRoute#858
		`Your limit resets in 2 hours.`:              2 * time.Hour,
		`{"resets_in_seconds":3600}`:                 time.Hour, // NousResearch/hermes-agent#26893
		`{"retry_after_seconds":12}`:                 12 * time.Second,
		`{"headers":{"Retry-After":"20"}}`:           20 * time.Second,
		`Limit resets at: 2026-11-26 12:00:59 UTC`:   59 * time.Second, // LiteLLM
		`Please try again in 1m 30s`:                 90 * time.Second,
		`retry in 5.2 s`:                             5200 * time.Millisecond,
		`{"headers":{"X-RateLimit-Limit":"50","X-RateLimit-Remaining":"0","X-RateLimit-Reset":"1795694460000"}}`: time.Minute, // OpenRouter
		`reset after 5 messages`:                 0,
		`try again at 2026-11-26T14:00:00+02:00`: 0,
		`Try again in 99999999999 hours`:         longestWait,
		`try again later`:                        0,
		`retry with 5 messages, please`:          0,
		`try again in 5 messages`:                0,
		`try again in 5`:                         0,
		`the waiter brings 5s and 6m`:            0,
		``:                                       0,
	} {
		require.Equal(t, want, waitIn([]byte(body), now), body)
	}
	require.Equal(t, 3*time.Second, retryAfter(http.Header{"Retry-After": {"3"}}, now))
}

// TestRefusalInAParameter: some endpoints say in the field of the parameter what is wrong (earendil-works/pi#4507).
func TestRefusalInAParameter(t *testing.T) {
	m := serve(t, status(400, `data:{"error":{"code":"400","message":"Param Incorrect","param":"The model is asleep today.","type":""}}`))
	require.Contains(t, fails(t, m, hello).Message, "Param Incorrect: The model is asleep today.")
	m = serve(t, status(400, `{"error":{"code":"400","message":"","param":"a b c","hint":"sleep"}}`))
	require.Contains(t, fails(t, m, hello).Message, `"hint":"sleep"`, "the whole body, if it says nothing else")
}
