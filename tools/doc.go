// Package tools lets models act: the [Tool] interface, typed function tools
// whose JSON schema comes from their Go type, a [Registry] of tools by name, and
// [Execute], which runs one call behind validation, a panic guard, a timeout and
// a cap on its output.
//
// It imports agent, event, session and llm, and does not handle models' answers or
// logs. An error of a tool becomes a result that the model can read; nothing here ends
// a turn. The tool that transfers a conversation is in tools/transfer.
package tools
