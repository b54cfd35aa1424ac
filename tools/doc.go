// Package tools lets models act: the [Tool] interface, typed function tools
// whose JSON schema comes from their Go type, a [Registry] of tools by name, and
// [Execute], which runs one call behind validation, a panic guard, a timeout and
// a cap on its output.
//
// It imports agent, event, session and llm, and knows neither models' answers nor logs.
// What a tool does wrong becomes a result that the model can read; nothing here
// ends a turn. The tool that transfers a conversation is in tools/transfer.
package tools
