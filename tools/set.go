package tools

import (
	"context"
	"errors"
)

// ErrRequired is wrapped by the error of a [Set] that agents must not go without. It ends the
// turn of an agent that has the set, and runner.Start returns it.
var ErrRequired = errors.New("the tools are required")

// Set is a source of tools whose list may change while agents use it, such as a server of
// the Model Context Protocol. It is safe for concurrent use.
type Set interface {
	// Tools returns the tools that there are now. As long as nothing has changed it returns
	// the same registry, and quickly: an agent asks before each question to its model, and
	// before calls run. With an error there may still be a registry, of the tools that the
	// source had before; the error's text is shown to people. An error that wraps ErrRequired
	// ends the turn, any other leaves the agent without the tools.
	Tools(ctx context.Context) (*Registry, error)
}

// Starter is a Set that must be usable before a program serves anybody, if it is required.
type Starter interface {
	Set
	// Start starts the source if it is required, and returns why its tools cannot all be used.
	// It does nothing for one that is not required.
	Start(ctx context.Context) error
}
