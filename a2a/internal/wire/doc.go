// Package wire reads and answers the requests of an A2A server over HTTP: JSON-RPC and
// HTTP+JSON with server-sent events, in the forms that the protocol's buffers allow, with the
// errors of each binding. Of version 0.3 it serves JSON-RPC, with the operations that [Legacy] has. It checks what comes in by any binding before a request handler sees
// it. [New] makes the handler, and [NewChecks] what stands before the operations.
//
// It imports access, and of github.com/a2aproject/a2a-go the types and the interface of its
// servers. It knows nothing of trees, sessions and tasks.
package wire
