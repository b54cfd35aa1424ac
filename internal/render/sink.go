// Package render converts events, trees and graphs into the output of the command and the exports of a server: lines
// for a terminal, Markdown, HTML, JSON. It makes control characters in the texts of models, tools and users visible.
//
// The package has no flags, opens no files and makes no decisions: the caller passes a writer and the content.
package render

import "github.com/agentarbor/arbor/event"

// Sink prints the events of a turn or of a stored session in order. It is not safe for concurrent use, and ignores
// errors of its writer.
type Sink interface {
	Event(e *event.Event)
	// Finish ends open lines after the last event.
	Finish()
}

// Nothing is a sink that prints nothing.
type Nothing struct{}

func (Nothing) Event(*event.Event) {}
func (Nothing) Finish()            {}
