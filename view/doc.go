// Package view decides what an agent's model sees of a session: a [View] is an
// incremental reducer over the log for one agent in one scope, a [Policy] sets
// how much of the other agents it shows and what is redacted, and [Check] holds a
// request against the rules that endpoints enforce.
//
// A view only grows at its end, so that a provider's prompt cache keeps
// hitting; the exceptions are [LastTurns], which trims in steps, and compaction
// events. It reads events only, never a store, and changes none.
//
// A View has the position in the log. Its progress has the answer that is under way, the agent's run and the transfers
// of the turn; its page has the messages as the agent's model reads them, as a list that is shown.
//
// A file calls only files below it:
//
//	around                 the start of a view, and the conversation around an inner scope
//	view                   the events, one by one
//	turns, runs, compact   what events of turns, runs, transfers and compactions change
//	file                   the bytes of files
//	progress               answers, and their calls and results
//	run                    the state of a run
//	page                   the messages
//	policy, redact         what they show
//	exchange, shown        the lists
package view
