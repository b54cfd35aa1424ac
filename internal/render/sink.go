// Package render turns events, trees and graphs into what the command prints and a server gives
// out: lines for a terminal, Markdown, a page of HTML, JSON. What models, tools and users wrote is printed
// with its control characters made visible.
//
// It imports the packages whose types it shows. It knows no flags, opens nothing and
// decides nothing: whoever uses it gives it a writer and what is to be shown.
package render

import "github.com/agentarbor/arbor/event"

// Sink shows the events of a turn or of a stored session, one after the other. It is for
// one goroutine. Errors of the writer behind it are the writer's to keep.
type Sink interface {
	Event(e *event.Event)
	// Finish ends what is open when no more events come.
	Finish()
}

// Nothing shows nothing.
type Nothing struct{}

func (Nothing) Event(*event.Event) {}
func (Nothing) Finish()            {}
