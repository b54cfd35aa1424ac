package render

import (
	"os"

	"golang.org/x/term"
)

// Look is the style of text output. The zero value is plain.
type Look struct {
	color bool
	// Live allows lines that are erased later, such as a spinner's.
	Live bool
	// Columns and Rows are the size of the terminal, or 0 for other outputs.
	Columns, Rows int
}

// LookOf returns the look for a file, which may be nil: plain unless it is a terminal that supports escape codes, and
// without colours if the environment has NO_COLOR set to any value (https://no-color.org).
func LookOf(f *os.File, getenv func(name string) string) Look {
	if !IsTerminal(f) {
		return Look{}
	}
	l := Look{Columns: 80, Rows: 24}
	if columns, rows, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 && rows > 0 {
		l.Columns, l.Rows = columns, rows
	}
	if getenv("TERM") != "dumb" {
		l.color, l.Live = getenv("NO_COLOR") == "", true
	}
	return l
}

// IsTerminal reports whether a file, which may be nil, is a terminal.
func IsTerminal(f *os.File) bool { return f != nil && term.IsTerminal(int(f.Fd())) }

// Style is a parameter of the terminal's SGR sequence.
type Style string

// The styles.
const (
	Bold  Style = "1"
	Faint Style = "2"
	Red   Style = "31"
	Cyan  Style = "1;36"
	Green Style = "32"
)

// Paint applies a style to a text, unless the text is empty or the look plain.
func (l Look) Paint(s Style, text string) string {
	if !l.color || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}
