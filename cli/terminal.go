package cli

import (
	"io"
	"os"

	"golang.org/x/term"
)

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	f := file(stream)
	return f != nil && term.IsTerminal(int(f.Fd()))
}

// file returns the file that a stream is, or nil.
func file(stream any) *os.File {
	if f, ok := stream.(*firstError); ok {
		stream = f.w
	}
	f, _ := stream.(*os.File)
	return f
}

// look is how text for people is dressed. The zero value is plain.
type look struct {
	color bool
	// live allows lines that are erased again, such as the spinner's.
	live bool
	// columns and rows are the size of a terminal, 0 for what is none.
	columns, rows int
}

// lookOf returns the look for a stream: plain unless it is a terminal that
// understands escape codes, and without colours if NO_COLOR is set to anything
// (https://no-color.org).
func (p *program) lookOf(stream io.Writer) look {
	if !isTerminal(stream) {
		return look{}
	}
	l := look{columns: 80, rows: 24}
	if columns, rows, err := term.GetSize(int(file(stream).Fd())); err == nil && columns > 0 && rows > 0 {
		l.columns, l.rows = columns, rows
	}
	if p.Getenv("TERM") != "dumb" {
		l.color, l.live = p.Getenv("NO_COLOR") == "", true
	}
	return l
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
