// Package a2av0 implements A2A 0.3, as a client and as a server. Many agents and clients support only this version,
// which precedes the stable protocol.
//
// With [Bindings], a remote agent of package a2a calls peers of 0.3 over JSON-RPC and HTTP+JSON, and parses their
// cards. With [Server], an a2aserver.Server also answers clients of 0.3 over JSON-RPC, at the same address as those of
// 1.0 and with one card for both. Both see the same tasks.
//
// The server's operations are implemented here on the SDK's types and conversions of 0.3, and a2aserver parses requests
// and writes answers as for 1.0. The SDK's own server omits a null result, drops the connection with a panic for a push
// configuration without a message, loses digits of large request ids, and describes the interfaces of 1.0 in the
// extended card. The SDK's client is used, after a filter that repairs answers it cannot parse.
//
// The package makes no decisions about tasks.
package a2av0
