package cli

import (
	"context"
	"io"

	"github.com/agentarbor/arbor/cli/internal/render"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// overhear prints what happens in a session after a position while a person types, until the
// context ends. It shows the events that shown accepts, and returns once it follows; wait
// returns when nothing more is printed.
func (p *program) overhear(ctx context.Context, db *database, key session.Key, after int64, in lines, shown func(*event.Event) bool) (wait func(), err error) {
	tail, err := db.tail()
	if err != nil {
		return nil, err
	}
	var w io.Writer = p.Stdout
	look := p.lookOf(p.Stdout)
	look.Live = false
	if e, ok := in.(*editor); ok { // which puts its line below what is printed
		w = e.rl.Stdout()
	}
	out := render.Transcript(w, look)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for entry, err := range tail.Follow(ctx, key, session.Position{Seq: after}.String()) {
			if err != nil {
				return
			}
			if !entry.Event.Partial && shown(entry.Event) {
				out.Event(entry.Event)
			}
		}
	}()
	return func() { <-done; out.Finish() }, nil
}
