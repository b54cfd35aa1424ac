// Package tools lets models act. It has the [Tool] interface, typed function tools whose JSON schema comes from a Go
// type, a [Registry] of tools by name, and [Execute]. Execute runs one call: it checks the input, recovers panics, and
// limits the time and the output.
//
// The package handles neither the answers of models nor logs. An error of a tool becomes a result that the model can
// read, and does not end the turn. The tool that transfers a conversation is in tools/transfer.
package tools
