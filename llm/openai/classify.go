package openai

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/llm"
)

// This file classifies the errors of endpoints. The lists contain what endpoints are known to return.

// overflow lists parts of errors, in lower case, that mean that a request is longer than the model's window.
// otherLimits lists parts of errors about other limits that use the same terms. tooLong decides the remaining cases.
var (
	overflow = lazyregexp.New(`(?s)(inputs?|prompt|context|messages|conversation|history|sequence|request(ed)?|current length|total.tokens|n_ctx).{0,80}` +
		`(exceed|too (long|large|many|big)|(longer|larger|greater|less) than|over the limit of \d|>= n_ctx|only supports|at most|must be <|> ?\d|cannot|limit is|overflow).{0,80}` +
		`|(exceed|too (long|large|many)|(longer|larger|greater) than).{0,40}(input|prompt|context|messages|maximum model|token limit)` +
		`|context limit reached|\bmessage( is)? too long|token limit exceeded|maximum (allowed )?(prompt|input) length|maximum number of (input|prompt) tokens` +
		`|(\b(prompt|input|tokens?)\b|token数量|输入|上下文|提示|对话|消息|内容)[^时,，。]{0,12}(过长|超长|太长|超过|超出|超限)`) // GLM, Spark; with 时间 it is a time that is too long
	lengths     = lazyregexp.New(`token|length|context|too long|n_ctx|kv size|过长|超|太长`)
	otherLimits = lazyregexp.New(`per (second|min|hour|day|month)|daily|monthly|weekly|quota|throttl|rate.?limit|\b[rt]p[md]\b|concurren|too many requests|每(秒|分|小时|天|日)|频率|并发|速率|` +
		`(` + otherSubjects + `)\b(\W+(token|limit|length|size|input|is|are|in|of|the|request(ed)?|count|you|\d+))*\W+(exceed|too (long|large))|` +
		`max_(completion_|output_|new_)?tokens.{0,40}(is too|exceed|must|should)|` +
		`'(tools|messages|input|stop)\b[^']*'|schema|description|string (should|too)|array`)
	tooLong = []string{
		"maximum context length", // OpenAI, DeepSeek, Mistral, vLLM, OpenRouter, Fireworks, Ollama
		"context size",           // llama.cpp, LM Studio
		"context window",         // Bedrock, MiniMax, LiteLLM, Cloudflare
		"exceed context limit",   // Anthropic
		"size limit exceeded by", // Cohere
		"range of input length",  // DashScope
		"+ max_new_tokens",       // TGI, Together
		"+ `max_new_tokens`",
		"tokens must be reduced in order to run", // OpenAI, where one request alone is over the limit of a minute
		"reduce your message size",               // Groq, likewise
		"reduce the length of the messages",      // Groq, Cerebras
		"middle-out",                             // OpenRouter
		"more than max tokens allowed",           // anomalyco/opencode#27519
		"context shift is disabled",              // llama.cpp
		"expected maxlength:",                    // Bedrock
		"the sum of prompt length",               // TensorRT-LLM
		"`inputs` must have less than",           // TGI
		"max_tokens must be at least 1, got -",   // vLLM, if the prompt leaves no room: no request asks for less than 1
		"max_completion_tokens must be at least 1, got -",
	}
)

// otherSubjects matches what has a limit of its own, before a word for a limit.
const otherSubjects = `max(imum)?[ _](output[ _]|completion[ _]|new[ _])?tokens?|(output|completion)[ _]tokens|\w*_(id|key)|\b(id|key|name)|arguments|metadata|` +
	`(stop )?sequences|logprobs|images?|audio|video|\w*budget`

// tooLongCodes are the codes and types of such errors.
var tooLongCodes = []string{"context_length_exceeded", "exceed_context_size_error", "model_max_prompt_tokens_exceeded", "tokens_limit_reached", "1261"} // 1261: GLM

