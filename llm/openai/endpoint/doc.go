// Package endpoint serves any llm.Model with the chat-completions API and OpenAI's Responses API. Use it to reach
// offline and scripted models through a real HTTP client, and to check a client's requests as strictly as the strictest
// real endpoints do.
//
// [Handler] answers POST /v1/chat/completions and POST /v1/responses, streamed or not, and both also without /v1. It
// checks each body with [CheckBody] or [CheckResponses]; a violation is a 400 with an error
// object in OpenAI's form. A model's error becomes what a real endpoint does in the same case. An *llm.Error before the
// first chunk becomes an HTTP status with an error object and Retry-After, and a later one an error event in the
// stream. If the model is unreachable, the connection breaks before an answer. If the answer is truncated, or the
// sequence ends without its terminal chunk, the connection breaks in the middle of the answer.
//
// The package never corrects a request, and serves no TLS. It is meant for loopback: without [WithAPIKey] it serves
// every client that can connect.
package endpoint
