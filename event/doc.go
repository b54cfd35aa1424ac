// Package event defines the entries of a session's log: the envelope [Event], the payloads that implement [Data], and
// the encoding of both as JSON, with its limits. docs/events.md describes the JSON.
//
// Agents yield events, with [Continue] or [Finish] as the last one to say what comes next. The runner stores events,
// stores return them, and clients of a turn receive them.
package event
