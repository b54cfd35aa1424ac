package openai

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/llm"
)

// quirks is a set of rows of quirkTable: what an endpoint refuses of an ordinary request, or requires in addition.
type quirks uint64

const (
	quirkBareSchemas quirks = 1 << iota
	quirkEchoEmpty
	quirkEchoFilled
	quirkSignatures
	quirkEcho
	quirkNoEcho
	quirkNoSignatures
	quirkMaxCompletion
	quirkMaxTokens
	quirkAlternate
	quirkBridge
	quirkNoSystem
	quirkToolNames
	quirkNoEmpty
	quirkString
	quirkTools
	quirkNoStreamOptions
	quirkNoStream
	quirkStreamAlways
	quirkNoParallel
	quirkNoToolChoice
	quirkSchemaInPrompt
	quirkNoCacheKeys
	quirkNoLogProbs
	quirkNoSampling
	quirkNoSeed
	quirkNoStop
	quirkEffortNone
	quirkNoThinking
	quirkLetterNames
	quirkSingleCalls
	quirkWordsApart
	quirkPlainKeys
	quirkShortDescriptions
	quirkMaxTokensAlways
	quirkItemTypes
	quirkLateSystem
	quirkAllowedTools
)

// quirkTable has a row for each quirk, in the order of the constants. A refusal is compared with the rows in this
// order. It matches a row if it names one of the fields near a word for "unsupported", or if it matches words. Both are
// expressions in lower case.
var quirkTable = [...]struct{ name, sent, fields, words string }{
	{"bare-schemas", "schemas of tools with the commonest keywords only", "", toolFeatures}, // Kimi, Gemini, llama.cpp
	{"echo-empty", "like `echo`, and an empty reasoning with each message of the assistant that has none", "",
		`(reasoning_content|reasoning content|reasoning_details|content\[\]\.thinking).{0,120}(missing|passed back|required|must be (passed|provided|included|present|sent|set|non))|` +
			`(missing|requires?|must (include|contain|have|pass)).{0,80}(reasoning_content|reasoning content|reasoning_details)`}, // Kimi, DeepSeek
	{"echo-filled", "like `echo-empty`, with a dot in place of empty reasoning", "", `(reasoning_content|reasoning content).{0,120}(missing|empty|required)`}, // Kimi
	{"signatures", "calls that came from elsewhere get the signature that Google documents for them", "", `thought_?signature`},                               // Gemini
	{"echo", "reasoning goes back to the model that gave it, in the field that it came in", "", `thought_?signature|` + earlierThoughts},                      // Gemini at OpenRouter
	{"no-echo", "reasoning never goes back", "reasoning_content|reasoning_details|messages.{0,40}reasoning", "both content and thinking|" + unreadable},       // Groq, Mistral, Cerebras
	{"no-signatures", "calls go back without the fields of others, such as `extra_content`, reasoning without ids", "extra_content|provider_specific_fields|thought_signature", `(item with id|reasoning item).{0,120}(not found|expired)`},
	{"max-completion-tokens", "`max_completion_tokens` in place of `max_tokens`", `\bmax_tokens`, `max_completion_tokens.{0,2} instead|use .?max_completion_tokens`}, // OpenAI
	{"max-tokens", "`max_tokens` in place of `max_completion_tokens`", "max_completion_tokens", `[^_]max_tokens.{0,2} instead`},
	{"alternate", "messages of one role in a row are joined, a user's message is the first, and `bridge`", "", `\balternat(e|es|ing)\b|turn comes immediately after|(consecutive|successive).{0,30}(role|messages|user|assistant)|(start|begin) with a user message|unexpected role\W+(user|assistant)\W+after role\W+(user|assistant|system)|(messages|roles) in a row|interleaved|first message must use|no user query|cannot be provided in the same turn`},
	{"bridge", "a short message of the assistant between a result and a user's message", "", `role.{0,6}user.{0,20}after.{0,20}tool|after.{0,30}tool.{0,60}(assistant|not user)`},                                                                                                                                               // Mistral
	{"no-system", "the system text as the first message of the user", `\bsystem\b|developer instruction`, `'system'.{0,20}not one of|role.{0,40}(should be|one of)\W{1,4}user\W{1,4}(or )?\W?assistant\W*$|tag 'system'|roles are supported|role: unexpected value|first message must be user|invalid (message )?role: system`}, // Gemma, o1-mini
	{"tool-names", "each result with the tool's name", "", `function_?response\.name|\bname\b.{0,40}role .?tool`},                                                                                                                                                                                                               // Gemini behind gateways
	{"no-empty", "no text that is empty or white space: none next to calls, else `(empty)`", "", `empty|不能为空|non-?whitespace|blank|min(imum)? length|at least (1|one) (character|token)|length greater than or equal to 1|trailing whitespace`},                                                                                 // Claude, Bedrock
	{"string-content", "the content of a message is always a string, also next to calls", "", `\bcontent\b.{0,80}(null|nil\b|none\b|string|不能为空)|(null|none\b|string).{0,60}\bcontent\b|messages parameter is illegal|nonetype|参数非法|` +
		`valid string|sequence, expected a string|at least one (non-empty )?content|must be string, but is null|\(not "list"\) to str|` +
		`\bcontent\W{1,3}((field|type)\W{1,2})?(that )?((is|not|a|field) )*(required|missing|empty|data did not match any variant|expected one of\W{1,4}str\b)|` +
		`missing( required)?( field| parameter)?\W{1,4}(messages\S{0,5}\.)?content([^\[.\w]|$)`}, // Ark, LM Studio, SambaNova, llama.cpp
	{"tools-always", "a placeholder where a conversation has calls and the request has no tools", "", `tools=|toolconfig.{0,20}must|(must|requires?|expects?|missing).{0,40}\btools\b`},                                // LiteLLM, Bedrock
	{"no-stream-options", "no `stream_options`", "stream_options|include_usage", ""},                                                                                                                                   // Fireworks, old vLLM, Mistral
	{"no-stream", "no `stream`: the answer comes whole", "", `verified to stream|(not|n.t) support( tool use in)? stream|\bstream(ing)?\b(=true)? (is )?(not |un)(\w+ )?(support|allow)|\bstream\W{1,3}must be false`}, // OpenAI, Bedrock
	{"stream-always", "`stream` in each request", "", `only (supports? )?(the )?stream|enable the stream|\bstream\b.{0,12}must be.{0,12}true|requires? .{0,20}\bstream(ing\b|\W{1,4}true)|streaming is required|must have stream|` +
		`non-?stream(ing)?\b.{0,40}(not|n.t|un)( be)? ?support|(false for|not support(ed)?( for| in)?) non-?stream|support.{0,20}stream\W{1,4}false`}, // DashScope
	{"no-parallel-calls", "no `parallel_tool_calls`", "parallel.?(tool|function).?(calls|calling|use)", ""},                                                                                                 // o3, o4-mini
	{"no-tool-choice", "no `tool_choice`; a tool that must be called is the only one", "tool.?choice", `invalid tool_choice|tool_choice.{0,40}(must|should) (\w+ )?be|only named tools|tool_choice forces`}, // DeepSeek, Kimi
	{"schema-in-prompt", "the schema of an answer in the system text, not as `response_format`", `response_?(format|schema)|response.mime.type|json_schema|json (schema )?mode|guided.(json|decoding)|text_?format|structured output`,
		`json mode cannot be combined|response.format and (function|tool)|must be 'json_schema' or 'text'|text\W{1,4}((or|and) )?\W?json_object|populating 'response_mime_type'|` + schemaFeatures}, // DeepSeek, Gemini, Groq, LM Studio, vLLM
	{"no-cache-keys", "no `prompt_cache_key`, `id_slot` or `service_tier`", "prompt_cache_key|id_slot|service_tier", ""},
	{"no-logprobs", "no `logprobs`", "logprobs", ""},
	{"no-sampling", "no `temperature` and no `top_p`", "temperature|\\btop.?p\\b", `(temperature|top_p).{0,40}(only|unset|not both)|(temperature|top_p)\W{1,3}(must be|is) (fixed|set)?( at| to)? ?1(\.0)?\b`}, // OpenAI's reasoning models, Kimi
	{"no-seed", "no `seed`", `\bseed\b`, ""},
	{"no-stop", "no `stop`", `\bstop(.?sequences?)?\b`, ""},                                                  // OpenAI's reasoning models, xAI
	{"effort-none", "`reasoning_effort` is `none` in requests with tools", "", `reasoning_effort to .?none`}, // OpenAI, with tools
	{"no-thinking", "neither effort nor switch of thinking", `reasoning.?effort|parameter:? .?reasoning\b|think value|enable_thinking|chat_template_kwargs|encrypted.?content|\bthinking(.?(budget|level|config))?\b`, thoughtless}, // xAI
	{"letter-names", "`_` before names of tools that begin with a digit", "", `name.{0,40}must (start|begin) with a letter`},                                                                                                        // Gemini
	{"single-calls", "a message of the assistant for each call", "", `single tool.?calls? at once|only one tool.?call`},                                                                                                             // Llama
	{"words-apart", "text next to calls as an earlier message", "", `either content or tool_calls.{0,3} but not both|both content and tool_calls`},                                                                                  // Mistral
	{"plain-keys", "properties of tools get names of at most 64 letters, digits, `_` and `-`", "", `property (keys?|names?).{0,40}(match|pattern)`},                                                                                 // Claude, Bedrock
	{"short-descriptions", "descriptions of tools continue in the system text after 1,000 characters", "", `description.{0,60}(too long|maximum length|exceed|at most \d)|(too long|exceed).{0,60}description`},                     // OpenAI, Azure
	{"max-tokens-always", "a limit of 8,192 tokens where none is set", "", `max_(completion_)?tokens.{0,12}(field required|is required|missing|must be set)|(required|missing).{0,30}max_(completion_)?tokens`},                     // gateways to Claude
	{"item-types", "in the Responses API, texts of the assistant as items with a type", "", `determine type of 'item'`},                                                                                                             // llama.cpp
	{"late-system", "the instructions of agents that [share their requests](cost-of-a-transfer.md) as a message of the system", "", never},                                                                                          // OpenAI
	{"allowed-tools", "the tools that such an agent may call as `allowed_tools` of `tool_choice`", "", never},                                                                                                                       // OpenAI
}

