// Package openai is the [llm.Model] for endpoints with OpenAI's chat-completions API: OpenAI itself, DeepSeek,
// OpenRouter, vLLM, Ollama, llama.cpp and many more. With [WithResponses] it uses OpenAI's Responses API. It makes
// chat-completions requests with the types of github.com/sashabaranov/go-openai.
//
// [New] returns a model. [FromEnv] returns the model that OPENAI_BASE_URL, OPENAI_API_KEY, OPENAI_MODEL and OPENAI_API
// describe. [Model.Named] returns another model of the same endpoint.
//
// A Model handles failures as follows:
//
//   - It retries failures before the answer starts (no connection, 408, 409, 429
//     and 5xx), with full jitter. It waits as long as a Retry-After header asks,
//     up to a limit. After a status of success it retries nothing, because the
//     caller may have shown part of the answer.
//   - An answer without a finish reason is an *llm.Error with llm.CodeTruncated,
//     unless the endpoint never sends finish reasons and ends with [DONE]. An
//     unknown finish reason, such as abort, is an error too. Tool calls are
//     returned only after a regular end, so that an incomplete answer has no
//     effects.
//   - Four time limits ([llm.Timeouts]) and a size limit apply to every answer.
//   - Every error is an *llm.Error that says what happened, where, and what to
//     do about it. If the context ends, the error is the context's. If the
//     endpoint reported an error of its own, the cause is go-openai's *APIError
//     with the endpoint's code and type.
//
// A Model never prints, logs or returns its API key, nor the passwords, query values and secret headers of its
// configuration. If an endpoint repeats them, the Model replaces them. It follows no redirects, because these could
// send secrets to other hosts.
//
// Small models write tool calls as text. A Model returns such a text as a call if it is complete, ends the answer, has
// a known form and names a tool of the request, if the answer has no native call, and if the texts of the user and of
// tools do not contain the call: see docs/models.md, and [WithLeakedCalls] to turn this off. The Model holds back text
// that may be such a call until it is sure, at most 64 KiB; it yields other text as it comes. Apart from this, a Model
// repairs the output of a language model only as far as the protocol's format requires. Between calls it keeps idle
// connections, whether a model's answers have finish reasons, and what its endpoint refuses: see docs/faults.md, and
// [WithEndpoint] to configure it.
package openai
