// Package routing says of a tree what can be said about its routing without a conversation, and of a
// conversation why it was routed as it was.
//
// [Lint] finds descriptions that are hard to tell apart or say nothing, agents that nothing leads to, and
// agents that never give a conversation back; [Survey] asks a model about the same, and measures the
// forms in which the model can be shown its targets. [Find] finds a
// decision in a session's log, and [Explain] adds what the agent's model was shown for it: the targets,
// the request, and what each description shares with the user's words.
//
// It imports eval, runner and what is below it, and internal/asked. It changes no tree and stores nothing.
package routing