// schemaFeatures matches refusals of the schema of one answer, and toolFeatures those of the schema of one tool. Other
// schemas may be accepted. thoughtless matches refusals of a budget of zero tokens, or of a conversation without the
// earlier thoughts. otherEfforts matches refusals of an effort that name those of the model, and unreadable those of
// thoughts that the endpoint did not write, or wrote with another key.
const (
	schemaFeatures = `xgrammar|unsupported json schema`
	toolFeatures   = `failed to parse grammar|json schema conversion failed|(tools?|function)\b.{0,80}unsupported (field|keyword)|unsupported json schema field|` +
		`unable to submit request because.{0,40}function.{0,120}(schema|parameters)|input_schema does not support|must match json schema draft|moonshot flavored|function_declarations\[\d+\]\.parameters`
	thoughtless     = noBudget + `|reasoning is mandatory|` + earlierThoughts
	noBudget        = `budget.{0,9} 0\b|only works in thinking mode`
	otherEfforts    = `reasoning.?effort.{0,20}(must be one of|input should be|supported values)|supported values.{0,80}reasoning.?effort|invalid reasoning value`
	earlierThoughts = `expected .?thinking.{0,40}found`
	unreadable      = `encrypted.?content.{0,200}(could not|cannot) be (verified|decrypted)|invalid .?signature.? in .?thinking|thinking.{0,20} blocks .{0,60}cannot be modified`
)

