// Package llm defines what a language model is to the rest of Arbor: messages,
// tool specifications, requests and streamed answers, token usage and typed
// errors. It has no notion of agents, sessions or trees, and imports nothing of
// this module.
//
// A [Model] turns one [Request] into a sequence of [Chunk] values. Adapters for
// real endpoints live below this folder (llm/openai), beside the offline model
// and the scripted test double.
package llm
