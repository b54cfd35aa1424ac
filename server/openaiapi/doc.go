// Package openaiapi serves a tree to clients of OpenAI's protocols: /v1/chat/completions, /v1/responses and
// /v1/models. A model is an agent of the tree: the root, or the path of one below it, such as support/billing.
//
// It is a projection of the events of sessions and keeps nothing of a session that matters: what it remembers
// of the conversations that clients send along can be lost. Tools, transfers and reasoning stay inside.
//
// It imports live, access and what is above them, checkpoint for forks and imported conversations, and the frame
// of all HTTP doors. It imports no other door and never asks a model itself.
package openaiapi
