// Package openaiapi serves a tree to clients of OpenAI's APIs: /v1/chat/completions, /v1/responses, /v1/conversations
// and /v1/models. A model is an agent of the tree. Its name is the agent's path: the root's name, or for example
// support/billing.
//
// The handler computes all answers from the events of sessions. It caches which conversations clients have sent, but
// it works without the cache. Clients do not see the tools, transfers and reasoning of agents.
//
// The package does not depend on other APIs and never asks a model itself.
package openaiapi
