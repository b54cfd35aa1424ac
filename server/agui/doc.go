// Package agui serves sessions to pages that use the AG-UI protocol, version 1.0. One POST route runs a turn and
// answers with its events. Another one replays a thread and follows it.
//
// A thread is a session. A run is a turn, or the part of a turn up to the next question. The handler keeps no state: it
// converts the entries of the log to events and to the history that a page requests; see [projection].
//
// The package does not depend on other APIs.
package agui
