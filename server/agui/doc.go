// Package agui serves sessions to pages that speak AG-UI, protocol 1.0: a POST of a run's input answers with the
// events of a turn, and another one replays a thread and follows it.
//
// A thread is a session and a run is a turn, or the part of one up to the next question. The door keeps nothing:
// what a page is sent is made of the entries of the log, in [projection], and so is the history that it asks for.
//
// It imports access, agent, checkpoint, event, live, llm, runner and session, and knows no other door.
package agui
