// Package a2agrpc implements A2A over gRPC, protocol version 1.0 (section 10 of its specification), as a client and as
// a server.
//
// With [Binding], a remote agent of package a2a calls peers whose card names a gRPC interface. [NewServer] and
// [Register] serve an a2aserver.Server, and [Interface] returns the interface for its card. Only programs that import
// this package, or a2a/a2av0, whose library needs gRPC, depend on gRPC.
//
// The service is implemented here on the generated types, because the SDK's own service loses data that HTTP carries:
// data parts that are not objects, metadata with typed lists, lists of extensions in one entry, the codes of errors
// from peers of 1.0.0, the next page of push configurations. It also sends internal errors to callers, and a panic in
// it ends the process.
//
// Errors are those of JSON-RPC and HTTP+JSON, with the same details. The package serves only version 1.0 and makes no
// decisions about tasks.
package a2agrpc