// unpaid lists parts of errors, in lower case, that mean that the account has no credit or quota left; waiting does not
// help. unpaidCodes are the codes and types of such errors.
var (
	unpaid = []string{
		"exceeded your current quota",  // OpenAI, Kimi; Gemini also about the quota of a minute, with the time to wait
		"insufficient balance",         // DeepSeek, MiniMax
		"insufficient credits",         // OpenRouter
		"insufficient quota",           // Azure, Qwen
		"credit balance is too low",    // Anthropic
		"run out of available credits", // xAI
		"monthly spending limit",       // xAI
		"billing hard limit",           // OpenAI
		"account is in good standing",  // DashScope
		"specified api usage limits",   // Anthropic
		"余额不足",                         // GLM
		"overdue balance",              // Ark
	}
	// spent matches what the same means at OpenRouter, LiteLLM, Hugging Face and DashScope, where a key or a team has a limit.
	// rate matches limits after which waiting does help, and throttled those that DashScope words as an empty account.
	spent = lazyregexp.New(`\b(budget|balance|credits?|free tier)\b.{0,40} (exceeded|exhausted|depleted|used up)|(exceed(ed|s)? ?(your |the |token ?)?|over |crossed )budget|key limit exceeded|` +
		`(balance|credits?|funds|quota)\b(\W+\w+)? (is|are) (insufficient|not enough|too low)|(insufficient|(do|does)( not|n.t) have (enough|any)|not enough|out of|no( remaining)?) ((account|user|api) )?(balance|credits|funds|quota)\b|` +
		`额度(不足|已用尽|失败)|欠费|used up your|(reached|exceeded) your (weekly|monthly|usage|free|budget)\b.{0,20}(limit|quota|usage|credits)|(weekly|monthly|usage) (usage )?limit (has been )?(reached|exceeded)`)
	rate        = lazyregexp.New(`per.(second|min|hour)`)
	throttled   = lazyregexp.New(`error-code#token-limit`)
	unpaidCodes = []string{"insufficient_quota", "budget_exceeded", "billing_hard_limit_reached", "billing_not_active", "exceeded_current_quota_error",
		"insufficient_balance", "insufficient_credits", "insufficient_user_quota", "pre_consume_token_quota_failed", "arrearage", "1113", "1304", "1308", "1310", "base_resp 2056", "setlimitexceeded"} // GLM, MiniMax, Ark
)

// Errors to which some endpoints give a misleading status: too many requests, a wrong key, an unknown model, and
// failures of the model or of its server, which may not come the next time.
var (
	limited  = []string{"rate limit", "too many requests"}
	wrongKey = lazyregexp.New(`(invalid|incorrect|expired|missing|no) api.?key|api.?key\W{1,3}(\S+ )?(is |was |has )?(not (valid|found|provided)|missing|invalid|incorrect|expired|revoked|disabled)|not authenticated`)
	noModel  = lazyregexp.New(`\bmodels?([:=/]\S*)?( (with )?(id|name|identifier):?)?( \S*[^\s:,])?( (is|was|does|could))? not (exist|(be )?found)|` +
		`not a valid model|(unknown|unsupported|no such) model( (id|name))?\s*[:'"]|model identifier is invalid|no models loaded|requested model( \S+)? is not supported|invalid model( name|\W*$|:\s*\S+([.,;]\s|$))`) // DeepSeek, OpenRouter, LiteLLM, Mistral
	broken = []string{
		"failed to call a function", "tool call validation failed", // Groq, also through gateways
		"failed to generate tool_calls",       // Cerebras
		"invalid sequence as part of tooluse", // Bedrock
		"degraded function cannot be invoked", // NVIDIA
	}
	brokenCodes = []string{"tool_use_failed", "output_parse_failed"}
	noMedia     = lazyregexp.New(`\b(image|audio|vision|video|multi-?modal).{0,40}(not|n.t)( be)? support|(not|n.t|found that) support.{0,40}(image|audio|vision|video|multi-?modal)`)
	otherAPI    = []string{"v1/responses", "not a chat model"} // OpenAI
	noTools     = lazyregexp.New(`(n.t|not) support.{0,12}\b(tools|functions|(tool|function).(use|call(s|ing)?))\b|support tool use|unsupported param: tools|function.calling is not|` +
		`\b(tools|functions|(tool|function).(use|calling))\W{1,3}(param )?(is |are )?(not (\w+ )?(supported|available|enabled|allowed)|requires --jinja)`) // --jinja: llama.cpp
)

// filtered lists parts of errors, in lower case, that mean that a filter refuses what a text says. Neither another form
// nor another time changes that. filteredCodes are the codes and types of such errors.
var (
	filtered = []string{"content management policy", "requires moderation on", "input was flagged", "inappropriate content", // Azure, OpenRouter, DashScope
		"violates usage guidelines", "content exists risk", "contain sensitive information"} // xAI, DeepSeek, Ark
	filteredCodes = []string{"content_filter", "content_policy_violation", "data_inspection_failed", "datainspectionfailed", "sensitive_words_detected", "1301", // GLM
		"base_resp 1026", "base_resp 1027"} // MiniMax
)

func isContextLength(a *goopenai.APIError) bool {
	return containsAny(a, tooLong, tooLongCodes) || says(a, overflow) && says(a, lengths) && !says(a, otherLimits)
}

