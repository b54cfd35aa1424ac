package tools

import "context"

// Set is a source of tools whose list may change while agents use it, such as a server of
// the Model Context Protocol. It is safe for concurrent use.
type Set interface {
	// Tools returns the tools that there are now. As long as nothing has changed it returns
	// the same registry, and quickly: an agent asks before each question to its model, and
	// before calls run. With an error there may still be a registry, of the tools that the
	// source had before; the error's text is shown to people.
	Tools(ctx context.Context) (*Registry, error)
}
