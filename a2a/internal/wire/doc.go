// Package wire parses and answers the requests of an A2A server over HTTP: JSON-RPC and HTTP+JSON with server-sent
// events, in all forms that the protocol's Protocol Buffers allow, with the errors of each binding. It also serves the
// JSON-RPC of version 0.3, with the operations of a [Legacy]. [New] returns the HTTP handler. [NewChecks] returns the
// request handler that checks the requests of all bindings.
//
// The package does not depend on trees, sessions or tasks.
package wire