// isSpent reports whether an error says that the account's budget is used up. With other statuses, it is a budget of
// the server itself, such as that of its retries.
func isSpent(status int, a *goopenai.APIError) bool {
	statuses := []int{0, http.StatusBadRequest, http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusTooManyRequests}
	return slices.Contains(statuses, status) && says(a, spent) && !says(a, rate)
}

// says reports whether the message of an error matches an expression in lower case, in the endpoint's own words.
func says(a *goopenai.APIError, words *lazyregexp.Regexp) bool {
	return words.Get().MatchString(ownWords(strings.ToLower(a.Message)))
}

// containsAny reports whether an error has one of the codes as its code or type, or contains one of the texts in the
// endpoint's own words.
func containsAny(a *goopenai.APIError, words, codes []string) bool {
	is := func(code string) bool { return slices.Contains(codes, strings.ToLower(code)) }
	message := ownWords(strings.ToLower(a.Message))
	return is(fmt.Sprint(a.Code)) || is(a.Type) || slices.ContainsFunc(words, func(s string) bool { return strings.Contains(message, s) })
}

// classify returns the code of a status, and whether the request may be retried. An error with a time to wait may. A bad
// request is what the code of its error says, which may be that of an endpoint behind a gateway. The status 0 is that of
// an error whose code and type name none: its words decide, and otherwise it is the server's.
func classify(status int, a *goopenai.APIError, waits bool) (llm.ErrorCode, bool) {
	own := ownStatus(a, status == http.StatusBadRequest)
	if status == http.StatusBadRequest {
		status = cmp.Or(own, status)
	}
	unknown := status == 0
	bad, failed := unknown || status == http.StatusBadRequest, unknown || status == http.StatusInternalServerError
	switch {
	case !unknown && status < 400:
		return llm.CodeNotFound, false
	case isContextLength(a) && !(waits && status == http.StatusTooManyRequests):
		return llm.CodeContextLength, false
	case status == http.StatusPaymentRequired, containsAny(a, unpaid, unpaidCodes), isSpent(status, a):
		return llm.CodeRateLimited, (waits || says(a, throttled)) && status != http.StatusPaymentRequired
	case containsAny(a, filtered, filteredCodes):
		return llm.CodeBadRequest, false
	case bad && containsAny(a, broken, brokenCodes):
		return llm.CodeServer, true
	case (bad || status == http.StatusForbidden) && (own == http.StatusTooManyRequests || containsAny(a, limited, nil)):
		return llm.CodeRateLimited, true
	case status == http.StatusUnauthorized, status == http.StatusForbidden, failed && own == http.StatusUnauthorized,
		(bad || failed) && says(a, wrongKey):
		return llm.CodeUnauthorized, false
	case (failed || status == http.StatusNotFound) && says(a, noMedia), // llama.cpp, OpenRouter
		failed && says(a, noTools):
		return llm.CodeBadRequest, false
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed, bad && says(a, noModel):
		return llm.CodeNotFound, false
	}
	return codeOf(status)
}

// codeOf returns the code of a status by itself, and whether the request may be retried.
func codeOf(status int) (llm.ErrorCode, bool) {
	switch status {
	case http.StatusRequestTimeout:
		return llm.CodeTimeout, true
	case http.StatusConflict:
		return llm.CodeBadRequest, true
	case http.StatusTooManyRequests, 498: // 498: Groq is out of capacity
		return llm.CodeRateLimited, true
	case 0, http.StatusFailedDependency, http.StatusTooEarly, 499: // 499: Google's CANCELLED, and proxies
		return llm.CodeServer, true
	}
	if status >= 500 {
		return llm.CodeServer, true
	}
	return llm.CodeBadRequest, false
}

const longestWait = 1000 * time.Hour // a longer wait would overflow, and means never

// retryAfter returns how long a response asks to wait; 0 if it does not, or if the value makes no sense. The headers in
// milliseconds are those of OpenAI and Azure.
func retryAfter(h http.Header, now time.Time) time.Duration {
	return cmp.Or(waitOf(h.Get("Retry-After-Ms"), time.Millisecond, now), waitOf(h.Get("X-Ms-Retry-After-Ms"), time.Millisecond, now), waitOf(h.Get("Retry-After"), time.Second, now))
}

// spentLimit matches the header RateLimit in the two forms of the drafts of the IETF, if nothing is left.
var spentLimit = lazyregexp.New(`\b(?:r|remaining)=0\b.*?\b(?:t|reset)=(\d+)`)

