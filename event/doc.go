// Package event is the vocabulary of a session's log: the envelope [Event], the payloads
// that implement [Data], and the one codec of their JSON form, with its bounds.
// docs/events.md describes that form.
//
// What the runner stores, what stores return, and what a consumer of a turn reads are events;
// an agent yields them, with [Continue] or [Finish] to say what comes next. The package
// imports llm for the content of messages and nothing else of this module.
package event
