// Package a2av0 speaks A2A 0.3, as a client and as a server. That version is older than the
// stable protocol, and many agents and clients still have no other.
//
// [Bindings] lets a remote node of package a2a call peers of 0.3 over JSON-RPC and HTTP+JSON,
// and read their cards. [Server] has an a2aserver.Server answer clients of 0.3 beside those of
// 1.0, over JSON-RPC at the same address, with one card that both can read. Tasks are the same
// for both.
//
// The operations of the server are written here on the library's types and conversions of 0.3, and a2aserver reads
// requests and writes answers as it does for 1.0: the library's own server leaves out a result that is null, ends the
// connection with a panic for a push configuration without a message, loses digits of large
// request ids, and describes the interfaces of 1.0 in the extended card. Its client is used as
// it is, behind a filter for what peers send that it cannot read.
//
// It imports a2a and a2a/a2aserver, and of the library both versions of the types, which bring
// gRPC and protobuf along: only programs that import this package pay for it. It decides nothing
// about tasks.
package a2av0
