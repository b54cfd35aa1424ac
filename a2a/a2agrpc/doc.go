// Package a2agrpc speaks A2A over gRPC, protocol version 1.0 (section 10 of its specification),
// as a client and as a server.
//
// [Binding] lets a remote node of package a2a call peers whose card names a gRPC interface.
// [NewServer] and [Register] serve an a2aserver.Server, and [Interface] is what its card says of
// that. Only programs that import this package, or a2a/a2av0, whose library needs it, pay for
// gRPC.
//
// The service is written here on the generated types, because the library's own loses what HTTP
// carries: data parts that are no objects, metadata with typed lists, lists of extensions in one
// entry, the codes of errors from peers of 1.0.0, the next page of push configurations. It also
// shows inner errors to callers, and a panic in it ends the process.
//
// Its errors are those of JSON-RPC and HTTP+JSON, with the same details. It serves no version but 1.0 and decides
// nothing about tasks.
package a2agrpc
