// Package human implements handoffs of a conversation to a person and back: the states of a handoff, the desk where
// people answer, and the agent named "human" that a runner with a desk has.
//
// A [Controller] checks the steps between the states. A [Desk] is where people answer: a [Room] is a desk in the same
// process, [Log] is for programs that read the session's log, and package human/webhook reaches a desk over signed HTTP
// requests. The desk answers with an [Event], which may come hours later and to any process.
//
// A desk may lose its data, because the log of the session has every step and every message.
//
// The package does not use HTTP.
package human