// resetAfter returns how long it takes until all limits are reset that the headers of a response call used up. It
// returns 0 if the response says itself how long to wait.
func resetAfter(h http.Header, now time.Time) (wait time.Duration) {
	if h.Get("Retry-After") != "" || h.Get("Retry-After-Ms") != "" {
		return 0
	}
	for name := range h {
		if left := strings.Replace(name, "Reset", "Remaining", 1); left != name && h.Get(left) == "0" {
			wait = max(wait, waitOf(h.Get(name), time.Second, now))
		}
	}
	if m := spentLimit.Get().FindStringSubmatch(h.Get("RateLimit")); m != nil {
		wait = max(wait, waitOf(m[1], time.Second, now))
	}
	return wait
}

// clock returns the time of the server that sent the headers, which may differ from this machine's.
func clock(h http.Header) time.Time {
	if server, err := http.ParseTime(h.Get("Date")); err == nil {
		return server
	}
	return time.Now()
}

// waitOf reads a wait: a number of units, a duration such as 6m0s, one in words, or a time as a date or in seconds or
// milliseconds since 1970.
func waitOf(text string, unit time.Duration, now time.Time) time.Duration {
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		switch {
		case !(n > 0) || math.IsInf(n, 0): // it may also be NaN
			return 0
		case n > 1e12 && n < 1e14:
			return until(time.UnixMilli(int64(n)), now)
		case n > 1e9 && n < 1e11:
			return until(time.Unix(int64(n), 0), now)
		}
		return bounded(n * float64(unit))
	}
	if d, err := time.ParseDuration(text); err == nil {
		return max(0, min(d, longestWait))
	}
	for _, layout := range []string{http.TimeFormat, time.RFC850, time.ANSIC, time.RFC3339, time.DateTime + " UTC"} {
		if at, err := time.Parse(layout, text); err == nil {
			return until(at, now)
		}
	}
	sum := 0.0
	for _, p := range waitParts.Get().FindAllStringSubmatch(text, -1) {
		n, _ := strconv.ParseFloat(p[1], 64)
		sum += n * float64(unitOf(strings.ToLower(p[2])))
	}
	return bounded(sum)
}

func until(at, now time.Time) time.Duration { return max(0, min(at.Sub(now), longestWait)) }

func bounded(d float64) time.Duration { return time.Duration(min(d, float64(longestWait))) }

// The forms of waits in the body of an error: Google's RetryInfo, fields of gateways, texts such as "try again in
// 1m2.5s" or "retry after 10 seconds", and dates.
var (
	waitFields = lazyregexp.New(`(?i)"(retry[-_]?(?:delay|after|in)(?:_?(?:ms|s|sec|seconds))?|estimated_time|resets_in_seconds|x-ratelimit-remaining"\s*:\s*"0"\s*,\s*"x-ratelimit-reset)"\s*:\s*"?(\d+(?:\.\d+)?)(ms|s)?"?`)
	waitWords  = lazyregexp.New(`(?i)\b(?:again|retry|wait|resets?)\s+(?:(?:in|after|for|about|approximately|at least|another)\s+)*(?:(\d[\dhms. ]*[hms])\b|((?:\d+(?:\.\d+)?\s*` + waitUnit + `[\s,]*(?:and\s+)?)+))`)
	waitParts  = lazyregexp.New(`(?i)(\d+(?:\.\d+)?)\s*(` + waitUnit + `)`)
	waitDates  = lazyregexp.New(`(?i)\b(?:again|retry|resets?)\s+(?:at|after|on):?\s+(\d{4}-\d\d-\d\d[T ][0-9:.]+(?:Z| UTC|[+-]\d\d:\d\d))`)
)

const waitUnit = `(?:milliseconds?|secs?|seconds?|mins?|minutes?|hrs?|hours?)\b`

// waitIn returns how long the body of an error asks to wait in the endpoint's own words; 0 if it does not.
func waitIn(body []byte, now time.Time) time.Duration {
	body = []byte(ownWords(string(body)))
	if m := waitFields.Get().FindSubmatch(body); m != nil {
		unit := time.Second
		if strings.HasSuffix(strings.ToLower(string(m[1])), "ms") || strings.EqualFold(string(m[3]), "ms") {
			unit = time.Millisecond
		}
		return waitOf(string(m[2]), unit, now)
	}
	if m := waitWords.Get().FindSubmatch(body); m != nil {
		return waitOf(strings.ToLower(strings.ReplaceAll(string(m[1]), " ", "")+string(m[2])), time.Second, now)
	}
	if m := waitDates.Get().FindSubmatch(body); m != nil {
		return waitOf(string(m[1]), time.Second, now)
	}
	return 0
}

func unitOf(word string) time.Duration {
	switch {
	case strings.HasPrefix(word, "mil"):
		return time.Millisecond
	case strings.HasPrefix(word, "m"):
		return time.Minute
	case strings.HasPrefix(word, "h"):
		return time.Hour
	}
	return time.Second
}