// unsaid matches the names of members of an error that quote a request, in JSON, in Python or escaped, and empty
// members, which say nothing of its form. oneRequest matches refusals of what other requests may not have: features of
// one schema, the thoughts of one conversation, or the value of an effort. conflict matches refusals of settings that go
// together in some requests only. invalidSchema matches a schema that is wrong, which its author must see. passing
// matches server errors that do not depend on the form of a request.
var (
	unsaid     = lazyregexp.New(`[{,][\s\\n]*["'](input|flagged_input|failed_generation)\\*["']\s*:|\binput_value=|"(type|param|code)"\s*:\s*null`)
	oneRequest = lazyregexp.New(schemaFeatures + `|` + toolFeatures + `|` + earlierThoughts + `|` + unreadable + `|reasoning.?effort\W{0,3}does not support '`)
	conflict   = lazyregexp.New(noBudget + `|tool_choice forces|thinking mode does not support|cannot be combined|at the same time|with a response mime type|` +
		`controlled generation of only|cannot both be|non-?streaming calls|when .?stream=false|is incompatible with|in thinking mode|` + otherEfforts)
	efforts       = lazyregexp.New(otherEfforts)
	invalidSchema = lazyregexp.New(`invalid\W{1,3}(\w+\W{1,3}){0,2}schema|invalid_json_schema|invalid_function_parameters|in context=\(`)
	passing       = lazyregexp.New(`(^|["'.,:;!?] ?|please |can )(retry\b|try (again|your|later))|try again (later|in|soon)|temporar|overload|too busy|is busy`)
)

