// Package openai is the llm.Model for endpoints that speak OpenAI's
// chat-completions protocol: OpenAI itself, DeepSeek, OpenRouter, vLLM, Ollama,
// llama.cpp and many more; with [WithResponses] for those that speak OpenAI's
// Responses API. Requests of the former are made from the types of
// github.com/sashabaranov/go-openai; in addition it imports llm and cenkalti/backoff.
//
// [New] makes a model, [FromEnv] makes one from OPENAI_BASE_URL, OPENAI_API_KEY
// OPENAI_MODEL and OPENAI_API, and [Model.Named] gives another model of the same endpoint.
//
// What a Model does when something goes wrong:
//
//   - Failures before the answer begins (no connection, 408, 409, 429 and 5xx)
//     are tried again with full jitter; a Retry-After header is obeyed up to a
//     limit. Once a status of success has arrived nothing is repeated, because
//     the caller may have shown part of the answer.
//   - An answer that ends without a finish reason is an *llm.Error with
//     llm.CodeTruncated, unless the endpoint never gives one and sends [DONE].
//     A finish reason that is in no list, such as abort, is an error too. Tool
//     calls are returned only after a good end, so that no half answer can
//     have an effect.
//   - Four time limits ([Timeouts]) and a size limit bound every answer.
//   - Every error is an *llm.Error that says what happened, where, and what to
//     do about it; a context that ends gives the context's own error. If the
//     endpoint reported an error of its own, the cause is go-openai's *APIError
//     with the endpoint's code and type.
//
// A Model never prints, logs or returns its API key, nor the passwords, query
// values and secret headers it was configured with; an endpoint that echoes
// them is edited. It follows no redirects, which could carry secrets elsewhere.
//
// Small models write tool calls as words. A whole one that ends an answer, in a
// known form, is handed out as a call if it names something that the request
// offers, no native call came, and the text of the user and of tools does not
// contain it: see docs/models.md, and [WithLeakedCalls] to turn it off. Words
// that may be such a call are held back until that is clear, at most 64 KiB of
// them; others are handed out as they come. Besides, a Model never repairs what a
// language model wrote, beyond the shape that the protocol demands. Between calls it
// keeps idle connections, whether a model's answers have finish reasons, and what its
// endpoint refuses: see docs/faults.md, and [WithEndpoint] to say so.
package openai
