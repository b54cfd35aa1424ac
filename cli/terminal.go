package cli

import (
	"io"
	"os"

	"golang.org/x/term"
)

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	if f, ok := stream.(*firstError); ok {
		stream = f.w
	}
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// look is how text for people is dressed. The zero value is plain.
type look struct {
	color bool
	// live allows lines that are erased again, such as the spinner's.
	live bool
}

// lookOf returns the look for a stream: plain unless it is a terminal that
// understands escape codes, and without colours if NO_COLOR is set to anything
// (https://no-color.org).
func (p *program) lookOf(stream io.Writer) look {
	if !isTerminal(stream) || p.Getenv("TERM") == "dumb" {
		return look{}
	}
	return look{color: p.Getenv("NO_COLOR") == "", live: true}
}

type style string

// The styles in use, as parameters of the terminal's SGR sequence.
const (
	bold  style = "1"
	faint style = "2"
	red   style = "31"
	cyan  style = "1;36"
	green style = "32"
)

func (l look) paint(s style, text string) string {
	if !l.color || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}
