// Package routing checks the routing of a tree without a conversation, and explains why a conversation was routed as it
// was.
//
// [Lint] finds descriptions that are hard to tell apart or have no content, agents that cannot be reached, and agents
// that never return the conversation. [Survey] asks a model about the same, and measures the forms in which the model
// can see its targets. [Find] finds a decision in a session's log, and [Explain] adds what the agent's model saw for
// it: the targets, the request, and the words that each description shares with the user's message.
//
// The package changes no tree and stores nothing.
package routing
