package tools

import (
	"context"
	"errors"
)

// ErrRequired is wrapped by the error of a required [Set] whose tools cannot be used. It ends the turn of an agent that
// has the set, and runner.Start returns it.
var ErrRequired = errors.New("the tools are required")

// Set is a source of tools whose list can change while agents use it, such as an MCP server. It must be safe for
// concurrent use.
type Set interface {
	// Tools returns the current tools. It must be fast and return the same registry until the tools change, because an
	// agent calls it before each request to its model and before it runs calls. Together with an error it may return a
	// registry of the tools that the source had before. People read the error's text. An error that wraps ErrRequired
	// ends the turn. After any other error the agent continues without the tools.
	Tools(ctx context.Context) (*Registry, error)
}

// Starter is a Set that a program starts before it serves requests.
type Starter interface {
	Set
	// Start starts the source if it is required, and otherwise does nothing. It returns an error if a tool of the
	// source cannot be used.
	Start(ctx context.Context) error
}
