// Package a2a makes remote agents that speak the A2A protocol, version 1.0,
// nodes of a tree: transfer targets like any other, or tools through package
// agenttool.
//
// [Remote] gives an agent whose step sends the new words of the conversation to
// the peer and yields what it answers. The peer's contextId is kept for each
// session and node, so that it remembers the conversation; a task that asked for
// input gets the user's next words. What the peer sends is text and nothing
// else: its metadata is ignored, so that it can neither route nor grant.
//
// It imports agent, llm and view, and of github.com/a2aproject/a2a-go only the
// types and the JSON-RPC client. It never serves and never decides who runs.
//
// Not there yet: the gRPC and HTTP+JSON bindings, peers of protocol 0.3, push
// notifications, a second subscription to a stream that broke (the task is polled
// instead), card caching by HTTP headers, signed cards, OAuth2, a pause for
// AUTH_REQUIRED (it is an answer, like INPUT_REQUIRED), a way back to the source
// when the peer refuses the first message after a transfer, guards against loops
// between peers, and serving a tree.
package a2a
