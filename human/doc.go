// Package human hands a conversation over to persons and back: the states of such a handoff, the
// desk where persons answer, and the agent named "human" that a runner with a desk has.
//
// A [Controller] is the table of states and nothing else. A [Desk] is whatever persons sit at: a
// [Room] is one in the same process, [Log] leaves it to those who read the session's log, and
// package human/webhook reaches one over signed HTTP requests. What a desk says comes back as an
// [Event], hours later and from anywhere.
//
// Desks keep nothing that must not be lost: the log of the session has every step and every word.
//
// It imports agent and event and nothing else of this module, and knows no HTTP.
package human
