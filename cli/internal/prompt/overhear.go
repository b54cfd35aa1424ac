package prompt

import (
	"bytes"
	"context"
	"io"

	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/cli/internal/remote"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/session"
)

// Overhearing is what prints events while a person may type.
func Overhearing(f *factory.Factory, in Lines) *render.Printer {
	var w io.Writer = f.Stdout
	look := f.LookOf(f.Stdout)
	look.Live = false
	if e, ok := in.(*Editor); ok { // which puts its line below what is printed
		w = e.stdout()
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

// Overhear gives what is stored in a session after a position to a function, until the context
// ends; wait returns when it is called no more.
func Overhear(ctx context.Context, f *factory.Factory, of factory.Feed, after int64, hear func(*event.Event)) (wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for entry, err := range of.Tail(ctx, session.Position{Seq: after}.String()) {
			if err != nil {
				if ctx.Err() == nil && !remote.Missing(err) { // nobody has begun the session yet
					f.Say("what others do is not shown any more: %s", err)
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
