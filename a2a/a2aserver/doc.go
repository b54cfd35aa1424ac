// Package a2aserver serves a tree as an A2A agent, protocol 1.0: over JSON-RPC and
// HTTP+JSON with server-sent events, and over further bindings through
// [Server.RequestHandler].
//
// A context of the protocol is a session, and a task is what a session's log says of
// one turn, or of several if the turn asked for something: a projection, as everything
// else that looks at a session from outside. Nothing is kept of tasks beside the log.
// So a task survives a restart, is the same in every process that has the store, and
// spans all agents that hand the conversation to each other. A turn runs in the
// background: who began it may go away, and others may subscribe.
//
// It imports a2a, access, agent, event, live, llm, runner and session, and of github.com/a2aproject/a2a-go
// the types and the servers of its bindings. It never decides who answers, and what a
// client's metadata says changes nothing but whether a circle of agents is cut.
package a2aserver
