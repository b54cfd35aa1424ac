// Package a2aconformance tests whether a server does what the specification of A2A,
// version 1.0, says: every operation, every error with its code, in each binding that the
// server has. It is written from the specification alone: it speaks JSON over the wire
// with no library of the protocol in between, so that it sees what clients see.
//
//	a2aconformance.Run(t, a2aconformance.Target{
//		Bindings: []a2aconformance.Binding{
//			a2aconformance.JSONRPC(url+"/rpc", nil, nil),
//			a2aconformance.HTTPJSON(url, nil, nil),
//		},
//		Release: release,
//	})
//
// The server under test must serve an agent that does what the first word of a message
// tells it, see [Target].
//
// It imports testing, testify and net/http. It starts no server but the webhooks that
// it registers, and knows no vendor.
package a2aconformance