// ownWords returns an error without the members that quote a request, at any depth, and without empty ones.
func ownWords(refusal string) string {
	var kept strings.Builder
	for {
		at := unsaid.Get().FindStringIndex(refusal)
		if at == nil {
			return kept.String() + refusal
		}
		kept.WriteString(refusal[:at[0]])
		refusal = refusal[at[1]+valueLength(refusal[at[1]:]):]
	}
}

// valueLength returns the length of the value at the beginning of a text, which may be cut off. The value is JSON, or
// as Python writes it, or either with the escapes of a text around it.
func valueLength(text string) int {
	depth, slashes := 0, 0
	mark, escapes := byte(0), 0 // of the string around this place, and before its mark
	for i := range len(text) {
		c := text[i]
		switch {
		case c == '\\':
			slashes++
			continue
		case mark != 0:
			if c == mark && slashes%(2*escapes+2) == escapes {
				mark = 0
			}
		case c == '"' || c == '\'':
			mark, escapes = c, slashes
		case strings.IndexByte("{[(", c) >= 0:
			depth++
		case depth == 0 && strings.IndexByte(",}])", c) >= 0:
			return i
		case strings.IndexByte("}])", c) >= 0:
			depth--
		}
		slashes = 0
	}
	return len(text)
}

// never matches nothing: no refusal asks for a field that only some endpoints accept.
const never = `[^\x00-\x{10FFFF}]`

const refusing = `(unsupported|not (\w+ )?(be )?(support|permitted|allowed|available|recognized|valid|enabled|implemented|accept)|should not exist|n.t (support|allow|accept)|unknown|unrecogni[sz]ed|unexpected|unavailable|additional propert|` +
	`不支持|未知|deprecated|incompatible|no endpoints found|requires --|can(not|.t) (both )?(be|use|specify)|restricted|invalid type|any variant|extra_forbidden|extra (inputs|fields)|no such|remove|(input should|expected).{0,12}'auto')`

var refusals = sync.OnceValue(func() (list []*lazyregexp.Regexp) {
	for _, f := range quirkTable {
		source := f.words
		if f.fields != "" {
			source = strings.TrimSuffix(`(`+f.fields+`).{0,160}`+refusing+`|`+refusing+`.{0,160}(`+f.fields+`)|`+source, `|`)
		}
		list = append(list, lazyregexp.New(`(?s)`+source))
	}
	return list
})

// providers has a row for each provider with quirks, and for servers and models that have quirks at any host.
var providers = [...]struct {
	name   string
	hosts  string // suffixes of the provider's host names
	quirks quirks
	// off and on are the members of a request that turn a model's thinking off and on. Without them, the effort "none"
	// turns it off.
	off, on string
	special string // an addition to docs/models.md
}{
	{"openai", "api.openai.com", quirkMaxCompletion | quirkLateSystem | quirkAllowedTools, "", "", ""},
	{"deepseek", "api.deepseek.com", quirkEchoEmpty, thinkingOff, thinkingOn, ""},
	{"mimo", "xiaomimimo.com", quirkEchoEmpty, thinkingOff, thinkingOn, ""},
	{"kimi", "moonshot.ai moonshot.cn api.kimi.com", quirkEchoFilled, thinkingOff, thinkingOn, ""},
	{"glm", "api.z.ai bigmodel.cn", quirkEcho, thinkingOff, thinkingOn, ""},
	{"ark", "volces.com bytepluses.com", quirkString | quirkNoEmpty, thinkingOff, thinkingOn, ""},
	{"minimax", "api.minimax.io minimaxi.com minimax.chat", quirkEcho, "", "", "a `<think>` block goes back in the text"},
	{"qwen", "dashscope.aliyuncs.com dashscope-intl.aliyuncs.com dashscope-us.aliyuncs.com maas.aliyuncs.com", 0, `"enable_thinking":false`, `"enable_thinking":true`, ""},
	{"gemini", "generativelanguage.googleapis.com", quirkSignatures, "", "", "`extra_content` of calls goes back"},
	{"mistral", "api.mistral.ai", quirkNoEcho | quirkAlternate, "", "", ""},
	{"perplexity", "api.perplexity.ai", quirkAlternate, "", "", ""},
	{"claude", "api.anthropic.com", quirkNoEmpty | quirkTools, "", "", ""},
	{"litellm", "", quirkTools, "", "", "signatures in the ids of calls go back"},
	{"openrouter", "openrouter.ai", quirkEcho, `"reasoning":{"enabled":false}`, `"reasoning":{"enabled":true}`, "`reasoning_details` goes back"},
	{"groq", "api.groq.com", quirkNoEcho, "", "", ""},
	{"vllm", "", 0, `"chat_template_kwargs":{"enable_thinking":false}`, `"chat_template_kwargs":{"enable_thinking":true}`, "also for SGLang and llama.cpp"},
	{"gemma", "", quirkAlternate | quirkNoSystem, "", "", "its template, wherever it is served"},
}

