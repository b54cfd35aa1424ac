// Package mcp provides the tools of servers of the Model Context Protocol: a [Server] is a tools.Set for
// llmagent.WithToolset, over standard input and output of a subprocess or over streamable HTTP.
//
// The protocol's Go SDK implements the protocol. A server cannot end a turn: its mistakes become results of calls or
// log lines. The annotations of a server allow nothing, and its texts are data, never instructions for an agent.
package mcp
