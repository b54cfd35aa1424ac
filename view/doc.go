// Package view decides what an agent's model sees of a session: a [View] is an
// incremental reducer over the log for one agent in one scope, a [Policy] says
// how much of the others it shows, and [Check] holds a request against the rules
// that endpoints enforce.
//
// It imports agent and llm. It reads events only, never a store, and a view
// grows at its end alone, so that a provider's prompt cache keeps hitting.
package view
