package render

import (
	"os"
	"runtime"

	"golang.org/x/term"
)

// Terminal is the style of text output. The zero value is plain.
type Terminal struct {
	color bool
	// Live allows lines that are erased later, such as a spinner's.
	Live bool
	// Columns and Rows are the size of the terminal, or 0 for other outputs.
	Columns, Rows int
}

// TerminalOf returns the style for a file, which may be nil: plain unless it is a terminal that supports escape codes, as
// TERM says, and without colours if the environment has NO_COLOR set to any value (https://no-color.org).
func TerminalOf(f *os.File, getenv func(name string) string) Terminal {
	if !IsTerminal(f) {
		return Terminal{}
	}
	l := Terminal{Columns: 80, Rows: 24}
	if columns, rows, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 && rows > 0 {
		l.Columns, l.Rows = columns, rows
	}
	if kind := getenv("TERM"); kind != "dumb" && (kind != "" || runtime.GOOS == "windows") { // Windows does not set TERM
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
	faint Style = "2"
	Red   Style = "31"
	cyan  Style = "1;36"
	Green Style = "32"
)

// Paint applies a style to a text, unless the text is empty or the output is plain.
func (l Terminal) Paint(s Style, text string) string {
	if !l.color || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}