const (
	thinkingOff = `"thinking":{"type":"disabled"}`
	thinkingOn  = `"thinking":{"type":"enabled"}`
)

// Endpoints returns the names that [WithEndpoint] and llm.Settings.Endpoint accept: those of providers and of single
// quirks.
func Endpoints() (names []string) {
	for i := range providers {
		names = append(names, providers[i].name)
	}
	for i := range quirkTable {
		names = append(names, quirkTable[i].name)
	}
	return names
}

// requestForm is the form of requests to an endpoint: its quirks, and the members that turn thinking off and on.
type requestForm struct {
	quirks
	thinking [2]string
}

// named returns the form of requests to an endpoint with these names, and the first unknown name.
func named(names []string) (f requestForm, unknown string) {
	for _, name := range names {
		if i := slices.IndexFunc(quirkTable[:], func(row struct{ name, sent, fields, words string }) bool { return row.name == name }); i >= 0 {
			f.quirks |= 1 << i
			continue
		}
		found := false
		for i := range providers {
			if p := &providers[i]; p.name == name {
				found, f.quirks, f.thinking = true, f.quirks|p.quirks, [2]string{p.off, p.on}
			}
		}
		if !found {
			return f, name
		}
	}
	return f, ""
}

// providerAt returns the name of the provider with this host, or "" if it is unknown.
func providerAt(host string) string {
	for i := range providers {
		for end := range strings.FieldsSeq(providers[i].hosts) {
			if host == end || strings.HasSuffix(host, "."+end) {
				return providers[i].name
			}
		}
	}
	return ""
}

func (q quirks) has(one quirks) bool { return q&one != 0 }

// resolved adds the quirks that other quirks imply, and removes those that others exclude.
func (q quirks) resolved() quirks {
	if q.has(quirkEchoFilled) {
		q |= quirkEchoEmpty
	}
	if q.has(quirkEchoEmpty) {
		q |= quirkEcho
	}
	if q.has(quirkNoEcho) {
		q &^= quirkEcho | quirkEchoEmpty | quirkEchoFilled
	}
	if q.has(quirkAlternate) {
		q |= quirkBridge
	}
	if q.has(quirkNoSystem) {
		q &^= quirkLateSystem
	}
	return q
}

// habit is what the process has learned about a model at an endpoint.
type habit struct {
	endings endingHabit
	opens   atomic.Int32  // whether a mark opens its thoughts
	refused atomic.Uint64 // of quirks
	alike   sync.Map      // by shape: quirks of requests with this shape, as an *atomic.Uint64
}

// shape is what a request has of the settings that endpoints refuse together.
type shape struct{ thinks, thinksNot, tools, mustCall, answers, streams, samplesTwice bool }

func shapeOf(req *llm.Request) shape {
	return shape{
		thinks:       req.Thinking != nil && *req.Thinking || req.ReasoningEffort != "" && req.ReasoningEffort != "none",
		thinksNot:    req.Thinking != nil && !*req.Thinking || req.ReasoningEffort == "none",
		tools:        len(req.Tools) > 0,
		mustCall:     req.ToolChoice == llm.ToolChoiceRequired || !req.ToolChoice.Mode(),
		answers:      req.ResponseFormat != nil,
		streams:      req.Stream,
		samplesTwice: req.Temperature != nil && req.TopP != nil,
	}
}

func (c *client) habit(model string) *habit {
	known, ok := c.habits.Load(model)
	if !ok {
		known, _ = c.habits.LoadOrStore(model, new(habit))
	}
	return known.(*habit)
}

// writing is a request with the form in which it is sent.
type writing struct {
	client  *client
	model   string
	req     *llm.Request
	form    requestForm
	learned quirks // from refusals of this request
	helped  quirks // the learned quirks to remember: those that changed the refusal, or ended it
	alike   quirks // likewise, for requests of the same shape only
	last    int    // the row of quirkTable that was learned last
	refusal string // the refusal from which it was learned
	body    []byte
}

