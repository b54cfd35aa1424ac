// Package endpoint serves any llm.Model over the chat-completions protocol and
// OpenAI's Responses API, so that offline and scripted models can be reached through a real HTTP client,
// and so that a client's requests are checked as strictly as by the strictest
// real endpoints.
//
// [Handler] answers POST /v1/chat/completions and POST /v1/responses (streamed
// and not) and GET /v1/models, all also without /v1. Each body passes [CheckBody]
// or [CheckResponses] first; a
// violation is a 400 with an OpenAI-shaped error object. A model's errors
// become what a real endpoint does in the same case, so that a client sees
// them. An *llm.Error before the first chunk becomes an HTTP status with an
// error object and Retry-After, and later an error event in the stream. An
// unreachable model is a connection that breaks before an answer. A truncated
// answer, or a sequence that ends without its terminal chunk, is a connection
// cut in the middle.
//
// The package imports llm and the standard library only. It never corrects a
// request, and serves no TLS. It is meant for loopback: without [WithAPIKey]
// everybody who can connect is served.
package endpoint
