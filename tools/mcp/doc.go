// Package mcp makes servers of the Model Context Protocol sources of tools: a [Server] is
// a tools.Set for llmagent.WithToolset, over standard input and output of a subprocess or
// over streamable HTTP.
//
// It imports tools and the protocol's Go SDK, which does the talking. What a server does
// ends no turn: what it gets wrong is the result of a call, or a line for people. What a
// server says of its tools allows nothing, and its words are data, never instructions of an
// agent.
package mcp
