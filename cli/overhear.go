package cli

import (
	"bytes"
	"context"
	"io"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/session"
)

// overhearing is what prints events while a person may type.
func (p *program) overhearing(in lines) *render.Printer {
	var w io.Writer = p.Stdout
	look := p.lookOf(p.Stdout)
	look.Live = false
	if e, ok := in.(*editor); ok { // which puts its line below what is printed
		w = e.rl.Stdout()
	}
	return render.Transcript(&wholeLines{w: w}, look)
}

// wholeLines passes on what is written when a line is complete: an editor draws its own line anew
// after each piece.
type wholeLines struct {
	w    io.Writer
	rest []byte
}

func (l *wholeLines) Write(b []byte) (int, error) {
	if l.rest = append(l.rest, b...); !bytes.HasSuffix(l.rest, []byte("\n")) {
		return len(b), nil
	}
	_, err := l.w.Write(l.rest)
	l.rest = l.rest[:0]
	return len(b), err
}

// overhear gives what is stored in a session after a position to a function, until the context
// ends; wait returns when it is called no more.
func (p *program) overhear(ctx context.Context, of feed, after int64, hear func(*event.Event)) (wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for entry, err := range of.follow(ctx, session.Position{Seq: after}.String()) {
			if err != nil {
				if ctx.Err() == nil && !missing(err) { // nobody has begun the session yet
					p.say("what others do is not shown any more: %s", err)
				}
				return
			}
			if !entry.Event.Partial {
				hear(entry.Event)
			}
		}
	}()
	return func() { <-done }
}