// quirks returns the quirks of the request's last form.
func (w *writing) quirks() quirks { return (w.form.quirks | w.learned).resolved() }

// streams reports whether a request is sent as one for a stream.
func (q quirks) streams(req *llm.Request) bool {
	return (req.Stream || q.has(quirkStreamAlways)) && !q.has(quirkNoStream)
}

// limit returns the most tokens that the answer to a request may have, 0 if the endpoint sets the limit.
func (q quirks) limit(req *llm.Request) int {
	if q.has(quirkMaxTokensAlways) && req.MaxTokens <= 0 {
		return 8192
	}
	return max(req.MaxTokens, 0)
}

// write returns a request in the form that the endpoint is known to accept.
func (c *client) write(model string, req *llm.Request) (*writing, error) {
	w := &writing{client: c, model: model, req: req, form: c.form}
	if len(req.Endpoint) > 0 {
		f, unknown := named(req.Endpoint)
		if unknown != "" {
			return nil, c.errorf(llm.CodeBadRequest, nil, "no endpoint is called %q", unknown)
		}
		w.form = f
	}
	known := c.habit(model)
	w.form.quirks |= quirks(known.refused.Load())
	if more, ok := known.alike.Load(shapeOf(req)); ok {
		w.form.quirks |= quirks(more.(*atomic.Uint64).Load())
	}
	switch req.Echo {
	case llm.EchoOn:
		w.form.quirks |= quirkEcho
	case llm.EchoOff:
		w.form.quirks |= quirkNoEcho
	}
	var err error
	w.body, err = w.bytes(0)
	return w, err
}

// bytes returns the body of the request with additional quirks.
func (w *writing) bytes(more quirks) ([]byte, error) {
	form := w.form
	form.quirks = (form.quirks | more).resolved()
	if err := w.client.checkSchemas(w.req); err != nil {
		return nil, err
	}
	if w.client.responses {
		return w.client.writeResponses(w.model, form.fit(w.req), form)
	}
	return w.client.writeRequest(w.model, form.fit(w.req), form)
}

// remember applies the forms that have helped to later requests.
func (w *writing) remember() {
	known := w.client.habit(w.model)
	known.refused.Or(uint64(w.helped))
	if w.alike != 0 {
		alike, _ := known.alike.LoadOrStore(shapeOf(w.req), new(atomic.Uint64))
		alike.(*atomic.Uint64).Or(uint64(w.alike))
	}
}

// mend changes the request to the first form that a refusal asks for and that changes the body, and reports whether
// there is one. A form that has helped applies to other requests after an answer starts, with three exceptions. After a
// server error it applies to this request only, because the error could have passed without it. So does a form that the
// schemas or the effort of this request need. A form that a conflict of settings needs applies to requests with the same
// ones. A form after which the endpoint returned the same refusal has not helped: the refusal may only quote a text,
// such as one of the user.
func (w *writing) mend(err error, refusal string) bool {
	var e *llm.Error
	if !errors.As(err, &e) || e.Code != llm.CodeBadRequest && e.Code != llm.CodeServer && e.Code != llm.CodeNotFound {
		return false
	}
	refusal = ownWords(strings.ToLower(refusal))
	fault := e.Code == llm.CodeServer
	if own := new(goopenai.APIError); errors.As(err, &own) && containsAny(own, filtered, filteredCodes) {
		return false
	}
	if invalidSchema.Get().MatchString(refusal) ||
		fault && (e.Status == http.StatusServiceUnavailable || e.RetryAfter > 0 || passing.Get().MatchString(refusal)) {
		return false
	}
	if refusal == w.refusal {
		w.helped, w.alike = w.helped&^(1<<w.last), w.alike&^(1<<w.last)
	}
	w.refusal = refusal
	for i, says := range refusals() {
		form := quirks(1) << i
		noEffort := form == quirkNoThinking && shapeOf(w.req).thinksNot && efforts.Get().MatchString(refusal) // a wrong effort of the author's is an error
		if w.learned.has(form) || !noEffort && !says.MatchString(refusal) {
			continue
		}
		once := fault || oneRequest.Get().MatchString(refusal) && form != quirkEcho
		if body, err := w.bytes(w.learned | form); err == nil && string(body) != string(w.body) {
			w.learned, w.last, w.body = w.learned|form, i, body
			if once {
				return true
			}
			if noEffort || conflict.Get().MatchString(refusal) {
				w.alike |= form
			} else {
				w.helped |= form
			}
			return true
		}
	}
	return false
}
