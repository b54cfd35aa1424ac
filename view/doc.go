// Package view decides what an agent's model sees of a session: a [View] is an
// incremental reducer over the log for one agent in one scope, a [Policy] says
// how much of the others it shows and what is redacted, and [Check] holds a
// request against the rules that endpoints enforce.
//
// It imports agent, event and llm. It reads events only, never a store, and changes
// none. A view only grows at its end, so that a provider's prompt cache keeps
// hitting; the exceptions are [LastTurns], which trims in steps, and compaction
// events.
package view
