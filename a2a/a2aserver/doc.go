// Package a2aserver serves a tree as an agent of A2A protocol 1.0: over JSON-RPC and HTTP+JSON with server-sent events,
// and over further bindings through [Server.RequestHandler].
//
// A context of the protocol is a session. A task is a projection of the session's log: it covers one turn, or several
// if the turn asked for something. The package stores nothing about tasks besides the log. So a task survives a
// restart, is the same in every process with that store, and includes all agents that transfer the conversation to each
// other. A turn runs in the background: the client that started it may disconnect, and other clients may subscribe.
//
// The package never decides which agent answers. A client's metadata has one effect only: the server refuses a message
// that comes back in a circle of agents.
package a2aserver
