// Package view defines what an agent's model sees of a session. A [View] computes, event by
// event, the messages for one agent in one scope. A [Policy] sets how much of other agents'
// activity they contain and what is redacted. [Check] checks a request against the rules that
// endpoints enforce.
//
// A view only grows at its end, so that the prompt cache of an endpoint stays valid. The
// exceptions are [LastTurns], which trims in steps, and compaction events. The package reads
// events and never a store, and it changes no event.
//
// A View has the position in the log. Its progress has the open answer, the agent's run and the transfers
// of the turn. Its page has the messages as the agent's model reads them.
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
