// Package llm defines what a language model is for the rest of Arbor: messages, tool specifications, requests, streamed
// answers, token usage and typed errors. It does not know agents, sessions or trees.
//
// A [Model] turns one [Request] into a sequence of [Chunk] values. The packages below this folder implement it:
// llm/openai for real endpoints, llm/offline without a model, and llm/scripted for tests.
package llm
